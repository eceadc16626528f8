//! Batches on the device: one workgroup a matrix.

use std::ops::Range;

use faer::MatRef;

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::{Number, Re, Scalar},
        parallel::{each, try_map},
    },
    cost::{
        batch::{BatchShape, leading_dimension},
        counts::Counts,
        jacobi::leading_dimension_of_w,
        shape::Bounds,
        work::{Kernel, Work, passes_of_bisection},
    },
    gpu::{
        device::{
            buffers::{Buffer, storage},
            context::GpuContext,
            parameters,
            pipeline::{BATCH, BATCH_SPILLED, Shader, Wanted},
            stream::{Manner, Stream},
        },
        kernels::fused::probe,
        kernels::{SOFTWARE_ITERATIONS, bisection::value_between},
        matrix::copy_lines,
    },
};

/// Maximum bytes of the entries of a round: what the host packs, uploads and reads back at a time.
const ROUND_BYTES: u64 = 64 << 20;
/// Words of a matrix in the table.
pub(super) const WORDS: usize = 4;

/// The shapes that a device computes in one workgroup each, stored as `kind`.
pub(crate) struct Classes {
    pub(super) kind: ElementKind,
    pub(super) context: GpuContext,
    largest: Option<BatchShape>,
}

impl Classes {
    /// # Errors
    /// [`SvdError::UnsupportedElement`] if the device cannot compute with `kind`.
    pub fn new(kind: ElementKind, context: &GpuContext) -> Result<Self> {
        context.require(kind)?;
        if !kind.is_double() {
            probe(context);
        }
        let largest = BatchShape::largest(kind, &Bounds::of(context));
        Ok(Classes { kind, context: context.clone(), largest })
    }

    /// The class of an m x n matrix, m >= n >= 1, if it fits one.
    pub fn of(&self, (m, n): (usize, usize)) -> Option<BatchShape> {
        let shape = BatchShape::of(self.largest, &Bounds::of(&self.context), (m, n)).filter(|_| n > 0)?;
        let bytes = (m * leading_dimension(n) * self.kind.scalar_bytes()) as u64;
        let loops_end = !self.context.is_software() || shape.iterations((m, n)) <= SOFTWARE_ITERATIONS;
        (loops_end && bytes <= self.context.max_buffer_bytes()).then_some(shape)
    }
}

/// The shader of a class.
fn shader(shape: &BatchShape) -> &'static Shader {
    if shape.spilled { &BATCH_SPILLED } else { &BATCH }
}

/// A matrix of a round.
pub(super) struct Placed {
    shape: BatchShape,
    pub size: (usize, usize),
    /// The indices of its first entry and of its first bound.
    pub from: usize,
    to: usize,
}

/// A round whose entries are on the device, and whose values are being computed.
pub(super) struct Begun {
    pub placed: Vec<Placed>,
    pub entries: Buffer,
    bounds: Buffer,
    /// The number of the bounds.
    values: usize,
}

impl Placed {
    fn entries(&self) -> usize {
        self.size.0 * leading_dimension(self.size.1)
    }

    /// Its factor, and two bounds for each value.
    fn bounds(&self) -> usize {
        2 * self.size.1 + 1
    }
}

/// Copies the entries of a round, of so many in all, to a buffer.
type Upload<'a> = &'a dyn Fn(&Buffer, &[Placed], usize) -> Result<()>;

fn shapes_of<T: Scalar>(round: &[(MatRef<'_, T>, Re<T>)]) -> Vec<(usize, usize)> {
    round.iter().map(|(a, _)| a.shape()).collect()
}

/// The kernel `batch`, and the commands of one call.
pub(crate) struct GpuBatch {
    pub(super) classes: Classes,
    pub(super) stream: Stream,
}

/// W = [U diag(s); V] of one matrix, its columns in no order.
pub(crate) struct Rotated<E> {
    /// Column-major, with the leading dimension `ld`.
    pub w: Vec<E>,
    pub ld: usize,
}

impl GpuBatch {
    pub fn running(classes: Classes, manner: Manner) -> Result<Self> {
        let stream = Stream::running(&classes.context, manner)?;
        Ok(GpuBatch { classes, stream })
    }

    /// Dispatches, submissions and bytes transferred so far.
    pub fn counts(&self) -> Counts {
        self.stream.counts()
    }

    /// Seconds of each kernel so far, if kernels are timed.
    pub fn kernel_seconds(&self) -> Vec<(Kernel, f64)> {
        self.stream.kernel_seconds()
    }

    /// Matrices of these shapes, m >= n, in rounds that fit the device's buffers, with their `vectors` or without.
    pub fn rounds(&self, shapes: impl Iterator<Item = (usize, usize)>, vectors: bool) -> Vec<Range<usize>> {
        let most = (self.classes.context.max_buffer_bytes().min(ROUND_BYTES)
            / self.classes.kind.scalar_bytes().max(4 * WORDS) as u64) as usize;
        let (mut rounds, mut start, mut len, mut end) = (Vec::new(), 0, 0usize, 0);
        for (k, (m, n)) in shapes.enumerate() {
            let w = if vectors { n.saturating_mul(leading_dimension_of_w((m, n))) } else { 0 };
            let more = m.saturating_mul(leading_dimension(n)).max(2 * n + 1).max(w).max(1);
            if k > start && len.saturating_add(more) > most {
                rounds.push(start..k);
                (start, len) = (k, 0);
            }
            (len, end) = (len.saturating_add(more), k + 1);
        }
        if end > start {
            rounds.push(start..end);
        }
        rounds
    }

    /// Where the matrices of a round are.
    fn place(&self, shapes: impl Iterator<Item = (usize, usize)>) -> Result<Vec<Placed>> {
        let (mut from, mut to) = (0usize, 0usize);
        let place = |size: (usize, usize)| {
            let unfit = || SvdError::invalid("matrix", format!("{} x {} does not fit a workgroup", size.0, size.1));
            let placed = Placed { shape: self.classes.of(size).ok_or_else(unfit)?, size, from, to };
            (from, to) = (from + placed.entries(), to + placed.bounds());
            // Shaders count in u32.
            if from.max(to) > u32::MAX as usize { Err(unfit()) } else { Ok(placed) }
        };
        shapes.map(place).collect()
    }

    /// The singular values of each matrix of a round, times its scale, descending. The matrices have m >= n >= 1 and fit a class.
    ///
    /// One upload of all entries and one of the table, a dispatch for each class, or for as many matrices as have the flops of a submission, and
    /// one read-back.
    pub async fn svdvals<T: Scalar>(&self, round: &[(MatRef<'_, T>, Re<T>)]) -> Result<Vec<Vec<f64>>> {
        match self.begin(&shapes_of(round), &|entries, placed, len| self.upload(round, entries, placed, len), Vec::new())? {
            Some(begun) => self.values_of(&begun).await,
            None => Ok(Vec::new()),
        }
    }

    /// The same values, and the W that `jacobi` leaves of each matrix, if its columns became orthogonal.
    pub async fn svd<T: Scalar>(&self, round: &[(MatRef<'_, T>, Re<T>)]) -> Result<Vec<(Vec<f64>, Option<Rotated<T>>)>> {
        let wanted = self.wanted_for_vectors(round.iter().map(|(a, _)| a.shape()))?;
        let begun = self.begin(&shapes_of(round), &|entries, placed, len| self.upload(round, entries, placed, len), wanted)?;
        let Some(begun) = begun else { return Ok(Vec::new()) };
        let vectors = self.rotate(&begun)?;
        let values = self.values_of(&begun).await?;
        Ok(values.into_iter().zip(self.rotated(vectors).await?).collect())
    }

    /// Uploads the entries of a round, of so many in all.
    fn upload<T: Scalar>(&self, round: &[(MatRef<'_, T>, Re<T>)], entries: &Buffer, placed: &[Placed], len: usize) -> Result<()> {
        fn of<S: Number>(stream: &Stream, entries: &Buffer, packed: &[S]) -> Result<()> {
            stream.upload(entries, packed.len(), |at, piece: &mut [S]| piece.copy_from_slice(&packed[at..at + piece.len()]))
        }
        match self.classes.kind.is_half() {
            false => of(&self.stream, entries, &pack::<T, T>(round, placed, len)?),
            true => of(&self.stream, entries, &pack::<T, T::Compact>(round, placed, len)?),
        }
    }

    /// Dispatches `batch` for matrices of these shapes, which `upload` copies to a buffer, while its pipelines and those of `others` are compiled.
    /// None if there are none.
    fn begin(&self, shapes: &[(usize, usize)], upload: Upload<'_>, others: Vec<Wanted>) -> Result<Option<Begun>> {
        let (context, stream, kind) = (&self.classes.context, &self.stream, self.classes.kind);
        let placed = self.place(shapes.iter().copied())?;
        let Some(last) = placed.last() else { return Ok(None) };
        let (len, values) = (last.from + last.entries(), last.to + last.bounds());

        let mut order: Vec<usize> = (0..placed.len()).collect();
        order.sort_by_key(|&k| (placed[k].shape.spilled, placed[k].shape));
        let classes = order.chunk_by(|&x, &y| placed[x].shape == placed[y].shape);
        let wanted = classes.clone().map(|class| placed[class[0]].shape);
        let wanted: Vec<Wanted> = wanted.map(|shape| (shader(&shape), shape.constants().into(), 0)).chain(others).collect();

        let entries = storage(context, "the entries of a batch", (len * kind.bytes()) as u64)?;
        let table = storage(context, "the table of a batch", (4 * WORDS * placed.len()) as u64)?;
        let bounds = storage(context, "bounds of the singular values", (values * kind.real_bytes()) as u64)?;
        // Laid out as the entries, but of the type of the arithmetic.
        let spilled = match order.last() {
            Some(&last) if placed[last].shape.spilled => {
                Some(storage(context, "matrices of a batch", (len * kind.scalar_bytes()) as u64)?)
            }
            _ => None,
        };
        context.prepare(kind, &wanted, || {
            upload(&entries, &placed, len)?;
            let words = order.iter().flat_map(|&k| {
                let Placed { size: (m, n), from, to, .. } = placed[k];
                [m as u32, n as u32, from as u32, to as u32]
            });
            let words: Vec<u32> = words.collect();
            stream.upload(&table, words.len(), |at, piece: &mut [u32]| piece.copy_from_slice(&words[at..at + piece.len()]))
        })?;

        let mut first = 0;
        for class in classes {
            let shape = placed[class[0]].shape;
            let pipeline = context.pipeline(kind, shader(&shape), &shape.constants(), 0)?;
            let buffers = [&table, &entries, &bounds].into_iter().chain(spilled.as_ref().filter(|_| shape.spilled));
            let bindings = stream.bind(&pipeline, &buffers.collect::<Vec<_>>(), &[])?;
            let mut rest = class;
            while !rest.is_empty() {
                let (some, others) = rest.split_at(self.at_once(&shape, rest, &placed));
                let work = Work::batch(kind, &shape, some.iter().map(|&k| placed[k].size));
                let passes = passes_of_bisection(kind) as u32;
                let parameters = parameters::Batch { first, count: some.len() as u32, passes };
                let [x, y] = stream.fold(some.len())?;
                stream.dispatch(&pipeline, &bindings, parameters, [x, y, 1], work)?;
                first += some.len() as u32;
                rest = others;
            }
        }
        Ok(Some(Begun { placed, entries, bounds, values }))
    }

    /// The values of a round.
    async fn values_of(&self, Begun { placed, bounds, values, .. }: &Begun) -> Result<Vec<Vec<f64>>> {
        let kind = self.classes.kind;
        let bounds = self.stream.read_back_reals(kind, bounds, *values).await?;
        let of = |(): &mut (), k: usize| values_of(kind, &bounds[placed[k].to..][..placed[k].bounds()]);
        try_map(placed.len(), || (), of)
    }

    /// The number of the matrices, at least one, of one dispatch.
    fn at_once(&self, shape: &BatchShape, of_class: &[usize], placed: &[Placed]) -> usize {
        let mut flops = 0u64;
        let fits = |&&k: &&usize| {
            flops = flops.saturating_add(Work::batch(self.classes.kind, shape, std::iter::once(placed[k].size)).flops);
            flops <= self.stream.most_flops()
        };
        let most = self.stream.most_workgroups().saturating_pow(2).min(shape.most(self.classes.kind));
        of_class.iter().take(most).take_while(fits).count().max(1)
    }
}

/// The scaled matrices, row by row, with zeros up to the leading dimension.
fn pack<T, S>(round: &[(MatRef<'_, T>, Re<T>)], placed: &[Placed], len: usize) -> Result<Vec<S>>
where
    T: Scalar,
    S: Number<Scalar = T>,
{
    let mut packed: Vec<S> = Vec::new();
    packed.try_reserve_exact(len).map_err(|e| SvdError::OutOfMemory { reason: format!("a batch: {e}") })?;
    packed.resize(len, S::zeroed());
    let (mut rest, mut parts) = (&mut packed[..], Vec::with_capacity(placed.len()));
    for of in placed {
        let (part, others) = rest.split_at_mut(of.entries());
        parts.push(part);
        rest = others;
    }
    each(parts.into_iter().zip(round), |(part, (a, scale))| {
        let ld = leading_dimension(a.ncols());
        copy_lines(a.transpose(), ld, 0, part, |_| 0..a.ncols(), |x| S::narrow(x.times(*scale)));
    });
    Ok(packed)
}

/// The singular values, descending, of a factor and bounds.
fn values_of(kind: ElementKind, bounds: &[f64]) -> Result<Vec<f64>> {
    if bounds.iter().any(|x| !x.is_finite()) {
        return Err(SvdError::Gpu { what: "a matrix of a batch", reason: "it left numbers that are not finite".into() });
    }
    let factor = bounds.first().copied().unwrap_or(1.0);
    let mut values: Vec<f64> = bounds[1..].chunks_exact(2).map(|of| value_between(kind, of[0], of[1]) / factor).collect();
    values.sort_unstable_by(|x, y| y.total_cmp(x));
    Ok(values)
}
