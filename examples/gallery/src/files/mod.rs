//! Matrices in files: `.npy`, `.safetensors` and `.png`.

pub mod image;
pub mod matrix;
pub mod npy;
pub mod source;
pub mod tensors;
