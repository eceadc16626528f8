//! Documents by their word counts.

use crate::matrix_market::Entries;

/// Six subjects, each with the words that its documents have more often than others.
pub const SUBJECTS: [[&str; 10]; 6] = [
    ["planet", "orbit", "star", "galaxy", "telescope", "moon", "comet", "gravity", "light", "sky"],
    ["bread", "butter", "oven", "flour", "sugar", "salt", "recipe", "dough", "taste", "kitchen"],
    ["goal", "match", "team", "player", "season", "coach", "league", "ball", "score", "fans"],
    ["violin", "concert", "chord", "melody", "orchestra", "piano", "rhythm", "choir", "tempo", "stage"],
    ["matrix", "vector", "value", "column", "product", "norm", "basis", "rank", "proof", "theorem"],
    ["garden", "soil", "seed", "flower", "leaf", "root", "water", "spring", "tree", "grass"],
];

/// Words of every document.
const COMMON: [&str; 12] = ["time", "year", "people", "way", "day", "thing", "world", "life", "hand", "part", "place", "week"];

/// Documents of each subject: so many more of the first that the singular values are far apart.
const DOCUMENTS: [usize; 6] = [900, 700, 540, 410, 310, 230];

/// Word counts, and the words.
pub struct Corpus {
    /// A document a row, a word a column.
    pub counts: Entries,
    pub words: Vec<String>,
}

/// The next of a sequence that looks random (a linear congruential generator).
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

impl Corpus {
    /// Counts of a file, with the words that there are; other columns have names by their number.
    pub fn of(counts: Entries, words: &[String]) -> Result<Corpus, String> {
        if words.len() > counts.cols {
            return Err(format!("{} words for {} columns", words.len(), counts.cols));
        }
        if let Some((i, j, count)) = counts.entries.iter().find(|(_, _, count)| !(0.0..1e15).contains(count)) {
            return Err(format!("entry ({i}, {j}) is {count}, which is no count"));
        }
        let named = |j: usize| words.get(j).cloned().unwrap_or_else(|| format!("word {}", j + 1));
        Ok(Corpus { words: (0..counts.cols).map(named).collect(), counts })
    }

    /// Documents by a formula: 30 words each, of which about half are common ones, most others belong to its subject, and a few to any.
    pub fn made() -> Corpus {
        let words: Vec<String> = SUBJECTS.iter().flatten().chain(&COMMON).map(|word| word.to_string()).collect();
        let (mut state, mut entries, mut rows) = (1, Vec::new(), 0);
        for (subject, documents) in DOCUMENTS.into_iter().enumerate() {
            for _ in 0..documents {
                let mut counts = vec![0.0; words.len()];
                for _ in 0..30 {
                    let word = match next(&mut state) % 20 {
                        0..10 => 60 + next(&mut state) % 12,
                        // The first words of a subject are more frequent.
                        10..19 => 10 * subject + (next(&mut state) % 10).min(next(&mut state) % 10),
                        _ => next(&mut state) % 60,
                    };
                    counts[word] += 1.0;
                }
                entries
                    .extend(counts.into_iter().enumerate().filter(|(_, count)| *count > 0.0).map(|(j, count)| (rows, j, count)));
                rows += 1;
            }
        }
        Corpus { counts: Entries { rows, cols: words.len(), entries }, words }
    }

    /// log(1 + count) of the words that at most half of the documents have: the others say nothing of a subject.
    pub fn weighted(&self) -> Vec<(usize, usize, f64)> {
        let Entries { rows, cols, entries } = &self.counts;
        let there = || entries.iter().filter(|(_, _, count)| *count > 0.0);
        let mut documents = vec![0usize; *cols];
        there().for_each(|&(_, j, _)| documents[j] += 1);
        there().filter(|&&(_, j, _)| 2 * documents[j] <= *rows).map(|&(i, j, count)| (i, j, count.ln_1p())).collect()
    }
}
