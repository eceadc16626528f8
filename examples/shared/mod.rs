//! What several examples and benchmarks share.
#![allow(unused)] // every program uses a part

pub mod arguments;
pub mod csv;
pub mod machine;
pub mod markdown;
pub mod progress;

/// The names of element types that a command line may have: as they are stored, so that `f16` is `HalfStorage::Half`.
pub const TYPES: [&str; 5] = ["f16", "f32", "f64", "c32", "c64"];

/// Evaluates an expression with `$t` the type that one of [`TYPES`] names.
macro_rules! with_type {
    ($name:expr, $t:ident => $body:expr) => {
        match $name {
            "f16" => {
                type $t = half::f16;
                $body
            }
            "f32" => {
                type $t = f32;
                $body
            }
            "f64" => {
                type $t = f64;
                $body
            }
            "c32" => {
                type $t = num_complex::Complex<f32>;
                $body
            }
            "c64" => {
                type $t = num_complex::Complex<f64>;
                $body
            }
            other => unreachable!("the command line let {other:?} through"),
        }
    };
}
pub(crate) use with_type;

/// The median of at least one number; of an even count the larger of the middle two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
