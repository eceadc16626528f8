//! One workgroup: its threads one after the other, up to where each waits for others.

use super::{
    shadow::Mem,
    step::{Status, run},
};
use crate::{
    config::{Config, Order, Rng},
    finding::Kind,
    program::{Builtin, Gather, NONE, Program},
};

#[allow(clippy::too_many_arguments)]
pub(super) fn workgroup(
    program: &Program,
    regs: &mut [u64],
    mem: &mut Mem<'_>,
    grid: [u32; 3],
    group: u32,
    config: &Config,
    rng: &mut Rng,
    epoch: &mut u32,
    order: &mut [u16],
    lanes: &[(u32, u32)],
    zero: bool,
) {
    let (threads, registers) = (lanes.len(), program.registers as usize);
    *epoch += 1;
    (mem.e_work, mem.e_any, mem.e_strict, mem.group_start) = (*epoch, *epoch, *epoch, *epoch);
    for var in &mut mem.work {
        if zero {
            var.data.fill(0);
        } else {
            // What others left there: not a number.
            let junk = [rng.next() as u8 | 0xF0, 0xFF];
            var.data.chunks_mut(2).for_each(|pair| pair.copy_from_slice(&junk[..pair.len()]));
        }
    }
    let id = [group % grid[0], group / grid[0] % grid[1], group / grid[0] / grid[1]];
    let [sx, sy, _] = program.size;
    let size = config.subgroup;
    for (t, own) in regs.chunks_exact_mut(registers).take(threads).enumerate() {
        let t32 = t as u32;
        let local = [t32 % sx, t32 / sx % sy, t32 / sx / sy];
        for &(r, builtin) in &program.builtins {
            let r = r as usize;
            let three = |x: [u32; 3]| x.map(u64::from);
            match builtin {
                Builtin::GlobalId => {
                    own[r..r + 3].copy_from_slice(&[0, 1, 2].map(|k| u64::from(id[k] * program.size[k] + local[k])))
                }
                Builtin::LocalId => own[r..r + 3].copy_from_slice(&three(local)),
                Builtin::GroupId => own[r..r + 3].copy_from_slice(&three(id)),
                Builtin::GroupSize => own[r..r + 3].copy_from_slice(&three(program.size)),
                Builtin::NumGroups => own[r..r + 3].copy_from_slice(&three(grid)),
                Builtin::LocalIndex => own[r] = t as u64,
                Builtin::SubgroupSize => own[r] = size.into(),
                Builtin::SubgroupLane => own[r] = lanes[t].1.into(),
                Builtin::SubgroupId => own[r] = lanes[t].0.into(),
                Builtin::NumSubgroups => own[r] = threads.div_ceil(size as usize) as u64,
            }
        }
    }
    let mut status = vec![Status::Ready; threads];
    let mut pc = vec![0usize; threads];
    let mut budget = vec![0u32; threads];
    // Threads of each subgroup by lane.
    let members = || {
        let mut members = vec![vec![None; size as usize]; threads.div_ceil(size as usize)];
        for (t, &(s, lane)) in lanes.iter().enumerate() {
            members[s as usize][lane as usize] = Some(t);
        }
        members
    };
    let members = if program.syncs.iter().any(|sync| sync.gather.is_some()) { members() } else { Vec::new() };
    loop {
        if config.order == Order::Random {
            rng.shuffle(order);
        }
        for &t in order.iter() {
            let k = usize::from(t);
            if status[k] == Status::Ready {
                let own = &mut regs[k * registers..(k + 1) * registers];
                (status[k], pc[k]) = run(program, own, mem, t, pc[k], &mut budget[k]);
            }
        }
        let counters = |regs: &[u64], k: usize, sync: u32| -> Vec<u64> {
            program.syncs[sync as usize].loops.iter().map(|&r| regs[k * registers + r as usize]).collect()
        };
        let mut resolved = false;
        for subgroup in &members {
            let waits = |k: usize| match status[k] {
                Status::Waits(sync) if program.syncs[sync as usize].gather.is_some() => Some((sync, counters(regs, k, sync))),
                _ => None,
            };
            let all: Vec<usize> = subgroup.iter().copied().flatten().collect();
            let Some((sync, loops)) = all.iter().find_map(|&k| waits(k)) else { continue };
            let here = |k: usize| waits(k).is_some_and(|there| there == (sync, loops.clone()));
            let active: Vec<usize> = all.iter().copied().filter(|&k| here(k)).collect();
            let info = &program.syncs[sync as usize];
            if active.len() < all.len() {
                let (a, b) = (active.len(), all.len());
                mem.report(Kind::Subgroup, info.site, NONE, |_| {
                    format!("{a} of the {b} threads of a subgroup of workgroup {group} are there")
                });
            }
            let Some((mode, argument, n, index, result)) = info.gather else { unreachable!() };
            // Of the subgroup, whatever a thread's lane.
            let of_all = match mode {
                Gather::Sum => {
                    Some(active.iter().fold(0u32, |sum, &k| sum.wrapping_add(regs[k * registers + argument as usize] as u32)))
                }
                Gather::Max => active.iter().map(|&k| regs[k * registers + argument as usize] as u32).max(),
                _ => None,
            };
            let first = subgroup.iter().copied().flatten().find(|k| active.contains(k));
            let results: Vec<(usize, Vec<u64>)> = active
                .iter()
                .map(|&k| {
                    let lane = lanes[k].1;
                    let i = if index == NONE { 0 } else { regs[k * registers + index as usize] as u32 };
                    let from = match mode {
                        Gather::First | Gather::Sum | Gather::Max => first,
                        Gather::Broadcast | Gather::Shuffle => subgroup.get(i as usize).copied().flatten(),
                        Gather::Down => subgroup.get(lane.wrapping_add(i) as usize).copied().flatten(),
                        Gather::Up => subgroup.get(lane.wrapping_sub(i) as usize).copied().flatten(),
                        Gather::Xor => subgroup.get((lane ^ i) as usize).copied().flatten(),
                    };
                    if let Some(value) = of_all {
                        return (k, vec![value.into()]);
                    }
                    let values = match from.filter(|from| active.contains(from)) {
                        Some(from) => {
                            let at = from * registers + argument as usize;
                            regs[at..at + n as usize].to_vec()
                        }
                        // Anything.
                        None => (0..n).map(|_| rng.next()).collect(),
                    };
                    (k, values)
                })
                .collect();
            for (k, values) in results {
                let at = k * registers + result as usize;
                regs[at..at + n as usize].copy_from_slice(&values);
                status[k] = Status::Ready;
            }
            resolved = true;
        }
        if resolved {
            continue;
        }
        let Some(first) = (0..threads).find(|&k| status[k] != Status::Done) else { return };
        let Status::Waits(sync) = status[first] else { unreachable!() };
        let loops = &program.syncs[sync as usize].loops;
        let others = (first..threads).chain(0..first).find(|&k| {
            let differs = |&r: &u32| regs[k * registers + r as usize] != regs[first * registers + r as usize];
            status[k] != Status::Waits(sync) || loops.iter().any(differs)
        });
        if let Some(other) = others {
            let site = program.syncs[sync as usize].site;
            let (there, text) = match status[other] {
                Status::Done => (NONE, format!("thread {other} has ended")),
                Status::Waits(s) if s == sync => (NONE, format!("thread {other} is in another iteration")),
                Status::Waits(s) => (program.syncs[s as usize].site, format!("thread {other} is at another")),
                Status::Ready => unreachable!(),
            };
            mem.report(Kind::Barrier, site, there, |_| format!("thread {first} of workgroup {group} waits, {text}"));
        }
        let (mut workgroup, mut storage) = (true, true);
        for state in &mut status {
            if let Status::Waits(sync) = *state {
                workgroup &= program.syncs[sync as usize].workgroup;
                storage &= program.syncs[sync as usize].storage;
                *state = Status::Ready;
            }
        }
        *epoch += 1;
        mem.e_any = *epoch;
        if workgroup {
            mem.e_work = *epoch;
        }
        if storage {
            mem.e_strict = *epoch;
        }
    }
}
