//! What singular vectors need besides the kept reflectors: products of reflectors in blocks, and the left vectors of given right ones.

pub(crate) mod compact_wy;
pub(crate) mod left;
pub(crate) mod rotated;
