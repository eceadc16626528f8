//! What is run: calls of the crate on devices of several kinds, their results compared with the CPU's.

mod batches;
mod compare;
mod devices;
mod factors;
mod list;
mod pairs;
mod triangles;
mod tunings;
mod values;

pub use devices::Dev;
pub use list::all;

use std::sync::Arc;

use faer::{Mat, MatRef};
use svdvals_gpu::{Backend, Element, GpuContext, HalfStorage, Stage3, SvdError, SvdOptions, Tuning, wgpu};

use crate::{
    device::{self, Mutation},
    report::Sink,
};
use tunings::Tune;

pub enum Trouble {
    /// The crate says that the device cannot have these hyperparameters, or this type.
    Refused(String),
    Wrong(String),
}

type Done = Result<(), Trouble>;

impl From<SvdError> for Trouble {
    fn from(error: SvdError) -> Self {
        match error {
            SvdError::InvalidOption { .. } | SvdError::UnsupportedElement { .. } | SvdError::TooLarge { .. } => {
                Trouble::Refused(error.to_string())
            }
            SvdError::InBatch { index, source } => match Trouble::from(*source) {
                Trouble::Refused(reason) => Trouble::Refused(format!("matrix {index}: {reason}")),
                Trouble::Wrong(reason) => Trouble::Wrong(format!("matrix {index}: {reason}")),
            },
            other => Trouble::Wrong(other.to_string()),
        }
    }
}

type Body = Box<dyn Fn(&Env) -> Done + Send + Sync>;

pub struct Case {
    pub name: String,
    pub device: Dev,
    pub body: Body,
}

pub struct Env {
    pub context: GpuContext,
    pub seed: u64,
}

impl Env {
    pub fn open(case: &Case, sink: &Arc<Sink>, mutation: Option<Mutation>) -> Env {
        let Dev { features, limits, ty, config, .. } = case.device.clone();
        let mut info = wgpu::AdapterInfo::new(ty, wgpu::Backend::Vulkan);
        info.name = format!("interpreter ({})", case.device.name);
        info.subgroup_min_size = config.subgroup;
        info.subgroup_max_size = config.subgroup;
        let seed = config.seed;
        let (device, queue) = device::open(features, limits, info.clone(), config, &case.name, sink.clone(), mutation);
        Env { context: GpuContext::from_wgpu(device, queue, info), seed }
    }

    fn options(&self) -> SvdOptions {
        SvdOptions::default().backend(Backend::Gpu).context(self.context.clone())
    }
}

#[derive(Clone, Copy)]
pub struct Call {
    pub tune: Tune,
    pub m: usize,
    pub n: usize,
    pub by_rows: bool,
    pub half: HalfStorage,
    pub stage3: Stage3,
}

impl Call {
    fn options<T: Element>(&self, env: &Env) -> SvdOptions {
        let defaults = if self.half == HalfStorage::Half {
            // As wide as f32.
            Tuning::for_adapter::<f32>(&env.context, self.m.min(self.n))
        } else {
            Tuning::for_adapter::<T::Scalar>(&env.context, self.m.min(self.n))
        };
        env.options().tuning(self.tune.apply(defaults)).half_storage(self.half.for_element::<T>()).stage3(self.stage3)
    }
}

/// `body` of the matrix, row after row or column after column.
fn in_order<T: Element, R>(a: &Mat<T>, by_rows: bool, body: impl FnOnce(MatRef<'_, T>) -> R) -> R {
    if by_rows {
        let transposed = Mat::from_fn(a.ncols(), a.nrows(), |i, j| a[(j, i)]);
        body(transposed.as_ref().transpose())
    } else {
        body(a.as_ref())
    }
}
