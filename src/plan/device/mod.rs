//! The drivers of matrices that are on a device, where their results stay.
//!
//! | file | what |
//! | --- | --- |
//! | `svdvals.rs`, `band.rs` | singular values; the stages one by one |
//! | `svd.rs` | singular vectors |
//! | `factors.rs`, `cholesky.rs`, `qr.rs`, `scaled_r.rs` | the QR factorisation by one of three algorithms; what is computed from its factors, and from R alone |
//! | `turned.rs` | the same with pivoted columns, or with a positive diagonal |
//! | `lstsq.rs`, `reduced.rs` | least squares; their triangle |
//! | `triangular.rs` | triangular multiply and solve |

pub mod band;
pub(crate) mod cholesky;
pub(crate) mod factors;
pub mod lstsq;
pub mod qr;
pub(crate) mod reduced;
pub(crate) mod scaled_r;
pub mod svd;
pub(crate) mod svdvals;
pub(crate) mod triangular;
pub(crate) mod turned;

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::HalfStorage,
    },
    gpu::{device::context::GpuContext, limits::required_bytes, matrix::DeviceMatrix, storage::Lines},
    plan::{
        backend::OnGpu,
        options::{Backend, RunOptions},
    },
    tile::tuning::Tuning,
};

/// An error for options that ask for another place than the device.
pub(crate) fn check_options(here: &GpuContext, run: &RunOptions) -> Result<()> {
    let elsewhere = |option, what| Err(SvdError::invalid(option, format!("{what}, but what is on a device is computed there")));
    match &run.context {
        _ if run.backend == Backend::Cpu => elsewhere("backend", "Backend::Cpu"),
        Some(context) if !context.is_same(here) => elsewhere("context", "another device"),
        _ if run.time_kernels => here.has_timestamps(),
        _ => Ok(()),
    }
}

/// An error for factors of half types that are stored as f16.
fn check_storage(run: &RunOptions) -> Result<()> {
    if run.half_storage == HalfStorage::Half {
        return Err(SvdError::invalid("half_storage", "Q and R would have three digits; they need HalfStorage::Single"));
    }
    Ok(())
}

/// The matrix or its transpose, whichever is upright, and its hyperparameters, once it is known that the device has room for all stages.
fn prepared<'a>(kind: ElementKind, a: &'a DeviceMatrix, run: &RunOptions) -> Result<(Lines<'a>, Tuning)> {
    a.context.require(kind)?;
    let lines = a.lines().upright();
    let (m, n) = lines.size();
    let tuning = run.tuning_for_adapter(kind, &a.context, n)?;
    required_bytes(kind, &a.context, m, n, &tuning)?;
    Ok((lines, tuning))
}

/// Where a call with this matrix runs, for its report.
pub(crate) fn on_its_device(a: &DeviceMatrix, tuning: Tuning) -> OnGpu {
    OnGpu { context: a.context.clone(), tuning, reason: "the matrix is on this GPU".into() }
}
