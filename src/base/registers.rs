//! What is chosen by the vector registers of the processor.
//!
//! | | AVX-512 | AVX2 | NEON | chosen by |
//! | --- | --- | --- | --- | --- |
//! | registers, bytes of each | 32, 64 | 16, 32 | 32, 16 | |
//! | `cache_bytes` | 1 MiB | 512 KiB | 1 MiB | the second-level cache of Zen 4 and 5; of Zen 2 and 3; of Neoverse N1 and V1 |
//! | `panel_columns`, of complex numbers | 3, 2 | 1, 1 | 3, 2 | count: 8 sums a column, and the operands. AVX2: 2 within 4% of 1 in stage 1, 3 up to 9% slower |
//! | `group_rows` | 4 | 6 | 4 | 2 sums a row, and the operands. AVX-512: 12 take up to 1.07 times the vectors' time (1.13 in c64). AVX2: 4 take up to 1.07 |
//! | `squares_by_columns`, of complex numbers | 8 x 3, 4 x 2 | 4 x 3, 2 x 2 | 8 x 3, 4 x 2 | count: a sum a pair, and the operands. AVX-512: within 4% of the best of 6. AVX2: the best of 6 |
//! | `squares_by_rows`, of complex numbers | 8 x 3, 4 x 2 | 6 x 2, 4 x 1 | 8 x 3, 4 x 2 | the same. AVX2: the best of 6; the compiler spills 4 x 3, which takes 1.7 to 2.0 times as long |
//! | `leaf_rows` | 512 | 256 | 128 | chains of 64 products: with 512 rows on AVX2, the errors of the sums were 2.7 times as large (simulated), and the time 0 to 4% less; 128 take 6 to 10% more |
//! | `direct_up_to` | 224 | 256 | 256 | measured on Zen 4 at n = 256: directly 1.7 ms (f32) and 1.9 (f64) with AVX2, 2.1 and 2.4 with AVX-512, by two stages 2.1, 2.7; 1.9, 2.1. NEON as AVX2 |
//!
//! Widths that are const generics, so that their sums stay in registers. Each is compiled for four types of element, or two of double precision, and for each
//! instruction set; those that an instruction set does not have are not compiled (conditions in `const { .. }`). Functions of scalars, and all that is done
//! once for a panel or a leaf, take their widths at run time, or are compiled for all instruction sets at once. A width is there where the call that gains
//! most takes 5% longer without it, on a Zen 4 with AVX-512 or AVX2, one thread: all types, values and vectors of n = 64 to 1024, QR, tall matrices.
//!
//! | widths | where | of | longer without |
//! | --- | --- | --- | --- |
//! | 8, 4, 2, 1 columns; of 8 the 0th to 7th reflector, of 4 the 0th to 3rd, .. | `cpu::qr::panel::pass` | a pass over a panel | (the columns are part of the sums' order); 1.17 with one pass for all reflectors, values of an ill-conditioned 20000 x 40 in c64, AVX2 |
//! | these by `panel_columns` or one | `cpu::qr::panel::products_of`, `apply_to` | a panel's reflectors, and the columns that they are applied to | 1.17, values of an ill-conditioned 20000 x 150 in f64; 1.00 to 1.03 where products dominate |
//! | `group_rows` rows, or one | `cpu::qr::strips` | rows of V | (alone a row loads a register for each product) |
//! | `squares_by_columns` and `squares_by_rows`, or fewer; 6 and 3 columns of real ones | `cpu::tall::products` | tiles of A^H A | 1.5; 1.11, values of 20000 x 21 |
//! | 1 to 4 registers of rows | `cpu::chase::reflector` | a reflector of stage 2 from the right | 1.09 with two; with up to eight no call is faster by more than 3% |
//! | 1 to 13 registers of a column | `cpu::chase::reflector` | the same from the left | 1.18, values of 512 in c32 |
//! | 4 columns, or one | `cpu::small::gebd2`, `cpu::one_stage` | columns that share a vector | 1.46, values of 150; 1.21, one stage at 500 |
//! | 2 registers of points, or one | `algo::bidiag::newton` | points that share a pass | 1.31, values of 64 |
//!
//! AVX2's were measured on a Zen 4 without AVX-512, one thread: values of n = 512 to 2048 in f32 and f64, and of tall matrices of 16 to 192 columns in f32, f64, c32. NEON's are by count alone: no Arm processor has been measured. A processor with none of these has the choices of AVX2.

use faer::traits::ComplexField;
use pulp::{Simd, WithSimd};

/// The choices. Those by count depend on the number of registers only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choices {
    /// Columns to which the reflectors of a panel are applied at a time; and complex ones. Each has a sum for every reflector.
    pub panel_columns: [usize; 2],
    /// Rows of V that a strip is multiplied by at a time. Each has two sums.
    pub group_rows: usize,
    /// Columns and registers of a tile of A^H A that is summed at a time, for contiguous columns; and complex ones, whose sums take two
    /// registers.
    pub squares_by_columns: [(usize, usize); 2],
    /// The same for contiguous rows.
    pub squares_by_rows: [(usize, usize); 2],
    /// Rows of a leaf of A^H A: a whole number of registers in every type.
    pub leaf_rows: usize,
    /// Largest order that is reduced directly to bidiagonal form.
    pub direct_up_to: usize,
    /// Bytes of the second-level cache that a core is assumed to have.
    pub cache_bytes: usize,
}

impl Choices {
    /// For an instruction set.
    pub const fn of<S: Simd>() -> Self {
        let wide = size_of::<S::f64s>() == 64;
        let many = S::REGISTER_COUNT >= 32;
        Choices {
            panel_columns: if many { [3, 2] } else { [1, 1] },
            group_rows: if many { 4 } else { 6 },
            squares_by_columns: if many { [(8, 3), (4, 2)] } else { [(4, 3), (2, 2)] },
            squares_by_rows: if many { [(8, 3), (4, 2)] } else { [(6, 2), (4, 1)] },
            leaf_rows: 64 * size_of::<S::f64s>() / size_of::<f64>(),
            direct_up_to: if wide { 224 } else { 256 },
            cache_bytes: if wide || many { 1 << 20 } else { 1 << 19 },
        }
    }

    /// For this processor.
    pub fn here() -> Self {
        struct Here;
        impl WithSimd for Here {
            type Output = Choices;

            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) -> Choices {
                Choices::of::<S>()
            }
        }
        <f64 as ComplexField>::Arch::default().dispatch(Here)
    }
}
