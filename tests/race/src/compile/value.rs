//! Constants, and the registers of values.

use wgpu::naga::{self as n, Expression as E, Handle};

use super::{Base, Cx, Frame, Ptr, V};
use crate::program::Op;

impl<'m> Cx<'m> {
    pub(super) fn const_value(&self, arena: &n::Arena<E>, h: Handle<E>) -> Result<Vec<u64>, String> {
        Ok(match &arena[h] {
            E::Literal(literal) => vec![literal_bits(*literal)?],
            E::Constant(c) => self.const_value(&self.module.global_expressions, self.module.constants[*c].init)?,
            E::ZeroValue(ty) => vec![0; self.ty(*ty)?.slots() as usize],
            E::Compose { ty, components } => {
                let mut values = Vec::new();
                for &c in components {
                    values.extend(self.const_value(arena, c)?);
                }
                if values.len() as u32 != self.ty(*ty)?.slots() {
                    return Err("a composition of the wrong size".into());
                }
                values
            }
            E::Splat { size, value } => vec![self.const_value(arena, *value)?[0]; *size as usize],
            other => return Err(format!("constant expression {other:?}")),
        })
    }

    pub(super) fn value(&mut self, f: &mut Frame<'m>, h: Handle<E>) -> Result<V, String> {
        if let Some(v) = &f.vals[h.index()] {
            return Ok(v.clone());
        }
        let v = match &f.fun.expressions[h] {
            E::Literal(_) | E::Constant(_) | E::ZeroValue(_) => {
                let values = self.const_value(&f.fun.expressions, h)?;
                V::Reg(self.constant(values), false)
            }
            E::FunctionArgument(k) => f.args[*k as usize].clone(),
            E::GlobalVariable(g) => V::Ptr(self.globals.get(&g.index()).ok_or("a global that is not used")?.clone()),
            E::LocalVariable(l) => {
                let var = &f.fun.local_variables[*l];
                let name = var.name.clone().unwrap_or_default();
                V::Ptr(Ptr {
                    base: Base::Own(f.locals[l.index()]),
                    off: 0,
                    indices: Vec::new(),
                    ty: self.ty(var.ty)?,
                    name,
                    vector: None,
                })
            }
            other => {
                // A constant expression that is not emitted.
                let values = self.const_value(&f.fun.expressions, h).map_err(|_| format!("{other:?} before it is emitted"))?;
                V::Reg(self.constant(values), false)
            }
        };
        f.vals[h.index()] = Some(v.clone());
        Ok(v)
    }

    pub(super) fn operand(&mut self, f: &mut Frame<'m>, h: Handle<E>) -> Result<(u32, bool), String> {
        match self.value(f, h)? {
            V::Reg(r, one) => Ok((r, one)),
            V::Ptr(_) => Err("a pointer as a value".into()),
        }
    }

    /// A scalar.
    pub(super) fn reg(&mut self, f: &mut Frame<'m>, h: Handle<E>) -> Result<u32, String> {
        Ok(self.operand(f, h)?.0)
    }

    /// All components, side by side.
    pub(super) fn full(&mut self, f: &mut Frame<'m>, h: Handle<E>) -> Result<u32, String> {
        let (r, one) = self.operand(f, h)?;
        if !one {
            return Ok(r);
        }
        let n = self.type_of(f, h)?.slots();
        let d = self.alloc(n);
        self.push(Op::Splat { d, s: r, n });
        Ok(d)
    }

    pub(super) fn pointer(&mut self, f: &mut Frame<'m>, h: Handle<E>) -> Result<Ptr, String> {
        match self.value(f, h)? {
            V::Ptr(p) => Ok(p),
            V::Reg(..) => Err("a value as a pointer".into()),
        }
    }

    /// A scalar or vector operand with its stride in components.
    pub(super) fn strided(&mut self, f: &mut Frame<'m>, h: Handle<E>) -> Result<(u32, u8), String> {
        let (r, one) = self.operand(f, h)?;
        let (_, n) = self.scalar_of(f, h)?;
        Ok((r, u8::from(!one && n > 1)))
    }
}

fn literal_bits(literal: n::Literal) -> Result<u64, String> {
    use n::Literal as L;
    Ok(match literal {
        L::F64(x) => x.to_bits(),
        L::F32(x) => x.to_bits().into(),
        L::F16(x) => x.to_bits().into(),
        L::U32(x) => x.into(),
        L::I32(x) => (x as u32).into(),
        L::Bool(x) => x.into(),
        other => return Err(format!("literal {other:?}")),
    })
}
