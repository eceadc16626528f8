//! The reflectors of bulge chasing, and their application to columns of a band, from either side.

use num_complex::Complex;
use pulp::Simd;

use super::{
    lanes::{Lane, Lanes},
    larfg::larfg,
};
use crate::scalar::{Element, Scalar};

/// I - tau v v^H, and i v where v is complex: with both, complex products are sums of real ones over (re, im, re, im, ..), in which no
/// register has to be shuffled.
pub(super) struct Reflector<T> {
    pub v: Vec<T>,
    iv: Vec<T>,
    len: usize,
    pub tau: f64,
}

impl<T: Scalar + Element<Real = f64>> Reflector<T> {
    pub fn with_capacity(len: usize) -> Self {
        Reflector { v: vec![T::zero_impl(); len], iv: vec![T::zero_impl(); len], len: 0, tau: 0.0 }
    }

    /// Turns the first `len` entries x of `v` into v of their reflector; returns the beta of H x = beta e_1.
    #[inline(always)]
    pub fn make(&mut self, len: usize) -> T {
        let Some((alpha, tail)) = self.v[..len].split_first_mut() else { return T::zero_impl() };
        let h = larfg(*alpha, tail);
        *alpha = T::one_impl();
        tail.iter_mut().for_each(|x| *x *= h.scale);
        if T::IS_COMPLEX {
            self.iv.iter_mut().zip(&self.v[..len]).for_each(|(iv, v)| *iv = times_i(*v));
        }
        (self.len, self.tau) = (len, h.tau);
        h.beta
    }

    /// v as the real numbers it consists of.
    fn reals(&self) -> &[f64] {
        bytemuck::cast_slice(&self.v[..self.len])
    }

    /// The same of i v.
    fn reals_of_i_times(&self) -> &[f64] {
        bytemuck::cast_slice(&self.iv[..self.len])
    }
}

/// i x.
#[inline(always)]
fn times_i<T: Scalar>(x: T) -> T {
    let x = x.to_complex();
    T::from_complex(Complex::new(-x.im, x.re))
}

/// Real numbers in one element.
const fn parts<T: Scalar>() -> usize {
    if T::IS_COMPLEX { 2 } else { 1 }
}

/// X <- X - tau (X conj(v)) v^T for X (`rows` x `v.len()`), whose column k starts at `x + k * next`.
///
/// # Safety
/// X is valid for reads and writes, and nobody else uses it meanwhile.
#[inline(always)]
pub(super) unsafe fn apply_right<T: Scalar + Element<Real = f64>, S: Simd>(
    lanes: Lanes<f64, S>,
    x: *mut T,
    next: usize,
    rows: usize,
    v: &Reflector<T>,
) {
    let n = Lanes::<f64, S>::N;
    let (x, next, rows) = (x.cast::<f64>(), next * parts::<T>(), rows * parts::<T>());
    let mut i = 0;
    // SAFETY: each call covers the real numbers i .. i + 4n (or what is left) of X's columns.
    unsafe {
        while i < rows {
            let left = rows - i;
            match left.div_ceil(n) {
                1 => right_rows::<T, S, 1>(lanes, x.add(i), next, left, v),
                2 => right_rows::<T, S, 2>(lanes, x.add(i), next, left, v),
                3 => right_rows::<T, S, 3>(lanes, x.add(i), next, left, v),
                _ => right_rows::<T, S, 4>(lanes, x.add(i), next, left, v),
            }
            i += 4 * n;
        }
    }
}

/// [`apply_right`] on the first `K` registers of real numbers in a column, of which `rows` are inside X.
///
/// # Safety
/// As for [`apply_right`].
#[inline(always)]
unsafe fn right_rows<T: Scalar + Element<Real = f64>, S: Simd, const K: usize>(
    lanes: Lanes<f64, S>,
    x: *mut f64,
    next: usize,
    rows: usize,
    v: &Reflector<T>,
) {
    let n = Lanes::<f64, S>::N;
    let mask = lanes.first((rows - (K - 1) * n).min(n));
    let parts = parts::<T>();
    // SAFETY: registers 0 .. K - 1 are full, the last is masked to the rows inside X.
    unsafe {
        let load = |column: *const f64| -> [Lane<f64, S>; K] {
            std::array::from_fn(|r| {
                if r < K - 1 { lanes.load(column.add(r * n)) } else { lanes.load_masked(mask, column.add(r * n)) }
            })
        };
        // w = X Re(v), and wi = X Im(v).
        let (mut w, mut wi) = ([lanes.zero(); K], [lanes.zero(); K]);
        for (k, v) in v.reals().chunks_exact(parts).enumerate() {
            let column = load(x.add(k * next));
            let re = lanes.splat(v[0]);
            for r in 0..K {
                w[r] = lanes.mul_add(re, column[r], w[r]);
            }
            if T::IS_COMPLEX {
                let im = lanes.splat(v[1]);
                for r in 0..K {
                    wi[r] = lanes.mul_add(im, column[r], wi[r]);
                }
            }
        }
        if T::IS_COMPLEX {
            // w <- w - i wi, and wi <- i w.
            let (w, wi): (&mut [T], &mut [T]) = (lanes.elements(&mut w), lanes.elements(&mut wi));
            for (w, wi) in w.iter_mut().zip(wi) {
                *w -= times_i(*wi);
                *wi = times_i(*w);
            }
        }
        let tau = lanes.splat(-v.tau);
        w.iter_mut().chain(&mut wi).for_each(|w| *w = lanes.mul(tau, *w));
        for (k, v) in v.reals().chunks_exact(parts).enumerate() {
            let at = x.add(k * next);
            let mut column = load(at);
            let re = lanes.splat(v[0]);
            for r in 0..K {
                column[r] = lanes.mul_add(w[r], re, column[r]);
            }
            if T::IS_COMPLEX {
                let im = lanes.splat(v[1]);
                for r in 0..K {
                    column[r] = lanes.mul_add(wi[r], im, column[r]);
                }
            }
            for (r, &piece) in column[..K - 1].iter().enumerate() {
                lanes.store(at.add(r * n), piece);
            }
            lanes.store_masked(mask, at.add((K - 1) * n), column[K - 1]);
        }
    }
}

/// X <- X - tau v (v^H X) for X (`v.len()` x `cols`), whose column k starts at `x + k * next`.
///
/// # Safety
/// X is valid for reads and writes, and nobody else uses it meanwhile.
#[inline(always)]
pub(super) unsafe fn apply_left<T: Scalar + Element<Real = f64>, S: Simd>(
    lanes: Lanes<f64, S>,
    x: *mut T,
    next: usize,
    cols: usize,
    v: &Reflector<T>,
) {
    let (x, next) = (x.cast::<f64>(), next * parts::<T>());
    // SAFETY: passed on.
    unsafe {
        match v.reals().len().div_ceil(Lanes::<f64, S>::N) {
            1 => left_columns::<T, S, 1>(lanes, x, next, cols, v),
            2 => left_columns::<T, S, 2>(lanes, x, next, cols, v),
            3 => left_columns::<T, S, 3>(lanes, x, next, cols, v),
            4 => left_columns::<T, S, 4>(lanes, x, next, cols, v),
            5 => left_columns::<T, S, 5>(lanes, x, next, cols, v),
            6 => left_columns::<T, S, 6>(lanes, x, next, cols, v),
            7 => left_columns::<T, S, 7>(lanes, x, next, cols, v),
            8 => left_columns::<T, S, 8>(lanes, x, next, cols, v),
            9 => left_columns::<T, S, 9>(lanes, x, next, cols, v),
            10 => left_columns::<T, S, 10>(lanes, x, next, cols, v),
            11 => left_columns::<T, S, 11>(lanes, x, next, cols, v),
            12 => left_columns::<T, S, 12>(lanes, x, next, cols, v),
            _ => {
                let (re, im) = (v.reals(), v.reals_of_i_times());
                for k in 0..cols {
                    let column = std::slice::from_raw_parts_mut(x.add(k * next), re.len());
                    let (w, wi) = (lanes.dot(re, column), if T::IS_COMPLEX { lanes.dot(im, column) } else { 0.0 });
                    lanes.axpy(-v.tau * w, re, column);
                    if T::IS_COMPLEX {
                        lanes.axpy(-v.tau * wi, im, column);
                    }
                }
            }
        }
    }
}

/// [`apply_left`] with v, i v and a column of X in `K` registers each.
///
/// # Safety
/// As for [`apply_left`].
#[inline(always)]
unsafe fn left_columns<T: Scalar + Element<Real = f64>, S: Simd, const K: usize>(
    lanes: Lanes<f64, S>,
    x: *mut f64,
    next: usize,
    cols: usize,
    v: &Reflector<T>,
) {
    let n = Lanes::<f64, S>::N;
    let mask = lanes.first(v.reals().len() - (K - 1) * n);
    // SAFETY: registers 0 .. K - 1 are full, the last is masked to v's length.
    unsafe {
        let load =
            |from: *const f64| -> [Lane<f64, S>; K] {
                std::array::from_fn(|r| {
                    if r < K - 1 { lanes.load(from.add(r * n)) } else { lanes.load_masked(mask, from.add(r * n)) }
                })
            };
        let re = load(v.reals().as_ptr());
        let im = if T::IS_COMPLEX { load(v.reals_of_i_times().as_ptr()) } else { [lanes.zero(); K] };
        for k in 0..cols {
            let at = x.add(k * next);
            let mut column = load(at);
            // Re and Im of v^H x.
            let (mut w, mut wi) = (lanes.zero(), lanes.zero());
            for r in 0..K {
                w = lanes.mul_add(re[r], column[r], w);
            }
            if T::IS_COMPLEX {
                for r in 0..K {
                    wi = lanes.mul_add(im[r], column[r], wi);
                }
            }
            let w = lanes.splat(-v.tau * lanes.sum(w));
            for r in 0..K {
                column[r] = lanes.mul_add(re[r], w, column[r]);
            }
            if T::IS_COMPLEX {
                let wi = lanes.splat(-v.tau * lanes.sum(wi));
                for r in 0..K {
                    column[r] = lanes.mul_add(im[r], wi, column[r]);
                }
            }
            for (r, &piece) in column[..K - 1].iter().enumerate() {
                lanes.store(at.add(r * n), piece);
            }
            lanes.store_masked(mask, at.add((K - 1) * n), column[K - 1]);
        }
    }
}
