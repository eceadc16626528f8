//! Memory, and what is known of every scalar in it: who wrote it last, and who has read it since.

use std::collections::HashMap;

use crate::{
    finding::Kind,
    program::{NONE, Program},
};

/// What is known of a scalar (or of what is always accessed together) in workgroup memory: the last write, and of the reads since the
/// last barrier those of two threads.
#[derive(Clone, Copy, Default)]
pub(super) struct CellW {
    pub(super) w_epoch: u32,
    pub(super) w_site: u32,
    pub(super) r_epoch: u32,
    pub(super) r_site: u32,
    pub(super) r2_site: u32,
    pub(super) w_thread: u16,
    pub(super) r_thread: u16,
    pub(super) r2_thread: u16,
}

/// The same in a buffer; reads also since the last `storageBarrier`, and the first workgroup that read it in this dispatch.
#[derive(Clone, Copy, Default)]
pub struct CellS {
    pub(super) w_any: u32,
    pub(super) w_strict: u32,
    pub(super) w_group: u32,
    pub(super) w_site: u32,
    pub(super) r_any: u32,
    pub(super) r_site: u32,
    pub(super) r2_site: u32,
    pub(super) s_strict: u32,
    pub(super) s_site: u32,
    pub(super) s2_site: u32,
    pub(super) d_epoch: u32,
    pub(super) d_group: u32,
    pub(super) d_site: u32,
    pub(super) w_thread: u16,
    pub(super) r_thread: u16,
    pub(super) r2_thread: u16,
    pub(super) s_thread: u16,
    pub(super) s2_thread: u16,
}

pub(super) const NOBODY: u16 = u16::MAX;

#[derive(Default)]
pub struct BufState {
    pub data: Vec<u8>,
    /// 1 for bytes that somebody wrote.
    pub written: Vec<u8>,
    pub cells: Vec<CellS>,
}

pub(super) struct MemW {
    pub(super) data: Vec<u8>,
    pub(super) cells: Vec<CellW>,
    pub(super) grain: u32,
}

/// What is bound: a part of a buffer.
#[derive(Clone, Copy)]
pub struct View {
    pub buffer: usize,
    pub base: usize,
    pub len: usize,
    pub grain: u32,
    /// Declared `@coherent`: barriers of either kind order accesses of the workgroup.
    pub coherent: bool,
}

pub struct Raw {
    pub count: u64,
    pub example: String,
}

pub type Found = HashMap<(Kind, u32, u32), Raw>;

pub(super) struct Mem<'a> {
    pub(super) program: &'a Program,
    pub(super) work: Vec<MemW>,
    pub(super) buffers: Vec<&'a mut BufState>,
    pub(super) views: &'a [View],
    /// Of the present interval between barriers: for workgroup memory, for storage up to any barrier, and up to a storageBarrier.
    pub(super) e_work: u32,
    pub(super) e_any: u32,
    pub(super) e_strict: u32,
    pub(super) dispatch_start: u32,
    pub(super) group_start: u32,
    pub(super) group: u32,
    pub(super) fused: bool,
    /// Whether the device has `@coherent`.
    pub(super) has_coherent: bool,
    pub(super) found: Found,
}

impl Mem<'_> {
    #[cold]
    #[inline(never)]
    pub(super) fn report(&mut self, kind: Kind, a: u32, b: u32, example: impl FnOnce(&Program) -> String) {
        let program = self.program;
        self.found.entry((kind, a, b)).or_insert_with(|| Raw { count: 0, example: example(program) }).count += 1;
    }

    #[cold]
    #[inline(never)]
    pub(super) fn conflict(&mut self, kind: Kind, a: u32, b: u32, threads: (u16, u16), groups: (u32, u32), at: usize) {
        self.report(kind, a, b, |_| {
            if groups.0 == groups.1 {
                format!("threads {} and {} of workgroup {}, byte {at}", threads.0, threads.1, groups.0)
            } else if threads.0 == NOBODY {
                format!("a thread of workgroup {} and thread {} of workgroup {}, byte {at}", groups.0, threads.1, groups.1)
            } else {
                format!(
                    "thread {} of workgroup {} and thread {} of workgroup {}, byte {at}",
                    threads.0, groups.0, threads.1, groups.1
                )
            }
        });
    }

    #[inline]
    pub(super) fn read_w(&mut self, mem: usize, off: usize, bytes: usize, t: u16, site: u32) {
        let grain = self.work[mem].grain;
        for k in off >> grain..=(off + bytes - 1) >> grain {
            let (e, start) = (self.e_work, self.group_start);
            let c = &mut self.work[mem].cells[k];
            let seen = *c;
            if c.r_epoch != e {
                (c.r_epoch, c.r_thread, c.r_site, c.r2_thread) = (e, t, site, NOBODY);
            } else if c.r_thread != t && c.r2_thread == NOBODY {
                (c.r2_thread, c.r2_site) = (t, site);
            }
            if seen.w_epoch < start {
                let group = self.group;
                self.report(Kind::UnwrittenWorkgroup, site, NONE, |_| {
                    format!("thread {t} of workgroup {group}, byte {}", k << grain)
                });
            } else if seen.w_epoch == e && seen.w_thread != t {
                let g = self.group;
                self.conflict(Kind::RaceWorkgroup, seen.w_site, site, (seen.w_thread, t), (g, g), k << grain);
            }
        }
    }

    #[inline]
    pub(super) fn write_w(&mut self, mem: usize, off: usize, bytes: usize, t: u16, site: u32) {
        let grain = self.work[mem].grain;
        for k in off >> grain..=(off + bytes - 1) >> grain {
            let e = self.e_work;
            let c = &mut self.work[mem].cells[k];
            let seen = *c;
            (c.w_epoch, c.w_thread, c.w_site) = (e, t, site);
            let g = self.group;
            if seen.w_epoch == e && seen.w_thread != t {
                self.conflict(Kind::RaceWorkgroup, seen.w_site, site, (seen.w_thread, t), (g, g), k << grain);
            }
            if seen.r_epoch == e {
                if seen.r_thread != t {
                    self.conflict(Kind::RaceWorkgroup, seen.r_site, site, (seen.r_thread, t), (g, g), k << grain);
                } else if seen.r2_thread != NOBODY {
                    self.conflict(Kind::RaceWorkgroup, seen.r2_site, site, (seen.r2_thread, t), (g, g), k << grain);
                }
            }
        }
    }

    /// Whether these bytes of the binding are there; else says so.
    #[inline]
    pub(super) fn inside(&mut self, bind: usize, off: u64, bytes: usize, t: u16, site: u32) -> bool {
        let len = self.views[bind].len;
        if off + bytes as u64 <= len as u64 {
            return true;
        }
        let group = self.group;
        self.report(Kind::OutOfBounds, site, NONE, |_| {
            format!("thread {t} of workgroup {group}: bytes {off}..{} of {len} that are bound", off + bytes as u64)
        });
        false
    }

    #[inline]
    pub(super) fn read_s(&mut self, bind: usize, off: usize, bytes: usize, t: u16, site: u32) {
        let View { buffer, base, grain, coherent, .. } = self.views[bind];
        let (first, last) = (base + off, base + off + bytes - 1);
        if self.buffers[buffer].written[first..=last].contains(&0) {
            let group = self.group;
            self.report(Kind::UnwrittenBuffer, site, NONE, |_| {
                format!("thread {t} of workgroup {group}, bytes {first}..={last}")
            });
        }
        let (any, strict, start, group) = (self.e_any, self.e_strict, self.dispatch_start, self.group);
        for k in first >> grain..=last >> grain {
            let c = &mut self.buffers[buffer].cells[k];
            let seen = *c;
            if c.r_any != any {
                (c.r_any, c.r_thread, c.r_site, c.r2_thread) = (any, t, site, NOBODY);
            } else if c.r_thread != t && c.r2_thread == NOBODY {
                (c.r2_thread, c.r2_site) = (t, site);
            }
            if c.s_strict != strict {
                (c.s_strict, c.s_thread, c.s_site, c.s2_thread) = (strict, t, site, NOBODY);
            } else if c.s_thread != t && c.s2_thread == NOBODY {
                (c.s2_thread, c.s2_site) = (t, site);
            }
            if c.d_epoch < start {
                (c.d_epoch, c.d_group, c.d_site) = (any, group, site);
            }
            self.after_write(&seen, t, site, k << grain, coherent, true);
        }
    }

    /// What an access says to the last write.
    #[inline]
    pub(super) fn after_write(&mut self, seen: &CellS, t: u16, site: u32, at: usize, coherent: bool, reads: bool) {
        if seen.w_any < self.dispatch_start {
            return;
        }
        let kind = if seen.w_group != self.group {
            Kind::BetweenWorkgroups
        } else if seen.w_thread == t {
            return;
        } else if seen.w_any == self.e_any {
            Kind::RaceStorage
        } else if coherent {
            return;
        } else if seen.w_strict == self.e_strict {
            Kind::Weak
        } else if reads && self.has_coherent {
            Kind::Incoherent
        } else {
            return;
        };
        self.conflict(kind, seen.w_site, site, (seen.w_thread, t), (seen.w_group, self.group), at);
    }

    #[inline]
    pub(super) fn write_s(&mut self, bind: usize, off: usize, bytes: usize, t: u16, site: u32) {
        let View { buffer, base, grain, coherent, .. } = self.views[bind];
        let (first, last) = (base + off, base + off + bytes - 1);
        self.buffers[buffer].written[first..=last].fill(1);
        let (any, strict, start, group) = (self.e_any, self.e_strict, self.dispatch_start, self.group);
        for k in first >> grain..=last >> grain {
            let c = &mut self.buffers[buffer].cells[k];
            let seen = *c;
            (c.w_any, c.w_strict, c.w_group, c.w_thread, c.w_site) = (any, strict, group, t, site);
            self.after_write(&seen, t, site, k << grain, coherent, false);
            if seen.d_epoch >= start && seen.d_group != group {
                self.conflict(Kind::BetweenWorkgroups, seen.d_site, site, (NOBODY, t), (seen.d_group, group), k << grain);
            }
            let other = |epoch: u32, now: u32, first: (u16, u32), second: (u16, u32)| {
                if epoch != now {
                    None
                } else if first.0 != t {
                    Some(first)
                } else if second.0 != NOBODY {
                    Some(second)
                } else {
                    None
                }
            };
            let near = other(seen.r_any, any, (seen.r_thread, seen.r_site), (seen.r2_thread, seen.r2_site));
            let far = other(seen.s_strict, strict, (seen.s_thread, seen.s_site), (seen.s2_thread, seen.s2_site));
            if let Some((thread, read)) = near {
                self.conflict(Kind::RaceStorage, read, site, (thread, t), (group, group), k << grain);
            } else if let Some((thread, read)) = far
                && !coherent
            {
                self.conflict(Kind::Weak, read, site, (thread, t), (group, group), k << grain);
            }
        }
    }
}
