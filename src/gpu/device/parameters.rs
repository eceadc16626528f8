//! The parameters of each kernel. Their shaders declare the same structs: `Level` in `shared/level.wgsl`, `Params` in the others.

use std::ops::Range;

use bytemuck::Pod;

/// Parameters of a shader, as words of 32 bits.
pub(crate) trait Parameters: Pod {
    /// The names of the words, in order.
    const FIELDS: &'static [&'static str];
}

/// Defines structs of u32 with the names of their fields.
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
    /// Parameters of `geqrt`, `unmqr`, `larft` and `gather_reflectors`.
    Level { rs, cs, lines, cols, col, width, start, group, spacing, rows, block_rows, blocks, t_first, flags, matrix, first }
    /// Parameters of `update_line` and `multiply_line`.
    Line { rs, cs, lines, line, first, rows, cols, done, parts, ld, flags }
    UpdateTrailing { rs, cs, lines, row, col, rows, cols, inner, ld }
    SubtractDeferred { rs, cs, lines, row, col, rows, cols, of_l, of_r, inner }
    /// The parameters of `geqrt`, without the last two, and of `subtract_deferred`, without the strides.
    GeqrtAndSubtract {
        rs, cs, lines, cols, col, width, start, group, spacing, rows, block_rows, blocks, t_first, flags, c_row, c_col, c_rows, c_cols, of_l, of_r, inner
    }
    MultiplyPanel { rs, cs, lines, row, rows, col, cols, first, at_once, stride }
    AddParts { rs, cs, lines, row, col, cols, stride, parts }
    JoinReflectors {
        rs, cs, lines, row, col, rows, width, to, levels, leaf, rows_1, block_1, rows_2, block_2, t_first, t_kept, zero_row, zero_col, zero_rows, zero_cols
    }
    SpreadReflectors { rs, cs, lines, row, rows, to }
    PackBand { n, columns, ld, ku, bandwidth, rs, cs, lines, matrix }
    UnpackBand { n, columns, ld, ku, bandwidth }
    RepackBand { n, columns, ld, ku, bandwidth }
    Chase { n, columns, ld, ku, bandwidth, tile_width, cycles, clock, first, count }
    ApplyChase { n, bandwidth, tile_width, chunk, first, cycle, cols, rs, cs, lines, flags, first_kept, c, matrix }
    SquareBidiagonal { n, columns, ld, ku }
    Bisect { n, passes, first, lowest }
    Batch { first, count, passes }
    Jacobi { first, count, sweeps, begun }
    /// Parameters of `gemm`, and a task of `gemm_batch`.
    Product { rows, cols, inner, a, a_rs, a_cs, x, x_rs, x_cs, c, c_rs, c_cs, first, flags }
    GemmBatch { first }
    GatherColumns { words, numbers, count, most, ld }
    RotateColumns { words, pairs, numbers, count, most }
    SecularVectors { words, places, roots, count, most, ld }
    TakeColumns { n, cols, ld, out_ld, first, matrix }
    GramFactor { k, ld }
    /// Parameters of `cholesky`.
    Cholesky { order, g, g_rs, g_cs, r, r_rs, r_cs }
    UnitColumns { x, rows, cols, rs, cs, matrix, flags }
    IdentityColumns { first, rows, cols, ld, stride, matrix, flags }
    CopyWindow { rows, cols, f, f_rs, f_cs, f_matrix, t, t_rs, t_cs, t_matrix, flags }
    /// Parameters of `trmm` and `trsm`.
    Triangle { order, cols, a, a_rs, a_cs, b, b_rs, b_cs, flags }
    SliceLines { lines, terms, a, line_stride, term_stride, columns, padded, flags }
    MultiplyFixed { lines, terms, line_stride, term_stride, parts, vectors, x, x_ld, out }
    CoopGemm { rows, cols, columns, m_padded, x_padded, c, c_rs, c_cs, flags }
    Diagonal { n, stride }
    Fused { count }
    Largest { inner, ld, len, each }
    Scale { inner, from_ld, ld, len, flags }
}

/// Flags of a [`Level`]: the structure of its stacked blocks.
pub(crate) const TRIANGLE_ON_TILE: u32 = 1;
pub(crate) const TRIANGLES: u32 = 2;
/// Flags of a [`Level`] and of [`ApplyChase`]: use the conjugates of the reflectors; apply the adjoint of their product.
pub(crate) const CONJUGATE: u32 = 4;
pub(crate) const ADJOINT: u32 = 8;
/// Flag of [`ApplyChase`]: apply the right reflectors, not the left ones.
pub(crate) const RIGHT: u32 = 16;

/// Flags of a [`Line`]: it is a row of the matrix; there is no line.
pub(crate) const TRANSPOSED: u32 = 1;
pub(crate) const LAST: u32 = 2;
/// Flags of a [`Product`]: M has the conjugates of its entries; C is replaced, without being read; C, or X, is upper triangular.
pub(crate) const CONJUGATED: u32 = 1;
pub(crate) const REPLACED: u32 = 2;
pub(crate) const UPPER_C: u32 = 4;
pub(crate) const UPPER_X: u32 = 8;
/// Flags of a [`Scale`]: of each line only the entries up to that of its own index; only those from it on.
pub(crate) const UPTO: u32 = 1;
pub(crate) const FROM: u32 = 2;
/// The flag of [`UnitColumns`]: add noise. That of [`IdentityColumns`]: phases. That of [`CopyWindow`]: conjugates.
pub(crate) const ON: u32 = 1;

/// A number of a shader: the driver has checked that it fits. (For arrays of them: a function, of which there is one, where each closure is one more.)
pub(crate) fn word(x: usize) -> u32 {
    x as u32
}

impl Level {
    /// The parameters for a range of the columns right of the panel. All columns before the range count as the panel's, and the matrix ends
    /// after it.
    pub fn of_columns(self, columns: Range<usize>) -> Level {
        let end = (self.col + self.width) as usize + columns.end;
        Level { cols: (self.cols as usize).min(end) as u32, width: self.width + columns.start as u32, ..self }
    }
}
