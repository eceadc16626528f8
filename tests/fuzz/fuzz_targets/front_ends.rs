//! Random bytes as matrices of every element type, shape and stride, with random options, through every public way in, on the CPU.
//!
//! Nothing may panic, hang or read what is not an entry. What comes back is an error that the input deserves, or values that are finite,
//! descending, not negative, as many as there should be, and whose squares add up to those of the entries.
#![no_main]

use std::fmt::Debug;

use faer::MatRef;
use half::{bf16, f16};
use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use ndarray::{ArrayView2, Axis, ShapeBuilder};
use num_complex::Complex;
use svdvals_gpu::{
    Backend, Band, Bidiagonal, Element, HalfStorage, Number, PanelTree, RealElement, Stage3, SvdError, SvdOptions, SvdValsGpu, Tuning,
};

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    // An error means that the bytes are used up.
    let _ = match input.arbitrary::<u8>().unwrap_or(0) % 8 {
        0 => dense::<f16>(&mut input),
        1 => dense::<bf16>(&mut input),
        2 => dense::<f32>(&mut input),
        3 => dense::<f64>(&mut input),
        4 => dense::<Complex<f32>>(&mut input),
        5 => dense::<Complex<f64>>(&mut input),
        6 => bidiagonal::<f32>(&mut input),
        _ => bidiagonal::<f64>(&mut input),
    };
});

/// A matrix whose entries overlap in memory in any way that strides can say.
fn dense<T: Element>(input: &mut Unstructured) -> Result<()> {
    let (m, n) = shape(input)?;
    let strides = [stride(input)?, stride(input)?];
    let distance = |len: usize, stride: isize| len.saturating_sub(1) * stride.unsigned_abs();
    let span = if m * n == 0 { 0 } else { 1 + distance(m, strides[0]) + distance(n, strides[1]) };
    let memory = entries::<T>(input, span)?;
    // SAFETY: these strides stay inside `memory`, which outlives the view.
    let mut a = unsafe {
        ArrayView2::from_shape_ptr((m, n).strides((strides[0].unsigned_abs(), strides[1].unsigned_abs())), memory.as_ptr())
    };
    for (axis, stride) in strides.into_iter().enumerate() {
        if stride < 0 {
            a.invert_axis(Axis(axis));
        }
    }
    // SAFETY: the same memory, shape and strides as the view's.
    let same = unsafe { MatRef::from_raw_parts(a.as_ptr(), m, n, a.strides()[0], a.strides()[1]) };
    let options = options::<T>(input, m.max(n))?;
    let largest = a.iter().map(|x| x.to_complex()).fold(0.0, |most, x| f64::max(most, f64::max(x.re.abs(), x.im.abs())));
    let expected = Expected {
        count: m.min(n),
        bad: a.indexed_iter().find(|(_, x)| !x.to_complex().is_finite()).map(|(at, _)| at),
        norm: largest * a.iter().map(|x| (x.to_complex() / largest).norm_sqr()).sum::<f64>().sqrt(),
        tolerance: tolerance::<T>(&options, m.max(n)),
        valid: options.run.tuning.as_ref().is_none_or(|tuning| tuning.check().is_ok()),
    };
    let values = expected.check(a.svdvals_gpu_with(&options).map(|s| s.to_vec()));
    let again = expected.check(same.svdvals_gpu_with(&options).map(|s| s.iter().copied().collect()));
    assert_eq!(values, again, "ndarray and faer");
    let band = SvdValsGpu::to_band(&same, &options.run);
    expected.check(band.and_then(|band| band.band_to_bidiag(&options.run)?.svdvals_by(options.stage3)));
    let expected = Expected { bad: None, norm: f64::NAN, ..expected };
    let band = Band::from_fn(n, m, |i, j| if i < m && expected.bad.is_none() { a[(i, j)] } else { T::from_complex(Complex::ONE) });
    if let Ok(values) = band.and_then(|band| band.band_to_bidiag(&options.run)?.svdvals()) {
        Expected { count: n, ..expected }.check(Ok(values));
    }
    Ok(())
}

/// Stage 3 alone: its methods agree on every value, down to 1e-285 of the largest entry.
fn bidiagonal<R: RealElement>(input: &mut Unstructured) -> Result<()> {
    let n = usize::from(input.arbitrary::<u8>()?) % 100;
    let (diagonal, superdiagonal) = (entries::<R>(input, n)?, entries::<R>(input, n.saturating_sub(1))?);
    let all = || diagonal.iter().chain(&superdiagonal).map(|x| x.to_double());
    let finite = all().all(f64::is_finite);
    let largest = all().fold(0.0, |most, x| f64::max(most, x.abs()));
    let norm = largest * all().map(|x| (x / largest).powi(2)).sum::<f64>().sqrt();
    let c = match Bidiagonal::new(diagonal.clone(), superdiagonal.clone()) {
        Err(SvdError::NonFinite { .. }) if !finite => return Ok(()),
        c => c.unwrap(),
    };
    let eps = 8.0 * (n + 8) as f64 * f64::EPSILON;
    let expected = Expected { count: n, bad: None, norm, tolerance: eps + unit::<R>(), valid: true };
    let newton = expected.check(c.svdvals());
    let bisection = expected.check(c.svdvals_by(Stage3::Bisection));
    for (x, y) in newton.iter().zip(&bisection) {
        let allowed = (eps + 2.0 * unit::<R>()) * x.max(*y) + 1e-285 * largest + smallest::<R>();
        assert!((x - y).abs() <= allowed, "{x:e}, {y:e} by bisection: {diagonal:?}, {superdiagonal:?}");
    }
    let shift = entries::<R>(input, 1)?[0];
    let count = c.count_below(shift);
    assert!(count <= n && (shift.to_double() > 0.0 || count == 0), "{count} below {:e}", shift.to_double());
    Ok(())
}

/// What a call may return.
struct Expected {
    count: usize,
    /// The first entry in reading order that is not finite.
    bad: Option<(usize, usize)>,
    /// Frobenius norm, NaN where it is not to be checked.
    norm: f64,
    tolerance: f64,
    valid: bool,
}

impl Expected {
    fn check<R: RealElement>(&self, result: svdvals_gpu::Result<Vec<R>>) -> Vec<f64> {
        match result {
            Ok(values) => {
                let values: Vec<f64> = values.into_iter().map(|x| x.to_double()).collect();
                assert!(self.bad.is_none() && self.valid, "accepted");
                assert_eq!(values.len(), self.count);
                assert!(values.iter().all(|&x| x >= 0.0 && x.is_finite()), "{values:?}");
                assert!(values.is_sorted_by(|x, y| x >= y), "{values:?}");
                let largest = values.first().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
                let norm = largest * values.iter().map(|x| (x / largest).powi(2)).sum::<f64>().sqrt();
                let allowed = self.tolerance * self.norm + smallest::<R>() * (self.count as f64).sqrt();
                assert!((norm - self.norm).abs() <= allowed || self.norm.is_nan() || norm.is_infinite(), "{norm:e}, not {:e}", self.norm);
                values
            }
            Err(SvdError::NonFinite { row, col, .. }) => {
                assert_eq!(Some((row, col)), self.bad);
                Vec::new()
            }
            Err(SvdError::InvalidOption { option, reason }) => {
                assert!(!self.valid, "{option}: {reason}");
                Vec::new()
            }
            Err(SvdError::Overflow { .. }) => {
                assert!(self.norm >= R::max_value().to_double() * 0.9 / (self.count as f64).sqrt(), "norm {:e}", self.norm);
                Vec::new()
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Backward error of the reductions: 4 n units, or with f16 storage 16 sqrt(n) units of f16, relative to the norm.
fn tolerance<T: Element>(options: &SvdOptions, n: usize) -> f64 {
    let half = options.run.half_storage == HalfStorage::Half && T::NAME.ends_with("f16");
    if half { 16.0 * (n as f64).sqrt() * 2f64.powi(-11) } else { 4.0 * n.max(4) as f64 * unit::<T::Real>() }
}

fn unit<R: RealElement>() -> f64 {
    R::epsilon().to_double()
}

fn smallest<R: RealElement>() -> f64 {
    R::min_positive_value().to_double() * unit::<R>()
}

/// Small, thin, or with no entries.
fn shape(input: &mut Unstructured) -> Result<(usize, usize)> {
    let (kind, m, n) = input.arbitrary::<(u8, u16, u8)>()?;
    let (m, n) = match kind % 8 {
        0 => (usize::from(m) % 3000, usize::from(n) % 6),
        1 => (usize::from(n) % 2, usize::from(m) % 5000),
        _ => (usize::from(m) % 80, usize::from(n) % 60),
    };
    Ok(if kind & 128 == 0 { (m, n) } else { (n, m) })
}

/// Often 0, 1 or -1, else up to 100 either way.
fn stride(input: &mut Unstructured) -> Result<isize> {
    let x = isize::from(input.arbitrary::<i8>()?);
    Ok(if x.abs() <= 100 { x } else { x % 2 })
}

/// Raw bits, small integers, or powers of two, the bytes used again and again where there are too few.
fn entries<T: Number + Debug>(input: &mut Unstructured, count: usize) -> Result<Vec<T>> {
    let (kind, seed, fresh) = input.arbitrary::<(u8, u64, u8)>()?;
    let bytes = input.bytes(input.len().min(usize::from(fresh) * size_of::<T>()))?.to_vec();
    let mut state = seed | 1;
    Ok((0..count)
        .map(|k| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = (state >> 33) as i32;
            let at = k * size_of::<T>();
            match bytes.get(at..at + size_of::<T>()) {
                Some(bits) => bytemuck::pod_read_unaligned(bits),
                None if kind % 4 == 0 => {
                    let bits: Vec<u8> = (0..size_of::<T>()).map(|b| state.rotate_left(8 * b as u32 + 11) as u8).collect();
                    bytemuck::pod_read_unaligned(&bits)
                }
                None if kind % 4 == 1 => T::from_complex(Complex::new(f64::from(random % 5), f64::from(random / 8 % 5))),
                None if kind % 4 == 2 => T::from_complex(Complex::new(2f64.powi(random % 1000), 2f64.powi(random / 1024 % 1000))),
                None => T::from_complex(Complex::new(f64::from(random) / 2f64.powi(31), f64::from(random.rotate_left(9)) / 2f64.powi(31))),
            }
        })
        .collect())
}

fn options<T: Element>(input: &mut Unstructured, n: usize) -> Result<SvdOptions> {
    let (flags, sizes) = input.arbitrary::<(u8, [u8; 7])>()?;
    // Small sizes, sizes near the matrix's, and absurd ones.
    let size = |k: usize| match sizes[k] {
        x @ 0..160 => usize::from(x) % 48,
        x @ 160..220 => (n + usize::from(x)).saturating_sub(190),
        220..240 => 1 << (sizes[k] - 190),
        x => usize::MAX >> (x - 240),
    };
    let base = Tuning::for_cpu::<f32>(n).direct_up_to(if flags & 128 == 0 { 0 } else { 50 }).tree(if flags & 1 == 0 { PanelTree::Reduction } else { PanelTree::Flat });
    let leaf = if flags & 2 == 0 { size(0).saturating_mul(2).saturating_add(size(1)) } else { size(1) };
    let tuning = base.tile_size(size(0)).leaf(leaf).tile_width(size(2)).cols_per_block(size(3)).split_k(size(4));
    let tuning = tuning.threads_per_block(size(5)).max_blocks(size(6));
    let options = SvdOptions::default().backend(if flags & 4 == 0 { Backend::Cpu } else { Backend::Auto });
    let options = options.half_storage(if flags & 8 == 0 { HalfStorage::Single } else { HalfStorage::Half.for_element::<T>() });
    let options = options.stage3(if flags & 16 == 0 { Stage3::Newton } else { Stage3::Bisection });
    Ok(if flags & 96 == 0 { options } else { options.tuning(tuning) })
}
