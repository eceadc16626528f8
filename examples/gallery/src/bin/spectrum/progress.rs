//! A progress bar over all matrices, by the work that each is.

use indicatif::{ProgressBar, ProgressStyle};

use svdvals_gpu_gallery::files::source::Source;

/// Steps of the bar.
const STEPS: f64 = 1000.0;

pub struct Progress {
    bar: ProgressBar,
    total: f64,
    done: f64,
}

impl Progress {
    pub fn over(sources: &[Source]) -> Progress {
        let bar = ProgressBar::new(STEPS as u64);
        let style = ProgressStyle::with_template("[{elapsed_precise}] {bar:40} {percent:>3} %  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
        Progress { bar, total: sources.iter().map(|source| source.work() as f64).sum(), done: 0.0 }
    }

    pub fn start(&self, name: &str, source: &Source) {
        self.bar.set_message(format!("{name}, {} x {}", source.shape.0, source.shape.1));
        self.inside(source)(0.0);
    }

    /// To be called where a part of the matrix is done.
    pub fn inside(&self, source: &Source) -> impl Fn(f64) + Send + Sync + 'static {
        let (bar, done, total, work) = (self.bar.clone(), self.done, self.total, source.work() as f64);
        move |part| bar.set_position(((done + part * work) / total * STEPS) as u64)
    }

    pub fn finish(&mut self, source: &Source) {
        self.inside(source)(1.0);
        self.done += source.work() as f64;
    }

    /// Prints without disturbing the bar.
    pub fn print(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
