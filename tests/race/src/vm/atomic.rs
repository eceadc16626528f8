//! Atomic operations.

use super::shadow::{Mem, View};
use crate::{
    finding::Kind,
    program::{Atomic, AtomicOp, INVALID, NONE},
};

impl Mem<'_> {
    pub(super) fn atomic(&mut self, op: &AtomicOp, regs: &mut [u64], t: u16, site: u32) {
        let at = if op.at == NONE { 0 } else { regs[op.at as usize] };
        regs[op.d as usize] = 0;
        if at == INVALID {
            return;
        }
        let off = at + u64::from(op.off);
        let mem = op.mem as usize;
        // All accesses to it are atomic: that is its type. Only whether it was written before it is read matters.
        if op.storage && !self.inside(mem, off, 4, t, site) {
            return;
        }
        let off = off as usize;
        let reads = op.o != Atomic::Store;
        if op.storage {
            let View { buffer, base, .. } = self.views[mem];
            let at = base + off;
            if reads && self.buffers[buffer].written[at..at + 4].contains(&0) {
                self.report(Kind::UnwrittenBuffer, site, NONE, |_| format!("byte {at}"));
            }
            self.buffers[buffer].written[at..at + 4].fill(1);
        } else {
            let (start, e) = (self.group_start, self.e_work);
            let grain = self.work[mem].grain;
            let c = &mut self.work[mem].cells[off >> grain];
            let seen = *c;
            let unwritten = c.w_epoch < start;
            let group = self.group;
            if op.o == Atomic::Load {
                (c.r_epoch, c.r_thread, c.r_site) = (e, t, site);
                if seen.w_epoch == e && seen.w_thread != t {
                    self.conflict(Kind::AtomicOrder, seen.w_site, site, (seen.w_thread, t), (group, group), off);
                }
            } else {
                (c.w_epoch, c.w_thread, c.w_site) = (e, t, site);
                if seen.r_epoch == e && seen.r_thread != t {
                    self.conflict(Kind::AtomicOrder, seen.r_site, site, (seen.r_thread, t), (group, group), off);
                }
            }
            if reads && unwritten {
                self.report(Kind::UnwrittenWorkgroup, site, NONE, |_| format!("byte {off}"));
            }
        }
        let data: &mut [u8] = if op.storage {
            let View { buffer, base, .. } = self.views[mem];
            &mut self.buffers[buffer].data[base + off..base + off + 4]
        } else {
            &mut self.work[mem].data[off..off + 4]
        };
        let old = u32::from_le_bytes(data.try_into().unwrap());
        let v = if op.v == NONE { 0 } else { regs[op.v as usize] as u32 };
        let new = match op.o {
            Atomic::Load => old,
            Atomic::Store | Atomic::Exchange => v,
            Atomic::Add => old.wrapping_add(v),
            Atomic::Sub => old.wrapping_sub(v),
            Atomic::And => old & v,
            Atomic::Or => old | v,
            Atomic::Xor => old ^ v,
            Atomic::Min if op.signed => (old as i32).min(v as i32) as u32,
            Atomic::Max if op.signed => (old as i32).max(v as i32) as u32,
            Atomic::Min => old.min(v),
            Atomic::Max => old.max(v),
            Atomic::CompareExchange => {
                let same = old == regs[op.compare as usize] as u32;
                regs[op.d as usize + 1] = same.into();
                if same { v } else { old }
            }
        };
        data.copy_from_slice(&new.to_le_bytes());
        regs[op.d as usize] = old.into();
    }
}
