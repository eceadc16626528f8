//! The steps of a program.

use wgpu::naga::{self as n, ScalarKind as K};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    F16,
    F32,
    F64,
    I32,
    U32,
    Bool,
}

impl Ty {
    pub fn of(s: n::Scalar) -> Result<Ty, String> {
        Ok(match (s.kind, s.width) {
            (K::Float, 2) => Ty::F16,
            (K::Float, 4) => Ty::F32,
            (K::Float, 8) => Ty::F64,
            (K::Sint, 4) => Ty::I32,
            (K::Uint, 4) => Ty::U32,
            (K::Bool, _) => Ty::Bool,
            other => return Err(format!("scalars of type {other:?}")),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bin {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Min,
    Max,
    Pow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Un {
    Neg,
    Not,
    BitNot,
    Abs,
    Sqrt,
    InverseSqrt,
    Floor,
    Ceil,
    Round,
    Trunc,
    Exp,
    Exp2,
    Log,
    Log2,
    Sign,
    CountOneBits,
    CountLeadingZeros,
    CountTrailingZeros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tri {
    Fma,
    /// A product that a compiler has fused into a sum: it rounds once, whatever `Fma` does.
    Contracted,
    Clamp,
    Select,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    Load,
    Store,
    Add,
    Sub,
    And,
    Or,
    Xor,
    Min,
    Max,
    Exchange,
    CompareExchange,
}

#[derive(Clone, Copy, Debug)]
pub enum Op {
    Copy1 {
        d: u32,
        s: u32,
    },
    Copy {
        d: u32,
        s: u32,
        n: u32,
    },
    Splat {
        d: u32,
        s: u32,
        n: u32,
    },
    Swizzle {
        d: u32,
        s: u32,
        n: u8,
        p: [u8; 4],
    },
    /// d.. = registers from s + [at] on
    Get {
        d: u32,
        s: u32,
        at: u32,
        n: u32,
    },
    Put {
        d: u32,
        at: u32,
        s: u32,
        n: u32,
    },
    /// Strides are 0 for an operand that is one scalar.
    Bin {
        o: Bin,
        t: Ty,
        n: u8,
        sa: u8,
        sb: u8,
        d: u32,
        a: u32,
        b: u32,
    },
    /// Division of integers.
    Div {
        rem: bool,
        t: Ty,
        n: u8,
        sa: u8,
        sb: u8,
        d: u32,
        a: u32,
        b: u32,
        site: u32,
    },
    Un {
        o: Un,
        t: Ty,
        n: u8,
        d: u32,
        a: u32,
    },
    Tri {
        o: Tri,
        t: Ty,
        n: u8,
        sa: u8,
        sb: u8,
        sc: u8,
        d: u32,
        a: u32,
        b: u32,
        c: u32,
    },
    Convert {
        from: Ty,
        to: Ty,
        n: u8,
        d: u32,
        a: u32,
    },
    Any {
        d: u32,
        a: u32,
        n: u32,
    },
    All {
        d: u32,
        a: u32,
        n: u32,
    },
    /// d = [prev] + [index] * stride, if the index is below len.
    Index {
        d: u32,
        prev: u32,
        index: u32,
        stride: u32,
        len: u32,
        site: u32,
    },
    /// The same for what is as long as its buffer: elements start at `off`.
    IndexRt {
        d: u32,
        prev: u32,
        index: u32,
        stride: u32,
        bind: u16,
        off: u32,
        site: u32,
    },
    Length {
        d: u32,
        bind: u32,
        off: u32,
        stride: u32,
    },
    LoadW {
        d: u32,
        mem: u16,
        w: u8,
        n: u8,
        at: u32,
        off: u32,
        site: u32,
    },
    StoreW {
        s: u32,
        mem: u16,
        w: u8,
        n: u8,
        at: u32,
        off: u32,
        site: u32,
    },
    LoadS {
        d: u32,
        mem: u16,
        w: u8,
        n: u8,
        at: u32,
        off: u32,
        site: u32,
    },
    StoreS {
        s: u32,
        mem: u16,
        w: u8,
        n: u8,
        at: u32,
        off: u32,
        site: u32,
    },
    /// A write of one component may write the whole vector.
    Touch {
        storage: bool,
        mem: u16,
        at: u32,
        off: u32,
        bytes: u32,
        site: u32,
    },
    Atomic {
        a: u32,
        site: u32,
    },
    Jmp {
        to: u32,
    },
    Back {
        to: u32,
        site: u32,
    },
    Jz {
        c: u32,
        to: u32,
    },
    Jnz {
        c: u32,
        to: u32,
    },
    Jeq {
        c: u32,
        imm: u32,
        to: u32,
    },
    Zero {
        r: u32,
        n: u32,
    },
    Inc {
        r: u32,
    },
    Barrier {
        sync: u32,
    },
    Sub {
        sync: u32,
    },
    End,
}
