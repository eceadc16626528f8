//! One thread, up to where it waits.

use half::f16;

use super::shadow::{Mem, View};
use crate::{
    finding::Kind,
    program::{Bin, INVALID, NONE, Op, Program, Tri, Ty, Un},
};

#[inline]
pub(super) fn get(data: &[u8], w: u8, to: &mut [u64]) {
    match w {
        4 => to.iter_mut().zip(data.chunks_exact(4)).for_each(|(to, x)| *to = u32::from_le_bytes(x.try_into().unwrap()).into()),
        8 => to.iter_mut().zip(data.chunks_exact(8)).for_each(|(to, x)| *to = u64::from_le_bytes(x.try_into().unwrap())),
        2 => to.iter_mut().zip(data.chunks_exact(2)).for_each(|(to, x)| *to = u16::from_le_bytes(x.try_into().unwrap()).into()),
        _ => to.iter_mut().zip(data).for_each(|(to, &x)| *to = x.into()),
    }
}

#[inline]
fn put(data: &mut [u8], w: u8, from: &[u64]) {
    match w {
        4 => data.chunks_exact_mut(4).zip(from).for_each(|(to, &x)| to.copy_from_slice(&(x as u32).to_le_bytes())),
        8 => data.chunks_exact_mut(8).zip(from).for_each(|(to, &x)| to.copy_from_slice(&x.to_le_bytes())),
        2 => data.chunks_exact_mut(2).zip(from).for_each(|(to, &x)| to.copy_from_slice(&(x as u16).to_le_bytes())),
        _ => data.iter_mut().zip(from).for_each(|(to, &x)| *to = x as u8),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ready,
    /// At this barrier, or subgroup operation.
    Waits(u32),
    Done,
}

/// Backward jumps after which a loop counts as endless.
const BUDGET: u32 = 50_000_000;

fn f32_of(x: u64) -> f32 {
    f32::from_bits(x as u32)
}

fn f64_of(x: u64) -> f64 {
    f64::from_bits(x)
}

fn f16_of(x: u64) -> f32 {
    f16::from_bits(x as u16).to_f32()
}

fn of_f32(x: f32) -> u64 {
    x.to_bits().into()
}

fn of_f64(x: f64) -> u64 {
    x.to_bits()
}

fn of_f16(x: f32) -> u64 {
    f16::from_f32(x).to_bits().into()
}

/// Runs one thread from `pc` on to where it waits or ends.
pub(super) fn run(
    program: &Program,
    regs: &mut [u64],
    mem: &mut Mem<'_>,
    t: u16,
    mut pc: usize,
    budget: &mut u32,
) -> (Status, usize) {
    let ops = &program.ops[..];
    debug_assert!(regs.len() >= program.registers as usize);
    let r = regs.as_mut_ptr();
    // The numbers of registers in a compiled program are below `program.registers`, and there are as many.
    macro_rules! g {
        ($i:expr) => {
            // SAFETY: a register of the program, see above.
            unsafe { *r.add(($i) as usize) }
        };
    }
    macro_rules! s {
        ($i:expr, $x:expr) => {{
            let x: u64 = $x;
            // SAFETY: as for `g`.
            unsafe { *r.add(($i) as usize) = x }
        }};
    }
    macro_rules! slice {
        ($i:expr, $n:expr) => {
            // SAFETY: consecutive registers of the program; no other slice of them is alive while this one is used.
            unsafe { std::slice::from_raw_parts_mut(r.add(($i) as usize), ($n) as usize) }
        };
    }
    macro_rules! hit {
        ($site:expr) => {
            // SAFETY: there is a counter for each site of the program.
            unsafe { program.hits.get_unchecked($site as usize) }.store(1, std::sync::atomic::Ordering::Relaxed)
        };
    }
    loop {
        // SAFETY: jumps lead to places in the code, whose last step is `End`.
        let op = unsafe { *ops.get_unchecked(pc) };
        pc += 1;
        match op {
            Op::Copy1 { d, s } => s!(d, g!(s)),
            Op::Copy { d, s, n } => {
                // Never onto itself. Few at a time: a call would take longer.
                for i in 0..n {
                    s!(d + i, g!(s + i));
                }
            }
            Op::Splat { d, s, n } => {
                let x = g!(s);
                slice!(d, n).fill(x);
            }
            Op::Swizzle { d, s, n, p } => {
                for i in 0..u32::from(n) {
                    s!(d + i, g!(s + u32::from(p[i as usize])));
                }
            }
            Op::Get { d, s, at, n } => match g!(at) {
                INVALID => slice!(d, n).fill(0),
                at => {
                    for i in 0..n {
                        s!(d + i, g!(s as usize + at as usize + i as usize));
                    }
                }
            },
            Op::Put { d, at, s, n } => match g!(at) {
                INVALID => {}
                at => {
                    for i in 0..n {
                        s!(d as usize + at as usize + i as usize, g!(s + i));
                    }
                }
            },
            Op::Bin { o, t, n, sa, sb, d, a, b } => {
                let (n, sa, sb) = (u32::from(n), u32::from(sa), u32::from(sb));
                macro_rules! each {
                    ($f:expr) => {{
                        let f = $f;
                        for i in 0..n {
                            s!(d + i, f(g!(a + i * sa), g!(b + i * sb)));
                        }
                    }};
                }
                macro_rules! float {
                    ($from:expr, $to:expr, $kind:ty) => {
                        match o {
                            Bin::Add => each!(|x, y| $to($from(x) + $from(y))),
                            Bin::Sub => each!(|x, y| $to($from(x) - $from(y))),
                            Bin::Mul => each!(|x, y| $to($from(x) * $from(y))),
                            Bin::Div => each!(|x, y| $to($from(x) / $from(y))),
                            Bin::Rem => each!(|x, y| $to($from(x) % $from(y))),
                            Bin::Eq => each!(|x, y| u64::from($from(x) == $from(y))),
                            Bin::Ne => each!(|x, y| u64::from($from(x) != $from(y))),
                            Bin::Lt => each!(|x, y| u64::from($from(x) < $from(y))),
                            Bin::Le => each!(|x, y| u64::from($from(x) <= $from(y))),
                            Bin::Gt => each!(|x, y| u64::from($from(x) > $from(y))),
                            Bin::Ge => each!(|x, y| u64::from($from(x) >= $from(y))),
                            Bin::Min => each!(|x, y| $to(<$kind>::min($from(x), $from(y)))),
                            Bin::Max => each!(|x, y| $to(<$kind>::max($from(x), $from(y)))),
                            Bin::Pow => each!(|x, y| $to(<$kind>::powf($from(x), $from(y)))),
                            _ => unreachable!("{o:?} of floats"),
                        }
                    };
                }
                match t {
                    Ty::F32 => float!(f32_of, of_f32, f32),
                    Ty::F64 => float!(f64_of, of_f64, f64),
                    Ty::F16 => float!(f16_of, of_f16, f32),
                    Ty::U32 | Ty::Bool => {
                        let u = |x: u64| x as u32;
                        match o {
                            Bin::Add => each!(|x, y| u64::from(u(x).wrapping_add(u(y)))),
                            Bin::Sub => each!(|x, y| u64::from(u(x).wrapping_sub(u(y)))),
                            Bin::Mul => each!(|x, y| u64::from(u(x).wrapping_mul(u(y)))),
                            Bin::Eq => each!(|x: u64, y: u64| u64::from(x == y)),
                            Bin::Ne => each!(|x: u64, y: u64| u64::from(x != y)),
                            Bin::Lt => each!(|x, y| u64::from(u(x) < u(y))),
                            Bin::Le => each!(|x, y| u64::from(u(x) <= u(y))),
                            Bin::Gt => each!(|x, y| u64::from(u(x) > u(y))),
                            Bin::Ge => each!(|x, y| u64::from(u(x) >= u(y))),
                            Bin::And => each!(|x: u64, y: u64| x & y),
                            Bin::Or => each!(|x: u64, y: u64| x | y),
                            Bin::Xor => each!(|x: u64, y: u64| x ^ y),
                            Bin::Shl => each!(|x, y| u64::from(u(x).wrapping_shl(u(y)))),
                            Bin::Shr => each!(|x, y| u64::from(u(x).wrapping_shr(u(y)))),
                            Bin::Min => each!(|x, y| u64::from(u(x).min(u(y)))),
                            Bin::Max => each!(|x, y| u64::from(u(x).max(u(y)))),
                            _ => unreachable!("{o:?} of u32"),
                        }
                    }
                    Ty::I32 => {
                        let i = |x: u64| x as u32 as i32;
                        let out = |x: i32| u64::from(x as u32);
                        match o {
                            Bin::Add => each!(|x, y| out(i(x).wrapping_add(i(y)))),
                            Bin::Sub => each!(|x, y| out(i(x).wrapping_sub(i(y)))),
                            Bin::Mul => each!(|x, y| out(i(x).wrapping_mul(i(y)))),
                            Bin::Eq => each!(|x: u64, y: u64| u64::from(x == y)),
                            Bin::Ne => each!(|x: u64, y: u64| u64::from(x != y)),
                            Bin::Lt => each!(|x, y| u64::from(i(x) < i(y))),
                            Bin::Le => each!(|x, y| u64::from(i(x) <= i(y))),
                            Bin::Gt => each!(|x, y| u64::from(i(x) > i(y))),
                            Bin::Ge => each!(|x, y| u64::from(i(x) >= i(y))),
                            Bin::And => each!(|x: u64, y: u64| x & y),
                            Bin::Or => each!(|x: u64, y: u64| x | y),
                            Bin::Xor => each!(|x: u64, y: u64| x ^ y),
                            Bin::Shl => each!(|x, y| out(i(x).wrapping_shl(y as u32))),
                            Bin::Shr => each!(|x, y| out(i(x).wrapping_shr(y as u32))),
                            Bin::Min => each!(|x, y| out(i(x).min(i(y)))),
                            Bin::Max => each!(|x, y| out(i(x).max(i(y)))),
                            _ => unreachable!("{o:?} of i32"),
                        }
                    }
                }
            }
            Op::Div { rem, t: ty, n, sa, sb, d, a, b, site } => {
                for i in 0..u32::from(n) {
                    let (x, y) = (g!(a + i * u32::from(sa)) as u32, g!(b + i * u32::from(sb)) as u32);
                    if y == 0 {
                        let group = mem.group;
                        mem.report(Kind::DivisionByZero, site, NONE, |_| format!("thread {t} of workgroup {group}: {x} by 0"));
                    }
                    let z = match (ty, rem) {
                        (_, false) if y == 0 => x,
                        (_, true) if y == 0 => 0,
                        (Ty::I32, false) => (x as i32).wrapping_div(y as i32) as u32,
                        (Ty::I32, true) => (x as i32).wrapping_rem(y as i32) as u32,
                        (_, false) => x / y,
                        (_, true) => x % y,
                    };
                    s!(d + i, z.into());
                }
            }
            Op::Un { o, t, n, d, a } => {
                macro_rules! each {
                    ($f:expr) => {{
                        let f = $f;
                        for i in 0..u32::from(n) {
                            s!(d + i, f(g!(a + i)));
                        }
                    }};
                }
                macro_rules! float {
                    ($from:expr, $to:expr) => {
                        match o {
                            Un::Neg => each!(|x| $to(-$from(x))),
                            Un::Abs => each!(|x| $to($from(x).abs())),
                            Un::Sqrt => each!(|x| $to($from(x).sqrt())),
                            Un::InverseSqrt => each!(|x| $to($from(x).sqrt().recip())),
                            Un::Floor => each!(|x| $to($from(x).floor())),
                            Un::Ceil => each!(|x| $to($from(x).ceil())),
                            Un::Round => each!(|x| $to($from(x).round_ties_even())),
                            Un::Trunc => each!(|x| $to($from(x).trunc())),
                            Un::Exp => each!(|x| $to($from(x).exp())),
                            Un::Exp2 => each!(|x| $to($from(x).exp2())),
                            Un::Log => each!(|x| $to($from(x).ln())),
                            Un::Log2 => each!(|x| $to($from(x).log2())),
                            Un::Sign => each!(|x| {
                                let y = $from(x);
                                if y == 0.0 { x } else { $to(y.signum()) }
                            }),
                            _ => unreachable!("{o:?} of floats"),
                        }
                    };
                }
                match (t, o) {
                    (_, Un::Not) => each!(|x: u64| x ^ 1),
                    (_, Un::BitNot) => each!(|x: u64| u64::from(!(x as u32))),
                    (Ty::F32, _) => float!(f32_of, of_f32),
                    (Ty::F64, _) => float!(f64_of, of_f64),
                    (Ty::F16, _) => float!(f16_of, of_f16),
                    (_, Un::Neg) => each!(|x: u64| u64::from((x as u32).wrapping_neg())),
                    (Ty::I32, Un::Abs) => each!(|x: u64| u64::from((x as u32 as i32).wrapping_abs() as u32)),
                    (Ty::I32, Un::Sign) => each!(|x: u64| u64::from((x as u32 as i32).signum() as u32)),
                    (_, Un::Abs) => each!(|x: u64| x),
                    (_, Un::CountOneBits) => each!(|x: u64| u64::from((x as u32).count_ones())),
                    (_, Un::CountLeadingZeros) => each!(|x: u64| u64::from((x as u32).leading_zeros())),
                    (_, Un::CountTrailingZeros) => each!(|x: u64| u64::from((x as u32).trailing_zeros())),
                    _ => unreachable!("{o:?} of {t:?}"),
                }
            }
            Op::Tri { o, t, n, sa, sb, sc, d, a, b, c } => {
                let (sa, sb, sc) = (u32::from(sa), u32::from(sb), u32::from(sc));
                macro_rules! each {
                    ($f:expr) => {{
                        let f = $f;
                        for i in 0..u32::from(n) {
                            s!(d + i, f(g!(a + i * sa), g!(b + i * sb), g!(c + i * sc)));
                        }
                    }};
                }
                match (o, t) {
                    (Tri::Select, _) => each!(|x: u64, y: u64, c: u64| if c != 0 { x } else { y }),
                    (Tri::Contracted, Ty::F32) => each!(|x, y, z| of_f32(f32_of(x).mul_add(f32_of(y), f32_of(z)))),
                    (Tri::Contracted, Ty::F64) => each!(|x, y, z| of_f64(f64_of(x).mul_add(f64_of(y), f64_of(z)))),
                    (Tri::Fma, Ty::F32) if mem.fused => each!(|x, y, z| of_f32(f32_of(x).mul_add(f32_of(y), f32_of(z)))),
                    (Tri::Fma, Ty::F32) => each!(|x, y, z| of_f32(f32_of(x) * f32_of(y) + f32_of(z))),
                    (Tri::Fma, Ty::F64) if mem.fused => each!(|x, y, z| of_f64(f64_of(x).mul_add(f64_of(y), f64_of(z)))),
                    (Tri::Fma, Ty::F64) => each!(|x, y, z| of_f64(f64_of(x) * f64_of(y) + f64_of(z))),
                    (Tri::Clamp, Ty::F32) => each!(|x, y, z| of_f32(f32_of(x).max(f32_of(y)).min(f32_of(z)))),
                    (Tri::Clamp, Ty::F64) => each!(|x, y, z| of_f64(f64_of(x).max(f64_of(y)).min(f64_of(z)))),
                    (Tri::Clamp, Ty::U32) => each!(|x: u64, y: u64, z: u64| x.max(y).min(z)),
                    (Tri::Clamp, Ty::I32) => {
                        let i = |x: u64| x as u32 as i32;
                        each!(|x, y, z| u64::from(i(x).max(i(y)).min(i(z)) as u32))
                    }
                    _ => unreachable!("{o:?} of {t:?}"),
                }
            }
            Op::Convert { from, to, n, d, a } => {
                for i in 0..u32::from(n) {
                    let x = g!(a + i);
                    let y = match (from, to) {
                        (Ty::F16, Ty::F32) => of_f32(f16_of(x)),
                        (Ty::F32, Ty::F16) => of_f16(f32_of(x)),
                        (Ty::F32, Ty::F64) => of_f64(f32_of(x).into()),
                        (Ty::F64, Ty::F32) => of_f32(f64_of(x) as f32),
                        (Ty::F16, Ty::F64) => of_f64(f16_of(x).into()),
                        (Ty::F64, Ty::F16) => f16::from_f64(f64_of(x)).to_bits().into(),
                        (Ty::Bool, Ty::U32 | Ty::I32) => x,
                        (Ty::U32, Ty::I32) | (Ty::I32, Ty::U32) => x,
                        (Ty::U32, Ty::F32) => of_f32(x as u32 as f32),
                        (Ty::I32, Ty::F32) => of_f32(x as u32 as i32 as f32),
                        (Ty::U32, Ty::F64) => of_f64((x as u32).into()),
                        (Ty::I32, Ty::F64) => of_f64((x as u32 as i32).into()),
                        (Ty::F32, Ty::U32) => u64::from(f32_of(x) as u32),
                        (Ty::F32, Ty::I32) => u64::from(f32_of(x) as i32 as u32),
                        (Ty::F64, Ty::U32) => u64::from(f64_of(x) as u32),
                        (Ty::F64, Ty::I32) => u64::from(f64_of(x) as i32 as u32),
                        (Ty::Bool, Ty::F32) => of_f32(x as f32),
                        (Ty::U32 | Ty::I32, Ty::Bool) => u64::from(x != 0),
                        _ => unreachable!("{from:?} to {to:?}"),
                    };
                    s!(d + i, y);
                }
            }
            Op::Any { d, a, n } => {
                let any = slice!(a, n).iter().any(|&x| x != 0);
                s!(d, any.into());
            }
            Op::All { d, a, n } => {
                let all = slice!(a, n).iter().all(|&x| x != 0);
                s!(d, all.into());
            }
            Op::Index { d, prev, index, stride, len, site } => {
                let i = g!(index) as u32;
                let before = if prev == NONE { 0 } else { g!(prev) };
                if i >= len {
                    let group = mem.group;
                    mem.report(Kind::OutOfBounds, site, NONE, |_| format!("thread {t} of workgroup {group}: index {i} of {len}"));
                    s!(d, INVALID);
                } else if before == INVALID {
                    s!(d, INVALID);
                } else {
                    s!(d, before + u64::from(i) * u64::from(stride));
                }
            }
            Op::IndexRt { d, prev, index, stride, bind, off, site } => {
                let i = g!(index) as u32;
                let before = if prev == NONE { 0 } else { g!(prev) };
                let len = mem.views[bind as usize].len.saturating_sub(off as usize) / stride as usize;
                if i as usize >= len {
                    let group = mem.group;
                    mem.report(Kind::OutOfBounds, site, NONE, |_| format!("thread {t} of workgroup {group}: index {i} of {len}"));
                    s!(d, INVALID);
                } else if before == INVALID {
                    s!(d, INVALID);
                } else {
                    s!(d, before + u64::from(i) * u64::from(stride));
                }
            }
            Op::Length { d, bind, off, stride } => {
                let len = mem.views[bind as usize].len.saturating_sub(off as usize) / stride as usize;
                s!(d, len as u64);
            }
            Op::LoadW { d, mem: m, w, n, at, off, site } => {
                hit!(site);
                let at = if at == NONE { 0 } else { g!(at) };
                if at == INVALID {
                    slice!(d, n).fill(0);
                } else {
                    let (off, bytes) = (at as usize + off as usize, usize::from(w) * usize::from(n));
                    mem.read_w(m.into(), off, bytes, t, site);
                    get(&mem.work[usize::from(m)].data[off..off + bytes], w, slice!(d, n));
                }
            }
            Op::StoreW { s, mem: m, w, n, at, off, site } => {
                hit!(site);
                let at = if at == NONE { 0 } else { g!(at) };
                if at != INVALID {
                    let (off, bytes) = (at as usize + off as usize, usize::from(w) * usize::from(n));
                    mem.write_w(m.into(), off, bytes, t, site);
                    put(&mut mem.work[usize::from(m)].data[off..off + bytes], w, slice!(s, n));
                }
            }
            Op::LoadS { d, mem: m, w, n, at, off, site } => {
                hit!(site);
                let at = if at == NONE { 0 } else { g!(at) };
                let bytes = usize::from(w) * usize::from(n);
                if at == INVALID || !mem.inside(m.into(), at + u64::from(off), bytes, t, site) {
                    slice!(d, n).fill(0);
                } else {
                    let off = at as usize + off as usize;
                    mem.read_s(m.into(), off, bytes, t, site);
                    let View { buffer, base, .. } = mem.views[usize::from(m)];
                    get(&mem.buffers[buffer].data[base + off..base + off + bytes], w, slice!(d, n));
                }
            }
            Op::StoreS { s, mem: m, w, n, at, off, site } => {
                hit!(site);
                let at = if at == NONE { 0 } else { g!(at) };
                let bytes = usize::from(w) * usize::from(n);
                if at != INVALID && mem.inside(m.into(), at + u64::from(off), bytes, t, site) {
                    let off = at as usize + off as usize;
                    mem.write_s(m.into(), off, bytes, t, site);
                    let View { buffer, base, .. } = mem.views[usize::from(m)];
                    put(&mut mem.buffers[buffer].data[base + off..base + off + bytes], w, slice!(s, n));
                }
            }
            Op::Touch { storage, mem: m, at, off, bytes, site } => {
                let at = if at == NONE { 0 } else { g!(at) };
                let (m, bytes) = (usize::from(m), bytes as usize);
                if at != INVALID && storage && mem.inside(m, at + u64::from(off), bytes, t, site) {
                    mem.write_s(m, at as usize + off as usize, bytes, t, site);
                } else if at != INVALID && !storage {
                    mem.write_w(m, at as usize + off as usize, bytes, t, site);
                }
            }
            Op::Atomic { a, site } => {
                hit!(site);
                mem.atomic(&program.atomics[a as usize], slice!(0, program.registers), t, site)
            }
            Op::Jmp { to } => pc = to as usize,
            Op::Back { to, site } => {
                *budget += 1;
                if *budget > BUDGET {
                    let group = mem.group;
                    mem.report(Kind::Runaway, site, NONE, |_| format!("thread {t} of workgroup {group}"));
                    return (Status::Done, pc);
                }
                pc = to as usize;
            }
            Op::Jz { c, to } => {
                if g!(c) == 0 {
                    pc = to as usize;
                }
            }
            Op::Jnz { c, to } => {
                if g!(c) != 0 {
                    pc = to as usize;
                }
            }
            Op::Jeq { c, imm, to } => {
                if g!(c) as u32 == imm {
                    pc = to as usize;
                }
            }
            Op::Zero { r, n } => slice!(r, n).fill(0),
            Op::Inc { r } => s!(r, g!(r) + 1),
            Op::Barrier { sync } | Op::Sub { sync } => {
                hit!(program.syncs[sync as usize].site);
                return (Status::Waits(sync), pc);
            }
            Op::End => return (Status::Done, pc),
        }
    }
}
