//! Pictures of what a search for hyperparameters tried: the bulge-chasing paper's Figure 3, for both stages.
//!
//! ```text
//! cargo run --release --example tune                            writes target/tune/trials_gpu_f32_512.csv, ...
//! cargo run --release -p svdvals-gpu-gallery --bin trials -- target/tune/trials_*.csv
//! ```
//!
//! A picture is beside its file, with the extension `png`.

mod parallel;

#[path = "../../../../shared/mod.rs"]
mod shared;

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::ExitCode,
};

use parallel::{Stage, Trial};
use shared::{
    arguments::{Words, program, unknown},
    markdown::print,
};

const USAGE: &str = "\
usage: trials FILE ...

  FILE ...    what `cargo run --release --example tune` wrote: target/tune/trials_*.csv";

/// The columns before the hyperparameters.
const FIRST: [&str; 5] = ["machine", "type", "n", "stage", "seconds"];

/// A search.
struct Search {
    title: String,
    machine: String,
    stages: [Stage; 2],
}

fn main() -> ExitCode {
    program("trials", USAGE, parse, |files| {
        for file in files {
            let picture = file.with_extension("png");
            let of_file = |error| format!("{}: {error}", file.display());
            let Search { title, machine, stages } = read(&file).map_err(of_file)?;
            parallel::save(&picture, &title, &machine, &stages).map_err(|error| format!("{}: {error}", picture.display()))?;
            print(format!("Picture: {}", picture.display()));
        }
        Ok(())
    })
}

fn parse(words: &mut Words) -> Result<Vec<PathBuf>, String> {
    let files = words.map(|word| if word.starts_with('-') { Err(unknown(&word)) } else { Ok(PathBuf::from(word)) });
    let files: Vec<PathBuf> = files.collect::<Result<_, _>>()?;
    if files.is_empty() { Err("which files? --help shows the usage".into()) } else { Ok(files) }
}

fn read(file: &Path) -> Result<Search, Box<dyn Error>> {
    let mut reader = csv::Reader::from_path(file)?;
    let header = reader.headers()?.clone();
    if !header.iter().take(FIRST.len()).eq(FIRST) {
        return Err("no file of trials".into());
    }
    let records: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>()?;
    let first = records.first().ok_or("no trials")?;
    let stage = |name: &str| -> Result<Stage, Box<dyn Error>> {
        let records: Vec<_> = records.iter().filter(|record| &record[3] == name).collect();
        // A stage has the hyperparameters that its trials have values of.
        let axes = FIRST.len()..header.len();
        let axes: Vec<usize> = axes.filter(|&k| records.iter().all(|record| !record[k].is_empty())).collect();
        let trial = |record: &&csv::StringRecord| -> Result<Trial, Box<dyn Error>> {
            let values: Result<Vec<usize>, _> = axes.iter().map(|&k| record[k].parse()).collect();
            Ok(Trial { values: values?, seconds: record[4].parse()? })
        };
        let trials = records.iter().map(trial).collect::<Result<_, _>>()?;
        Ok(Stage { names: axes.iter().map(|&k| header[k].to_owned()).collect(), trials })
    };
    Ok(Search {
        title: format!("Hyperparameters for {}, n = {}", &first[1], &first[2]),
        machine: first[0].to_owned(),
        stages: [stage("1")?, stage("2")?],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each stage has its own hyperparameters, and a picture is drawn of one trial too; what is no such file is an error.
    #[test]
    fn files() {
        let file = std::env::temp_dir().join(format!("svdvals-gpu-trials-{}.csv", std::process::id()));
        let text = "machine,type,n,stage,seconds,tile_size,leaf,tile_width\n\
                    \"CPU, 2 threads\",f32,256,1,0.5,16,512,\n\
                    \"CPU, 2 threads\",f32,256,1,0.25,32,1024,\n\
                    \"CPU, 2 threads\",f32,256,2,0.125,32,,16\n";
        std::fs::write(&file, text).unwrap();
        let search = read(&file).unwrap();
        assert_eq!((search.title.as_str(), search.machine.as_str()), ("Hyperparameters for f32, n = 256", "CPU, 2 threads"));
        let [first, second] = &search.stages;
        assert_eq!(
            (&first.names[..], &second.names[..]),
            (&["tile_size", "leaf"].map(String::from)[..], &["tile_size", "tile_width"].map(String::from)[..])
        );
        assert_eq!((first.trials.len(), &first.trials[1].values[..], second.trials[0].seconds), (2, &[32, 1024][..], 0.125));
        let picture = file.with_extension("png");
        parallel::save(&picture, &search.title, &search.machine, &search.stages).unwrap();
        assert!(std::fs::read(&picture).unwrap().starts_with(b"\x89PNG"));
        for text in
            ["", "a,b\n1,2\n", "machine,type,n,stage,seconds,leaf\n", "machine,type,n,stage,seconds,leaf\nCPU,f32,2,1,x,4\n"]
        {
            std::fs::write(&file, text).unwrap();
            assert!(read(&file).is_err(), "{text}");
        }
        [file, picture].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }
}
