//! The QR factorisation of a matrix that is on the device, by either of two algorithms. R and Q stay there.

use faer::{Mat, MatRef};
use pollster::block_on;

use crate::{
    algo::{
        count::factor_flops,
        recursive::{Recursive, flops},
        reflectors::keep_factor,
        to_band::triangular_factor,
    },
    base::{
        blas::Op,
        clock::{Clock, StageSeconds},
        element_kind::ElementKind,
        error::Result,
        number::{Re, RealElement, Scalar},
        stage::Stage,
        watch::Watch,
    },
    gpu::{
        device::stream::Manner,
        kernels::{GpuKernels, recursive::GpuRecursive},
        storage::{Dense, Lines},
    },
    plan::{
        backend::OnGpu,
        options::QrOptions,
        products::reported,
        qr_factors::{Tree, Unitary},
        qr_report::report_of_gpu,
        report::SvdReport,
    },
    tile::{
        kernels::{TileKernels, Transfers},
        products::Recursion,
    },
};

/// R of A = Q R on a device. A is m x n.
pub(crate) trait Triangle: Send + Sync {
    /// The kernels of what is computed from R.
    fn kernels(&self) -> &GpuKernels;

    /// The matrix that has R in the upper trapezoid of its first min(m, n) rows, and anything below.
    fn r(&self) -> &Dense;

    /// m and n.
    fn shape(&self) -> (usize, usize);
}

/// A = Q R on a device. Q is m x m.
pub(crate) trait Resident: Triangle {
    /// The first `cols` columns of Q.
    fn columns(&self, cols: usize) -> Result<Dense>;

    /// op(Q) C, or conj(op(Q)) C, for a new matrix C.
    fn applied(&self, op: Op, c: Dense, conjugated: bool) -> Result<Dense>;

    /// The first min(m, n) rows of Q^H C, for a new matrix C; and a matrix whose columns are as long as those of the other rows.
    fn projected(&self, c: Dense) -> Result<[Dense; 2]> {
        let (kernels, (m, n)) = (self.kernels(), self.shape());
        let c = self.applied(Op::ConjTrans, c, false)?;
        Ok([kernels.with_rows(&c, m.min(n))?, kernels.rows_from(&c, m.min(n))?])
    }

    /// Q [Y; 0], or with the conjugates of Q's entries, for a matrix Y of min(m, n) rows.
    fn combined(&self, y: &Dense, conjugated: bool) -> Result<Dense> {
        self.applied(Op::NoTrans, self.kernels().with_rows(y, self.shape().0)?, conjugated)
    }
}

/// The factors by one of the algorithms.
pub(crate) type Boxed = Box<dyn Resident>;

/// Q on a device, for factors of which the host has R.
pub(crate) struct OnDevice(Boxed);

impl OnDevice {
    pub fn new(factors: Boxed) -> Self {
        OnDevice(factors)
    }

    fn uploaded<S: Scalar>(&self, c: MatRef<'_, S>) -> Result<Dense> {
        self.0.kernels().upload(c, Re::<S>::from_double(1.0))
    }

    fn read_back<S: Scalar>(&self, c: &Dense) -> Result<Mat<S>> {
        self.0.kernels().download(c)
    }
}

impl<S: Scalar> Unitary<S> for OnDevice {
    fn is_in_pool(&self) -> bool {
        false
    }

    fn apply(&self, op: Op, c: MatRef<'_, S>) -> Result<Mat<S>> {
        self.read_back(&self.0.applied(op, self.uploaded(c)?, false)?)
    }

    fn columns(&self, cols: usize) -> Result<Mat<S>> {
        self.read_back(&self.0.columns(cols)?)
    }

    fn project(&self, c: MatRef<'_, S>, _: usize) -> Result<Mat<S>> {
        let [inside, _] = self.0.projected(self.uploaded(c)?)?;
        self.read_back(&inside)
    }

    fn combine(&self, c: MatRef<'_, S>) -> Result<Mat<S>> {
        self.read_back(&self.0.combined(&self.uploaded(c)?, false)?)
    }
}

impl Triangle for Tree<GpuKernels> {
    fn kernels(&self) -> &GpuKernels {
        &self.kernels
    }

    fn r(&self) -> &Dense {
        &self.a
    }

    fn shape(&self) -> (usize, usize) {
        self.shape
    }
}

impl Resident for Tree<GpuKernels> {
    fn columns(&self, cols: usize) -> Result<Dense> {
        self.kernels.columns_of_factor(&self.a, self.shape, cols)
    }

    fn applied(&self, op: Op, c: Dense, conjugated: bool) -> Result<Dense> {
        self.kernels.applied_factor(&self.a, self.shape, op, c, conjugated)
    }
}

/// The factors of the recursion.
struct Recursed {
    q: Recursive<GpuRecursive>,
    r: Dense,
}

impl Triangle for Recursed {
    fn kernels(&self) -> &GpuKernels {
        self.q.kernels.tiles()
    }

    fn r(&self) -> &Dense {
        &self.r
    }

    fn shape(&self) -> (usize, usize) {
        self.r.size
    }
}

impl Resident for Recursed {
    fn columns(&self, cols: usize) -> Result<Dense> {
        let identity = self.kernels().identity(&self.r, self.r.size.0, 0..cols, false)?;
        self.applied(Op::NoTrans, identity, false)
    }

    fn applied(&self, op: Op, mut c: Dense, _: bool) -> Result<Dense> {
        let cols = c.size.1;
        self.q.apply_in_place(op, &mut c, cols)?;
        Ok(c)
    }
}

/// Factors the matrix of this shape that `upload` makes by the panel tree. Nothing is read back.
pub(crate) fn by_tree(
    kind: ElementKind,
    upload: impl FnOnce(&GpuKernels) -> Result<Dense>,
    shape: (usize, usize),
    on: OnGpu,
    options: &QrOptions,
    timed: bool,
) -> Result<SvdReport<Boxed>> {
    let (mut clock, tuning) = (Clock::new(timed), on.tuning.clone());
    let watch = Watch::new(&options.run.listen(), || Ok([factor_flops(kind, shape, &tuning)?, 0, 0, 0]))?;
    let manner = Manner { timed: options.run.time_kernels, watch: watch.clone(), kept: true, ..Manner::default() };
    let kernels = GpuKernels::running(kind, &on.context, &tuning, manner)?;
    watch.begin(Stage::Qr)?;
    let mut a = upload(&kernels)?;
    keep_factor(&kernels, &mut a, shape, &tuning)?;
    triangular_factor(&kernels, &mut a, shape.0, shape.1, &tuning)?;
    block_on(kernels.finish())?;
    watch.end();
    let seconds = StageSeconds { qr: clock.restart(), ..StageSeconds::default() };
    // Without the call's listeners.
    let later = GpuKernels::running(kind, &on.context, &tuning, Manner::default())?;
    let tree: Boxed = Box::new(Tree { kernels: later, a, shape, tuning });
    Ok(report_of_gpu(shape, on, &kernels, seconds, tree))
}

/// Factors `scale` times the matrix of `lines` by recursion, with the products of the options. Two squares of each panel are read back: the first rows of
/// R and of Q, from which the host makes V and T.
pub(crate) fn by_products(
    lines: &Lines<'_>,
    scale: f32,
    on: OnGpu,
    options: &QrOptions,
    timed: bool,
) -> Result<SvdReport<Boxed>> {
    let (shape, mut clock, recursion) = (lines.size(), Clock::new(timed), Recursion::DEFAULT);
    let watch = Watch::new(&options.run.listen(), || Ok([flops(shape, recursion), 0, 0, 0]))?;
    // The driver tells the watch.
    let kernels = GpuRecursive::new(&on.context, &on.tuning, Manner { timed: options.run.time_kernels, ..Manner::default() })?;
    watch.begin(Stage::Qr)?;
    let mut r = kernels.tiles().adopt(lines, scale.into())?;
    let q = block_on(Recursive::factor_in_place(kernels, (&mut r, shape), options.products, recursion, &watch))?;
    let (kernels, q) = q.with_kernels(GpuRecursive::new(&on.context, &on.tuning, Manner::default())?);
    block_on(kernels.tiles().finish())?;
    watch.end();
    let seconds = StageSeconds { qr: clock.restart(), ..StageSeconds::default() };
    let factors: Boxed = Box::new(Recursed { q, r });
    Ok(reported(report_of_gpu(shape, on, kernels.tiles(), seconds, factors), options.products))
}
