//! Products of A in fixed point for conjugate gradients, on the GPU or by its twin on the CPU.

use std::sync::Arc;

use faer::{Mat, MatRef};

use crate::{
    algo::fixed::{FixedMatrix, Multiply},
    base::{
        element_kind::ElementKind,
        error::Result,
        number::{Number, Scalar},
        pool::on_pool,
        stage::Stage,
    },
    cpu::{
        least_squares::{
            cgls::{Inverse, Solution, quality},
            multiply_fixed::CpuFixed,
            passes::System,
        },
        tall::leaves::Wide,
    },
    plan::{
        backend::Place,
        call::Call,
        lstsq::{Begun, Iterated, TARGET, problem_of},
        options::LstsqOptions,
        qr_factors::epsilon,
        report::SvdReport,
    },
    tile::fixed::times_power,
};
#[cfg(feature = "gpu")]
use crate::{
    gpu::{device::stream::Manner, kernels::fixed::GpuFixed},
    plan::{backend::or_fall_back, choice::Reason},
};

/// A in fixed point, and where it is.
struct Resident {
    products: Arc<dyn Multiply>,
    #[cfg(feature = "gpu")]
    of_device: Option<Arc<FixedMatrix<GpuFixed>>>,
    /// Why the CPU multiplies where a device was to.
    #[cfg(feature = "gpu")]
    reason: Option<Reason>,
}

impl Resident {
    /// A real matrix of finite entries, where the options say.
    fn new<T: Scalar>(call: &Call<'_, T, LstsqOptions>, b: MatRef<'_, T>) -> Result<Self> {
        let a = call.a;
        match Place::of(ElementKind::F32, call.run, problem_of(a, b, call.options))? {
            Place::Cpu(_) => {}
            #[cfg(feature = "gpu")]
            Place::Gpu(on) => {
                let entry = |i: usize, j: usize| a[(i, j)].widen().to_wide().to_complex().re;
                let manner = Manner { timed: call.run.time_kernels, ..Manner::default() };
                let made = FixedMatrix::new(a.shape(), entry, |f| GpuFixed::new(&on.context, manner, a.shape(), f));
                return match or_fall_back(call.run, false, made)? {
                    Ok(of_device) => {
                        let of_device = Arc::new(of_device);
                        Ok(Resident { products: of_device.clone(), of_device: Some(of_device), reason: None })
                    }
                    Err(reason) => Ok(Resident { reason: Some(reason), ..Resident::on_cpu(call)? }),
                };
            }
        }
        Resident::on_cpu(call)
    }

    fn on_cpu<T: Scalar>(call: &Call<'_, T, LstsqOptions>) -> Result<Self> {
        let a = call.a;
        let entry = |i: usize, j: usize| a[(i, j)].widen().to_wide().to_complex().re;
        Ok(Resident {
            products: Arc::new(FixedMatrix::new(a.shape(), entry, |f| CpuFixed::new(a.shape(), f))?),
            #[cfg(feature = "gpu")]
            of_device: None,
            #[cfg(feature = "gpu")]
            reason: None,
        })
    }

    /// Adds what a device did to a report.
    fn report<V>(&self, report: &mut SvdReport<V>) {
        #[cfg(feature = "gpu")]
        if let Some(reason) = &self.reason {
            report.reason = reason.clone();
        }
        #[cfg(feature = "gpu")]
        if let Some(of_device) = &self.of_device {
            report.counts.add(&of_device.kernels.counts());
            report.kernel_seconds.extend(of_device.kernels.kernel_seconds());
        }
        #[cfg(not(feature = "gpu"))]
        let _ = report;
    }
}

/// A diag(2^-c).
struct ByColumns {
    a: Arc<dyn Multiply>,
    exponents: Vec<i32>,
}

impl Multiply for ByColumns {
    fn multiply(&self, x: MatRef<'_, f64>, transposed: bool, k: i32) -> Result<Mat<f64>> {
        let scaled = |x: MatRef<'_, f64>| Mat::from_fn(x.nrows(), x.ncols(), |i, j| times_power(x[(i, j)], -self.exponents[i]));
        match transposed {
            false => self.a.multiply(scaled(x).as_ref(), false, k),
            true => Ok(scaled(self.a.multiply(x, true, k)?.as_ref())),
        }
    }
}

/// What the iteration finds, and the report of R and the iteration.
type Reported<T> = (Option<Iterated<T>>, SvdReport<Mat<Wide<T>>>);

impl<'a, T: Scalar> Begun<'a, T> {
    /// The solution by CGLS with products in fixed point, from R of the matrix whose columns are divided by 2^`exponents`; None if the iteration does not
    /// converge, or if a column is so short beside others that it counts for the rank.
    ///
    /// Without a ridge the iteration is one for the columns of that matrix: each column of A has a small backward error of its own.
    pub(super) fn in_fixed_point(&mut self, of_r: SvdReport<Mat<Wide<T>>>, exponents: &[i32]) -> Result<Reported<T>> {
        let n = exponents.len();
        let r = Mat::from_fn(n, n, |i, j| of_r.values[(i, j)].times(times_power(1.0, exponents[j])));
        if !self.has_full_rank(r.as_ref()) {
            return Ok((None, of_r));
        }
        let iterate = |begun: &Self| {
            on_pool(|| match begun.system.ridge == 0.0 {
                true => begun.by_columns(of_r.values.as_ref(), r.as_ref(), exponents),
                false => begun.iterated(r.as_ref()),
            })
        };
        let resident = on_pool(|| Resident::new(self.call, self.system.b))?;
        self.system.products = Some(resident.products.clone());
        let iterated = iterate(self);
        #[cfg(feature = "gpu")]
        let (resident, iterated) = match (resident.of_device.is_some(), iterated) {
            // The CPU's products have the same bits.
            (true, iterated) => match or_fall_back(self.call.run, false, iterated)? {
                Ok(iterated) => (resident, Ok(iterated)),
                Err(reason) => {
                    let resident = Resident { reason: Some(reason), ..on_pool(|| Resident::on_cpu(self.call))? };
                    self.system.products = Some(resident.products.clone());
                    (resident, iterate(self))
                }
            },
            (false, iterated) => (resident, iterated),
        };
        let (iterated, mut report) = (iterated?, of_r);
        resident.report(&mut report);
        Ok((iterated, report))
    }

    /// The solution for normalised columns with their R, and its quality for those of A.
    fn by_columns(
        &self,
        normalised: MatRef<'_, Wide<T>>,
        r: MatRef<'_, Wide<T>>,
        exponents: &[i32],
    ) -> Result<Option<Iterated<T>>> {
        let Some(a) = self.system.products.clone() else { return Ok(None) };
        self.system.watch.begin(Stage::Solve)?;
        let columns = ByColumns { a, exponents: exponents.to_vec() };
        let System { a, scale, b, b_scale, ridge, .. } = self.system;
        let watch = self.system.watch.clone();
        let system = System { a, scale, b, b_scale, ridge, watch, products: Some(Arc::new(columns)) };
        let Some(Solution { x, iterations, .. }) = system.solve(normalised, TARGET * epsilon::<T>())? else {
            return Ok(None);
        };
        let unscaled = |x: Wide<T>, i: usize| Wide::<T>::from_complex(times_power(x.to_complex().re, -exponents[i]).into());
        let x = Mat::from_fn(x.nrows(), x.ncols(), |i, j| unscaled(x[(i, j)], i));
        let pass = self.system.residual_of(x.as_ref())?;
        let of_x = quality(&pass, x.as_ref(), Inverse::Triangle(r), r.norm_l2(), ridge);
        let (x, _) = self.unscaled(x)?;
        Ok(Some(Iterated { x, of_x, iterations }))
    }
}
