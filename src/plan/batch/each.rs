//! What a device computes of the matrices of a batch, and what its ways to do so ([`together`](super::together), [`stacked`](super::stacked)) hand on.

use std::collections::BTreeMap;

use faer::MatRef;

use crate::{
    algo::svdvals::{Driver, Reduced},
    base::{
        clock::StageSeconds,
        error::Result,
        number::{Re, Scalar},
        view::Turned,
    },
    cost::{counts::Counts, work::Kernel},
    gpu::{
        device::context::{GpuContext, Waits},
        kernels::{
            GpuKernels,
            batch::{Classes, GpuBatch},
        },
        storage::Dense,
    },
    plan::{choice::seconds::Compared, options::SvdOptions},
};

/// What a GPU may compute together: the indices of matrices that have a workgroup each if they fit one, and of those that may share dispatches.
#[derive(Default)]
pub(super) struct Candidates {
    pub in_workgroups: Vec<usize>,
    pub stacks: Vec<Vec<usize>>,
    /// The seconds of all these, of `Backend::Auto`.
    pub compared: Compared,
}

impl Candidates {
    pub fn are_some(&self) -> bool {
        !self.in_workgroups.is_empty() || !self.stacks.is_empty()
    }
}

/// How a call runs.
pub(super) struct Run<'a> {
    pub options: &'a SvdOptions,
    pub context: GpuContext,
    pub waits: Waits,
    pub timed: bool,
}

/// Where a workgroup has its matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Workgroup,
    Buffer,
}

impl Memory {
    pub fn of(spilled: bool) -> Memory {
        if spilled { Memory::Buffer } else { Memory::Workgroup }
    }
}

/// What a device computes of each matrix of a batch: its singular values, or its decomposition.
pub(super) trait OfEach<T: Scalar>: Sized + Send {
    /// Whether it has vectors.
    const VECTORS: bool;

    /// Where a workgroup of its own has an m x n matrix, m >= n, if the options and the device allow it to be computed so.
    fn memory(classes: &Classes, size: (usize, usize), options: &SvdOptions) -> Option<Memory>;

    /// The results of a round; None for a matrix that has to be computed alone.
    fn of_round(
        kernel: &GpuBatch,
        round: &[Ready<'_, T>],
        options: &SvdOptions,
    ) -> impl Future<Output = Result<Vec<Option<Result<Self>>>>> + Send;

    /// Checks that the options allow matrices of this shape to share dispatches. A single call has the error.
    fn may_be_stacked(size: (usize, usize), options: &SvdOptions) -> Result<()>;

    /// Adds the results of a stack to `all`, and tells `did` of them.
    fn of_stack(
        stack: OnDevice<'_, T>,
        all: &mut Stacked<Self>,
        did: &(dyn Fn(&[usize]) + Sync),
    ) -> impl Future<Output = Result<()>> + Send;
}

/// A matrix with m >= n and its scale, and whether it is the transpose of the caller's.
#[derive(Clone, Copy)]
pub(super) struct Ready<'a, T: Scalar> {
    pub a: MatRef<'a, T>,
    pub scale: Re<T>,
    pub transposed: bool,
}

/// The results of stacks, with what ran.
pub(super) struct Stacked<R> {
    /// The indices of the matrices, and their results.
    pub results: Vec<(usize, Result<R>)>,
    /// How many of them the listener has been told of.
    told: usize,
    pub counts: Counts,
    pub kernel_seconds: BTreeMap<Kernel, f64>,
    pub seconds: StageSeconds,
}

impl<R> Stacked<R> {
    pub fn new() -> Self {
        Stacked {
            results: Vec::new(),
            told: 0,
            counts: Counts::default(),
            kernel_seconds: BTreeMap::new(),
            seconds: StageSeconds::default(),
        }
    }

    /// Tells `did` the indices of the new results.
    pub fn tell(&mut self, did: &(dyn Fn(&[usize]) + Sync)) {
        did(&self.results[self.told..].iter().map(|&(index, _)| index).collect::<Vec<_>>());
        self.told = self.results.len();
    }
}

/// One of the matrices of a stack: its index, its shape with m >= n, and how it came from the caller's.
#[derive(Clone, Copy)]
pub(super) struct OfStack<'a, T: Scalar> {
    pub index: usize,
    pub a: MatRef<'a, T>,
    pub turned: Turned,
    pub scale: Re<T>,
}

/// The matrices of a stack on the device, after stages 1 to 3.
pub(super) struct OnDevice<'a, T: Scalar> {
    pub driver: Driver<'a, GpuKernels>,
    pub options: &'a SvdOptions,
    pub matrices: Vec<OfStack<'a, T>>,
    /// The bidiagonals; with vectors, the kept reflectors.
    pub reduced: Reduced<GpuKernels>,
    /// The scaled matrices, if left vectors are wanted.
    pub copy: Option<Dense>,
    /// The wanted values of each, descending.
    pub values: Vec<Result<Vec<Re<T>>>>,
}
