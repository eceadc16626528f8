//! The hyperparameters of the tile kernels.

use std::fmt;

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::Number,
        registers::Choices,
    },
    tile::panel_tree::PanelTree,
};

/// The hyperparameters of stages 1 and 2, and of the triangular operations. They affect only speed and rounding errors.
///
/// ```
/// use svdvals_gpu::{PanelTree, Tuning};
/// let tuning = Tuning::for_cpu::<f64>(1000).tile_size(32).leaf(128).tree(PanelTree::Reduction).tile_width(16);
/// assert_eq!(tuning.arity(), 4);
/// assert!(tuning.check().is_ok());
/// assert!(tuning.tile_size(0).check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct Tuning {
    /// Tile size b of stage 1, which is the bandwidth of its result; at least 1. (Unified-kernels paper: TILESIZE.)
    pub tile_size: usize,
    /// Maximal rows of a leaf block of the panel's reduction tree, at least 2 `tile_size`. The tree's arity is `leaf / tile_size`.
    pub leaf: usize,
    /// Shape of the panel's reduction tree.
    pub tree: PanelTree,
    /// Trailing columns that one workgroup (GPU) or one task (CPU) updates. (Unified-kernels paper: COLPERBLOCK.)
    pub cols_per_block: usize,
    /// Superdiagonals that one reduction step of stage 2 removes; at most b - 1 take effect. (Bulge-chasing paper: TW.)
    pub tile_width: usize,
    /// Largest order of a triangle for the base kernels of the triangular operations. The recursion splits larger ones in two
    /// ([`triangular`](crate::triangular)). A GPU rounds it up to a multiple of 4.
    pub triangle: usize,
    /// Hyperparameters of the CPU only.
    pub cpu: CpuTuning,
    /// Hyperparameters of a GPU only.
    pub gpu: GpuTuning,
}

/// The hyperparameters of the CPU only. [`Tuning`] has their setters.
///
/// ```
/// assert_eq!(svdvals_gpu::Tuning::for_cpu::<f64>(100).direct_up_to(50).cpu.direct_up_to, 50);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct CpuTuning {
    /// Largest order of a matrix, or of the triangular factor of a tall one, that is reduced directly to bidiagonal form, without a band
    /// and on one thread; 0 for never. (A matrix stored as f16 is always reduced to a band first.)
    pub direct_up_to: usize,
}

/// The hyperparameters of a GPU only. [`Tuning`] has their setters.
///
/// ```
/// assert_eq!(svdvals_gpu::Tuning::for_cpu::<f64>(100).split_k(4).gpu.split_k, 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct GpuTuning {
    /// Threads that share one column in `geqrt`. (Unified-kernels paper: SPLITK)
    pub split_k: usize,
    /// Maximal threads of a `chase` workgroup. (Bulge-chasing paper: TPB)
    pub threads_per_block: usize,
    /// Consecutive sweeps s that step together in a `chase` workgroup, which share its threads. They take s times the workgroup memory.
    pub sweeps_per_block: usize,
    /// Rows or columns of a cycle that a thread holds in registers, 1 or 2, in a reduction step from a bandwidth of at most 32, a multiple of 4, to
    /// bidiagonal form. A sweep then has 2 bandwidth / lines_per_thread threads. 0, and for other steps: they are read and written on either side.
    #[cfg_attr(feature = "serde", serde(default))]
    pub lines_per_thread: usize,
    /// Threads of a subgroup, as on a device whose subgroups have one size. If a sweep with `lines_per_thread` has as many, they share the work on a
    /// reflector in f32. 0: each does all of it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub subgroup_threads: usize,
    /// Consecutive cycles m of a sweep in one dispatch. Stage 2 then has about (m + 3 s - 1) n / (s m) dispatches, with `lines_per_thread`
    /// (m + 2 s) n / (s m), each m cycles long. Larger s and m pay off if a dispatch costs more than a cycle.
    pub cycles_per_dispatch: usize,
    /// Maximal `chase` workgroups of one dispatch. If more sweeps are active, each workgroup runs several of them.
    pub max_blocks: usize,
    /// Tiles of a workgroup's columns that `unmqr` keeps in workgroup memory between its two passes over them, `tile_size` rows each. Each
    /// saves reading these rows again, and takes tile_size (cols_per_block + 4) numbers of workgroup memory, so that fewer workgroups run at a
    /// time. At most the tiles of a leaf are kept.
    #[cfg_attr(feature = "serde", serde(default))]
    pub tiles_held: usize,
    /// Threads that share one column where `geqrt` of a level of a panel's tree runs beside `unmqr` of the level before, in one dispatch. Then a
    /// workgroup has tile_size split_beside threads, and 32 split_beside columns for `unmqr`. 0: they have dispatches of their own, as they do
    /// in matrices of several buffers.
    #[cfg_attr(feature = "serde", serde(default))]
    pub split_beside: usize,
    /// Rows of a workgroup of a matrix product, which has `cols_per_block` columns. More rows read the second matrix less often, and take more
    /// workgroup memory, tile_size (rows_per_block + 4) numbers. 0: `tile_size`.
    #[cfg_attr(feature = "serde", serde(default))]
    pub rows_per_block: usize,
    /// Strips of 4 x 8 entries of a product that a thread computes, in `unmqr` and in matrix products: 2 where they divide a workgroup's rows, otherwise
    /// 1. Two read half as much workgroup memory for a multiplication, and take twice the registers.
    #[cfg_attr(feature = "serde", serde(default))]
    pub strips_per_thread: usize,
    /// Columns of reflectors of stage 1, and of their products, whose update of the trailing matrix is put off, until one product makes it: a multiple
    /// of 2 `tile_size`, of which the rest has no effect. The trailing matrix is then read twice for each tile, and written once for so many. They take as many rows
    /// and columns of memory beside the matrix. 0: each level's reflectors are applied at once. So they are in batches, in matrices stored in half precision
    /// or in more buffers than a shader binds beside seven, and with [`PanelTree::Flat`].
    #[cfg_attr(feature = "serde", serde(default))]
    pub deferred_columns: usize,
    /// Least columns of a trailing matrix whose updates are put off.
    #[cfg_attr(feature = "serde", serde(default))]
    pub deferred_from: usize,
    /// 1: that product is made beside `geqrt` of the panels that follow, some columns in each dispatch, so that the few workgroups that factor a panel do not
    /// have the device for themselves. It takes twice the rows and columns of memory. It has no effect where `cols_per_block` / 8 does not divide the
    /// tile_size split_k threads of `geqrt`, or both take more than 32 KiB of workgroup memory. 0: it is made on its own.
    #[cfg_attr(feature = "serde", serde(default))]
    pub deferred_beside: usize,
    /// 1: while the host plans the vectors of the bidiagonal, the device multiplies the reflectors of both stages, and the right vectors are a product with
    /// their product, where at least half of them are wanted. 0: the reflectors are applied to the vectors of the bidiagonal when these are there. So they
    /// are in batches, of a band, after [`Reduction::OneStage`](crate::Reduction::OneStage), and where a buffer does not hold an n x n matrix.
    #[cfg_attr(feature = "serde", serde(default))]
    pub formed_beside: usize,
}

/// Passes all hyperparameters to another macro: the setter's docs, the name, the field of [`Tuning`] that contains it, the type and an
/// example value.
macro_rules! hyperparameters {
    ($to:ident) => {
        $to! {
            /// Sets the tile size, which is the bandwidth after stage 1.
            tile_size: usize = 16,
            /// Sets the maximal rows of a leaf block.
            leaf: usize = 512,
            /// Sets the shape of the panel's reduction tree.
            tree: PanelTree = svdvals_gpu::PanelTree::Flat,
            /// Sets the trailing columns of a workgroup or task.
            cols_per_block: usize = 32,
            /// Sets the superdiagonals removed in one reduction step.
            tile_width: usize = 8,
            /// Sets the largest order of a triangle for the base kernels.
            triangle: usize = 32,
            /// Sets the largest order that is reduced to bidiagonal form without a band (CPU).
            direct_up_to in cpu: usize = 0,
            /// Sets the threads that share a column in `geqrt` (GPU).
            split_k in gpu: usize = 4,
            /// Sets the maximal threads of a `chase` workgroup (GPU).
            threads_per_block in gpu: usize = 128,
            /// Sets the sweeps that step together in a `chase` workgroup (GPU).
            sweeps_per_block in gpu: usize = 4,
            /// Sets the lines of a cycle that a thread holds in registers (GPU).
            lines_per_thread in gpu: usize = 2,
            /// Sets the threads of a subgroup that kernels count on (GPU).
            subgroup_threads in gpu: usize = 32,
            /// Sets the consecutive cycles of a sweep in one dispatch (GPU).
            cycles_per_dispatch in gpu: usize = 2,
            /// Sets the maximal `chase` workgroups of a dispatch (GPU).
            max_blocks in gpu: usize = 100,
            /// Sets the tiles that `unmqr` keeps between its two passes (GPU).
            tiles_held in gpu: usize = 2,
            /// Sets the threads that share a column in `geqrt` beside `unmqr` (GPU).
            split_beside in gpu: usize = 4,
            /// Sets the rows of a workgroup of a matrix product (GPU).
            rows_per_block in gpu: usize = 64,
            /// Sets the strips of 4 x 8 entries of a product that a thread computes (GPU).
            strips_per_thread in gpu: usize = 2,
            /// Sets the columns whose updates of the trailing matrix are put off in stage 1 (GPU).
            deferred_columns in gpu: usize = 256,
            /// Sets the least columns of a trailing matrix whose updates are put off (GPU).
            deferred_from in gpu: usize = 4096,
            /// Sets whether updates that are put off are made beside the panels that follow (GPU).
            deferred_beside in gpu: usize = 1,
            /// Sets whether reflectors are multiplied while the host plans the vectors that they are applied to (GPU).
            formed_beside in gpu: usize = 1,
        }
    };
}
pub(crate) use hyperparameters;

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident $(in $group:ident)?: $t:ty = $example:expr),* $(,)?) => {$(
        $(#[$doc])*
        ///
        /// ```
        #[doc = concat!("let tuning = svdvals_gpu::Tuning::for_cpu::<f32>(100).", stringify!($name), "(", stringify!($example), ");")]
        #[doc = concat!("assert_eq!(tuning.", $(stringify!($group), ".",)? stringify!($name), ", ", stringify!($example), ");")]
        /// ```
        pub fn $name(mut self, $name: $t) -> Self {
            self.$($group.)?$name = $name;
            self
        }
    )*};
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident $(in $group:ident)?: $t:ty = $example:expr),* $(,)?) => {
        /// Name and value of each hyperparameter, as in `tile_size=32 leaf=256`.
        impl fmt::Display for Tuning {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&[$(format!("{}={}", stringify!($name), self.$($group.)?$name)),*].join(" "))
            }
        }
    };
}

hyperparameters!(words);

impl Tuning {
    hyperparameters!(setters);

    /// Defaults for the CPU, for a matrix whose smaller side is `n`, stored as `T`: tiles of 32 and leaves of 1024 rows. For n > 1024 and
    /// storage as f32 or f64: tiles of 48 and leaves of 1536 rows.
    ///
    /// ```
    /// use svdvals_gpu::Tuning;
    /// assert_eq!(Tuning::for_cpu::<f32>(8).tile_size, 8); // no wider than the matrix
    /// assert_eq!([1000, 4000].map(|n| Tuning::for_cpu::<f64>(n).tile_size), [32, 48]);
    /// ```
    pub fn for_cpu<T: Number>(n: usize) -> Tuning {
        Tuning::for_cpu_of(T::KIND, n)
    }

    /// [`for_cpu`](Self::for_cpu) of a storage type.
    pub(crate) fn for_cpu_of(kind: ElementKind, n: usize) -> Tuning {
        // Stage 2's work grows with the bandwidth; stage 1 moves less memory with wider tiles. For smaller n stage 2 dominates, and so it
        // does for complex numbers and f16, whose bulge chasing takes 1.5 to 2 times as long with 48 as with 32.
        let wide = n > 1024 && !kind.is_complex() && !kind.is_half();
        let tile_size = if wide { 48 } else { 32.min(n.max(1)) };
        Tuning {
            tile_size,
            // A leaf of the panel fits in L2. A panel of at most this many rows has no tree, and hence fewer rounding errors.
            leaf: 32 * if wide { tile_size } else { 32 },
            tree: PanelTree::Reduction,
            cols_per_block: 256,
            tile_width: tile_size,
            // The base kernel's triangle and columns fit in L1. Matrix products with fewer columns of A are slower.
            triangle: 64,
            // The whole matrix fits in L2 in double precision.
            cpu: CpuTuning { direct_up_to: Choices::here().direct_up_to },
            gpu: GpuTuning {
                split_k: 1,
                threads_per_block: 1,
                sweeps_per_block: 1,
                lines_per_thread: 0,
                subgroup_threads: 0,
                cycles_per_dispatch: 1,
                max_blocks: 1,
                tiles_held: 0,
                split_beside: 0,
                rows_per_block: 0,
                strips_per_thread: 1,
                deferred_columns: 0,
                deferred_from: 0,
                deferred_beside: 0,
                formed_beside: 0,
            },
        }
    }

    /// The number of R factors that a node of the panel's tree stacks.
    ///
    /// ```
    /// assert_eq!(svdvals_gpu::Tuning::for_cpu::<f32>(100).tile_size(16).leaf(64).arity(), 4);
    /// ```
    pub fn arity(&self) -> usize {
        (self.leaf / self.tile_size.max(1)).max(2)
    }

    /// The bandwidth after stage 1 of a matrix of order `n`.
    pub(crate) fn bandwidth(&self, n: usize) -> usize {
        self.tile_size.min(n.saturating_sub(1))
    }

    /// Checks that the values are consistent. The limits of a device are checked when a call selects a device.
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] with the hyperparameter that is out of range.
    ///
    /// ```
    /// assert!(svdvals_gpu::Tuning::for_cpu::<f32>(100).leaf(1).check().is_err());
    /// ```
    pub fn check(&self) -> Result<()> {
        let at_least = |option, value: usize, least: usize| {
            if value < least {
                Err(SvdError::invalid(option, format!("{value}, but it must be at least {least}")))
            } else {
                Ok(())
            }
        };
        at_least("tile_size", self.tile_size, 1)?;
        at_least("leaf", self.leaf, self.tile_size.saturating_mul(2))?;
        at_least("split_k", self.gpu.split_k, 1)?;
        at_least("cols_per_block", self.cols_per_block, 1)?;
        at_least("tile_width", self.tile_width, 1)?;
        at_least("threads_per_block", self.gpu.threads_per_block, 1)?;
        at_least("sweeps_per_block", self.gpu.sweeps_per_block, 1)?;
        at_least("cycles_per_dispatch", self.gpu.cycles_per_dispatch, 1)?;
        at_least("max_blocks", self.gpu.max_blocks, 1)?;
        at_least("triangle", self.triangle, 1)
    }
}
