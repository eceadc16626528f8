//! Storage of the reflectors of bulge chasing, and their application to any matrix. Twin: `shaders/apply_chase.wgsl`.
//!
//! Both reflectors of cycle i of sweep R act on indices c0 ..= c1, where c0 > R. The ranges of one sweep are disjoint. So the reflectors of
//! a whole reduction step fit in one n x n array: v of the left reflector in column R below the diagonal, v of the right one in row R right
//! of the diagonal. tau replaces the first entry of v, which is 1.

use faer::{
    Mat, MatMut,
    prelude::{Reborrow, ReborrowMut},
    traits::ComplexField,
};
use rayon::prelude::*;

use crate::{
    base::{
        blas::{Op, Side},
        error::{Result, SvdError},
        number::{Number, Re, RealElement, Scalar},
        view::map_into,
    },
    cpu::{
        chase::reflector::Reflector,
        kernels::leading_dimension,
        simd::aligned::{Aligned, zeros},
        vectors::compact_wy::{CompactWy, tau_of},
    },
    tile::chase_schedule::ReductionStep,
};

/// Columns of C in a task. A task reads all reflectors; while it does, the rows of its columns that are in use stay in L2.
const COLUMNS: usize = 128;
/// Sweeps whose reflectors are applied as one product. More sweeps make larger products, and more flops on the zeros of V.
const SWEEPS: usize = 16;

/// The type of the reflectors of a band stored as `B`.
type Wide<B> = <<B as Number>::Scalar as Scalar>::Wide;

/// The reflectors of one reduction step.
pub(crate) struct ChaseReflectors<B: Number> {
    step: ReductionStep,
    /// n x n, column-major.
    entries: Aligned<Wide<B>>,
}

/// Where the threads of a step store reflectors: in [`Places`], or, with `()`, nowhere. A type, so that calls which keep nothing run no code
/// for it (it would take 6% of stage 2).
pub(crate) trait Keep<T>: Copy + Send + Sync {
    /// Stores the reflector of one side of the cycle of `sweep` that begins at index `c0`.
    ///
    /// # Safety
    /// The cycle is one of this step, and nobody else uses its entries during the call.
    unsafe fn keep(self, side: Side, sweep: usize, c0: usize, h: &Reflector<T>);
}

impl<T> Keep<T> for () {
    // SAFETY: it touches no memory.
    #[inline(always)]
    unsafe fn keep(self, _: Side, _: usize, _: usize, _: &Reflector<T>) {}
}

/// A shared pointer to the reflectors of a step, for threads that store those of different cycles.
#[derive(Clone, Copy)]
pub(crate) struct Places<T> {
    at: *mut T,
    n: usize,
}

// SAFETY: `at` is used by `keep` alone, whose callers have the entries that it writes to themselves.
unsafe impl<T: Send> Send for Places<T> {}
// SAFETY: likewise.
unsafe impl<T: Send> Sync for Places<T> {}

impl<B: Number> ChaseReflectors<B> {
    /// Storage for the reflectors of `step`, initially all H = I.
    pub fn new(step: &ReductionStep) -> Result<Self> {
        let len =
            step.n.checked_mul(step.n).ok_or_else(|| SvdError::invalid("matrix", "its size overflows the address space"))?;
        Ok(ChaseReflectors { step: *step, entries: zeros("reflectors of stage 2", len)? })
    }

    pub fn step(&self) -> ReductionStep {
        self.step
    }

    pub fn places(&mut self) -> Places<Wide<B>> {
        Places { at: self.entries.as_mut_ptr(), n: self.step.n }
    }

    /// Copies the reflector of a cycle to `v`, conjugated if `conjugate`, with first entry 1. Returns tau.
    fn read<T: Scalar>(&self, side: Side, sweep: usize, c0: usize, conjugate: bool, v: &mut [T]) -> f64 {
        let n = self.step.n;
        let (first, stride) = match side {
            Side::Left => (c0 + sweep * n, 1),
            Side::Right => (sweep + c0 * n, n),
        };
        let conj = |x: Wide<B>| if conjugate { Wide::<B>::conj_impl(&x) } else { x };
        v.iter_mut()
            .zip(self.entries[first..].iter().step_by(stride))
            .for_each(|(v, &x)| *v = T::from_complex(conj(x).to_complex()));
        v[0] = T::one_impl();
        if self.entries[first].to_complex().re == 0.0 { 0.0 } else { tau_of(v) }
    }

    /// C <- op(Q) C or C <- op(P) C. Q is the product of the left reflectors in the order of their generation, and P that of the conjugates
    /// of the right ones. `c` has n rows. The arithmetic is that of `S`.
    ///
    /// The reflectors of cycle i of [`SWEEPS`] consecutive sweeps form a diamond. Their first rows are consecutive too, so V has few zeros.
    /// Diamond (g, i) comes after (g + 1, i), (g + 1, i - 1) and (g, i - 1), or before them for the adjoint. For one i after the other and all
    /// g from the last to the first, the rows in use move up by [`SWEEPS`] from diamond to diamond.
    pub fn apply<S: Number>(&self, c: MatMut<'_, S>, side: Side, op: Op) {
        let conjugate = (side == Side::Right) != (op == Op::Trans);
        let (n, forward) = (self.step.n, op != Op::NoTrans);
        let (mut chunks, mut rest) = (Vec::new(), c);
        while rest.ncols() > 0 {
            let cols = COLUMNS.min(rest.ncols());
            let (chunk, others) = rest.split_at_col_mut(cols);
            chunks.push(chunk);
            rest = others;
        }
        let room = || {
            let rows = (self.step.tile_width + SWEEPS).min(n);
            let columns = Mat::<S::Scalar>::zeros(leading_dimension::<S::Scalar>(n).unwrap_or(n), COLUMNS);
            (columns, CompactWy::new(rows, SWEEPS, COLUMNS))
        };
        chunks.into_par_iter().for_each_init(room, |(columns, diamond), mut chunk| {
            let mut x = columns.as_mut().get_mut(..n, ..chunk.ncols());
            map_into(chunk.rb(), x.rb_mut(), |x| x);
            let (groups, cycles) = (self.step.sweeps().div_ceil(SWEEPS), self.step.cycles(0));
            for k in 0..groups * cycles {
                let (i, g) = (k / groups, k % groups);
                let (i, g) = if forward { (cycles - 1 - i, g) } else { (i, groups - 1 - g) };
                if let Some(first) = self.set_diamond(diamond, side, conjugate, g, i) {
                    let rows = diamond.rows();
                    diamond.apply(x.rb_mut().subrows_mut(first, rows), forward);
                }
            }
            for j in 0..x.ncols() {
                chunk.rb_mut().col_mut(j).iter_mut().zip(x.rb().col(j).iter()).for_each(|(c, &x)| *c = S::narrow(x));
            }
        });
    }

    /// Sets `diamond` to the product of the reflectors of cycle `i` of group `g` of sweeps. Returns its first row, or None if there are none.
    fn set_diamond<T: Scalar>(
        &self,
        diamond: &mut CompactWy<T>,
        side: Side,
        conjugate: bool,
        g: usize,
        i: usize,
    ) -> Option<usize> {
        let (step, first) = (&self.step, g * SWEEPS);
        // Later sweeps have no more cycles than earlier ones.
        let sweeps = (first..step.sweeps().min(first + SWEEPS)).take_while(|&sweep| i < step.cycles(sweep)).count();
        let (begin, last) = (step.cycle(first, i).c0, step.cycle(first + sweeps.checked_sub(1)?, i).c1);
        diamond.set(last + 1 - begin, sweeps, |j, v| {
            let at = step.cycle(first + j, i);
            let tau = self.read(side, first + j, at.c0, conjugate, &mut v[at.c0 - begin..=at.c1 - begin]);
            Re::<T>::from_double(tau)
        });
        Some(begin)
    }
}

impl<T: Scalar + Number<Real = f64>> Keep<T> for Places<T> {
    // SAFETY: by the trait's contract the cycle is one of the step that the n x n array is for, so its entries are inside, and nobody else
    // uses them.
    #[inline(always)]
    unsafe fn keep(self, side: Side, sweep: usize, c0: usize, h: &Reflector<T>) {
        let (first, stride) = match side {
            Side::Left => (c0 + sweep * self.n, 1),
            Side::Right => (sweep + c0 * self.n, self.n),
        };
        for (k, &v) in h.v().iter().enumerate() {
            // SAFETY: rows c0 .. c0 + len of column `sweep`, or the same columns of that row, are inside the array.
            unsafe { *self.at.add(first + k * stride) = if k == 0 { T::from_real_impl(&h.tau) } else { v } };
        }
    }
}
