//! Runs a program for all invocations of a dispatch, one workgroup after the other, and watches every access to memory.

mod atomic;
mod shadow;
mod step;
mod workgroup;

pub use shadow::{BufState, Found, View};

use shadow::{CellS, CellW, Mem, MemW};

use crate::{
    config::{Config, Order, Rng, subgroups},
    program::Program,
};

/// Registers and workgroup memory, kept from dispatch to dispatch.
#[derive(Default)]
pub struct Scratch {
    regs: Vec<u64>,
    last: (u64, usize),
}

pub struct Launch<'a> {
    pub program: &'a Program,
    pub grid: [u32; 3],
    pub immediates: &'a [u8],
    pub buffers: Vec<&'a mut BufState>,
    pub views: &'a [View],
    pub config: &'a Config,
    pub rng: &'a mut Rng,
    /// The last epoch that was used.
    pub epoch: &'a mut u32,
    pub scratch: &'a mut Scratch,
    pub zero_workgroup_memory: bool,
    /// Whether the device has `@coherent`.
    pub has_coherent: bool,
}

/// Runs all workgroups, in an order of chance.
pub fn launch(l: Launch<'_>) -> Found {
    let Launch { program, grid, immediates, buffers, views, config, rng, epoch, scratch, zero_workgroup_memory, has_coherent } =
        l;
    let threads = program.size.iter().product::<u32>() as usize;
    let registers = program.registers as usize;
    if scratch.regs.len() < threads * registers {
        scratch.regs.resize(threads * registers, 0);
        scratch.last = (0, 0);
    }
    let regs = &mut scratch.regs;
    if scratch.last != (program.id, threads) {
        for own in regs.chunks_exact_mut(registers).take(threads) {
            for &(r, x) in &program.consts {
                own[r as usize] = x;
            }
        }
        scratch.last = (program.id, threads);
    }
    *epoch += 1;
    let work = program.workgroup.iter().map(|var| {
        let bytes = var.bytes as usize;
        MemW { data: vec![0; bytes], cells: vec![CellW::default(); (bytes >> var.grain) + 1], grain: var.grain }
    });
    let mut mem = Mem {
        program,
        work: work.collect(),
        buffers,
        views,
        e_work: *epoch,
        e_any: *epoch,
        e_strict: *epoch,
        dispatch_start: *epoch,
        group_start: *epoch,
        group: 0,
        fused: config.fused,
        has_coherent,
        found: Found::new(),
    };
    for view in views {
        let cells = (mem.buffers[view.buffer].data.len() >> view.grain) + 1;
        let buffer = &mut mem.buffers[view.buffer];
        if buffer.cells.len() < cells {
            buffer.cells.resize(cells, CellS::default());
        }
    }
    let mut preloaded = Vec::new();
    for p in &program.preloads {
        let (off, width) = (p.off as usize, p.width as usize);
        let bytes = match p.binding {
            None => immediates.get(off..off + width),
            Some(bind) => {
                let View { buffer, base, len, .. } = views[bind as usize];
                (off + width <= len).then(|| &mem.buffers[buffer].data[base + off..base + off + width])
            }
        };
        let mut value = [0];
        if let Some(bytes) = bytes {
            step::get(bytes, p.width as u8, &mut value);
        }
        preloaded.push((p.reg as usize, value[0]));
    }
    for own in regs.chunks_exact_mut(registers).take(threads) {
        for &(r, x) in &preloaded {
            own[r] = x;
        }
    }
    let lanes = subgroups(threads, config, rng);
    let count = grid.iter().map(|&x| u64::from(x)).product::<u64>() as u32;
    let mut groups: Vec<u32> = (0..count).collect();
    let mut order: Vec<u16> = (0..threads as u16).collect();
    match config.order {
        Order::Random => rng.shuffle(&mut groups),
        Order::Forward => {}
        Order::Backward => {
            groups.reverse();
            order.reverse();
        }
    }
    for group in groups {
        mem.group = group;
        workgroup::workgroup(program, regs, &mut mem, grid, group, config, rng, epoch, &mut order, &lanes, zero_workgroup_memory);
    }
    mem.found
}
