//! Sizes of the kernels from the hyperparameters, checked against a device's limits.

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
    },
    cost::{
        device::DeviceModel,
        product_shape::{ProductShape, strips_of},
    },
    tile::{panel_tree::Level, tuning::Tuning},
};

/// The limits of a device for the hyperparameters.
pub(crate) struct Bounds<'a> {
    /// Name of the device, for messages.
    pub name: &'a str,
    /// Maximum threads of a workgroup.
    pub threads: usize,
    /// Maximum bytes of workgroup memory.
    pub bytes: usize,
    /// Maximum workgroups in one dimension of a grid.
    pub workgroups: usize,
    /// Whether it is a software driver, which runs on the CPU.
    pub software: bool,
    /// Whether it has high-bandwidth memory, as data-centre GPUs have.
    pub fast_memory: bool,
    /// Threads of a subgroup; 0: kernels do without them.
    pub subgroup: usize,
}

impl Bounds<'_> {
    /// The limits of a modelled device, with 1024 threads and 32 KiB per workgroup, which nearly all devices have. NVIDIA's have 48, and other
    /// data-centre GPUs all of a multiprocessor's.
    pub fn of_model(device: &DeviceModel) -> Bounds<'static> {
        // Models with high-bandwidth memory have at least 1.9e12 bytes per second, the others at most 0.3e12.
        let fast_memory = device.bandwidth > 1.2e12;
        let bytes = match device.workgroup_memory >> 10 {
            100.. => 48 << 10,
            kib if fast_memory => (kib as usize) << 10,
            _ => 32 << 10,
        };
        Bounds {
            name: device.name,
            threads: 1024,
            bytes,
            workgroups: u16::MAX.into(),
            software: false,
            fast_memory,
            subgroup: device.subgroup_threads as usize,
        }
    }
}

/// The sizes for which stage 1's shaders are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Tile size, rounded up to a multiple of 4.
    pub ts: usize,
    /// Threads that share a column in `geqrt`.
    pub split: usize,
    /// Rows that each of these threads holds in registers, a multiple of 4.
    pub slice: usize,
    /// Trailing columns of a workgroup of `unmqr`, rounded up to a multiple of 8.
    pub cpb: usize,
    /// Tiles of these columns that `unmqr` keeps in workgroup memory between its two passes, at most those of a block.
    pub held: usize,
    /// Strips of 4 x 8 entries of a thread of `unmqr`, 1 or 2.
    pub strips: usize,
    /// Threads that share a column in `geqrt` beside `unmqr`, and the R factors that a level above the leaves stacks at most. 0: they have
    /// dispatches of their own.
    pub split_beside: usize,
    /// Whether updates that are deferred are made beside `geqrt`, if they can be.
    pub deferred_beside: bool,
    pub arity: usize,
    /// The sizes of the kernels that multiply, and of those that multiply with a panel of deferred updates.
    pub products: ProductShape,
    pub panels: ProductShape,
}

/// Bytes of a column in one thread's registers in `geqrt` beside `unmqr`, at most: with more, fewer workgroups of `unmqr` would run.
const MOST_BESIDE_BYTES: usize = 256;

/// Bytes of workgroup memory of `geqrt` beside products, at most, and the threads of either side of its workgroup.
const MOST_BESIDE_LEVELS_BYTES: usize = 32 << 10;
const MOST_SIDE: usize = 1024;

/// Maximum rows, and bytes, of a column in one thread's registers. Above this, registers spill and compile times grow.
const MOST_SLICE: usize = 256;
/// Most columns of deferred updates: the products with them are no longer small.
const MOST_DEFERRED: usize = 8192;
const MOST_SLICE_BYTES: usize = 2048;

impl Shape {
    /// The sizes for `tuning`, without checks against a device.
    pub fn of(tuning: &Tuning) -> Shape {
        let ts = tuning.tile_size.next_multiple_of(4);
        let rows = tuning.leaf.max(2 * tuning.tile_size);
        Shape {
            ts,
            split: tuning.gpu.split_k,
            slice: 4 * rows.div_ceil(4 * tuning.gpu.split_k),
            cpb: tuning.cols_per_block.next_multiple_of(8),
            held: tuning.gpu.tiles_held.min(rows.div_ceil(ts)),
            strips: strips_of(tuning, ts),
            split_beside: tuning.gpu.split_beside,
            deferred_beside: tuning.gpu.deferred_beside > 0,
            arity: tuning.arity(),
            products: ProductShape::of(tuning),
            panels: ProductShape::of_panel(tuning, ts),
        }
    }

    /// The sizes with which a dispatch runs `unmqr` of a level beside `geqrt` of the next one, if there are such dispatches for matrices stored
    /// as `T`. Both have as many threads.
    pub fn beside(&self, kind: ElementKind) -> Option<Shape> {
        let (ts, split) = (self.ts, self.split_beside);
        if split == 0 {
            return None;
        }
        let slice = (MOST_BESIDE_BYTES / kind.scalar_bytes()).min(4 * (self.arity * ts).div_ceil(4 * split));
        Some(Shape { split, slice, cpb: 32 * split * self.strips, held: 0, ..*self }).filter(|shape| shape.rows() >= 2 * ts)
    }

    /// Whether a dispatch runs `unmqr` of `level` beside `geqrt` of `next`: the next level of its tree, if its blocks are short and the matrix can be
    /// accessed in vectors.
    pub fn runs_beside(&self, kind: ElementKind, level: &Level, next: &Level) -> bool {
        let fits = |shape: Shape| next.map.block_rows.min(next.map.rows) <= shape.rows();
        let in_vectors = level.is_in_vectors() && next.is_in_vectors() && level.col.is_multiple_of(4);
        in_vectors && level.is_before(next, self.arity) && self.beside(kind).is_some_and(fits)
    }

    /// The sizes of products that a dispatch subtracts beside `geqrt` of a panel whose updates are deferred, if there are such dispatches for matrices
    /// stored as `kind`. Both have as many threads, and together no more workgroup memory than nearly all devices have.
    pub fn beside_levels(&self, kind: ElementKind) -> Option<ProductShape> {
        let ProductShape { cols, strips, .. } = self.products;
        // A device's limits bound the sizes of a call that is not only counted.
        if !self.deferred_beside || self.ts.max(self.split) > MOST_SIDE || self.slice > MOST_SLICE {
            return None;
        }
        let rows = self.geqrt_threads() / (cols / 8).max(1) * 4 * strips;
        for depth in [16, 8] {
            let of = ProductShape { depth, rows, cols, strips };
            if of.threads() == self.geqrt_threads() && self.levels_bytes(kind, &of) <= MOST_BESIDE_LEVELS_BYTES {
                return Some(of);
            }
        }
        None
    }

    /// Bytes of workgroup memory of `geqrt` beside these products.
    pub fn levels_bytes(&self, kind: ElementKind, products: &ProductShape) -> usize {
        self.geqrt_bytes(kind) + products.bytes(kind)
    }

    /// The constants of `geqrt` beside these products.
    pub fn levels_constants(&self, products: &ProductShape) -> Vec<(&'static str, u32)> {
        let of_products = products.constants().into_iter().filter(|&(name, _)| name != "TS");
        self.geqrt_constants().into_iter().chain(of_products).collect()
    }

    /// Bytes of workgroup memory of a shape of [`beside`](Self::beside).
    pub fn beside_bytes(&self, kind: ElementKind) -> usize {
        self.product_bytes(kind) + self.geqrt_bytes(kind)
    }

    /// The constants of `unmqr` beside `geqrt`, for a shape of [`beside`](Self::beside).
    pub fn beside_constants(&self) -> Vec<(&'static str, u32)> {
        let of_geqrt = self.geqrt_constants().into_iter().filter(|&(name, _)| name != "TS");
        self.unmqr_constants().into_iter().chain(of_geqrt).chain([("ARITY", self.arity as u32)]).collect()
    }

    /// Whether a kept level has the joined reflectors of a panel: one block, longer than any that `geqrt` factors.
    pub fn is_joined(&self, level: &Level) -> bool {
        level.map.blocks() == 1 && level.map.rows > self.rows()
    }

    /// Maximum rows of a block.
    pub fn rows(&self) -> usize {
        self.split * self.slice
    }

    pub fn geqrt_threads(&self) -> usize {
        self.ts * self.split
    }

    /// The products in `unmqr`: of a tile with its columns.
    pub(super) fn tiles(&self) -> ProductShape {
        ProductShape { depth: self.ts, rows: self.ts, cols: self.cpb, strips: self.strips }
    }

    pub fn unmqr_threads(&self) -> usize {
        self.tiles().threads()
    }

    /// Bytes of workgroup memory that the shader of `geqrt` declares.
    pub fn geqrt_bytes(&self, kind: ElementKind) -> usize {
        let Shape { ts, split, .. } = *self;
        let scalars = 2 * self.rows() + split * (ts + 4) + ts + ts * ts;
        scalars * kind.scalar_bytes()
    }

    /// Bytes of workgroup memory that the shader of `unmqr` declares.
    pub fn unmqr_bytes(&self, kind: ElementKind) -> usize {
        self.product_bytes(kind) + self.held * self.tile_bytes(kind)
    }

    /// Bytes of a tile of `unmqr`'s columns.
    fn tile_bytes(&self, kind: ElementKind) -> usize {
        self.ts * (self.cpb / 4 + 1) * 4 * kind.scalar_bytes()
    }

    /// Bytes of workgroup memory for a product of a tile in `unmqr`.
    pub fn product_bytes(&self, kind: ElementKind) -> usize {
        self.tiles().bytes(kind)
    }

    /// The sizes for `tuning` and matrices stored as `T`, or an error for a hyperparameter that exceeds a limit of the device.
    pub fn new(kind: ElementKind, bounds: &Bounds<'_>, tuning: &Tuning) -> Result<Shape> {
        tuning.check()?;
        let &Bounds { name, threads, bytes, .. } = bounds;
        // Checked before the products below, so that none of them overflows.
        let most = |option, value: usize, most: usize| {
            if value > most {
                Err(SvdError::invalid(option, format!("{value}, but {name} allows at most {most}")))
            } else {
                Ok(())
            }
        };
        most("tile_size", tuning.tile_size, threads / 4 * 4)?;
        let ts = tuning.tile_size.next_multiple_of(4);
        most("split_k", tuning.gpu.split_k, threads / ts)?;
        most("strips_per_thread", tuning.gpu.strips_per_thread, 2)?;
        if ![0, bounds.subgroup].contains(&tuning.gpu.subgroup_threads) {
            let reason = format!(
                "{}, but {} has {}, or subgroups of several sizes",
                tuning.gpu.subgroup_threads, bounds.name, bounds.subgroup
            );
            return Err(SvdError::invalid("subgroup_threads", reason));
        }
        most("cols_per_block", tuning.cols_per_block, threads / (ts / 4 / strips_of(tuning, ts)) * 8)?;
        let cols = tuning.cols_per_block.next_multiple_of(8);
        let strips = strips_of(tuning, tuning.gpu.rows_per_block.min(threads * 8).next_multiple_of(4));
        most("rows_per_block", tuning.gpu.rows_per_block, threads / (cols / 8) * 4 * strips)?;
        most("threads_per_block", tuning.gpu.threads_per_block, threads)?;
        most("split_beside", tuning.gpu.split_beside, threads / ts)?;
        most("lines_per_thread", tuning.gpu.lines_per_thread, 2)?;
        most("deferred_beside", tuning.gpu.deferred_beside, 1)?;
        most("sweeps_per_block", tuning.gpu.sweeps_per_block, tuning.gpu.threads_per_block)?;
        most("leaf", tuning.leaf, tuning.gpu.split_k * MOST_SLICE.min(MOST_SLICE_BYTES / kind.scalar_bytes()))?;
        let shape = Shape::of(tuning);
        let memory = |option, needed: usize, kernel: &str| {
            if needed > bytes {
                let reason =
                    format!("{kernel} needs {needed} bytes of workgroup memory for {}, but {name} has {bytes}", kind.name());
                Err(SvdError::invalid(option, reason))
            } else {
                Ok(())
            }
        };
        let least = Shape { slice: 4 * (2 * tuning.tile_size).div_ceil(4 * shape.split), cpb: 8, ..shape };
        memory("tile_size", least.geqrt_bytes(kind).max(least.product_bytes(kind)), "a tile")?;
        memory("leaf", shape.geqrt_bytes(kind), "geqrt")?;
        memory("cols_per_block", shape.product_bytes(kind), "unmqr")?;
        memory("tiles_held", shape.unmqr_bytes(kind), "unmqr")?;
        memory("rows_per_block", shape.products.bytes(kind), "gemm")?;
        if tuning.gpu.deferred_columns > 0 && !kind.is_half() {
            most("deferred_columns", tuning.gpu.deferred_columns, MOST_DEFERRED)?;
            most("deferred_columns", shape.panels.threads(), threads)?;
            memory("deferred_columns", shape.panels.bytes(kind), "multiply_panel")?;
            memory("deferred_columns", shape.join_bytes(kind), "join_reflectors")?;
        }
        if let (Some(products), 1.., false) = (shape.beside_levels(kind), tuning.gpu.deferred_columns, kind.is_half()) {
            memory("deferred_beside", shape.levels_bytes(kind, &products), "geqrt beside deferred updates")?;
        }
        if let Some(beside) = shape.beside(kind) {
            memory("split_beside", beside.beside_bytes(kind), "unmqr beside geqrt")?;
        }
        Ok(shape)
    }

    /// The constants of the shader of `geqrt`.
    pub fn geqrt_constants(&self) -> [(&'static str, u32); 8] {
        // Four rows each, and those with a row of R.
        let pieces = self.slice as u32 / 4;
        let group = [4, 3, 2].into_iter().find(|&group| pieces.is_multiple_of(group)).unwrap_or(1);
        [
            ("TS", self.ts as u32),
            ("SPLIT", self.split as u32),
            ("PIECES", pieces),
            ("GROUP", group),
            ("GROUPS", pieces / group),
            ("TOP_PIECES", self.ts.div_ceil(4 * self.split).min(self.slice / 4) as u32),
            ("ROWS", self.rows() as u32),
            ("GEQRT_THREADS", self.geqrt_threads() as u32),
        ]
    }

    /// Bytes of workgroup memory that the shader of `join_reflectors` declares: five squares.
    pub fn join_bytes(&self, kind: ElementKind) -> usize {
        5 * self.ts * self.ts * kind.scalar_bytes()
    }

    /// The constants of the shader of `join_reflectors`.
    pub fn join_constants(&self) -> [(&'static str, u32); 3] {
        let [ts, threads] = [self.ts, self.geqrt_threads()].map(|x| x as u32);
        [("TS", ts), ("TS4", ts / 4), ("GEQRT_THREADS", threads)]
    }

    /// The constants of the shader of `spread_reflectors`.
    pub fn spread_constants(&self) -> [(&'static str, u32); 2] {
        [("TS", self.ts as u32), ("TS4", self.ts as u32 / 4)]
    }

    /// The constants of the shader of `unmqr`.
    pub fn unmqr_constants(&self) -> Vec<(&'static str, u32)> {
        let (ts4, step4, cpb4) = (self.ts / 4, self.tiles().step() / 4, self.cpb / 4);
        let loads = |of: usize| of.div_ceil(self.unmqr_threads()) as u32;
        let of_unmqr = [
            ("TS4", ts4 as u32),
            ("HELD", self.held as u32),
            // Eight consecutive threads stage 2 x 4 vector blocks, or the largest such grid that divides a step.
            ("I_LOW", 2 - step4 as u32 % 2),
            ("J_LOW", if cpb4.is_multiple_of(4) { 4 } else { 2 }),
            // Vectors of V and blocks of X of a thread in a step, and of V in a tile.
            ("LEFT_LOADS", loads(4 * step4 * ts4)),
            ("RIGHT_LOADS", loads(step4 * cpb4)),
            ("TURNED_LOADS", loads(ts4 * ts4)),
            ("UNMQR_THREADS", self.unmqr_threads() as u32),
        ];
        self.tiles().tile_constants().into_iter().chain(of_unmqr).collect()
    }
}

/// Maximum threads of a workgroup of the triangular base kernels. Each row has a barrier, which costs more with more threads.
const MOST_TRIANGLE_THREADS: usize = 256;

/// The sizes for which the triangular base kernels are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TriangleShape {
    /// Largest order of a triangle, a multiple of 4.
    pub base: usize,
    /// Groups of four columns in a workgroup.
    pub groups: usize,
}

impl TriangleShape {
    /// Bytes of workgroup memory of `trmm`; `trsm` needs no more.
    pub fn bytes(&self, kind: ElementKind) -> usize {
        let TriangleShape { base, groups } = *self;
        (base * (base + 1) + 4 * groups * base.max(2)) * kind.scalar_bytes()
    }

    /// The sizes for `tuning` and matrices stored as `T`, or an error if they exceed a limit of the device.
    pub fn new(kind: ElementKind, bounds: &Bounds<'_>, tuning: &Tuning) -> Result<TriangleShape> {
        tuning.check()?;
        let &Bounds { name, threads, bytes, .. } = bounds;
        let most = threads.min(MOST_TRIANGLE_THREADS) / 4 * 4;
        if tuning.triangle > most {
            return Err(SvdError::invalid("triangle", format!("{}, but {name} allows at most {most}", tuning.triangle)));
        }
        let base = tuning.triangle.next_multiple_of(4);
        let fitting = (0..).map(|k| (most / base) >> k).take_while(|&groups| groups > 0);
        let mut fitting = fitting.map(|groups| TriangleShape { base, groups }).filter(|shape| shape.bytes(kind) <= bytes);
        fitting.next().ok_or_else(|| {
            let needed = TriangleShape { base, groups: 1 }.bytes(kind);
            let reason = format!("{base} needs {needed} bytes of workgroup memory for {}, but {name} has {bytes}", kind.name());
            SvdError::invalid("triangle", reason)
        })
    }

    /// The constants of the shaders of `trmm` and `trsm`.
    pub fn constants(&self) -> [(&'static str, u32); 3] {
        let TriangleShape { base, groups } = *self;
        [("BASE", base as u32), ("GROUPS", groups as u32), ("TRIANGLE_THREADS", (base * groups) as u32)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At WebGPU's default limits (16 KiB, 256 threads) the usual sizes fit: 32 x 32 tiles in f32, 16 x 16 in f64.
    #[test]
    fn usual_sizes_fit_webgpu_defaults() {
        let (bytes, threads) = (16 << 10, 256);
        let products = ProductShape { depth: 32, rows: 32, cols: 64, strips: 1 };
        let narrow = Shape {
            ts: 32,
            split: 8,
            slice: 16,
            cpb: 64,
            held: 0,
            strips: 1,
            split_beside: 0,
            deferred_beside: false,
            arity: 4,
            products,
            panels: products,
        };
        let wide = Shape { ts: 16, ..narrow };
        assert!(narrow.geqrt_bytes(ElementKind::F32).max(narrow.unmqr_bytes(ElementKind::F32)) <= bytes);
        assert!(wide.geqrt_bytes(ElementKind::F64).max(wide.unmqr_bytes(ElementKind::F64)) <= bytes);
        for shape in [narrow, wide] {
            assert!(shape.geqrt_threads().max(shape.unmqr_threads()) <= threads);
        }
    }
}
