//! Random problems for property-based tests: entries of many kinds, in every element type, at every scale, in every memory order.

use std::fmt::Debug;

use faer::{Mat, MatMut, MatRef};
use num_complex::Complex;
use proptest::{
    prelude::*,
    sample::select,
    test_runner::{Config, TestCaseResult, TestRunner},
};
use svdvals_gpu::{Element, PanelTree, RealElement, Tuning};

use super::{eps, noise};

/// Runs `test` on `cases` random values. A failure is shrunk and shown; its value has all that the case was made from.
pub fn forall<S: Strategy>(cases: u32, strategy: S, test: impl Fn(S::Value) -> TestCaseResult) -> Result<(), String>
where
    S::Value: Debug,
{
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(&strategy, test).map_err(|error| error.to_string())
}

/// Turns an error of any kind into a failed case.
pub fn fail(error: impl ToString) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

/// The tests named, for every element type.
#[allow(unused_macros)] // every test target uses a part
macro_rules! every_element {
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            #[test]
            fn f16() {
                super::$name::<half::f16>();
            }
            #[test]
            fn bf16() {
                super::$name::<half::bf16>();
            }
            $crate::common::problems::of_scalars!($name);
        }
    )*};
}

/// The tests named, for every type of the arithmetic: where half types are their f32 (tests/all/half_types.rs).
#[allow(unused_macros)]
macro_rules! every_scalar {
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            $crate::common::problems::of_scalars!($name);
        }
    )*};
}

#[allow(unused_macros)]
macro_rules! of_scalars {
    ($name:ident) => {
        #[test]
        fn f32() {
            super::$name::<f32>();
        }
        #[test]
        fn f64() {
            super::$name::<f64>();
        }
        #[test]
        fn c32() {
            super::$name::<num_complex::Complex<f32>>();
        }
        #[test]
        fn c64() {
            super::$name::<num_complex::Complex<f64>>();
        }
    };
}
#[allow(unused_imports)]
pub(crate) use {every_element, every_scalar, of_scalars};

/// How the entries of a random matrix are made.
#[derive(Clone, Copy, Debug)]
pub enum Entries {
    /// Uniform in [-1, 1).
    Uniform,
    /// -2 to 2: products and sums of a few are exact.
    Integers,
    /// One in five is not zero.
    Sparse,
    /// Upper triangular with this many superdiagonals.
    Banded(usize),
    /// Integers, of rank at most this (twice this where complex).
    LowRank(usize),
    /// Two rows and two columns of three are zero.
    ZeroLines,
    /// Row i and column j shrink by 2^-(i a) and 2^-(j b).
    Graded(i32, i32),
    /// Nearly equal.
    Equal,
}

/// A random matrix, made by [`matrix`](Self::matrix).
#[derive(Clone, Debug)]
pub struct Problem {
    pub rows: usize,
    pub cols: usize,
    pub entries: Entries,
    pub seed: u64,
    /// From -1 to 1: where in the exponent range of the element type the largest entry is.
    pub scale: f64,
}

impl Problem {
    /// Of sides up to 33.
    pub fn any() -> impl Strategy<Value = Problem> {
        let side = || prop_oneof![1 => 0usize..4, 3 => 1usize..34, 2 => select(vec![7, 8, 9, 15, 16, 17, 31, 32, 33])];
        let scale = prop_oneof![2 => Just(0.0), 1 => -1.0..=1.0, 1 => select(vec![-1.0, 1.0])];
        let shape = prop_oneof![3 => (side(), side()), 1 => side().prop_map(|n| (n, n))];
        (shape, Self::entries(), any::<u64>(), scale).prop_map(|((rows, cols), entries, seed, scale)| Problem {
            rows,
            cols,
            entries,
            seed,
            scale,
        })
    }

    fn entries() -> impl Strategy<Value = Entries> {
        prop_oneof![
            3 => Just(Entries::Uniform),
            2 => Just(Entries::Integers),
            1 => Just(Entries::Sparse),
            1 => (0usize..6).prop_map(Entries::Banded),
            1 => (1usize..5).prop_map(Entries::LowRank),
            1 => Just(Entries::ZeroLines),
            1 => (0i32..5, 0i32..5).prop_map(|(a, b)| Entries::Graded(a, b)),
            1 => Just(Entries::Equal),
        ]
    }

    /// The matrix, rounded to `T`.
    pub fn matrix<T: Element>(&self) -> Mat<T> {
        let (low, high) = exponents::<T>();
        let exponent = (self.scale.abs() * f64::from(if self.scale < 0.0 { low } else { high })) as i32;
        let halves = [exponent / 2, exponent - exponent / 2].map(|k| 2f64.powi(k));
        let part = |seed, i, j| self.entry(seed, i, j) * halves[0] * halves[1];
        Mat::from_fn(self.rows, self.cols, |i, j| {
            T::from_complex(Complex::new(part(self.seed, i, j), part(self.seed ^ 0x55aa, i, j)))
        })
    }

    fn entry(&self, seed: u64, i: usize, j: usize) -> f64 {
        let random = |k: u64, i, j| noise(seed.wrapping_add(k), i, j);
        let integer = |k, i, j| (2.5 * random(k, i, j)).round();
        match self.entries {
            Entries::Uniform => random(0, i, j),
            Entries::Integers => integer(0, i, j),
            Entries::Sparse => random(0, i, j) * f64::from(u8::from(random(1, i, j) > 0.6)),
            Entries::Banded(width) => random(0, i, j) * f64::from(u8::from(i <= j && j <= i + width)),
            Entries::LowRank(rank) => (0..rank as u64).map(|k| integer(k, i, 99) * integer(k, 99, j)).sum(),
            Entries::ZeroLines => random(0, i, j) * f64::from(u8::from(random(1, i, 99) < -0.3 && random(1, 99, j) < -0.3)),
            Entries::Graded(a, b) => random(0, i, j) * 2f64.powi(-(i as i32) * a - (j as i32) * b),
            Entries::Equal => 1.0 + 1e-3 * random(0, i, j),
        }
    }
}

/// Exponents of an element type: that of the smallest positive number, and one at which entries of up to 36 are finite, and so are the
/// singular values of 33 x 33 of them (at most 36 * 33 * sqrt(2), below 2^11).
fn exponents<T: Element>() -> (i32, i32) {
    match T::NAME {
        "f16" => (-24, 10),
        "bf16" => (-133, 116),
        "f32" | "c32" => (-149, 116),
        _ => (-1074, 1012),
    }
}

/// Hyperparameters that fit everywhere, around the sizes of the problems.
pub fn tunings() -> impl Strategy<Value = Tuning> {
    let tree = select(vec![PanelTree::Reduction, PanelTree::Flat]);
    let direct = select(vec![0, 0, 12]);
    (direct, 1usize..18, 2usize..6, 0usize..5, tree, 1usize..20, 1usize..40).prop_map(
        |(direct, tile, arity, extra, tree, tile_width, cols_per_block)| {
            let tuning = Tuning::for_cpu::<f32>(1).direct_up_to(direct).tile_size(tile).leaf(arity * tile + extra).tree(tree);
            tuning.tile_width(tile_width).cols_per_block(cols_per_block)
        },
    )
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub by_rows: bool,
    /// Elements from one entry to the next in a line, and lines kept between two lines.
    pub steps: (usize, usize),
    /// Elements kept after a line.
    pub padding: usize,
    pub reversed: (bool, bool),
}

impl Layout {
    pub fn any() -> impl Strategy<Value = Layout> {
        let steps = prop_oneof![2 => Just((1, 1)), 1 => (1usize..4, 1usize..3)];
        (any::<bool>(), steps, 0usize..4, any::<(bool, bool)>()).prop_map(|(by_rows, steps, padding, reversed)| Layout {
            by_rows,
            steps,
            padding,
            reversed,
        })
    }
}

/// The entries of a matrix in memory of a given layout; between them lie NaN, which nothing may read.
pub struct Stored<T> {
    data: Vec<T>,
    shape: (usize, usize),
    strides: (usize, usize),
    reversed: (bool, bool),
}

impl<T: Element> Stored<T> {
    pub fn new(a: MatRef<'_, T>, layout: Layout) -> Stored<T> {
        let (m, n) = a.shape();
        let (line, lines) = if layout.by_rows { (n, m) } else { (m, n) };
        let (step, distance) = (layout.steps.0, layout.steps.1 * (line * layout.steps.0 + layout.padding));
        let strides = if layout.by_rows { (distance, step) } else { (step, distance) };
        // At least one line, for ndarray asks for the memory of one even where there are no entries.
        let mut data = vec![T::from_complex(Complex::new(f64::NAN, f64::NAN)); lines.max(1) * distance.max(1)];
        for j in 0..n {
            for i in 0..m {
                let at = |k, size, reversed| if reversed { size - 1 - k } else { k };
                data[at(i, m, layout.reversed.0) * strides.0 + at(j, n, layout.reversed.1) * strides.1] = a[(i, j)];
            }
        }
        Stored { data, shape: (m, n), strides, reversed: layout.reversed }
    }

    /// As faer sees it.
    pub fn faer(&self) -> MatRef<'_, T> {
        let ((m, n), (row, col)) = (self.shape, self.strides);
        // SAFETY: entry (i, j) is element i * row + j * col of `data`, which `new` wrote, for all i < m and j < n.
        let a = unsafe { MatRef::from_raw_parts(self.data.as_ptr(), m, n, row as isize, col as isize) };
        let a = if self.reversed.0 { a.reverse_rows() } else { a };
        if self.reversed.1 { a.reverse_cols() } else { a }
    }

    /// As faer sees it, to be changed.
    pub fn faer_mut(&mut self) -> MatMut<'_, T> {
        let ((m, n), (row, col)) = (self.shape, self.strides);
        // SAFETY: entry (i, j) is element i * row + j * col of `data`, which `new` made, for all i < m and j < n, no two of them the same.
        let a = unsafe { MatMut::from_raw_parts_mut(self.data.as_mut_ptr(), m, n, row as isize, col as isize) };
        let a = if self.reversed.0 { a.reverse_rows_mut() } else { a };
        if self.reversed.1 { a.reverse_cols_mut() } else { a }
    }

    /// Whether all elements that are no entries are still NaN.
    pub fn is_untouched_between(&self) -> bool {
        let entries = self.shape.0 * self.shape.1;
        self.data.iter().filter(|x| x.to_complex().re.is_nan()).count() >= self.data.len() - entries
    }

    /// As ndarray sees it, to be changed.
    #[cfg(feature = "ndarray")]
    pub fn ndarray_mut(&mut self) -> ndarray::ArrayViewMut2<'_, T> {
        use ndarray::{ArrayViewMut2, Axis, ShapeBuilder};
        let mut a = ArrayViewMut2::from_shape(self.shape.strides(self.strides), &mut self.data).expect("the layout is valid");
        for (axis, reversed) in [self.reversed.0, self.reversed.1].into_iter().enumerate() {
            if reversed {
                a.invert_axis(Axis(axis));
            }
        }
        a
    }

    /// As ndarray sees it.
    #[cfg(feature = "ndarray")]
    pub fn ndarray(&self) -> ndarray::ArrayView2<'_, T> {
        use ndarray::{ArrayView2, Axis, ShapeBuilder};
        let mut a = ArrayView2::from_shape(self.shape.strides(self.strides), &self.data).expect("the layout is valid");
        for (axis, reversed) in [self.reversed.0, self.reversed.1].into_iter().enumerate() {
            if reversed {
                a.invert_axis(Axis(axis));
            }
        }
        a
    }
}

/// The smallest normal and the smallest positive number of a type.
pub fn smallest<R: RealElement>() -> (f64, f64) {
    let normal = R::min_positive_value().to_double();
    (normal, normal * eps::<R>())
}

/// Whether computed values are descending, not negative, and each within `bound` times the largest of the exact ones, or a unit of the
/// smallest number of their type.
pub fn close<R: RealElement>(values: impl IntoIterator<Item = R>, exact: &[f64], bound: f64) -> Result<(), TestCaseError> {
    let values: Vec<f64> = values.into_iter().map(|x| x.to_double()).collect();
    prop_assert_eq!(values.len(), exact.len(), "number of values");
    let sound = values.iter().all(|&x| x >= 0.0 && x.is_finite()) && values.is_sorted_by(|x, y| x >= y);
    prop_assert!(sound, "not descending, negative or not finite: {:?}", values);
    let (_, unit) = smallest::<R>();
    for (k, (&x, &y)) in values.iter().zip(exact).enumerate() {
        let off = (x - y).abs();
        prop_assert!(
            off <= bound * exact[0] + unit,
            "value {k} is {x:e}, not {y:e}: off by {:.1e} of {:e}",
            off / exact[0],
            exact[0]
        );
    }
    Ok(())
}
