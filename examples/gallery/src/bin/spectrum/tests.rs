//! Whole runs, over files in a folder of their own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use half::{bf16, f16};
use ndarray::{Array2, ShapeBuilder};
use num_complex::Complex;
use safetensors::{Dtype, tensor::TensorView};

use svdvals_gpu::SvdOptions;

use svdvals_gpu_gallery::files::{image, source::find};

use crate::{Outcome, arguments::Arguments, run, shared::arguments::Words};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("spectrum-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.0.join(name), bytes).unwrap();
        self.at(name)
    }

    /// By another program's hands, as far as reading `.npy` goes.
    fn npy<T: ndarray_npy::WritableElement, D: ndarray::Dimension>(&self, name: &str, a: &ndarray::Array<T, D>) -> String {
        ndarray_npy::write_npy(self.0.join(name), a).unwrap();
        self.at(name)
    }

    /// On the CPU, with the picture in the folder.
    fn run(&self, words: &[&str]) -> Outcome {
        let picture = self.at("picture.png");
        let words = ["--backend", "cpu", "--out", &picture].into_iter().chain(words.iter().copied()).map(String::from);
        run(&Arguments::parse(&mut Words::of(words)).unwrap())
    }

    fn picture_is_there(&self) -> bool {
        png::Decoder::new(&fs::read(self.at("picture.png")).unwrap()[..]).read_info().is_ok()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A 4 x 3 matrix with the singular values 4, 2 and 1, exactly, since it is a permuted diagonal of powers of two.
fn permuted<T: Clone>(zero: T, values: [T; 3]) -> Array2<T> {
    let mut a = Array2::from_elem((4, 3), zero);
    let [one, two, four] = values;
    (a[[0, 2]], a[[3, 0]], a[[1, 1]]) = (one, two, four);
    a
}

fn npy_f16(a: &Array2<f16>) -> Vec<u8> {
    let header = format!("{{'descr': '<f2', 'fortran_order': False, 'shape': ({}, {}), }}\n", a.nrows(), a.ncols());
    let entries = a.iter().flat_map(|x| x.to_le_bytes());
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()]
        .concat()
        .into_iter()
        .chain(entries)
        .collect()
}

fn tensors(of: &[(&str, Dtype, &[usize], Vec<u8>)]) -> Vec<u8> {
    let views = of.iter().map(|(name, dtype, shape, bytes)| (*name, TensorView::new(*dtype, shape.to_vec(), bytes).unwrap()));
    safetensors::serialize(views, None).unwrap()
}

/// Every format and element type gives the known values, each exact in its type. 4, 2, 1: stable rank 21/16, and 90% of the energy, 21, is in
/// the first two values (20), 99% in all.
#[test]
fn known_spectra_in_every_format() {
    let folder = Folder::new("known");
    let real = permuted(0.0, [1.0, 2.0, 4.0]);
    let complex = permuted(Complex::default(), [Complex::new(0.0, 1.0), Complex::new(-2.0, 0.0), Complex::new(0.0, -4.0)]);
    let mut fortran = Array2::zeros((4, 3).f());
    fortran.assign(&real);
    let bytes = |write: fn(f64) -> Vec<u8>| real.iter().flat_map(|&x| write(x)).collect::<Vec<u8>>();
    let files = [
        folder.npy("f64.npy", &real),
        folder.npy("fortran.npy", &fortran),
        folder.npy("wide.npy", &real.t().to_owned()),
        folder.npy("f32.npy", &real.mapv(|x| x as f32)),
        folder.npy("u8.npy", &real.mapv(|x| x as u8)),
        folder.npy("i64.npy", &real.mapv(|x| x as i64)),
        folder.npy("c64.npy", &complex),
        folder.npy("c32.npy", &complex.mapv(|z| Complex::new(z.re as f32, z.im as f32))),
        folder.write("f16.npy", &npy_f16(&real.mapv(f16::from_f64))),
        folder.write(
            "all.safetensors",
            &tensors(&[
                ("f16", Dtype::F16, &[4, 3], bytes(|x| f16::from_f64(x).to_le_bytes().to_vec())),
                ("bf16", Dtype::BF16, &[4, 3], bytes(|x| bf16::from_f64(x).to_le_bytes().to_vec())),
                ("f32", Dtype::F32, &[4, 3], bytes(|x| (x as f32).to_le_bytes().to_vec())),
                ("f64", Dtype::F64, &[4, 3], bytes(|x| x.to_le_bytes().to_vec())),
            ]),
        ),
    ];
    let outcome = folder.run(&files.each_ref().map(String::as_str));
    assert_eq!(outcome.complaints, [""; 0]);
    assert_eq!(outcome.rows.len(), 13);
    for row in &outcome.rows {
        assert_eq!(row.solved.values, [4.0, 2.0, 1.0], "{}", row.name);
        assert_eq!((row.statistics.condition, row.statistics.stable_rank), (Some(4.0), Some(21.0 / 16.0)));
        assert_eq!((row.statistics.energy_ranks, row.statistics.resolved), ([2, 3, 3], 3));
    }
    assert!(folder.picture_is_there());
}

/// The photograph's values are LAPACK's in f64 within 4 eps of the largest, eps that of f32: rounding in f32 arithmetic alone, of which the
/// crate's own tests know to be below 1 eps in the 2-norm. As a PNG image it has the same values.
#[test]
fn a_photograph() {
    let folder = Folder::new("photograph");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data");
    let camera = data.join("camera.npy").display().to_string();
    let pixels: Array2<u8> = ndarray_npy::read_npy(&camera).unwrap();
    let reference: ndarray::Array1<f64> = ndarray_npy::read_npy(data.join("camera.sv.npy")).unwrap();
    let mut image = Vec::new();
    let mut encoder = png::Encoder::new(&mut image, pixels.ncols() as u32, pixels.nrows() as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.write_header().unwrap().write_image_data(pixels.as_slice().unwrap()).unwrap();
    let outcome = folder.run(&[&camera, &folder.write("camera.png", &image)]);
    let [npy, png] = &outcome.rows[..] else { panic!("{:?}", outcome.complaints) };
    let bound = 4.0 * f64::from(f32::EPSILON) * reference[0];
    assert!(npy.solved.values.iter().zip(&reference).all(|(s, r)| (s - r).abs() <= bound));
    assert_eq!(npy.solved.values, png.solved.values);
}

/// Every bad file or tensor is one line that names it; the good ones among them are computed, and written.
#[test]
fn bad_files() {
    let folder = Folder::new("bad");
    let real = permuted(0.0, [1.0, 2.0, 4.0]);
    let good = folder.npy("good.npy", &real);
    let whole = fs::read(&good).unwrap();
    let mut nan = real.clone();
    nan[[2, 1]] = f64::NAN;
    let bad = [
        (folder.at("missing.npy"), ""),
        (folder.at(""), "not a file"),
        (folder.write("empty.npy", b""), "neither"),
        (folder.write("text.csv", b"1,2\n3,4\n"), "neither"),
        (folder.write("cut.npy", &whole[..whole.len() - 1]), "truncated"),
        (folder.write("cut_header.npy", &whole[..40]), "truncated"),
        (folder.npy("nan.npy", &nan), "(2, 1) is NaN"),
        (folder.npy("vector.npy", &ndarray::array![1.0, 2.0]), "1-D (2)"),
        (folder.npy("cube.npy", &ndarray::Array3::<f32>::zeros((2, 3, 4))), "3-D (2 x 3 x 4)"),
        (folder.npy("nothing.npy", &Array2::<f32>::zeros((0, 4))), "no entries"),
        (folder.write("cut.png", &[image::MAGIC, b"\0\0\0"].concat()), ""),
    ];
    let three = tensors(&[
        ("integers", Dtype::I64, &[1, 2], vec![0; 16]),
        ("bias", Dtype::F32, &[2], vec![0; 8]),
        ("fine", Dtype::F32, &[2, 1], [3f32, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect()),
        ("infinite", Dtype::F16, &[1, 1], f16::INFINITY.to_le_bytes().to_vec()),
    ]);
    let three = folder.write("three.safetensors", &three);
    let mut words: Vec<&str> = bad.iter().map(|(file, _)| file.as_str()).collect();
    words.extend([three.as_str(), &good]);
    let json = folder.at("deeper/results.json");
    let outcome = folder.run(&[&words[..], &["--json", &json]].concat());

    let complaint = |file: &str, tensor: &str| {
        let start = format!("{file}: {tensor}");
        outcome.complaints.iter().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("none on {start}"))
    };
    for (file, message) in &bad {
        assert!(complaint(file, "").contains(message), "{}", complaint(file, ""));
    }
    assert!(complaint(&three, "integers: ").contains("I64"));
    assert!(complaint(&three, "infinite: ").contains("(0, 0) is inf"));
    // The bias is no matrix, and nobody asked for it by name: no failure.
    assert_eq!(outcome.complaints.len(), bad.len() + 2);
    assert!(outcome.complaints.iter().all(|line| line.lines().count() == 1));
    let names: Vec<&str> = outcome.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["three.safetensors: fine", "good.npy"]);
    assert_eq!(outcome.rows[0].solved.values, [5.0]);

    let written: serde_json::Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(written["complaints"].as_array().map(Vec::len), Some(outcome.complaints.len()));
    assert_eq!(written["matrices"][1]["singular_values"], serde_json::json!([4.0, 2.0, 1.0]));

    // Asked for by name, it is one; and so is a name that nothing has.
    assert!(folder.run(&[&three, "--match", "bias"]).complaints[0].contains("1-D"));
    assert!(folder.run(&[&three, "--match", "no such"]).complaints[0].contains("no such"));
    assert!(folder.run(&[&three, "--match", "f*ne"]).complaints.is_empty());
    // No place for a file is a complaint too, after the work.
    let blocked = folder.run(&[&good, "--csv", &format!("{good}/a.csv"), "--json", &folder.at("")]);
    assert_eq!((blocked.rows.len(), blocked.complaints.len()), (1, 2));
}

/// Files of every format with one byte changed, anywhere: a result or a complaint, and no panic (nor memory for what the file cannot hold).
#[test]
fn changed_bytes() {
    let folder = Folder::new("changed");
    let mut image = Vec::new();
    let mut encoder = png::Encoder::new(&mut image, 2, 2);
    encoder.set_color(png::ColorType::Rgba);
    encoder.write_header().unwrap().write_image_data(&[7; 16]).unwrap();
    let files = [
        npy_f16(&permuted(0.0, [1.0, 2.0, 4.0]).mapv(f16::from_f64)),
        tensors(&[("a", Dtype::F32, &[1, 2], vec![1; 8]), ("b", Dtype::BF16, &[2, 1], vec![1; 4])]),
        image,
    ];
    for whole in files {
        for at in 0..whole.len() {
            for byte in [0, b'0', b'9', b'[', 0xff, whole[at].wrapping_add(1), whole[at] ^ 0x80] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let file = folder.write("changed", &changed);
                for source in find(Path::new(&file), None).matrices.into_iter().flatten() {
                    source.read().and_then(|a| a.solve(&SvdOptions::default()).map_err(|error| error.to_string())).ok();
                }
            }
        }
    }
}

/// CSV has a line for each matrix and each value, as many as `--top` says, and quotes names with commas.
#[test]
fn csv() {
    let folder = Folder::new("csv");
    let file = folder.npy("a,\"b\".npy", &permuted(0.0, [1.0, 2.0, 4.0]));
    let csv = folder.at("out.csv");
    assert!(folder.run(&[&file, "--csv", &csv, "--top", "2"]).complaints.is_empty());
    let table = fs::read_to_string(csv).unwrap();
    assert_eq!(table.lines().count(), 2);
    assert!(
        table.lines().nth(1).unwrap().starts_with(&format!("\"{},\"\"b\"\".npy\",,4,3,f64,f64,cpu,,", folder.at("a"))),
        "{table}"
    );
    let values = fs::read_to_string(folder.at("out.values.csv")).unwrap();
    let numbers: Vec<&str> = values.lines().filter_map(|line| line.split_once("\",,")).map(|(_, numbers)| numbers).collect();
    assert_eq!(numbers, [&format!("1,4e0,{}", 16.0 / 21.0), &format!("2,2e0,{}", 20.0 / 21.0)]);
}

/// Pictures of what has no logarithm, of one value, and of more matrices than there are colours.
#[test]
fn unusual_pictures() {
    let folder = Folder::new("pictures");
    let zeros = folder.npy("zeros.npy", &Array2::<f64>::zeros((3, 2)));
    let one = folder.npy("one.npy", &ndarray::array![[-1e300]]);
    let tiny = folder.npy("tiny.npy", &Array2::from_diag(&ndarray::array![1.0, 1e-12, 0.0]));
    for files in [&[&zeros[..]][..], &[&one], &[&zeros, &one, &tiny], &[tiny.as_str(); 30]] {
        let outcome = folder.run(files);
        assert_eq!((outcome.rows.len(), outcome.complaints.len()), (files.len(), 0));
        assert!(folder.picture_is_there());
    }
    let outcome = folder.run(&[&tiny]);
    assert_eq!((outcome.rows[0].statistics.resolved, outcome.rows[0].statistics.condition), (2, Some(f64::INFINITY)));
}
