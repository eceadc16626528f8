//! Expressions.

use wgpu::naga::{self as n, Expression as E, Handle};

use super::{Base, Cx, Frame, V, types::T};
use crate::program::{Atomic, Bin, NONE, Op, Tri, Ty, Un};

impl<'m> Cx<'m> {
    pub(super) fn emit(&mut self, f: &mut Frame<'m>, h: Handle<E>) -> Result<(), String> {
        let span = f.fun.expressions.get_span(h);
        let v = match &f.fun.expressions[h] {
            E::Literal(_)
            | E::Constant(_)
            | E::ZeroValue(_)
            | E::FunctionArgument(_)
            | E::GlobalVariable(_)
            | E::LocalVariable(_) => return Ok(()),
            E::CallResult(_)
            | E::AtomicResult { .. }
            | E::WorkGroupUniformLoadResult { .. }
            | E::SubgroupOperationResult { .. } => return Ok(()),
            E::Compose { components, .. } => {
                let mut parts = Vec::new();
                for &c in components {
                    let n = self.type_of(f, c)?.slots();
                    let (r, one) = self.operand(f, c)?;
                    parts.push((r, one && n > 1, n));
                }
                // What lies side by side already stays there.
                let side_by_side = parts.iter().all(|&(_, one, _)| !one) && parts.windows(2).all(|p| p[0].0 + p[0].2 == p[1].0);
                if side_by_side {
                    V::Reg(parts[0].0, false)
                } else {
                    let first = self.alloc(parts.iter().map(|p| p.2).sum());
                    let mut d = first;
                    for (s, one, n) in parts {
                        self.push(if one { Op::Splat { d, s, n } } else { Op::Copy { d, s, n } });
                        d += n;
                    }
                    V::Reg(first, false)
                }
            }
            E::Access { base, index } => {
                let index = self.reg(f, *index)?;
                match self.value(f, *base)? {
                    V::Ptr(mut p) => {
                        let (ty, bytes, slots, len) = p.ty.element()?;
                        let in_memory = matches!(p.base, Base::Workgroup(_) | Base::Storage(_));
                        if let T::Vector(..) = p.ty {
                            p.vector = Some((p.indices.len(), p.off, p.ty.bytes()));
                        }
                        p.indices.push((index, if in_memory { bytes } else { slots }, len, p.off));
                        p.ty = ty;
                        V::Ptr(p)
                    }
                    V::Reg(..) => {
                        let (ty, _, stride, len) = self.type_of(f, *base)?.element()?;
                        let s = self.full(f, *base)?;
                        let site = self.site(f, span, "a value", "read");
                        let at = self.alloc(1);
                        let len = len.ok_or("a value without a length")?;
                        self.push(Op::Index { d: at, prev: NONE, index, stride, len, site });
                        let n = ty.slots();
                        let d = self.alloc(n);
                        self.push(Op::Get { d, s, at, n });
                        V::Reg(d, false)
                    }
                }
            }
            E::AccessIndex { base, index } => match self.value(f, *base)? {
                V::Ptr(mut p) => {
                    let (ty, bytes, slots) = p.ty.part(*index)?;
                    if let T::Vector(..) = p.ty {
                        p.vector = Some((p.indices.len(), p.off, p.ty.bytes()));
                    }
                    p.off += if matches!(p.base, Base::Workgroup(_) | Base::Storage(_)) { bytes } else { slots };
                    p.ty = ty;
                    V::Ptr(p)
                }
                V::Reg(r, one) => {
                    let (_, _, slots) = self.type_of(f, *base)?.part(*index)?;
                    V::Reg(if one { r } else { r + slots }, false)
                }
            },
            E::Splat { value, .. } => V::Reg(self.reg(f, *value)?, true),
            E::Swizzle { size, vector, pattern } => {
                let (s, one) = self.operand(f, *vector)?;
                let p = pattern.map(|c| c as u8);
                let n = *size as u8;
                if one {
                    V::Reg(s, true)
                } else if p[..n as usize].windows(2).all(|w| w[0] + 1 == w[1]) {
                    V::Reg(s + u32::from(p[0]), false)
                } else {
                    let d = self.alloc(n.into());
                    self.push(Op::Swizzle { d, s, n, p });
                    V::Reg(d, false)
                }
            }
            E::Load { pointer } => {
                let p = self.pointer(f, *pointer)?;
                if let T::Atomic(s) = p.ty {
                    V::Reg(self.atomic(f, &p, s, Atomic::Load, NONE, NONE, span)?, false)
                } else {
                    V::Reg(self.load(f, &p, span)?, false)
                }
            }
            E::Unary { op, expr } => {
                let (s, n) = self.scalar_of(f, *expr)?;
                let a = self.full(f, *expr)?;
                let o = match op {
                    n::UnaryOperator::Negate => Un::Neg,
                    n::UnaryOperator::LogicalNot => Un::Not,
                    n::UnaryOperator::BitwiseNot => Un::BitNot,
                };
                self.unary(o, Ty::of(s)?, n, a)
            }
            E::Binary { op, left, right } => {
                let (s, na) = self.scalar_of(f, *left)?;
                let (_, nb) = self.scalar_of(f, *right)?;
                let (a, sa) = self.strided(f, *left)?;
                let (b, sb) = self.strided(f, *right)?;
                let (t, count) = (Ty::of(s)?, na.max(nb));
                let d = self.alloc(count);
                use n::BinaryOperator as B;
                let o = match op {
                    B::Add => Bin::Add,
                    B::Subtract => Bin::Sub,
                    B::Multiply => Bin::Mul,
                    B::Divide => Bin::Div,
                    B::Modulo => Bin::Rem,
                    B::Equal => Bin::Eq,
                    B::NotEqual => Bin::Ne,
                    B::Less => Bin::Lt,
                    B::LessEqual => Bin::Le,
                    B::Greater => Bin::Gt,
                    B::GreaterEqual => Bin::Ge,
                    B::And | B::LogicalAnd => Bin::And,
                    B::InclusiveOr | B::LogicalOr => Bin::Or,
                    B::ExclusiveOr => Bin::Xor,
                    B::ShiftLeft => Bin::Shl,
                    B::ShiftRight => Bin::Shr,
                };
                let n = count as u8;
                if matches!(o, Bin::Div | Bin::Rem) && matches!(t, Ty::U32 | Ty::I32) {
                    let site = self.site(f, span, "", "division");
                    self.push(Op::Div { rem: o == Bin::Rem, t, n, sa, sb, d, a, b, site });
                } else if !self.loose(o, t, count, d, (a, sa), (b, sb)) {
                    self.push(Op::Bin { o, t, n, sa, sb, d, a, b });
                }
                V::Reg(d, false)
            }
            E::Select { condition, accept, reject } => {
                let ty = self.type_of(f, *accept)?;
                let (n, conditions) = (ty.slots(), self.scalar_of(f, *condition)?.1);
                let (c, sc) = self.strided(f, *condition)?;
                let a = self.full(f, *accept)?;
                let b = self.full(f, *reject)?;
                if conditions > 1 && conditions != n {
                    return Err("select".into());
                }
                let d = self.alloc(n);
                let s = u8::from(n > 1);
                let n = u8::try_from(n).map_err(|_| "a large select")?;
                self.push(Op::Tri { o: Tri::Select, t: Ty::U32, n, sa: s, sb: s, sc, d, a, b, c });
                V::Reg(d, false)
            }
            E::Relational { fun, argument } => {
                let n = self.scalar_of(f, *argument)?.1;
                let a = self.full(f, *argument)?;
                let d = self.alloc(1);
                self.push(match fun {
                    n::RelationalFunction::All => Op::All { d, a, n },
                    n::RelationalFunction::Any => Op::Any { d, a, n },
                    other => return Err(format!("{other:?}")),
                });
                V::Reg(d, false)
            }
            E::Math { fun, arg, arg1, arg2, .. } => self.math(f, *fun, *arg, *arg1, *arg2)?,
            E::As { expr, kind, convert } => {
                let (s, n) = self.scalar_of(f, *expr)?;
                let from = Ty::of(s)?;
                match convert {
                    // The same bits.
                    None => {
                        if self.scalar_of(f, h)?.0.width != s.width {
                            return Err("a bitcast between widths".into());
                        }
                        let (r, one) = self.operand(f, *expr)?;
                        V::Reg(r, one)
                    }
                    Some(width) => {
                        let to = Ty::of(n::Scalar { kind: *kind, width: *width })?;
                        let (r, one) = self.operand(f, *expr)?;
                        if from == to {
                            V::Reg(r, one)
                        } else {
                            let count = if one { 1 } else { n };
                            let d = self.alloc(count);
                            self.push(Op::Convert { from, to, n: count as u8, d, a: r });
                            V::Reg(d, one)
                        }
                    }
                }
            }
            E::ArrayLength(pointer) => {
                let p = self.pointer(f, *pointer)?;
                let (Base::Storage(bind), T::Array(_, None, stride)) = (&p.base, &p.ty) else { return Err("arrayLength".into()) };
                let (bind, stride) = (*bind, *stride);
                let d = self.alloc(1);
                self.push(Op::Length { d, bind, off: p.off, stride });
                V::Reg(d, false)
            }
            other => return Err(format!("expression {other:?}")),
        };
        f.vals[h.index()] = Some(v);
        Ok(())
    }
}
