//! Shifts for the dqds algorithm: estimates, mostly from below, of the smallest eigenvalue of
//! `B^T B`.
//!
//! `B` is given by the squares `q_1..q_n` of its diagonal and `e_1..e_{n-1}` of its
//! superdiagonal. Elimination from the top and from the bottom to row `k` gives the twisted
//! factorisation of `B^T B`, whose middle pivot is
//!
//! ```text
//! gamma_k = 1 / ((B^T B)^{-1})_{kk} = r_k,   r_n = q_n,   r_i = q_i r_{i+1} / (r_{i+1} + e_i),
//! ```
//!
//! and the vector `z` with `z_k = 1` and `B^T B z = gamma_k e_k`, whose other entries are ratios
//! of the factors (Dhillon & Parlett, Linear Algebra Appl. 387, 2004). With `D = |z|^2`, the
//! Rayleigh quotient and the residual of `z` are
//!
//! ```text
//! rho = gamma_k / D,    |B^T B z - rho z|^2 / |z|^2 = rho^2 (D - 1),
//! ```
//!
//! so that `rho` is an upper bound of the smallest eigenvalue, and `rho (1 - sqrt(D - 1))` a lower
//! bound if that eigenvalue is the nearest to `rho`. Cheap estimates from a few rows are
//! the idea of Parlett & Marques (Linear Algebra Appl. 309, 2000). In place of their case
//! distinctions, Newton's method runs on those rows: it costs little compared with a
//! sweep over all rows, and often the next sweep deflates at once.

/// The maximum number of rows on each side of `k` in an estimate.
const WINDOW: usize = 64;

/// The number of rows on each side of a likely one among which the best is searched.
const RADIUS: usize = 12;

/// Terms of `D` below this fraction of it are dropped.
const NEGLIGIBLE: f64 = 1e-4;

/// The square of the vector's entry, relative to that at `k`, at which the window may end. The
/// estimate ignores the shift, hence the margin.
const NEGLIGIBLE_REACH: f64 = 1e-26;

/// The largest square of the vector's entry at the end of the window, relative to that at `k`,
/// for which the result of Newton's method is used.
const MAX_REACH: f64 = 0.25;

/// The maximum number of Newton steps; they converge quadratically.
const NEWTON_STEPS: usize = 8;

/// The Rayleigh quotient of a twisted factorisation's vector.
#[derive(Clone, Copy, Debug)]
struct Rayleigh {
    /// The row `k` of the twist.
    row: usize,
    /// The quotient `rho`.
    quotient: f64,
    /// `D - 1`, the square of the tangent of the angle between `z` and `e_k`.
    spread: f64,
}

/// A function value with its derivative with respect to the shift.
#[derive(Clone, Copy)]
struct Dual {
    value: f64,
    slope: f64,
    /// The square of the vector's entry at the far end, relative to that at row `k`.
    reach: f64,
}

/// The next shift, slightly below the smallest eigenvalue of
/// `B B^T + t e_n e_n^T`, where `t` is the `tail`. `row` is a row near which its eigenvector may
/// be large, if known; the last rows are always tried. `boldness` is the fraction of a
/// Rayleigh quotient to return if nothing better is available.
pub(super) fn choose(q: &[f64], e: &[f64], tail: f64, row: Option<usize>, boldness: f64) -> f64 {
    let last = q.len() - 1;
    let bottom = best_rayleigh(q, e, last.saturating_sub(2 * RADIUS), last);
    let row = row.unwrap_or_else(|| likely_row(q, e)).min(last);
    let (low, high) = (row.saturating_sub(RADIUS), row + RADIUS);
    let inner = if high < last { best_rayleigh(q, e, low, high) } else { bottom };
    let best = if inner.quotient < bottom.quotient { inner } else { bottom };
    polish(q, e, tail, best).unwrap_or_else(|| {
        let bound = best.quotient * (1.0 - best.spread.sqrt());
        bound.max(boldness * best.quotient)
    })
}

/// Newton's method for the zero of `gamma_k` as a function of the shift, started at the Rayleigh
/// quotient, on the rows where the eigenvector is not negligible in double precision.
///
/// With a shift, `gamma_k = s_k + r_k + tau`, where `q_i + s_i` and `r_{i+1} + e_i` are the pivots
/// of `B^T B - tau` from the top and from the bottom,
///
/// ```text
/// s_1 = -tau,        s_{i+1} = e_i s_i / (q_i + s_i) - tau,
/// r_n = q_n - tau,   r_i = q_i r_{i+1} / (r_{i+1} + e_i) - tau.
/// ```
///
/// While the other pivots are positive, `gamma_k` is concave and decreasing, with the slope `-D`
/// at 0. So the Rayleigh quotient is the first iterate, and the following ones decrease
/// to the zero. A tail `t` acts like one more row, with `e_n = t` and `q_{n+1} = 0`.
fn polish(q: &[f64], e: &[f64], tail: f64, start: Rayleigh) -> Option<f64> {
    let (k, last) = (start.row, q.len() - 1);
    let mut first = k;
    let mut reach = 1.0;
    while first > 0 && k - first < WINDOW && reach > NEGLIGIBLE_REACH {
        first -= 1;
        reach *= e[first] / q[first];
    }
    let mut end = k;
    let mut reach = 1.0;
    while end < last && end - k < WINDOW && reach > NEGLIGIBLE_REACH {
        reach *= e[end] / q[end + 1] * (q[end] / q[end + 1]).min(1.0);
        end += 1;
    }
    if start.quotient == 0.0 {
        return None;
    }
    let spread = 1.0 + above(q, e, first);
    let tail = if end == last { tail } else { 0.0 };
    let mut tau = start.quotient + if k == last { tail } else { 0.0 };
    let mut uncertainty = 0.0;
    for _ in 0..NEWTON_STEPS {
        let s = from_top(&q[first..k], &e[first..k], tau, spread)?;
        let r = from_bottom(&q[k..=end], &e[k..end], tau, tail)?;
        let step = (s.value + r.value + tau) / (s.slope + r.slope + 1.0);
        tau -= step;
        uncertainty = if first > 0 { s.reach } else { 0.0 } + if end < last { r.reach } else { 0.0 };
        if step.abs() <= 1e-10 * tau {
            break;
        }
    }
    let shift = tau * (1.0 - 4.0 * f64::EPSILON - uncertainty);
    (tau > 0.0 && uncertainty < MAX_REACH).then_some(shift)
}

/// The `s` below the given rows, from its tangent at `tau = 0` in the first of them.
fn from_top(q: &[f64], e: &[f64], tau: f64, spread: f64) -> Option<Dual> {
    let (mut value, mut slope, mut reach) = (-tau * spread, -spread, 1.0);
    for (q, e) in q.iter().zip(e) {
        let pivot = q + value;
        if pivot <= 0.0 {
            return None;
        }
        let ratio = e / pivot;
        value = value * ratio - tau;
        let decay = ratio * (q / pivot);
        reach *= decay;
        slope = slope * decay - 1.0;
    }
    Some(Dual { value, slope, reach })
}

/// The `r` of the first of the given rows.
fn from_bottom(q: &[f64], e: &[f64], tau: f64, tail: f64) -> Option<Dual> {
    let last = q.len() - 1;
    if tau <= tail {
        return None;
    }
    let ratio = tail / (tau - tail);
    let mut value = q[last] * (1.0 + ratio) - tau;
    let mut slope = -q[last] * ratio / (tau - tail) - 1.0;
    let mut reach = 1.0;
    for (q, e) in q[..last].iter().zip(e).rev() {
        let pivot = value + e;
        if pivot <= 0.0 {
            return None;
        }
        let ratio = q / pivot;
        value = value * ratio - tau;
        let decay = ratio * (e / pivot);
        reach *= decay;
        slope = slope * decay - 1.0;
    }
    Some(Dual { value, slope, reach })
}

/// The smallest of the Rayleigh quotients for the rows from `low` to `high`, ignoring all other
/// rows; at most `2 RADIUS + 1` rows.
fn best_rayleigh(q: &[f64], e: &[f64], low: usize, high: usize) -> Rayleigh {
    // For each row, the pivot gamma_k and the part of D that comes from the rows below.
    let mut below = [(q[high], 0.0); 2 * RADIUS + 1];
    for k in (low..high).rev() {
        let (r, sum) = below[k + 1 - low];
        let p = r + e[k];
        // The square of z_{i+1} / z_i is q_i e_i / p_{i+1}^2.
        below[k - low] = (q[k] * (r / p), (1.0 + sum) * (q[k] / p) * (e[k] / p));
    }
    let mut best = Rayleigh { row: high, quotient: f64::INFINITY, spread: 0.0 };
    let mut above = 0.0;
    for (k, (r, sum)) in (low..=high).zip(below) {
        let spread = above + sum;
        let quotient = r / (1.0 + spread);
        if quotient < best.quotient {
            best = Rayleigh { row: k, quotient, spread };
        }
        above = if k < high { (1.0 + above) * (e[k] / q[k]) } else { 0.0 };
    }
    if best.quotient.is_finite() { best } else { Rayleigh { row: high, quotient: 0.0, spread: 0.0 } }
}

/// The part of `D` for row `k` that comes from the rows above.
fn above(q: &[f64], e: &[f64], k: usize) -> f64 {
    let (mut sum, mut term) = (0.0, 1.0);
    for (q, e) in q[..k].iter().zip(&e[..k]).rev().take(WINDOW) {
        term *= e / q;
        sum += term;
        if term < NEGLIGIBLE * sum {
            break;
        }
    }
    sum
}

/// The row with the smallest estimate of the Rayleigh quotient from its adjacent rows alone.
fn likely_row(q: &[f64], e: &[f64]) -> usize {
    let mut best = (q.len() - 1, f64::INFINITY);
    let mut before = 0.0;
    for (row, (q, e)) in q.windows(2).zip(e).enumerate() {
        let estimate = q[0] * (q[1] / (q[1] + e)) * (q[0] / (q[0] + before));
        if estimate < best.1 {
            best = (row, estimate);
        }
        before = *e;
    }
    best.0
}
