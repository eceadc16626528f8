//! Functions of numbers.

use wgpu::naga::{Expression as E, Handle, MathFunction as M};

use super::{Cx, Frame, V};
use crate::program::{Bin, Op, Tri, Ty, Un};

impl<'m> Cx<'m> {
    pub(super) fn unary(&mut self, o: Un, t: Ty, n: u32, a: u32) -> V {
        let d = self.alloc(n);
        self.push(Op::Un { o, t, n: n as u8, d, a });
        V::Reg(d, false)
    }

    pub(super) fn math(
        &mut self,
        f: &mut Frame<'m>,
        fun: M,
        arg: Handle<E>,
        arg1: Option<Handle<E>>,
        arg2: Option<Handle<E>>,
    ) -> Result<V, String> {
        let (s, n) = self.scalar_of(f, arg)?;
        let t = Ty::of(s)?;
        let un = match fun {
            M::Abs => Some(Un::Abs),
            M::Sqrt => Some(Un::Sqrt),
            M::InverseSqrt => Some(Un::InverseSqrt),
            M::Floor => Some(Un::Floor),
            M::Ceil => Some(Un::Ceil),
            M::Round => Some(Un::Round),
            M::Trunc => Some(Un::Trunc),
            M::Exp => Some(Un::Exp),
            M::Exp2 => Some(Un::Exp2),
            M::Log => Some(Un::Log),
            M::Log2 => Some(Un::Log2),
            M::Sign => Some(Un::Sign),
            M::CountOneBits => Some(Un::CountOneBits),
            M::CountLeadingZeros => Some(Un::CountLeadingZeros),
            M::CountTrailingZeros => Some(Un::CountTrailingZeros),
            _ => None,
        };
        if let Some(o) = un {
            let a = self.full(f, arg)?;
            return Ok(self.unary(o, t, n, a));
        }
        let bin = match fun {
            M::Min => Some(Bin::Min),
            M::Max => Some(Bin::Max),
            M::Pow => Some(Bin::Pow),
            _ => None,
        };
        if let (Some(o), Some(arg1)) = (bin, arg1) {
            let (a, sa) = self.strided(f, arg)?;
            let (b, sb) = self.strided(f, arg1)?;
            let d = self.alloc(n);
            self.push(Op::Bin { o, t, n: n as u8, sa, sb, d, a, b });
            return Ok(V::Reg(d, false));
        }
        let tri = match fun {
            M::Fma => Some(Tri::Fma),
            M::Clamp => Some(Tri::Clamp),
            _ => None,
        };
        if let (Some(o), Some(arg1), Some(arg2)) = (tri, arg1, arg2) {
            let (a, sa) = self.strided(f, arg)?;
            let (b, sb) = self.strided(f, arg1)?;
            let (c, sc) = self.strided(f, arg2)?;
            let d = self.alloc(n);
            self.push(Op::Tri { o, t, n: n as u8, sa, sb, sc, d, a, b, c });
            return Ok(V::Reg(d, false));
        }
        Err(format!("function {fun:?}"))
    }
}
