//! What the gallery's programs draw with.

pub mod draw;
pub mod plot;
