//! What kernels are told with each dispatch. Their shaders hold the same structs: `Level` in `shared/level.wgsl`, `Params` in the others.

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
    /// Of `geqrt` and `unmqr`.
    Level { rs, cs, lines, cols, col, width, start, group, spacing, rows, block_rows, blocks }
    PackBand { n, ld, ku, bandwidth, rs, cs, lines }
    UnpackBand { n, ld, ku, bandwidth }
    RepackBand { n, ld, ku, bandwidth }
    Chase { n, ld, ku, bandwidth, tile_width, cycles, clock, first, count }
    SquareBidiagonal { n, ld, ku }
    Bisect { n, steps, first }
    Gemm { rows, cols, inner, a, a_rs, a_cs, x, c, b_rs, b_cs, flags }
    /// Of `trmm` and `trsm`.
    Triangle { order, cols, a, a_rs, a_cs, b, b_rs, b_cs, flags }
    Diagonal { n, stride }
    Largest { inner, ld, len, each }
    Scale { inner, from_ld, ld, len }
}
