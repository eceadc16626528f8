//! Whole runs, over files in a folder of their own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ndarray::{Array1, Array2};
use num_complex::Complex;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::{arguments::Arguments, decompose::LowRank, run, shared::arguments::Words};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("low_rank-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn npy<T: ndarray_npy::WritableElement>(&self, name: &str, a: &Array2<T>) -> String {
        ndarray_npy::write_npy(self.0.join(name), a).unwrap();
        self.at(name)
    }

    fn tensors(&self, name: &str, of: &[(&str, Array2<f32>)]) -> String {
        let bytes = |a: &Array2<f32>| a.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let of: Vec<(&str, Vec<usize>, Vec<u8>)> = of.iter().map(|(name, a)| (*name, a.shape().to_vec(), bytes(a))).collect();
        let view = |shape: &[usize], bytes| TensorView::new(Dtype::F32, shape.to_vec(), bytes).unwrap();
        let views = of.iter().map(|(name, shape, bytes)| (*name, view(shape, bytes)));
        safetensors::serialize_to_file(views, None, &self.0.join(name)).unwrap();
        self.at(name)
    }

    /// On the CPU, with the picture in the folder.
    fn run(&self, words: &[&str]) -> Result<LowRank, String> {
        let picture = self.at("picture.png");
        let words = ["--backend", "cpu", "--out", &picture].into_iter().chain(words.iter().copied()).map(String::from);
        run(&Arguments::parse(&mut Words::of(words)).unwrap()).map_err(|error| error.to_string())
    }

    fn picture(&self) -> (u32, u32) {
        let mut decoder = png::Decoder::new(fs::File::open(self.at("picture.png")).unwrap());
        let info = decoder.read_header_info().unwrap();
        (info.width, info.height)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A 4 x 3 matrix with the singular values 4, 2 and 1, since it is a permuted diagonal.
fn permuted<T: From<f32> + Clone>() -> Array2<T> {
    let mut a = Array2::from_elem((4, 3), T::from(0.0));
    (a[[0, 2]], a[[3, 0]], a[[1, 1]]) = (T::from(1.0), T::from(2.0), T::from(4.0));
    a
}

/// Values 4, 2, 1: rank 1 errs by sqrt(5/21), rank 2 by sqrt(1/21), rank 3 by nothing, in every type; a few roundings apart.
#[test]
fn known_errors() {
    let folder = Folder::new("known");
    let files = [
        folder.npy("f64.npy", &permuted::<f64>()),
        folder.npy("f32.npy", &permuted::<f32>()),
        folder.npy("wide.npy", &permuted::<f64>().reversed_axes().as_standard_layout().to_owned()),
        folder.npy("c32.npy", &permuted::<Complex<f32>>().mapv(|x| x * Complex::new(0.0, -1.0))),
        folder.tensors("one.safetensors", &[("w", permuted())]),
    ];
    for file in &files {
        let found = folder.run(&["--rank", "1,2,3", file]).unwrap();
        let wanted = [(5.0f64 / 21.0).sqrt(), (1.0f64 / 21.0).sqrt(), 0.0];
        assert_eq!(found.ranks.len(), 3);
        for (rank, error) in found.ranks.iter().zip(wanted) {
            assert!((rank.error - error).abs() <= found.rounding, "{file}, rank {}: {}", rank.k, rank.error);
            assert!((rank.predicted - error).abs() <= 8.0 * f64::EPSILON, "{file}, rank {}: {}", rank.k, rank.predicted);
        }
        // m + n numbers of U and V and one of S.
        let size = if file.ends_with("f64.npy") || file.ends_with("wide.npy") { 8 } else { 4 };
        let complex = if file.ends_with("c32.npy") { 2 } else { 1 };
        assert_eq!(found.bytes((4, 3), 2), 2 * (7 * complex + 1) * size);
    }
    assert_eq!(folder.run(&["--error", "0.3", &files[0]]).unwrap().ranks.iter().map(|rank| rank.k).collect::<Vec<_>>(), [2]);
}

/// The photograph: measured and predicted errors agree to max(m, n) eps, which the crate's tests allow the residual, and the factors in
/// files, multiplied in f64, give the matrix of the largest rank.
#[test]
fn a_photograph_and_its_factors() {
    let folder = Folder::new("photograph");
    let camera = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/camera.npy").display().to_string();
    let (one, three) = (folder.at("deeper/factors.safetensors"), folder.at("factors.npy"));
    let found = folder.run(&["--rank", "4,16", "--out", &one, "--out", &three, &camera]).unwrap();
    let eps = 512.0 * f64::from(f32::EPSILON);
    assert!(found.ranks.iter().all(|rank| (rank.error - rank.predicted).abs() <= eps && rank.error > 100.0 * eps));
    // Three images side by side.
    assert!(folder.picture().0 > 3 * 380);

    let read = |name: &str| ndarray_npy::read_npy::<_, Array2<f32>>(folder.at(name)).unwrap().mapv(f64::from);
    let s: Array1<f32> = ndarray_npy::read_npy(folder.at("factors.S.npy")).unwrap();
    let (u, vt) = (read("factors.U.npy"), read("factors.Vt.npy"));
    assert_eq!((u.dim(), s.len(), vt.dim()), ((512, 16), 16, (16, 512)));
    let product = (&u * &s.mapv(f64::from)).dot(&vt);
    let a: Array2<u8> = ndarray_npy::read_npy(&camera).unwrap();
    let a = a.mapv(f64::from);
    let norm = |a: &Array2<f64>| a.iter().map(|x| x * x).sum::<f64>().sqrt();
    assert!((norm(&(&a - &product)) / norm(&a) - found.ranks[1].predicted).abs() <= eps);

    let bytes = fs::read(one).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    for (name, shape, entries) in [("U", vec![512, 16], &u), ("Vt", vec![16, 512], &vt)] {
        let tensor = tensors.tensor(name).unwrap();
        let read = tensor.data().as_chunks().0.iter().map(|&bytes| f64::from(f32::from_le_bytes(bytes)));
        assert_eq!((tensor.dtype(), tensor.shape()), (Dtype::F32, &shape[..]));
        assert!(read.eq(entries.iter().copied()), "{name}");
    }
    assert_eq!(tensors.tensor("S").unwrap().shape(), [16]);
}

/// Of several tensors the largest, or the one that is named.
#[test]
fn tensors() {
    let folder = Folder::new("tensors");
    let small = Array2::from_elem((2, 2), 1.0);
    let file = folder.tensors("model.safetensors", &[("a.weight", small.clone()), ("b.weight", permuted()), ("b", small)]);
    let values = |words: &[&str]| folder.run(&[&[file.as_str()], words].concat()).map(|found| found.values.len());
    assert_eq!((values(&[]), values(&["--tensor", "a"])), (Ok(3), Ok(2)));
    assert_eq!((values(&["--tensor", "b"]), values(&["--tensor", "b.w"])), (Ok(2), Ok(3)));
    assert!(values(&["--tensor", "weight"]).unwrap_err().contains("a.weight, b.weight"));
    assert!(values(&["--tensor", "query"]).unwrap_err().contains("query"));
    assert!(values(&["--rank", "4"]).unwrap_err().contains("rank 4"));
    assert_eq!(folder.picture(), (1400, 564));
    assert!(values(&["--draw", "images"]).is_ok() && folder.picture().0 < 1000);
}

/// What cannot be used is a line that names it; a matrix of zeros and one entry can.
#[test]
fn unusual_files() {
    let folder = Folder::new("unusual");
    let mut nan = permuted::<f64>();
    nan[[2, 1]] = f64::NAN;
    let c64 = folder.npy("c64.npy", &permuted::<Complex<f32>>().mapv(|z| Complex::new(f64::from(z.re), 0.0)));
    for (words, message) in [
        (&[folder.at("missing.npy")][..], "missing.npy"),
        (&[folder.npy("nan.npy", &nan)], "(2, 1) is NaN"),
        (&[folder.npy("nothing.npy", &Array2::<f32>::zeros((0, 4)))], "no entries"),
        (&[c64.clone(), "--tensor".into(), "q".into()], "--tensor is for"),
        (&[c64.clone(), "--out".into(), folder.at("c64.safetensors")], "no complex numbers of double"),
        (&[c64.clone(), "--out".into(), format!("{c64}/a.npy")], "a.npy"),
        (&[c64.clone(), "--out".into(), format!("{c64}/a.png")], "a.png"),
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let error = folder.run(&words).err().unwrap_or_else(|| panic!("no error for {words:?}"));
        assert!(error.contains(message) && error.lines().count() == 1, "{words:?}: {error}");
    }
    assert!(folder.run(&[&c64, "--out", &folder.at("c64.npy")]).is_ok());
    for a in [Array2::zeros((3, 2)), Array2::from_elem((1, 1), -1e300), Array2::from_elem((1, 9), 1e-300)] {
        for draw in ["images", "curves"] {
            let found = folder.run(&["--draw", draw, &folder.npy("a.npy", &a)]).unwrap();
            assert!(found.ranks.iter().all(|rank| rank.error <= found.rounding && rank.predicted <= found.rounding));
        }
    }
}
