//! A matrix of n columns and any number of rows, of which only the triangular factor is kept: blocks of rows are added as they come.
//!
//! ```text
//! [A_1; A_2; ..; A_k] = Q R      R: N x N, N = n + p with p right-hand sides beside the rows of A
//! [R; A_k+1]          = Q' R'    a block is added
//! [R_1; R_2]          = Q' R'    two states are merged
//! ```
//!
//! R is in double precision for every element type. A block enters it in one of two ways:
//!
//! | block | how | flops of m rows |
//! | --- | --- | --- |
//! | at least 2 N rows, and A^H A of the rows since the last QR is well-conditioned with normalised columns | its A^H A in double precision is added to theirs, whose Cholesky factor joins R after [`SUMS`] blocks | m N^2 |
//! | any other of at least 2 N rows | Householder QR in double precision, then that of \[R; R_block\] | 2 m N^2 |
//! | fewer rows | they are kept until there are N of them, then QR of \[R; rows\] | 4 m N^2 |
//!
//! A device (`row_blocks/device.rs`) computes these where a context or [`Backend::Gpu`] asks for it.
//!
//! The limits on the condition are those of [`cholesky_qr`](crate::cpu::tall::cholesky_qr): with them the Cholesky factor is as accurate as that of
//! QR, for columns of any lengths. In double precision they are strict. Products of single precision are exact in double precision, so that only
//! nearly dependent columns need QR.
//!
//! *Centred.* With mean mu of m rows, and mean nu of m' more, the centred rows of both have the triangle of the centred rows of each, and of
//! one row more (Chan, Golub and LeVeque 1983):
//!
//! ```text
//! [A - 1 mu; A' - 1 nu; sqrt(m m' / (m + m')) (nu - mu)]        mean <- mu + m' / (m + m') (nu - mu)
//! ```

mod block;
#[cfg(feature = "gpu")]
mod device;
#[cfg(feature = "serde")]
mod held;

use faer::{
    Accum, Mat, MatRef,
    linalg::{matmul::matmul, triangular_solve::solve_upper_triangular_in_place},
    traits::ComplexField,
};

use crate::{
    algo::condition::condition,
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError, room_for},
        number::{Number, Re, RealElement, Scalar},
        pool::{all_threads, on_threads},
        scale::power_of_two_scale,
        stage::Stage,
        watch::Watch,
    },
    cpu::tall::{
        cholesky_qr::{accurate, is_well_conditioned, upper_cholesky},
        leaves::Wide,
    },
    plan::{
        factors::{Factors, MinimumNorm},
        options::{Backend, RunOptions, SvdOptions, Takes, Vectors, check_tolerance},
        qr::qr_r,
        qr_factors::{default_tolerance, upper},
        svd,
    },
};

use block::Block;
#[cfg(feature = "serde")]
pub use held::Held;

/// Blocks whose A^H A are summed before the Cholesky factor of the sum joins R.
const SUMS: usize = 16;
/// The rows so far.
#[derive(Clone, Debug)]
pub struct State<T: Scalar> {
    pub(crate) n: usize,
    pub(crate) p: usize,
    pub(crate) rows: u64,
    pub(crate) blocks: u64,
    /// The mean of each of the N columns, if rows are centred.
    pub(crate) mean: Option<Mean<Wide<T>>>,
    pub(crate) triangle: Part<Wide<T>>,
    /// The upper triangle of A^H A of the last blocks, and their number.
    sum: Option<(Mat<Wide<T>>, usize)>,
    /// Rows that are in neither.
    loose: Part<Wide<T>>,
    /// How each step runs.
    pub(crate) run: RunOptions,
}

/// The mean of each column as the sum of two numbers: an entry of that column, and the mean of the differences to it. So a mean that is large beside
/// the differences costs no digits of theirs.
#[derive(Clone, Debug)]
pub(crate) struct Mean<W> {
    pub shift: Vec<W>,
    pub rest: Vec<W>,
}

impl<W: Scalar<Wide = W> + Number<Real = f64, Scalar = W>> Mean<W> {
    fn zero(columns: usize) -> Self {
        let zeros = || vec![W::zero_impl(); columns];
        Mean { shift: zeros(), rest: zeros() }
    }

    /// This mean less another.
    fn less(&self, other: &Self) -> Vec<W> {
        let shifts = self.shift.iter().zip(&other.shift).map(|(&x, &y)| x - y);
        let rests = self.rest.iter().zip(&other.rest).map(|(&x, &y)| x - y);
        shifts.zip(rests).map(|(x, y)| x + y).collect()
    }

    fn sum(&self, j: usize) -> W {
        self.shift[j] + self.rest[j]
    }
}

/// Rows times 2^`exponent`.
#[derive(Clone, Debug)]
pub(crate) struct Part<W> {
    pub rows: Mat<W>,
    pub exponent: i32,
}

/// What the rows are, once they are needed.
pub struct Finished<T: Scalar> {
    /// min(m, n) singular values, descending.
    pub s: Vec<Re<T>>,
    /// The right singular vectors, n x min(m, n).
    pub v: Mat<T>,
    /// R, min(m, n) x n.
    pub r: Mat<T>,
    pub mean: Option<Vec<T>>,
}

/// A solution of least squares.
pub struct Solved<T: Scalar> {
    /// X, n x p.
    pub x: Mat<T>,
    /// The constant of each right-hand side, if rows are centred.
    pub intercept: Option<Vec<T>>,
    pub rank: usize,
    pub residuals: Vec<Re<T>>,
}

impl<T: Scalar> State<T> {
    pub fn new(n: usize, p: usize, centred: bool) -> Result<Self> {
        let columns = n.checked_add(p).ok_or_else(|| SvdError::invalid("columns", "their number overflows"))?;
        room_for::<Wide<T>>("the triangle of the rows", columns, columns, 4)?;
        let none = || Part { rows: Mat::zeros(0, columns), exponent: 0 };
        let mean = centred.then(|| Mean::zero(columns));
        Ok(State { n, p, rows: 0, blocks: 0, mean, triangle: none(), sum: None, loose: none(), run: RunOptions::default() })
    }

    fn columns(&self) -> usize {
        self.n + self.p
    }

    /// Removes all rows, and centres those to come.
    pub fn centre(&mut self) {
        let columns = self.columns();
        let none = || Part { rows: Mat::zeros(0, columns), exponent: 0 };
        let mean = Some(Mean::zero(columns));
        let run = std::mem::take(&mut self.run);
        *self = State { n: self.n, p: self.p, rows: 0, blocks: 0, mean, triangle: none(), sum: None, loose: none(), run };
    }

    /// Chooses how each step runs; a step has no progress.
    pub(crate) fn set_run(&mut self, run: &RunOptions, of: Takes) -> Result<()> {
        run.check(of)?;
        if run.progress.is_some() {
            return Err(SvdError::invalid("progress", "the number of blocks is not known"));
        }
        run.tuning_for_cpu(T::KIND, self.n)?.check()?;
        #[cfg(feature = "gpu")]
        let run = &device::opened::<T>(run, self.columns())?;
        #[cfg(not(feature = "gpu"))]
        if run.backend == Backend::Gpu {
            return Err(SvdError::NoAdapter { reason: "svdvals-gpu was built without its feature `gpu`".into() });
        }
        self.run = run.clone();
        Ok(())
    }

    /// A step in the threads of the run.
    pub fn step<R: Send>(&mut self, body: impl FnOnce(&mut Self) -> Result<R> + Send) -> Result<R> {
        let watch = Watch::new(&self.run.listen(), || Ok([0; 4]))?;
        watch.begin(Stage::Qr)?;
        on_threads(self.run.threads, || body(self))
    }

    /// Adds a block of rows, with its right-hand sides. After an error the state is what it was.
    pub fn push(&mut self, a: MatRef<'_, T>, b: Option<MatRef<'_, T>>) -> Result<()> {
        let (m, b) = (a.nrows(), b.unwrap_or_else(|| a.get(.., ..0)));
        if a.ncols() != self.n {
            return Err(SvdError::invalid("block", format!("{} columns, not {}", a.ncols(), self.n)));
        }
        if b.shape() != (m, self.p) {
            let reason = format!("{} x {}, not {m} x {}", b.nrows(), b.ncols(), self.p);
            return Err(SvdError::invalid("right_sides", reason));
        }
        let index = self.blocks;
        let in_block = |error| match error {
            error @ (SvdError::NonFinite { .. } | SvdError::Overflow { .. }) => {
                SvdError::InBlock { block: index, source: Box::new(error) }
            }
            error => error,
        };
        if m > 0 && self.columns() > 0 {
            self.add(Block { a, b }).map_err(in_block)?;
        }
        self.rows += m as u64;
        self.blocks += 1;
        Ok(())
    }

    fn add(&mut self, block: Block<'_, T>) -> Result<()> {
        let (m, columns) = (block.a.nrows(), self.columns());
        room_for::<Wide<T>>("a block of rows", m, columns, 2)?;
        if self.loose.rows.nrows() >= columns || self.sum.as_ref().is_some_and(|(_, count)| *count >= SUMS) {
            self.fold(&[])?;
        }
        let mean = match &self.mean {
            None => None,
            Some(_) if self.rows == 0 => Some(block.mean(block.first())?),
            Some(mean) => Some(block.mean(mean.shift.clone())?),
        };
        let joint = mean.as_ref().and_then(|mean| self.joint(mean, m as u64)).transpose()?;
        let by_squares = m >= 2 * columns && self.takes_squares() && self.add_squares(&block, mean.as_ref())?;
        if !by_squares {
            let rows = block.scaled(mean.as_ref())?;
            if m >= 2 * columns {
                let triangle = self.single_triangle(&rows)?.map_or_else(|| triangle_of(rows.rows.as_ref(), &self.run), Ok)?;
                self.fold(&[Part { rows: triangle, ..rows }])?;
            } else {
                self.loose.append(rows);
            }
        }
        if let Some(mean) = mean {
            self.move_mean(mean, m as u64, joint);
        }
        Ok(())
    }

    /// Adds A^H A of the block to that of the blocks before, unless the sum is too ill-conditioned.
    fn add_squares(&mut self, block: &Block<'_, T>, mean: Option<&Mean<Wide<T>>>) -> Result<bool> {
        let mut squares = self.squares_of(block, mean)?;
        let count = match &self.sum {
            None => 0,
            Some((sum, count)) => {
                squares += sum;
                *count
            }
        };
        let safe = is_well_conditioned(&squares, accurate::<T>(self.columns()));
        if safe {
            self.sum = Some((squares, count + 1));
        }
        Ok(safe)
    }

    /// Whether blocks are added by A^H A, if they are well-conditioned.
    fn takes_squares(&self) -> bool {
        #[cfg(feature = "gpu")]
        if let Some(context) = device::device_of::<T>(&self.run, self.columns()) {
            return device::is_wide::<T>(context);
        }
        true
    }

    #[cfg(not(feature = "gpu"))]
    fn squares_of(&self, block: &Block<'_, T>, mean: Option<&Mean<Wide<T>>>) -> Result<Mat<Wide<T>>> {
        block.squares(mean)
    }

    #[cfg(not(feature = "gpu"))]
    fn single_triangle(&self, _: &Part<Wide<T>>) -> Result<Option<Mat<Wide<T>>>> {
        Ok(None)
    }

    /// What joins these rows and `m` others with the given mean: the difference of the means, and one more centred row. None for the first rows.
    fn joint(&self, mean: &Mean<Wide<T>>, m: u64) -> Option<Result<Joint<Wide<T>>>> {
        let before = self.mean.as_ref().filter(|_| self.rows > 0)?;
        let (old, new) = (self.rows as f64, m as f64);
        let weight = (old * (new / (old + new))).sqrt();
        let difference = mean.less(before);
        let row = Mat::from_fn(1, difference.len(), |_, j| difference[j]);
        Some(power_of_two_scale(<Wide<T>>::KIND, row.as_ref()).map(|scale| {
            let rows = Mat::from_fn(1, difference.len(), |_, j| difference[j].times(scale).times(weight));
            Joint { difference, row: Part { rows, exponent: scale.log2() as i32 } }
        }))
    }

    /// The mean with that of `m` more rows, and the row that joins them.
    fn move_mean(&mut self, mean: Mean<Wide<T>>, m: u64, joint: Option<Joint<Wide<T>>>) {
        let part = m as f64 / (self.rows as f64 + m as f64);
        match (joint, &mut self.mean) {
            (Some(Joint { difference, row }), Some(mean)) => {
                mean.rest.iter_mut().zip(difference).for_each(|(rest, difference)| *rest += difference.times(part));
                self.loose.append(row);
            }
            _ => self.mean = Some(mean),
        }
    }

    /// Adds all rows of another state.
    pub fn merge(&mut self, mut other: State<T>) -> Result<()> {
        let kind = |state: &State<T>| (state.n, state.p, state.mean.is_some());
        if kind(self) != kind(&other) {
            let text = |(n, p, centred)| format!("{n} columns, {p} right-hand sides{}", if centred { ", centred" } else { "" });
            return Err(SvdError::invalid("other", format!("{}, not {}", text(kind(&other)), text(kind(self)))));
        }
        other.fold(&[])?;
        let triangle = std::mem::replace(&mut other.triangle, Part { rows: Mat::zeros(0, self.columns()), exponent: 0 });
        if other.rows > 0 && self.columns() > 0 {
            let joint = other.mean.as_ref().and_then(|mean| self.joint(mean, other.rows)).transpose()?;
            self.fold(&[triangle])?;
            if let Some(mean) = other.mean {
                self.move_mean(mean, other.rows, joint);
            }
        }
        self.rows += other.rows;
        self.blocks += other.blocks;
        Ok(())
    }

    /// Makes one triangle of all rows, with `others`.
    pub(crate) fn fold(&mut self, others: &[Part<Wide<T>>]) -> Result<()> {
        let columns = self.columns();
        let factor = match &self.sum {
            None => None,
            // The factorisation has succeeded before.
            Some((sum, _)) => Some(upper_cholesky(sum).ok_or_else(|| SvdError::overflow(ElementKind::F64, "rows"))?),
        };
        let factor = factor.map(|rows| Part { rows, exponent: 0 });
        let parts = [&self.triangle, &self.loose].into_iter().chain(&factor).chain(others);
        let mut stack = Part { rows: Mat::zeros(0, columns), exponent: 0 };
        let parts: Vec<_> = parts.filter(|part| part.rows.nrows() > 0).collect();
        if parts.len() == 1 && (factor.is_some() || self.triangle.rows.nrows() > 0) {
            // It is triangular already.
            stack = parts[0].clone();
        } else if !parts.is_empty() {
            parts.into_iter().for_each(|part| stack.append(part.clone()));
            stack.rows = triangle_of(stack.rows.as_ref(), &self.run)?;
        }
        self.triangle = stack;
        self.loose.rows = Mat::zeros(0, columns);
        self.sum = None;
        Ok(())
    }

    /// The triangle of all rows times a power of two, N x N, and that power's exponent.
    fn whole(&self) -> Result<Part<Wide<T>>> {
        let mut all = self.clone();
        all.fold(&[])?;
        let Part { rows, exponent } = all.triangle;
        let columns = self.columns();
        let square = |i: usize, j: usize| if i < rows.nrows() { rows[(i, j)] } else { Wide::<T>::zero_impl() };
        Ok(Part { rows: Mat::from_fn(columns, columns, square), exponent })
    }

    /// The number of singular values.
    fn values(&self) -> usize {
        usize::try_from(self.rows).unwrap_or(usize::MAX).min(self.n)
    }

    /// The singular values and right vectors, R and the mean.
    pub fn finish(&self) -> Result<Finished<T>> {
        let (n, k) = (self.n, self.values());
        let Part { rows: r, exponent } = self.whole()?;
        let r = r.get(..n, ..n);
        let Factors { s, v, .. } = sorted_svd(r, Vectors::Right, &self.run)?;
        let s = s[..k].iter().map(|&s| unscaled_value::<T>(s, exponent)).collect::<Result<_>>()?;
        let v = Mat::from_fn(n, k, |i, j| T::from_wide(v[(i, j)]));
        let r = unscaled::<T>(r.get(..k, ..), exponent)?;
        Ok(Finished { s, v, r, mean: self.mean_of(0..n)? })
    }

    /// The means of some columns.
    fn mean_of(&self, columns: std::ops::Range<usize>) -> Result<Option<Vec<T>>> {
        let mean = self.mean.as_ref().map(|mean| Mat::from_fn(columns.len(), 1, |i, _| mean.sum(columns.start + i)));
        Ok(mean.map(|mean| unscaled::<T>(mean.as_ref(), 0)).transpose()?.map(|mean| mean.col_as_slice(0).to_vec()))
    }

    /// The solution of least squares, of least norm if the columns are linearly dependent: singular values up to `tolerance` times the
    /// largest count as zero.
    pub fn solve(&self, tolerance: Option<f64>) -> Result<Solved<T>> {
        let (n, p) = (self.n, self.p);
        check_tolerance(tolerance)?;
        let shape = (usize::try_from(self.rows).unwrap_or(usize::MAX), n);
        let tolerance = tolerance.unwrap_or_else(|| default_tolerance::<T>(shape));
        let Part { rows: whole, exponent } = self.whole()?;
        let (r, mut x) = (whole.get(..n, ..n), whole.get(..n, n..).to_owned());
        let mut rank = n;
        let mut outside = vec![0.0; p];
        if condition(r) * tolerance * 2.0 < 1.0 {
            solve_upper_triangular_in_place(r, x.as_mut(), all_threads());
        } else {
            let c = x.clone();
            let MinimumNorm { x: least, rank: found, .. } =
                MinimumNorm::new(sorted_svd(r, Vectors::Thin, &self.run)?, c.as_ref(), tolerance);
            (x, rank) = (least, found);
            let mut product = Mat::zeros(n, p);
            matmul(product.as_mut(), Accum::Replace, r, x.as_ref(), Wide::<T>::one_impl(), all_threads());
            let rest = c - product;
            outside.iter_mut().enumerate().for_each(|(j, square)| *square = rest.col(j).squared_norm_l2());
        }
        // The rows of R below n are what is left of B.
        let below = whole.get(n.., n..);
        let length = |j: usize| (below.col(j).squared_norm_l2() + outside[j]).sqrt();
        let residuals = (0..p).map(|j| unscaled_value::<T>(length(j), exponent)).collect::<Result<_>>()?;
        let intercept = self.mean.as_ref().map(|mean| {
            let constant = |j: usize| (0..n).fold(mean.sum(n + j), |sum, i| sum - mean.sum(i) * x[(i, j)]);
            unscaled::<T>(Mat::from_fn(p, 1, |j, _| constant(j)).as_ref(), 0)
        });
        let intercept = intercept.transpose()?.map(|constants| constants.col_as_slice(0).to_vec());
        Ok(Solved { x: unscaled::<T>(x.as_ref(), 0)?, intercept, rank, residuals })
    }
}

impl<W: Scalar<Wide = W> + Number<Real = f64, Scalar = W>> Part<W> {
    /// Adds rows below.
    fn append(&mut self, other: Part<W>) {
        if other.rows.nrows() == 0 {
            return;
        }
        let exponent = if self.rows.nrows() == 0 { other.exponent } else { self.exponent.min(other.exponent) };
        let [of_self, of_other] = [self.exponent, other.exponent].map(|own| 2f64.powi(exponent.saturating_sub(own)));
        let m = self.rows.nrows();
        let entry = |i: usize, j: usize| {
            if i < m { self.rows[(i, j)].times(of_self) } else { other.rows[(i - m, j)].times(of_other) }
        };
        let rows = Mat::from_fn(m + other.rows.nrows(), other.rows.ncols(), entry);
        *self = Part { rows, exponent };
    }
}

/// The difference of two means, and the row that joins the centred rows of both.
struct Joint<W> {
    difference: Vec<W>,
    row: Part<W>,
}

/// How a part of a step runs.
fn part(run: &RunOptions) -> RunOptions {
    RunOptions { backend: Backend::Cpu, ..run.of_part() }
}

/// R of rows in double precision, N x N.
fn triangle_of<W: Scalar>(rows: MatRef<'_, W>, run: &RunOptions) -> Result<Mat<W>> {
    let (m, columns) = rows.shape();
    let padded = |i: usize, j: usize| if i < m { rows[(i, j)] } else { W::zero_impl() };
    let square = if m < columns { Some(Mat::from_fn(columns, columns, padded)) } else { None };
    let rows = square.as_ref().map_or(rows, |square| square.as_ref());
    let here = part(run);
    #[cfg(feature = "gpu")]
    if device::joining(run, rows) != Backend::Cpu {
        let there = RunOptions { backend: Backend::Gpu, ..here.clone() };
        let r = qr_r::<W>(rows, &there.into(), false);
        if let Ok(report) = crate::plan::backend::or_fall_back(run, false, r)? {
            return Ok(upper(report.values));
        }
    }
    Ok(upper(qr_r::<W>(rows, &here.into(), false)?.values))
}

/// The decomposition of a triangle, in the order of its columns' lengths, so that the digits of short columns are kept.
fn sorted_svd<W: Scalar>(r: MatRef<'_, W>, vectors: Vectors, run: &RunOptions) -> Result<Factors<W>> {
    let n = r.ncols();
    let lengths: Vec<f64> = r.col_iter().map(|column| column.norm_l2().to_double()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| lengths[j].total_cmp(&lengths[i]));
    let sorted = Mat::from_fn(n, n, |i, j| r[(i, order[j])]);
    let mut factors = svd::svd(sorted.as_ref(), &SvdOptions::from(part(run)).vectors(vectors), false)?.values;
    let mut v = factors.v.clone();
    order.iter().enumerate().for_each(|(sorted, &column)| v.as_mut().row_mut(column).copy_from(factors.v.row(sorted)));
    factors.v = v;
    Ok(factors)
}

/// The value times 2^-`exponent`, rounded.
fn unscaled_value<T: Scalar>(value: f64, exponent: i32) -> Result<Re<T>> {
    let value = Re::<T>::from_double(value * 2f64.powi(-exponent));
    if num_traits::Float::is_finite(value) { Ok(value) } else { Err(SvdError::overflow(T::KIND, "singular values")) }
}

/// The matrix times 2^-`exponent`, rounded.
fn unscaled<T: Scalar>(a: MatRef<'_, Wide<T>>, exponent: i32) -> Result<Mat<T>> {
    let scale = 2f64.powi(-exponent);
    let rounded = Mat::from_fn(a.nrows(), a.ncols(), |i, j| T::from_wide(a[(i, j)].times(scale)));
    let finite = rounded.col_iter().all(|column| column.iter().all(|x| x.magnitude().is_some()));
    if finite { Ok(rounded) } else { Err(SvdError::overflow(T::KIND, "entries of the result")) }
}
