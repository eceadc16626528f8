//! A matrix in fixed point on the device, and its products with vectors (`multiply_fixed`).

use std::ops::Range;

use faer::{Mat, MatRef};

use crate::{
    algo::fixed::{Entries, FixedMatrix, Multiply},
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
    },
    cost::{
        counts::Counts,
        fixed::{FixedShape, LINES, VECTORS, parts},
        work::{Kernel, Work},
    },
    gpu::{
        device::{
            buffers::{Buffer, storage},
            context::GpuContext,
            parameters,
            pipeline::MULTIPLY_FIXED,
            stream::{Manner, Stream},
        },
        limits::fitting_bytes,
    },
    tile::fixed::{Fixed, FixedKernels, of_words},
};

/// Bytes of the sums of a dispatch and the vectors of an upload: with more, vectors come in several groups.
const SUMS_BYTES: u64 = 64 << 20;
/// Words of a sum.
const WORDS: usize = 3;

/// The rows of the matrix that are in one buffer, by columns.
struct Block {
    rows: Range<usize>,
    entries: Buffer,
}

/// A matrix of fixed-point numbers on the device, m x n.
pub(crate) struct GpuFixed {
    stream: Stream,
    blocks: Vec<Block>,
    rows: usize,
    cols: usize,
}

/// The sums of a block in the buffer of all: from where on, and in how many parts.
struct Place {
    first: usize,
    lines: Range<usize>,
    parts: usize,
}

impl GpuFixed {
    /// The m x n matrix of these entries, uploaded.
    pub fn new(
        context: &GpuContext,
        manner: Manner,
        (m, n): (usize, usize),
        entry: impl Fn(usize, usize) -> Fixed + Sync,
    ) -> Result<Self> {
        let stream = Stream::running(context, manner)?;
        // As many rows as one buffer, one dispatch, and the shader's u32 hold.
        let of_row = Work::multiply_fixed(FixedShape::of(1), (1, n), 1, 1).flops.max(1);
        let in_buffer = context.max_buffer_bytes() / (n.max(1) * size_of::<Fixed>()) as u64;
        let in_words = u64::from(u32::MAX) / n.max(1) as u64;
        let most = usize::try_from(in_buffer.min(in_words).min(stream.most_flops() / of_row)).unwrap_or(usize::MAX);
        // In whole workgroups, if a buffer holds the rows of one.
        let whole = if most < LINES { most.max(1) } else { most / LINES * LINES };
        let at_once = whole.min(stream.most_workgroups().saturating_mul(LINES));
        Self::in_blocks(stream, (m, n), at_once, entry)
    }

    /// The same, with this many rows in a buffer.
    fn in_blocks(
        stream: Stream,
        (m, n): (usize, usize),
        at_once: usize,
        entry: impl Fn(usize, usize) -> Fixed + Sync,
    ) -> Result<Self> {
        if n.div_ceil(LINES) > stream.most_workgroups() {
            return Err(SvdError::invalid("matrix", format!("{n} columns are more than a grid has")));
        }
        let block = |first: usize| {
            let rows = first..m.min(first + at_once);
            let (what, count) = ("the matrix in fixed point", rows.len());
            let bytes = fitting_bytes(stream.context(), what, size_of::<Fixed>(), count.checked_mul(n))?;
            let entries = storage(stream.context(), what, bytes)?;
            stream.upload(&entries, count * n, |start, piece: &mut [Fixed]| {
                for (at, to) in (start..).zip(piece) {
                    *to = entry(first + at % count, at / count);
                }
            })?;
            Ok(Block { rows, entries })
        };
        let blocks = (0..m).step_by(at_once).map(block).collect::<Result<_>>()?;
        Ok(GpuFixed { stream, blocks, rows: m, cols: n })
    }

    /// Dispatches, submissions and bytes transferred so far.
    pub fn counts(&self) -> Counts {
        self.stream.counts()
    }

    /// Seconds of the kernel so far, if kernels are timed.
    pub fn kernel_seconds(&self) -> Vec<(Kernel, f64)> {
        self.stream.kernel_seconds()
    }

    /// Where the sums of each block of `count` vectors are, and their number.
    fn places(&self, count: usize, transposed: bool) -> (Vec<Place>, usize) {
        let mut first = 0;
        let place = |block: &Block| {
            let (lines, terms) = if transposed { (0..self.cols, block.rows.len()) } else { (block.rows.clone(), self.cols) };
            let parts = parts(lines.len(), terms, self.stream.most_workgroups());
            let place = Place { first, lines, parts };
            first += WORDS * count * parts * place.lines.len();
            place
        };
        let places = self.blocks.iter().map(place).collect();
        (places, first)
    }

    /// The sums of some vectors.
    fn some(&self, vectors: &[Vec<Fixed>], transposed: bool) -> Result<Vec<Vec<i128>>> {
        let (stream, context, count) = (&self.stream, self.stream.context(), vectors.len());
        let (terms, lines) = if transposed { (self.rows, self.cols) } else { (self.cols, self.rows) };
        let (places, words) = self.places(count, transposed);
        let x_bytes = fitting_bytes(context, "vectors", size_of::<Fixed>(), terms.checked_mul(count))?;
        let x = storage(context, "vectors", x_bytes)?;
        stream.upload(&x, terms * count, |start, piece: &mut [Fixed]| {
            for (at, to) in (start..).zip(piece) {
                *to = vectors[at / terms][at % terms];
            }
        })?;
        let bytes = fitting_bytes(context, "sums of products", size_of::<u32>(), Some(words))?;
        let sums = storage(context, "sums of products", bytes)?;
        let shape = FixedShape::of(count);
        let pipeline = context.pipeline(ElementKind::F32, &MULTIPLY_FIXED, &shape.constants(), 0)?;
        for (Block { rows, entries }, place) in self.blocks.iter().zip(&places) {
            let size = if transposed { (self.cols, rows.len()) } else { (rows.len(), self.cols) };
            let (line_stride, term_stride) = if transposed { (rows.len(), 1) } else { (1, rows.len()) };
            let bindings = stream.bind(&pipeline, &[entries, &x, &sums], &[])?;
            let parameters = parameters::MultiplyFixed {
                lines: size.0 as u32,
                terms: size.1 as u32,
                line_stride: line_stride as u32,
                term_stride: term_stride as u32,
                parts: place.parts as u32,
                vectors: count as u32,
                x: if transposed { rows.start as u32 } else { 0 },
                x_ld: terms as u32,
                out: place.first as u32,
            };
            let grid = [size.0.div_ceil(LINES) as u32, place.parts as u32, count.div_ceil(shape.vectors) as u32];
            stream.dispatch(&pipeline, &bindings, parameters, grid, Work::multiply_fixed(shape, size, place.parts, count))?;
        }
        let words: Vec<u32> = stream.read_back_now(&sums, words)?;
        let mut all = vec![vec![0; lines]; count];
        for Place { first, lines, parts } in places {
            for (v, sums) in all.iter_mut().enumerate() {
                for part in 0..parts {
                    let at = first + WORDS * (v * parts + part) * lines.len();
                    let [top, middle, low] = [0, 1, 2].map(|word| &words[at + word * lines.len()..][..lines.len()]);
                    for (l, sum) in sums[lines.clone()].iter_mut().enumerate() {
                        *sum += of_words(top[l], middle[l], low[l]);
                    }
                }
            }
        }
        Ok(all)
    }
}

impl FixedKernels for GpuFixed {
    fn multiply_fixed(&self, vectors: &[Vec<Fixed>], transposed: bool) -> Result<Vec<Vec<i128>>> {
        let terms = if transposed { self.rows } else { self.cols };
        if let Some(wrong) = vectors.iter().find(|x| x.len() != terms) {
            return Err(SvdError::invalid("matrix", format!("a vector of {} numbers, not {terms}", wrong.len())));
        }
        let of_one = 4 * self.places(1, transposed).1.max(2 * terms);
        // Whole groups of a dispatch, whose work is within that of a submission.
        let most_rows = self.blocks.iter().map(|block| block.rows.len()).max().unwrap_or(0);
        let in_submission =
            self.stream.most_flops() / Work::multiply_fixed(FixedShape::of(1), (most_rows, self.cols), 1, 1).flops.max(1);
        let in_bytes = self.stream.context().max_buffer_bytes().min(SUMS_BYTES) / (of_one as u64).max(1);
        let at_once = usize::try_from(in_submission.min(in_bytes)).unwrap_or(usize::MAX).clamp(1, self.stream.most_workgroups());
        let at_once = if at_once < VECTORS { at_once } else { at_once / VECTORS * VECTORS };
        let groups: Result<Vec<_>> = vectors.chunks(at_once).map(|some| self.some(some, transposed)).collect();
        Ok(groups?.concat())
    }
}

/// A X, or A^T X, in fixed point, for tests.
pub fn products_in_fixed_point(
    context: &GpuContext,
    a: MatRef<'_, f64>,
    x: MatRef<'_, f64>,
    transposed: bool,
) -> Result<Mat<f64>> {
    let made = |f: Entries<'_>| GpuFixed::new(context, Manner::default(), a.shape(), f);
    FixedMatrix::new(a.shape(), |i, j| a[(i, j)], made)?.multiply(x, transposed, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cpu::least_squares::multiply_fixed::CpuFixed, gpu::device::adapter::AdapterChoice, tile::fixed::of_digits};

    /// Sums are the twin's, bit by bit: of tall, wide and single lines, of one part and of several, for one vector and several, with digits of either sign
    /// and with the largest ones, whose sums come nearest to overflow.
    #[test]
    fn sums_are_those_of_the_twin() {
        let context = match GpuContext::new(&AdapterChoice::default()) {
            Ok(context) => context,
            Err(error) if std::env::var("SVDVALS_GPU_REQUIRE").is_ok_and(|value| value == "1") => panic!("{error}"),
            Err(error) => return eprintln!("left out: {error}"),
        };
        const MOST: i32 = 1 << 13;
        let random = |i: usize, j: usize| {
            let z = ((i as u64) << 32 | j as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let z = (z ^ z >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            of_digits([0, 14, 28, 42].map(|shift| ((z >> shift & 0x3fff) as i32) - MOST))
        };
        let largest = |_: usize, _: usize| of_digits([-MOST; 4]);
        let opposite = |i: usize, _: usize| of_digits([if i.is_multiple_of(2) { MOST } else { -MOST }, -MOST, -MOST, -MOST]);
        for (m, n, p) in [(1, 1, 1), (37, 5, 1), (5, 37, 3), (700, 130, 2), (2000, 3, 5), (40, 3000, 4), (20, 0, 1), (0, 3, 2)] {
            for (name, entry) in
                [("random", &random as &(dyn Fn(usize, usize) -> Fixed + Sync)), ("largest", &largest), ("opposite", &opposite)]
            {
                // In one buffer, and in several.
                let whole = GpuFixed::new(&context, Manner::default(), (m, n), entry).unwrap();
                let blocks = GpuFixed::in_blocks(Stream::new(&context).unwrap(), (m, n), 2 * LINES + 3, entry).unwrap();
                assert_eq!((whole.blocks.len(), blocks.blocks.len()), (usize::from(m > 0), m.div_ceil(2 * LINES + 3)));
                let of_host = CpuFixed::new((m, n), entry).unwrap();
                for transposed in [false, true] {
                    let terms = if transposed { m } else { n };
                    let vectors: Vec<Vec<Fixed>> =
                        (0..p).map(|v| (0..terms).map(|k| entry(k + 7 * v, v + 3)).collect()).collect();
                    let want = of_host.multiply_fixed(&vectors, transposed).unwrap();
                    for of_device in [&whole, &blocks] {
                        let found = of_device.multiply_fixed(&vectors, transposed).unwrap();
                        assert!(found == want, "{name} {m} x {n}, {p}, {transposed}");
                    }
                }
                let long = vec![vec![Fixed::default(); n + 1]];
                assert!(matches!(whole.multiply_fixed(&long, false), Err(SvdError::InvalidOption { .. })));
            }
        }
    }
}
