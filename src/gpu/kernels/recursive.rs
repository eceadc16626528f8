//! The operations of the recursive QR factorisation on the device: products by cooperative matrices (`slice_lines`, `coop_gemm`), and panels by the
//! tile kernels.

use std::sync::{Mutex, PoisonError};

use faer::{Mat, MatRef};
use half::f16;
use num_complex::Complex;

use crate::{
    algo::{
        reconstruct::Top,
        reflectors::keep_factor,
        to_band::triangular_factor,
        triangular::{Operation, Variant},
    },
    base::{
        blas::{Diag, Op, Side, Uplo},
        element_kind::ElementKind,
        error::{Result, SvdError},
    },
    cost::{
        recursive::{CoopShape, SLICE_LINES},
        work::Work,
    },
    gpu::{
        device::{
            buffers::{Buffer, storage},
            context::GpuContext,
            cooperative::Cooperative,
            parameters,
            pipeline::{COOP_GEMM, SLICE_LINES as SLICE},
            stream::{Manner, Stream},
        },
        kernels::{
            GpuKernels,
            left::{Part, Stack, whole},
            triangular::on_device,
        },
        matrix::{DeviceMatrix, Window},
        storage::Dense,
    },
    tile::{
        kernels::Transfers,
        products::{Block, EXACT_TERMS, Into, Operand, Panel, Products, RecursiveKernels, Reflectors},
        tuning::Tuning,
    },
};

/// Bytes of the slices of X at a time: a product with more has several dispatches, each for some columns.
const SLICE_BYTES: usize = 256 << 20;

/// The slices of an operand and their scales, in buffers that all products share.
#[derive(Default)]
struct Room(Option<(Buffer, Buffer)>);

impl Room {
    /// Buffers for so many slices' entries and scales.
    fn of(&mut self, context: &GpuContext, entries: usize, scales: usize) -> Result<(Buffer, Buffer)> {
        let (of_entries, of_scales) = ((entries as u64).saturating_mul(2), (scales as u64).saturating_mul(4));
        match &self.0 {
            Some((slices, scales)) if slices.size() >= of_entries && scales.size() >= of_scales => {}
            _ => {
                let made = |bytes| storage(context, "slices of an operand", bytes);
                self.0 = Some((made(of_entries)?, made(of_scales)?));
            }
        }
        self.0.clone().ok_or_else(|| SvdError::invalid("products", "no room"))
    }
}

/// The operations on a device with cooperative matrices.
pub(crate) struct GpuRecursive {
    tiles: GpuKernels,
    cooperative: Cooperative,
    /// Slices of M, and of X.
    rooms: Mutex<[Room; 2]>,
}

/// A block of a matrix that is in one buffer.
fn part<'a>(a: &'a Dense, block: Block) -> Result<Part<'a>> {
    let all = whole(a)?;
    if block.row + block.rows > all.rows || block.col + block.cols > all.cols {
        return Err(SvdError::invalid("matrix", format!("{block:?} is not in {} x {}", all.rows, all.cols)));
    }
    let Window { offset, rs, cs } = all.window;
    Ok(Part {
        window: Window { offset: offset + block.row * rs + block.col * cs, rs, cs },
        rows: block.rows,
        cols: block.cols,
        ..all
    })
}

impl GpuRecursive {
    /// On a context whose [self-test](crate::gpu::device::cooperative) has passed.
    pub fn new(context: &GpuContext, tuning: &Tuning, manner: Manner) -> Result<Self> {
        Self::with(context, context.cooperative()?, tuning, manner)
    }

    pub fn with(context: &GpuContext, cooperative: Cooperative, tuning: &Tuning, manner: Manner) -> Result<Self> {
        let tiles = GpuKernels::running(ElementKind::F32, context, tuning, manner)?;
        Ok(GpuRecursive { tiles, cooperative, rooms: Mutex::default() })
    }

    pub fn tiles(&self) -> &GpuKernels {
        &self.tiles
    }

    fn stream(&self) -> &Stream {
        &self.tiles.stream
    }

    /// A matrix by columns, in one buffer.
    fn by_columns(&self, rows: usize, cols: usize) -> Result<Dense> {
        let made =
            Dense::new(ElementKind::F32, &self.tiles.context, (rows, cols), false, self.tiles.shape, self.tiles.tuning.leaf)?;
        whole(&made)?;
        Ok(made)
    }

    /// Slices of the lines of a matrix, which are its rows; `padded` lines.
    fn slice(&self, lines: Part<'_>, padded: usize, products: Products, room: &mut Room) -> Result<(Buffer, Buffer)> {
        let context = &self.tiles.context;
        let columns = lines.cols.next_multiple_of(EXACT_TERMS);
        let entries = padded.saturating_mul(columns).saturating_mul(products.slices());
        if entries > u32::MAX as usize {
            return Err(SvdError::invalid("matrix", format!("{padded} x {columns} slices are more than a shader can index")));
        }
        let (slices, scales) = room.of(context, entries, padded)?;
        let pipeline = context.pipeline(ElementKind::F32, &SLICE, &[], 0)?;
        let bindings = self.stream().bind(&pipeline, &[lines.buffer, &slices, &scales], &[])?;
        let Window { offset, rs, cs } = lines.window;
        let parameters = parameters::SliceLines {
            lines: lines.rows as u32,
            terms: lines.cols as u32,
            a: offset as u32,
            line_stride: rs as u32,
            term_stride: cs as u32,
            columns: columns as u32,
            padded: padded as u32,
            flags: u32::from(products == Products::Split),
        };
        let [x, y] = self.stream().fold(padded.div_ceil(SLICE_LINES))?;
        let work = Work::slice_lines(lines.cols, padded, products);
        self.stream().dispatch(&pipeline, &bindings, parameters, [x, y, 1], work)?;
        Ok((slices, scales))
    }

    /// C <- M X, -M X or C - M X, for windows of three buffers.
    fn multiply(&self, products: Products, m: Part<'_>, x: Part<'_>, c: Part<'_>, into: Into) -> Result<()> {
        let (rows, cols, terms) = (c.rows, c.cols, m.cols);
        if (m.rows, x.rows, x.cols) != (rows, terms, cols) {
            let reason = format!("{rows} x {cols} from {} x {terms} and {} x {}", m.rows, x.rows, x.cols);
            return Err(SvdError::invalid("matrix", reason));
        }
        if rows * cols == 0 {
            return Ok(());
        }
        let Cooperative { order, threads } = self.cooperative;
        let shape = CoopShape::of(order, threads, products);
        let (side, columns) = (shape.side(), terms.next_multiple_of(EXACT_TERMS));
        let pipeline = self.tiles.context.pipeline(ElementKind::F32, COOP_GEMM.of(products, order), &shape.constants(), 0)?;
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let [of_m, of_x] = &mut *rooms;
        let m_padded = rows.next_multiple_of(side);
        let (m, s) = self.slice(m, m_padded, products, of_m)?;
        // Columns of X at a time.
        let of_column = Work::coop_gemm(&shape, products, (rows, 1, terms)).flops;
        let most = (SLICE_BYTES / (2 * columns.max(1) * products.slices()))
            .min((self.stream().most_flops() / of_column.max(1)) as usize);
        let at_once = (most / side).clamp(1, self.stream().most_workgroups()).saturating_mul(side);
        let [y, z] = self.stream().fold(rows.div_ceil(side))?;
        for first in (0..cols).step_by(at_once) {
            let some = at_once.min(cols - first);
            let x_padded = some.next_multiple_of(side);
            let window = Window { offset: x.window.offset + first * x.window.cs, ..x.window };
            let lines = Part { window: window.transposed(), rows: some, cols: terms, ..x };
            let (x, t) = self.slice(lines, x_padded, products, of_x)?;
            let bindings = self.stream().bind(&pipeline, &[&m, &x, &s, &t, c.buffer], &[])?;
            let parameters = parameters::CoopGemm {
                rows: rows as u32,
                cols: some as u32,
                columns: columns as u32,
                m_padded: m_padded as u32,
                x_padded: x_padded as u32,
                c: c.window.at(0, first),
                c_rs: c.window.rs as u32,
                c_cs: c.window.cs as u32,
                flags: into as u32,
            };
            let work = Work::coop_gemm(&shape, products, (rows, some, terms));
            self.stream().dispatch(&pipeline, &bindings, parameters, [some.div_ceil(side) as u32, y, z], work)?;
        }
        Ok(())
    }
}

/// The slices and the scales of the rows of a matrix as `slice_lines` makes them, for tests. It needs f16, and no cooperative matrices.
pub fn sliced_rows(context: &GpuContext, a: MatRef<'_, f32>, products: Products) -> Result<(Vec<Mat<f32>>, Vec<f32>)> {
    context.require(ElementKind::F16)?;
    let cooperative = Cooperative { order: 8, threads: 8 };
    let kernels = GpuRecursive::with(context, cooperative, &Tuning::for_adapter::<f32>(context, 100), Manner::default())?;
    let made = kernels.tiles.upload(a, 1.0)?;
    let (lines, padded) = (whole(&made)?, a.nrows().next_multiple_of(4 * cooperative.order));
    let columns = a.ncols().next_multiple_of(EXACT_TERMS);
    let (slices, scales) = kernels.slice(lines, padded, products, &mut Room::default())?;
    let entries: Vec<f16> = kernels.stream().read_back_now(&slices, products.slices() * padded * columns)?;
    let slice = |s: usize| Mat::from_fn(padded, columns, |l, k| entries[(s * padded + l) * columns + k].to_f32());
    Ok(((0..products.slices()).map(slice).collect(), kernels.stream().read_back_now(&scales, padded)?))
}

impl RecursiveKernels for GpuRecursive {
    type Matrix = Dense;

    fn zeros(&self, rows: usize, cols: usize) -> Result<Dense> {
        self.by_columns(rows, cols) // a new buffer has zeros
    }

    fn upload(&self, a: MatRef<'_, f32>) -> Result<Dense> {
        let copy;
        let by_columns = if a.row_stride() == 1 {
            a
        } else {
            copy = a.to_owned();
            copy.as_ref()
        };
        let made = self.tiles.upload(by_columns, 1.0)?;
        whole(&made)?;
        Ok(made)
    }

    fn download(&self, a: &Dense, rows: usize) -> impl Future<Output = Result<Mat<f32>>> + Send {
        self.tiles.download_rows(a, rows)
    }

    fn product(
        &self,
        products: Products,
        m: Operand<'_, Dense>,
        x: Operand<'_, Dense>,
        (c, block): (&mut Dense, Block),
        into: Into,
    ) -> Result<()> {
        let of = |operand: &Operand<'_, Dense>| {
            let part = part(operand.of, operand.block)?;
            let turned = Part { window: part.window.transposed(), rows: part.cols, cols: part.rows, ..part };
            Ok::<_, SvdError>(if operand.transposed {
                (turned.window, turned.rows, turned.cols)
            } else {
                (part.window, part.rows, part.cols)
            })
        };
        let ((m_window, m_rows, m_cols), (x_window, x_rows, x_cols)) = (of(&m)?, of(&x)?);
        let m = Part { buffer: whole(m.of)?.buffer, window: m_window, rows: m_rows, cols: m_cols, stack: Stack::ONE };
        let x = Part { buffer: whole(x.of)?.buffer, window: x_window, rows: x_rows, cols: x_cols, stack: Stack::ONE };
        self.multiply(products, m, x, part(c, block)?, into)
    }

    fn copy(&self, from: (&Dense, Block), to: (&mut Dense, Block)) -> Result<()> {
        self.tiles.copy(part(from.0, from.1)?, part(to.0, to.1)?, false)
    }

    async fn panel(&self, a: &mut Dense, to: &mut Reflectors<Dense>, Panel { cols, block }: &Panel, rows: usize) -> Result<()> {
        let (tiles, w) = (&self.tiles, cols.len());
        let below = Block::new(cols.start..rows, cols.clone());
        let square = Block { rows: w, ..below };
        let size = (below.rows, w);
        let mut panel = self.by_columns(size.0, w)?;
        tiles.copy(part(a, below)?, whole(&panel)?, false)?;
        keep_factor(tiles, &mut panel, size, &tiles.tuning)?;
        triangular_factor(tiles, &mut panel, size.0, w, &tiles.tuning)?;
        let q = tiles.columns_of_factor(&panel, size, w)?;
        // Both in one read-back, for which the device waits.
        let both = self.by_columns(w, 2 * w)?;
        for (from, first) in [(&panel, 0), (&q, w)] {
            let top = Block::new(0..w, 0..w);
            tiles.copy(part(from, top)?, part(&both, Block { col: first, ..top })?, false)?;
        }
        let both = tiles.download_rows(&both, w).await?;
        let (r, top) = both.as_ref().split_at_col(w);
        let Top { v, upper, t, signs } = Top::of(top);
        // The rows of V below the first w are those of Q U^-1.
        let upper = DeviceMatrix::from_dense(&tiles.context, tiles.upload(upper.as_ref(), 1.0)?)?;
        let inverse =
            Variant { operation: Operation::Solve, side: Side::Right, uplo: Uplo::Upper, op: Op::NoTrans, diag: Diag::NonUnit };
        let of_q = DeviceMatrix::view(&tiles.context, &q, q.size)?;
        on_device(&tiles.context, &tiles.stream, &tiles.tuning, &inverse, Complex::ONE, &upper, &of_q)?;
        tiles.copy(whole(&q)?, part(&to.v, below)?, false)?;
        let r = Mat::from_fn(w, w, |i, j| if i <= j { r[(i, j)] * signs[i] } else { 0.0 });
        let in_t = Block::new(cols.start - block..cols.end - block, cols.clone());
        for (from, to) in [(&r, part(a, square)?), (&v, part(&to.v, square)?), (&t, part(&to.t, in_t)?)] {
            tiles.copy(whole(&tiles.upload(from.as_ref(), 1.0)?)?, to, false)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
