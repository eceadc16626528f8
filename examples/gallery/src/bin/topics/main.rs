//! Topics of documents: the leading singular triples of a sparse matrix of weighted word counts (latent semantic analysis).
//!
//! ```text
//! cargo run --release -p svdvals-gpu-gallery --bin topics
//! cargo run --release -p svdvals-gpu-gallery --bin topics -- counts.mtx --words words.txt --topics 8
//! cargo run --release -p svdvals-gpu-gallery --bin topics -- --help
//! ```

mod arguments;
mod corpus;
mod matrix_market;
mod picture;

#[path = "../../../../shared/mod.rs"]
mod shared;

#[cfg(test)]
mod tests;

use std::{error::Error, fs};

use faer::sparse::{SparseColMat, Triplet};
use svdvals_gpu::{LeadingSvd, Signs, SvdOptions, leading_svd};
use svdvals_gpu_gallery::draw::make_folder;

use arguments::{Arguments, USAGE};
use corpus::Corpus;
use shared::{
    arguments::program,
    markdown::{Table, print},
};

/// Residuals of the triples, relative to the largest value: weights of words have four digits then.
const ACCURACY: f64 = 1e-4;

/// The words of a topic that are named.
pub const NAMED: usize = 8;

/// A topic: how strong it is, and its words with their weights, the heaviest first.
pub struct Topic {
    pub value: f64,
    pub words: Vec<(String, f64)>,
}

fn main() -> std::process::ExitCode {
    program("topics", USAGE, Arguments::parse, |arguments| run(&arguments).map(|_| ()))
}

fn run(arguments: &Arguments) -> Result<Vec<Topic>, Box<dyn Error>> {
    let corpus = match &arguments.file {
        Some(file) => {
            let read = || {
                let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
                Corpus::of(matrix_market::read(&text)?, &words(arguments)?)
            };
            read().map_err(|message| format!("{}: {message}", file.display()))?
        }
        None => Corpus::made(),
    };
    if let Some(path) = &arguments.write {
        make_folder(path)?;
        fs::write(path, matrix_market::text(&corpus.counts)).map_err(|error| format!("{}: {error}", path.display()))?;
        print(format!("wrote {}", path.display()));
    }
    let (m, n) = (corpus.counts.rows, corpus.counts.cols);
    let weighted: Vec<_> = corpus.weighted().into_iter().map(|(i, j, weight)| Triplet::new(i, j, weight)).collect();
    let entries = weighted.len();
    let matrix = SparseColMat::<usize, f64>::try_new_from_triplets(m, n, &weighted).map_err(|error| format!("{error:?}"))?;
    let options = SvdOptions::default().accuracy(ACCURACY).signs(Signs::Largest);
    let svd = leading_svd(&matrix, arguments.topics, &options)?;
    let topics = topics(&svd, &corpus.words);
    print(format!("{m} documents, {n} words, {entries} weights; {} in {:.4} s", svd.iteration, svd.seconds));
    let table = Table::start(&["topic", "value   ", "words"].map(String::from));
    for (k, topic) in topics.iter().enumerate() {
        let words: Vec<&str> = topic.words.iter().map(|(word, _)| &word[..]).collect();
        table.row(&[(k + 1).to_string(), format!("{:.4}", topic.value), words.join(" ")]);
    }
    make_folder(&arguments.out)
        .map_err(Into::into)
        .and_then(|()| picture::save(&arguments.out, (m, n), &topics))
        .map_err(|error| format!("{}: {error}", arguments.out.display()))?;
    print(format!("\nwrote {}", arguments.out.display()));
    Ok(topics)
}

/// The words of the columns, one a line, if there is such a file.
fn words(arguments: &Arguments) -> Result<Vec<String>, String> {
    let Some(path) = &arguments.words else { return Ok(Vec::new()) };
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The heaviest words of each right singular vector.
fn topics(svd: &LeadingSvd<f64>, words: &[String]) -> Vec<Topic> {
    let topic = |k: usize| {
        let weights = svd.v.col(k);
        let mut order: Vec<usize> = (0..words.len()).collect();
        order.sort_by(|&i, &j| weights[j].abs().total_cmp(&weights[i].abs()));
        let heaviest = order.into_iter().take(NAMED);
        Topic { value: svd.s[k], words: heaviest.map(|j| (words[j].clone(), weights[j])).collect() }
    };
    (0..svd.s.len()).map(topic).collect()
}
