//! The products of `update_line`: the last column of a panel is completed, and a new one is computed from it, in one pass over
//! the panel.

use std::ops::Range;

use faer::traits::{ComplexField, SimdArch};
use pulp::{Simd, WithSimd};

use crate::{
    base::{
        number::{Re, Scalar},
        parallel::each,
    },
    cpu::{one_stage::Panel, simd::lanes::Lanes},
};

/// Rows of a task. Its part of a panel fits in L2.
const TASK_ROWS: usize = 512;
/// Entries that one thread reads in about the time that waking another takes.
const SERIAL: usize = 1 << 17;

/// In `rows` of `panel`, with the columns p_0, p_1, ..:  y <- tau (y - sum_c z_c p_c), x <- x - sum_c pivot_c p_c - y, where y is
/// column `done` - 1, x is column `done`, and the sums are over the columns before y.
pub(super) fn update<T: Scalar>(panel: &mut Panel<T>, rows: Range<usize>, done: usize, z: &[T], pivots: &[T], tau: Re<T>) {
    let ld = panel.ld;
    let (before, rest) = panel.entries.split_at_mut((done - 1) * ld);
    let (y, x) = rest.split_at_mut(ld);
    let (y, x) = (&mut y[rows.clone()], &mut x[rows.clone()]);
    let before = &*before;
    let task = |k: usize, y: &mut [T], x: &mut [T]| {
        let first = rows.start + k * TASK_ROWS;
        <T as ComplexField>::Arch::default().dispatch(Update { before, ld, first, z, pivots, tau, y, x });
    };
    if rows.len() * done < SERIAL {
        y.chunks_mut(TASK_ROWS).zip(x.chunks_mut(TASK_ROWS)).enumerate().for_each(|(k, (y, x))| task(k, y, x));
    } else {
        each(y.chunks_mut(TASK_ROWS).zip(x.chunks_mut(TASK_ROWS)).enumerate(), |(k, (y, x))| task(k, y, x));
    }
}

struct Update<'a, T: Scalar> {
    before: &'a [T],
    ld: usize,
    first: usize,
    z: &'a [T],
    pivots: &'a [T],
    tau: Re<T>,
    y: &'a mut [T],
    x: &'a mut [T],
}

impl<T: Scalar> WithSimd for Update<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let lanes = Lanes::<T, S>::new(simd);
        let (step, rows) = (Lanes::<T, S>::N, self.y.len().min(self.x.len()));
        assert!(self.z.len() == self.pivots.len() && self.z.len() * self.ld <= self.before.len() && self.first + rows <= self.ld);
        let mut i = 0;
        while i + step <= rows {
            self.register(lanes, i);
            i += step;
        }
        for i in i..rows {
            for (c, (&z, &pivot)) in self.z.iter().zip(self.pivots).enumerate() {
                let p = self.before[c * self.ld + self.first + i];
                self.y[i] -= z * p;
                self.x[i] -= pivot * p;
            }
            self.y[i] = self.y[i].times(self.tau);
            self.x[i] -= self.y[i];
        }
    }
}

impl<T: Scalar> Update<'_, T> {
    /// A register of rows from `i` on, which are rows of the task.
    #[inline(always)]
    fn register<S: Simd>(&mut self, lanes: Lanes<T, S>, i: usize) {
        let step = Lanes::<T, S>::N;
        let (to_y, to_x) = (self.y[i..][..step].as_mut_ptr(), self.x[i..][..step].as_mut_ptr());
        // SAFETY: y and x have a register from i on. Rows first + i to first + i + N are within the task's rows, and so within each of the columns of
        // `before`, one for each z (asserted in `with_simd`).
        unsafe {
            let (mut y, mut x) = (lanes.load(to_y), lanes.load(to_x));
            for (c, (&z, &pivot)) in self.z.iter().zip(self.pivots).enumerate() {
                let p = lanes.load(self.before.as_ptr().add(c * self.ld + self.first + i));
                y = lanes.mul_add(lanes.splat(-z), p, y);
                x = lanes.mul_add(lanes.splat(-pivot), p, x);
            }
            let product = lanes.mul(lanes.splat(T::from_real_impl(&self.tau)), y);
            lanes.store(to_y, product);
            lanes.store(to_x, lanes.mul_add(lanes.splat(-T::one_impl()), product, x));
        }
    }
}
