//! The detector itself: whether it sees what is wrong, and nothing else.

mod edits;
mod planted;
mod small;

use std::process::ExitCode;

pub fn run(seed: u64, quick: bool, verbose: bool, only: &str) -> ExitCode {
    let bad = small::run() + planted::run(seed, quick, verbose, only);
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
