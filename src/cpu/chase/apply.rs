//! Storage of the reflectors of bulge chasing, and their application to any matrix. Twin: `shaders/apply_chase.wgsl`.
//!
//! Both reflectors of cycle i of sweep R act on indices c0 ..= c1, where c0 > R. The ranges of one sweep are disjoint. So the reflectors of
//! a whole reduction step fit in one n x n array: v of the left reflector in column R below the diagonal, v of the right one in row R right
//! of the diagonal. tau replaces the first entry of v, which is 1.

use faer::{
    MatMut,
    traits::{ComplexField, SimdArch},
};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::{
    base::{
        blas::{Op, Side},
        error::{Result, SvdError},
        number::{Number, Scalar},
    },
    cpu::{
        chase::reflector::Reflector,
        simd::{
            aligned::{Aligned, zeros},
            lanes::Lanes,
        },
    },
    tile::chase_schedule::ReductionStep,
};

/// Columns of C in a task. The reflectors are read once for all of them.
const COLUMNS: usize = 16;

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
    fn read(&self, side: Side, sweep: usize, c0: usize, conjugate: bool, v: &mut [Wide<B>]) -> f64 {
        let n = self.step.n;
        let (first, stride) = match side {
            Side::Left => (c0 + sweep * n, 1),
            Side::Right => (sweep + c0 * n, n),
        };
        let conj = |x: Wide<B>| if conjugate { Wide::<B>::conj_impl(&x) } else { x };
        v.iter_mut().zip(self.entries[first..].iter().step_by(stride)).for_each(|(v, &x)| *v = conj(x));
        std::mem::replace(&mut v[0], Wide::<B>::one_impl()).to_complex().re
    }

    /// C <- op(Q) C or C <- op(P) C. Q is the product of the left reflectors in the order of their generation, and P that of the conjugates
    /// of the right ones. `c` has n rows.
    pub fn apply<S: Number>(&self, c: MatMut<'_, S>, side: Side, op: Op) {
        let conjugate = (side == Side::Right) != (op == Op::Trans);
        let (mut chunks, mut rest) = (Vec::new(), c);
        while rest.ncols() > 0 {
            let (chunk, others) = {
                let cols = COLUMNS.min(rest.ncols());
                rest.split_at_col_mut(cols)
            };
            chunks.push(chunk);
            rest = others;
        }
        let n = self.step.n;
        chunks.into_par_iter().for_each_init(Vec::new, |work: &mut Vec<Wide<B>>, mut chunk| {
            work.resize(n * chunk.ncols(), Wide::<B>::zero_impl());
            for (j, column) in work.chunks_exact_mut(n).enumerate() {
                column.iter_mut().enumerate().for_each(|(i, x)| *x = Wide::<B>::from_complex(chunk[(i, j)].to_complex()));
            }
            <Wide<B> as ComplexField>::Arch::default().dispatch(Apply {
                of: self,
                columns: work,
                side,
                conjugate,
                forward: op != Op::NoTrans,
            });
            for (j, column) in work.chunks_exact(n).enumerate() {
                column.iter().enumerate().for_each(|(i, &x)| chunk[(i, j)] = S::from_complex(x.to_complex()));
            }
        });
    }
}

impl<T: Scalar + Number<Real = f64>> Keep<T> for Places<T> {
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

/// The application of a step's reflectors to columns of C in double precision, n entries each.
struct Apply<'a, B: Number> {
    of: &'a ChaseReflectors<B>,
    columns: &'a mut [Wide<B>],
    side: Side,
    conjugate: bool,
    /// Whether reflectors are applied in the order of their generation.
    forward: bool,
}

impl<B: Number> WithSimd for Apply<'_, B> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Apply { of, columns, side, conjugate, forward } = self;
        let (lanes, step) = (Lanes::<Wide<B>, S>::new(simd), of.step);
        let mut v = vec![Wide::<B>::zero_impl(); step.tile_width + 1];
        for k in 0..step.sweeps() {
            let sweep = if forward { k } else { step.sweeps() - 1 - k };
            // Reflectors of one sweep are disjoint, so they commute.
            for at in (0..step.cycles(sweep)).map(|i| step.cycle(sweep, i)) {
                let v = &mut v[..at.c1 - at.c0 + 1];
                let tau = of.read(side, sweep, at.c0, conjugate, v);
                if tau == 0.0 {
                    continue;
                }
                for column in columns.chunks_exact_mut(step.n) {
                    let x = &mut column[at.c0..=at.c1];
                    let w = lanes.dot(v, x).times(tau);
                    lanes.axpy(-w, v, x);
                }
            }
        }
    }
}
