//! What kernels are told with each dispatch. Their shaders hold the same structs: `Level` in `shared/level.wgsl`, `Params` in the others.

use std::ops::Range;

use bytemuck::Pod;

/// Parameters of a shader: words of 32 bits.
pub(crate) trait Parameters: Pod {
    /// The names of the words, in order.
    const FIELDS: &'static [&'static str];
}

/// Structs of u32, each with the names of its fields.
macro_rules! parameters {
    ($($(#[$doc:meta])* $name:ident { $($field:ident),+ })+) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
        pub(crate) struct $name {
            $(pub $field: u32),+
        }

        impl Parameters for $name {
            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),+];
        }
    )+};
}

parameters! {
    /// Of `geqrt`, `unmqr` and `gather_reflectors`.
    Level { rs, cs, lines, cols, col, width, start, group, spacing, rows, block_rows, blocks, t_first, flags }
    PackBand { n, ld, ku, bandwidth, rs, cs, lines }
    UnpackBand { n, ld, ku, bandwidth }
    RepackBand { n, ld, ku, bandwidth }
    Chase { n, ld, ku, bandwidth, tile_width, cycles, clock, first, count }
    ApplyChase { n, bandwidth, tile_width, first, count, cols, rs, cs, lines, flags }
    SquareBidiagonal { n, ld, ku }
    Bisect { n, steps, first }
    Gemm { rows, cols, inner, a, a_rs, a_cs, x, c, b_rs, b_cs, flags }
    /// Of `trmm` and `trsm`.
    Triangle { order, cols, a, a_rs, a_cs, b, b_rs, b_cs, flags }
    Diagonal { n, stride }
    Largest { inner, ld, len, each }
    Scale { inner, from_ld, ld, len }
}

/// Flags of a [`Level`]: what its blocks stack.
pub(crate) const TRIANGLE_ON_TILE: u32 = 1;
pub(crate) const TRIANGLES: u32 = 2;
/// Flags of a [`Level`] and of [`ApplyChase`]: conjugates of the reflectors are applied; and the adjoint of their product.
pub(crate) const CONJUGATE: u32 = 4;
pub(crate) const ADJOINT: u32 = 8;
/// A flag of [`ApplyChase`]: the right reflectors, not the left ones.
pub(crate) const RIGHT: u32 = 16;

impl Level {
    /// For an update of these of the columns right of the panel: all before them count as the panel's, and the matrix ends with them.
    pub fn of_columns(self, columns: Range<usize>) -> Level {
        let end = (self.col + self.width) as usize + columns.end;
        Level { cols: (self.cols as usize).min(end) as u32, width: self.width + columns.start as u32, ..self }
    }
}
