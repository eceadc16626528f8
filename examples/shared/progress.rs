//! A line on stderr that says how far a search is, where stderr is a terminal.

use std::{
    fmt::Display,
    io::{IsTerminal, stderr},
    time::Instant,
};

pub struct Progress {
    total: usize,
    done: usize,
    start: Instant,
    shown: bool,
}

impl Progress {
    pub fn over(total: usize) -> Progress {
        Progress { total, done: 0, start: Instant::now(), shown: stderr().is_terminal() }
    }

    /// One more is done.
    pub fn step(&mut self, message: impl Display) {
        self.done += 1;
        if self.shown {
            let left = self.start.elapsed().as_secs_f64() / self.done as f64 * (self.total - self.done) as f64;
            eprint!("\r\x1b[K{}/{}, {left:.0} s to go, {message}", self.done, self.total);
        }
    }
}

impl Drop for Progress {
    /// Clears the line.
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}
