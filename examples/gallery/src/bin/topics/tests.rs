//! Whole runs.

use std::{collections::HashSet, fs};

use crate::{
    arguments::Arguments,
    corpus::{Corpus, SUBJECTS},
    matrix_market::{self, Entries},
    run,
    shared::arguments::Words,
};

fn arguments(words: &[&str]) -> Arguments {
    Arguments::parse(&mut Words::of(words.iter().copied().map(String::from))).unwrap()
}

/// Each topic of the made documents is one of their subjects, in the order of how many there are, and so it is after the counts went through a file; there
/// are more documents of a subject than of the next by a quarter or more, which separates the values.
#[test]
fn subjects_are_found() {
    let folder = std::env::temp_dir().join(format!("topics-{}", std::process::id()));
    let at = |name: &str| folder.join(name).display().to_string();
    let (out, counts, words) = (at("topics.png"), at("counts.mtx"), at("words.txt"));
    let made = run(&arguments(&["--out", &out, "--write", &counts])).unwrap();
    assert!(png::Decoder::new(fs::File::open(&out).unwrap()).read_info().is_ok());
    fs::write(&words, Corpus::made().words.join("\n")).unwrap();
    let read = run(&arguments(&[&counts, "--words", &words, "--out", &out])).unwrap();
    assert_eq!(made.len(), 6);
    for ((topic, again), subject) in made.iter().zip(&read).zip(SUBJECTS) {
        let of_subject: HashSet<&str> = subject.into_iter().collect();
        assert!(topic.words.iter().take(5).all(|(word, _)| of_subject.contains(&word[..])), "{:?}", topic.words);
        assert!(topic.words.iter().take(5).all(|(_, weight)| weight.signum() == topic.words[0].1.signum()));
        assert_eq!((&topic.words, topic.value), (&again.words, again.value));
    }
    // Without names, and fewer topics.
    let plain = run(&arguments(&[&counts, "--topics", "2", "--out", &out])).unwrap();
    assert!(plain.len() == 2 && plain[0].words[0].0.starts_with("word "));
    assert!(run(&arguments(&["missing.mtx", "--out", &out])).err().unwrap().to_string().contains("missing.mtx"));
    fs::remove_dir_all(folder).unwrap();
}

/// Every kind of file that is read, and what is said of others.
#[test]
fn files() {
    let head = |kind: &str| format!("%%MatrixMarket matrix coordinate {kind}\n% a comment\n");
    let read = |kind: &str, body: &str| matrix_market::read(&(head(kind) + body));
    let found = read("integer general", "2 3 2\n1 1 4\n2 3 5\n").unwrap();
    assert_eq!(found, Entries { rows: 2, cols: 3, entries: vec![(0, 0, 4.0), (1, 2, 5.0)] });
    assert_eq!(matrix_market::read(&matrix_market::text(&found)), Ok(found));
    assert_eq!(read("pattern symmetric", "2 2 2\n1 1\n2 1\n").unwrap().entries, [(0, 0, 1.0), (1, 0, 1.0), (0, 1, 1.0)]);
    for (kind, body, message) in [
        ("complex general", "", "line 1"),
        ("real skew-symmetric", "", "skew-symmetric"),
        ("real general", "2 3\n", "line 3"),
        ("real general", "2 3 1\n3 1 4.0\n", "line 4"),
        ("real general", "2 3 1\n0 1 4.0\n", "line 4"),
        ("real general", "2 3 1\n1 1 four\n", "four"),
        ("real general", "2 3 2\n1 1 4.0\n", "1 entries, but 2"),
    ] {
        let error = read(kind, body).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
    let of = |count| Corpus::of(Entries { rows: 1, cols: 1, entries: vec![(0, 0, count)] }, &[]);
    assert!(of(-1.0).is_err() && of(f64::NAN).is_err() && of(3.0).is_ok());
}
