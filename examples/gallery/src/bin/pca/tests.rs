//! Whole runs.

use std::{fs, path::Path};

use crate::{arguments::Arguments, run, shared::arguments::Words};

fn arguments(words: &[&str]) -> Arguments {
    Arguments::parse(&mut Words::of(words.iter().copied().map(String::from))).unwrap()
}

/// The handwritten digits: as scikit-learn's `PCA` in f64 has it, the first two components explain 14.89% and 13.62% of the variance, and
/// all 64 all of it, but for the rounding of a sum of 64 squares in each of 1797 rows. Each observation has a line.
#[test]
fn digits() {
    let folder = std::env::temp_dir().join(format!("pca-{}", std::process::id()));
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data");
    let (at, data) = (|name: &str| folder.join(name).display().to_string(), |name: &str| data.join(name).display().to_string());
    let (digits, labels) = (data("digits.npy"), data("digits.labels.npy"));
    let (out, csv) = (at("pca.png"), at("scores.csv"));
    let words = [&digits, "--labels", &labels, "--image", "8,8", "--components", "64", "--out", &out, "--csv", &csv];
    let found = run(&arguments(&[&words[..], &["--backend", "cpu"]].concat())).unwrap();
    assert!((found.explained(0) - 0.14890594).abs() < 1e-8 && (found.explained(1) - 0.13618771).abs() < 1e-8);
    let all: f64 = (0..64).map(|k| found.explained(k)).sum();
    assert!((all - 1.0).abs() <= (64.0 + 1797.0) * f64::EPSILON, "{all}");
    let scores = fs::read_to_string(&csv).unwrap();
    assert_eq!(scores.lines().count(), 1798);
    assert!(scores.lines().nth(1).unwrap().starts_with("0,") && scores.lines().nth(5).unwrap().starts_with("4,"));
    assert!(png::Decoder::new(fs::File::open(&out).unwrap()).read_info().is_ok());

    // Without labels and images; and what does not fit is said.
    let plain = [digits.as_str(), "--backend", "cpu", "--out", &out, "--components", "2"];
    assert_eq!(run(&arguments(&plain)).unwrap().scores.dim(), (1797, 2));
    let camera = data("camera.npy");
    for (more, message) in [
        (["--image", "8,9"], "64 variables"),
        (["--labels", &camera], "[512, 512]"),
        (["--labels", "missing.npy"], "missing.npy"),
        (["--csv", &format!("{digits}/a.csv")], "a.csv"),
    ] {
        let error = run(&arguments(&[&plain[..], &more].concat())).err().unwrap().to_string();
        assert!(error.contains(message), "{error}");
    }
    fs::remove_dir_all(folder).unwrap();
}
