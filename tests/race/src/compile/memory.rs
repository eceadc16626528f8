//! Accesses to memory.

use wgpu::naga as n;

use super::{Base, Cx, Frame, Ptr, gcd};
use crate::program::{Atomic, AtomicOp, NONE, Op, Ty};

impl<'m> Cx<'m> {
    /// The register that holds the dynamic part of an address, or NONE.
    pub(super) fn address(&mut self, p: &Ptr, site: u32) -> u32 {
        let mut prev = NONE;
        for &(index, stride, len, off) in &p.indices {
            let d = self.alloc(1);
            self.push(match (len, &p.base) {
                (Some(len), _) => Op::Index { d, prev, index, stride, len, site },
                (None, Base::Storage(bind)) => Op::IndexRt { d, prev, index, stride, bind: *bind as u16, off, site },
                (None, _) => unreachable!("an array without a length"),
            });
            prev = d;
        }
        prev
    }

    pub(super) fn note_grain(grains: &mut [u32], mem: u32, p: &Ptr, off: u32, bytes: u32) {
        let g = &mut grains[mem as usize];
        *g = gcd(gcd(*g, off), bytes);
        for &(_, stride, ..) in &p.indices {
            *g = gcd(*g, stride);
        }
    }

    pub(super) fn load(&mut self, f: &Frame<'m>, p: &Ptr, span: n::Span) -> Result<u32, String> {
        let n = p.ty.slots();
        let site = self.site(f, span, &p.name, "read");
        let at = self.address(p, site);
        match p.base {
            Base::Fixed(r) if at == NONE => Ok(r + p.off),
            Base::Own(r) | Base::Fixed(r) => {
                let d = self.alloc(n);
                let s = r + p.off;
                self.push(if at == NONE { Op::Copy { d, s, n } } else { Op::Get { d, s, at, n } });
                Ok(d)
            }
            Base::Workgroup(mem) | Base::Storage(mem) => {
                let storage = matches!(p.base, Base::Storage(_));
                let first = self.alloc(n);
                let mut d = first;
                for (rel, w, count) in p.ty.runs() {
                    let off = p.off + rel;
                    Self::note_grain(if storage { &mut self.grains_s } else { &mut self.grains_w }, mem, p, off, w * count);
                    let (mem, w8, n8) =
                        (mem as u16, w as u8, u8::try_from(count).map_err(|_| "a load of more than 255 scalars")?);
                    self.push(if storage {
                        Op::LoadS { d, mem, w: w8, n: n8, at, off, site }
                    } else {
                        Op::LoadW { d, mem, w: w8, n: n8, at, off, site }
                    });
                    d += count;
                }
                Ok(first)
            }
        }
    }

    pub(super) fn store(&mut self, f: &Frame<'m>, p: &Ptr, s: u32, span: n::Span) -> Result<(), String> {
        let n = p.ty.slots();
        let site = self.site(f, span, &p.name, "write");
        let at = self.address(p, site);
        match p.base {
            Base::Fixed(_) => return Err(format!("a write to {}", p.name)),
            Base::Own(r) => {
                let d = r + p.off;
                self.push(if at == NONE { Op::Copy { d, s, n } } else { Op::Put { d, at, s, n } });
            }
            Base::Workgroup(mem) | Base::Storage(mem) => {
                let storage = matches!(p.base, Base::Storage(_));
                if let Some((indices, off, bytes)) = p.vector {
                    let whole = Ptr { indices: p.indices[..indices].to_vec(), off, ..p.clone() };
                    let at = self.address(&whole, site);
                    self.push(Op::Touch { storage, mem: mem as u16, at, off, bytes, site });
                }
                let mut s = s;
                for (rel, w, count) in p.ty.runs() {
                    let off = p.off + rel;
                    Self::note_grain(if storage { &mut self.grains_s } else { &mut self.grains_w }, mem, p, off, w * count);
                    let (mem, w8, n8) =
                        (mem as u16, w as u8, u8::try_from(count).map_err(|_| "a store of more than 255 scalars")?);
                    self.push(if storage {
                        Op::StoreS { s, mem, w: w8, n: n8, at, off, site }
                    } else {
                        Op::StoreW { s, mem, w: w8, n: n8, at, off, site }
                    });
                    s += count;
                }
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn atomic(
        &mut self,
        f: &Frame<'m>,
        p: &Ptr,
        scalar: n::Scalar,
        o: Atomic,
        v: u32,
        compare: u32,
        span: n::Span,
    ) -> Result<u32, String> {
        let signed = match Ty::of(scalar)? {
            Ty::U32 => false,
            Ty::I32 => true,
            other => return Err(format!("atomic {other:?}")),
        };
        let site = self.site(f, span, &p.name, "atomic access");
        let at = self.address(p, site);
        let (storage, mem) = match p.base {
            Base::Workgroup(mem) => (false, mem),
            Base::Storage(mem) => (true, mem),
            _ => return Err("an atomic in registers".into()),
        };
        Self::note_grain(if storage { &mut self.grains_s } else { &mut self.grains_w }, mem, p, p.off, 4);
        let d = self.alloc(2);
        self.atomics.push(AtomicOp { o, signed, storage, mem, at, off: p.off, d, v, compare });
        self.push(Op::Atomic { a: self.atomics.len() as u32 - 1, site });
        Ok(d)
    }
}
