//! The factors as files.

use std::path::{Path, PathBuf};

use ndarray::{Array, Dimension};
use ndarray_npy::WritableElement;
use num_complex::Complex;
use safetensors::{Dtype, serialize_to_file, tensor::TensorView};
use svdvals_gpu::{ArraySvd, Element, Number};
use svdvals_gpu_gallery::draw::make_folder;

use crate::{arguments::suffix, decompose::Factors};

/// Writes U, S and Vt in the format that the suffix names, and returns the files.
pub fn write(path: &Path, factors: &Factors) -> Result<Vec<PathBuf>, String> {
    let all = || {
        make_folder(path).map_err(|error| error.to_string())?;
        match factors {
            Factors::F32(svd) => save(path, svd, Some((Dtype::F32, Dtype::F32))),
            Factors::F64(svd) => save(path, svd, Some((Dtype::F64, Dtype::F64))),
            Factors::C32(svd) => save(path, svd, Some((Dtype::C64, Dtype::F32))), // named by the bits of both parts together
            Factors::C64(svd) => save::<Complex<f64>>(path, svd, None),
        }
    };
    all().map_err(|message| format!("{}: {message}", path.display()))
}

/// `types`: those of safetensors for U and Vt, and for S.
fn save<T>(path: &Path, svd: &ArraySvd<T>, types: Option<(Dtype, Dtype)>) -> Result<Vec<PathBuf>, String>
where
    T: Element<Scalar: WritableElement, Real: WritableElement>,
{
    if suffix(path) == "npy" {
        return Ok(vec![npy(path, "U", &svd.u)?, npy(path, "S", &svd.s)?, npy(path, "Vt", &svd.vt)?]);
    }
    let Some((of_vectors, of_values)) = types else {
        return Err("safetensors has no complex numbers of double precision; .npy has".into());
    };
    let tensors = [
        ("U", of_vectors, svd.u.shape(), bytes(&svd.u)),
        ("S", of_values, svd.s.shape(), bytes(&svd.s)),
        ("Vt", of_vectors, svd.vt.shape(), bytes(&svd.vt)),
    ];
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| Ok((*name, TensorView::new(*dtype, shape.to_vec(), bytes)?)));
    let views: Vec<_> = views.collect::<Result<_, _>>().map_err(|error: safetensors::SafeTensorError| error.to_string())?;
    serialize_to_file(views, None, path).map_err(|error| error.to_string())?;
    Ok(vec![path.to_owned()])
}

/// `a` as NAME.`factor`.npy.
fn npy<T: WritableElement, D: Dimension>(path: &Path, factor: &str, a: &Array<T, D>) -> Result<PathBuf, String> {
    let path = path.with_extension(format!("{factor}.npy"));
    ndarray_npy::write_npy(&path, a).map_err(|error| error.to_string())?;
    Ok(path)
}

/// The entries row after row, the low byte of each number first.
fn bytes<T: Number, D: Dimension>(a: &Array<T, D>) -> Vec<u8> {
    let entries: Vec<T> = a.iter().copied().collect();
    let mut bytes = bytemuck::cast_slice::<T, u8>(&entries).to_vec();
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(size_of::<T::Real>()).for_each(<[u8]>::reverse);
    }
    bytes
}
