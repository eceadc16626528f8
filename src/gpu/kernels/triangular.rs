//! The triangular operations on the device: `gemm` and the base kernels `trmm` and `trsm`, called by the recursion in `algo/triangular.rs`.

use std::ops::Range;

use faer::{MatMut, MatRef};
use num_complex::Complex;

use crate::{
    algo::triangular::{Factor, Operation, TriangularKernels, Variant, run},
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::Scalar,
    },
    cost::{
        product_shape::ProductShape,
        shape::{Bounds, Shape, TriangleShape},
        work::{Kernel, Work},
    },
    gpu::{
        device::{
            buffers::Bindings,
            context::GpuContext,
            parameters,
            pipeline::{GEMM, Pipeline, TRMM, TRSM},
            stream::Stream,
        },
        kernels::products::numbers_of,
        matrix::{DeviceMatrix, Window, matrix_bytes},
    },
    tile::{flops::of_pair, tuning::Tuning},
};

/// The shapes of the kernels for `T`, if the device can run with these hyperparameters.
pub(crate) fn check(kind: ElementKind, context: &GpuContext, tuning: &Tuning) -> Result<(Shape, TriangleShape)> {
    let bounds = Bounds::of(context);
    Ok((Shape::new(kind.scalar(), &bounds, tuning)?, TriangleShape::new(kind.scalar(), &bounds, tuning)?))
}

/// Bytes of A and B of these shapes on the device.
///
/// # Errors
/// [`SvdError::TooLarge`] if one of them exceeds the device's limits; [`SvdError::InvalidOption`] if the device cannot run with these
/// hyperparameters.
pub(crate) fn required_triangular_bytes(
    kind: ElementKind,
    context: &GpuContext,
    a: (usize, usize),
    b: (usize, usize),
    tuning: &Tuning,
) -> Result<u64> {
    check(kind, context, tuning)?;
    let bytes = |size| Ok::<_, SvdError>(matrix_bytes(kind, context, size, false)?.max(matrix_bytes(kind, context, size, true)?));
    Ok(bytes(a)?.saturating_add(bytes(b)?))
}

/// The operation on matrices in host memory: uploads A and B, and reads B back. The shapes must match, and neither matrix may be empty.
pub(crate) fn triangular<T: Scalar>(
    context: &GpuContext,
    tuning: &Tuning,
    variant: &Variant,
    alpha: T,
    a: MatRef<'_, T>,
    b: MatMut<'_, T>,
) -> Result<()> {
    let stream = Stream::new(context)?;
    let a = DeviceMatrix::upload(&stream, a, Some(variant.uplo))?;
    let on_device_b = DeviceMatrix::upload(&stream, b.as_ref(), None)?;
    on_device(context, &stream, tuning, variant, alpha.to_complex(), &a, &on_device_b)?;
    on_device_b.download_to(&stream, b)
}

/// The operation on device matrices, in place on `b`. The shapes must match, and neither matrix may be empty.
pub(crate) fn on_device(
    context: &GpuContext,
    stream: &Stream,
    tuning: &Tuning,
    variant: &Variant,
    alpha: Complex<f64>,
    a: &DeviceMatrix,
    b: &DeviceMatrix,
) -> Result<()> {
    let order = a.size.0;
    let mut kernels = GpuTriangular::new(context, stream, tuning, variant, alpha, a, b)?;
    let base = tuning.triangle.min(kernels.triangle.base);
    run(&mut kernels, variant, 0..order, base, Factor::Alpha)
}

/// M and B on the device, with the kernels that operate on them.
struct GpuTriangular<'a> {
    stream: &'a Stream,
    variant: &'a Variant,
    /// M, `order` x `order`.
    m: Window,
    order: usize,
    /// B, `order` x `cols`.
    b: Window,
    cols: usize,
    shape: Shape,
    triangle: TriangleShape,
    /// Half the real flops of a multiplication and an addition.
    pair: u64,
    gemm: (Pipeline, Bindings),
    base: (Pipeline, Bindings),
}

impl<'a> GpuTriangular<'a> {
    fn new(
        context: &GpuContext,
        stream: &'a Stream,
        tuning: &Tuning,
        variant: &'a Variant,
        alpha: Complex<f64>,
        a: &DeviceMatrix,
        b: &DeviceMatrix,
    ) -> Result<Self> {
        variant.check_shapes((a.size.0, a.size.1), (b.size.0, b.size.1))?;
        let kind = a.kind;
        if b.kind != kind {
            return Err(SvdError::invalid("b", format!("of {}, where A is of {}", b.kind.name(), kind.name())));
        }
        let (shape, triangle) = check(kind, context, tuning)?;
        let m = if variant.transposes_a() { a.window().transposed() } else { a.window() };
        let (window, cols) = if variant.transposes_b() { (b.window().transposed(), b.size.0) } else { (b.window(), b.size.1) };

        let factors = numbers_of(stream, "factors", kind, &[Complex::ONE, -Complex::ONE, alpha])?;
        let gemm = context.pipeline(kind, &GEMM, &shape.products.constants(), 0)?;
        let base = match variant.operation {
            Operation::Multiply => &TRMM,
            Operation::Solve => &TRSM,
        };
        let base = context.pipeline(kind, base, &triangle.constants(), 0)?;
        let bind = |pipeline| stream.bind(pipeline, &[&a.entries, &b.entries, &factors], &[]);
        let (gemm_bindings, base_bindings) = (bind(&gemm)?, bind(&base)?);
        Ok(GpuTriangular {
            stream,
            variant,
            m,
            order: a.size.0,
            b: window,
            cols,
            shape,
            triangle,
            pair: of_pair(kind),
            gemm: (gemm, gemm_bindings),
            base: (base, base_bindings),
        })
    }

    /// Index in the shaders' `factors`.
    fn index(factor: Factor) -> u32 {
        match factor {
            Factor::One => 0,
            Factor::MinusOne => 1,
            Factor::Alpha => 2,
        }
    }

    /// Checks that `rows` are within the matrices, so that the kernels stay within their buffers.
    fn check_rows(&self, rows: &Range<usize>) -> Result<()> {
        if rows.is_empty() || rows.end > self.order {
            return Err(SvdError::invalid("rows", format!("{rows:?} of {}", self.order)));
        }
        Ok(())
    }

    /// Dispatches the base kernel on `rows` of B.
    fn triangle(&self, rows: Range<usize>, alpha: Factor) -> Result<()> {
        self.check_rows(&rows)?;
        if rows.len() > self.triangle.base {
            return Err(SvdError::invalid("triangle", format!("{} rows, of at most {}", rows.len(), self.triangle.base)));
        }
        let variant = self.variant;
        let flags = u32::from(variant.conjugates()) | u32::from(variant.lower()) << 1 | u32::from(variant.unit()) << 2;
        let parameters = parameters::Triangle {
            order: rows.len() as u32,
            cols: self.cols as u32,
            a: self.m.at(rows.start, rows.start),
            a_rs: self.m.rs as u32,
            a_cs: self.m.cs as u32,
            b: self.b.at(rows.start, 0),
            b_rs: self.b.rs as u32,
            b_cs: self.b.cs as u32,
            flags: flags | Self::index(alpha) << 8,
        };
        let [x, y] = self.stream.fold(self.cols.div_ceil(4 * self.triangle.groups))?;
        let flops = self.pair * (rows.len() as u64).pow(2).saturating_mul(self.cols as u64);
        let kernel = match variant.operation {
            Operation::Multiply => Kernel::Trmm,
            Operation::Solve => Kernel::Trsm,
        };
        self.stream.dispatch(&self.base.0, &self.base.1, parameters, [x, y, 1], Work::other(kernel, flops))
    }
}

impl TriangularKernels for GpuTriangular<'_> {
    fn gemm(&mut self, target: Range<usize>, source: Range<usize>, alpha: Factor, beta: Factor) -> Result<()> {
        self.check_rows(&target)?;
        self.check_rows(&source)?;
        if target.start < source.end && source.start < target.end {
            return Err(SvdError::invalid("rows", format!("{target:?} and {source:?} overlap")));
        }
        let flops_of_column = 2 * self.pair * target.len() as u64 * source.len() as u64;
        let ProductShape { rows, cols: width, .. } = self.shape.products;
        // A product that takes too long, or has more column chunks than a grid allows, is split into several dispatches of whole chunks.
        let most = (self.stream.most_flops() / flops_of_column.max(1)).min(self.cols as u64) as usize;
        let at_once = (most / width).clamp(1, self.stream.most_workgroups()).saturating_mul(width);
        let [y, z] = self.stream.fold(target.len().div_ceil(rows))?;
        for first in (0..self.cols).step_by(at_once) {
            let cols = at_once.min(self.cols - first);
            let conjugated = u32::from(self.variant.conjugates());
            let parameters = parameters::Product {
                rows: target.len() as u32,
                cols: cols as u32,
                inner: source.len() as u32,
                a: self.m.at(target.start, source.start),
                a_rs: self.m.rs as u32,
                a_cs: self.m.cs as u32,
                x: self.b.at(source.start, first),
                x_rs: self.b.rs as u32,
                x_cs: self.b.cs as u32,
                c: self.b.at(target.start, first),
                c_rs: self.b.rs as u32,
                c_cs: self.b.cs as u32,
                first: 0,
                flags: conjugated | Self::index(alpha) << 8 | Self::index(beta) << 16,
            };
            let chunks = cols.div_ceil(width) as u32;
            let flops = flops_of_column.saturating_mul(cols as u64);
            let work = Work::other(Kernel::Gemm, flops);
            self.stream.dispatch(&self.gemm.0, &self.gemm.1, parameters, [chunks, y, z], work)?;
        }
        Ok(())
    }

    fn trmm(&mut self, rows: Range<usize>, alpha: Factor) -> Result<()> {
        self.triangle(rows, alpha)
    }

    fn trsm(&mut self, rows: Range<usize>, alpha: Factor) -> Result<()> {
        self.triangle(rows, alpha)
    }
}
