//! What the gallery's programs read files and draw pictures with.

pub mod chart;
pub mod draw;
pub mod files;
pub mod plot;
