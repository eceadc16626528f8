//! Options that a call cannot honour, and the text of those that were chosen.

use std::fmt::Display;

use crate::{
    base::{
        error::{Result, SvdError},
        number::{HalfStorage, Number},
        pool::may_have,
    },
    plan::options::{Backend, LstsqOptions, QrOptions, RunOptions, SvdOptions},
};

/// A call, as far as the options of its run depend on it.
#[derive(Clone, Copy)]
pub(crate) struct Takes {
    /// Its name.
    pub call: &'static str,
    /// Its element type.
    pub element: &'static str,
    /// Whether it may store that as f16.
    pub stores_half: bool,
    /// Whether it has progress, and can be stopped.
    pub listens: bool,
    /// Whether it returns a report.
    pub reports: bool,
}

impl Takes {
    /// A call on matrices of `T`, which returns a report or not.
    pub fn of<T: Number>(call: &'static str, reports: bool) -> Self {
        Takes { call, element: T::NAME, stores_half: T::IS_HALF, listens: true, reports }
    }
}

impl RunOptions {
    /// The error for an option that the call cannot honour, whatever computes it.
    pub(crate) fn check(&self, of: Takes) -> Result<()> {
        let Takes { call, element, stores_half, listens, reports } = of;
        let refused = |option, reason: String| Err(SvdError::invalid(option, reason));
        may_have(self.threads)?;
        if let Some(tuning) = &self.tuning {
            tuning.check()?;
        }
        if self.half_storage == HalfStorage::Half && !stores_half {
            return refused("half_storage", format!("HalfStorage::Half, but {call} does not store matrices of {element} as f16"));
        }
        #[cfg(feature = "gpu")]
        if self.backend == Backend::Cpu && self.context.is_some() {
            return refused("context", format!("{call} has no use for a GPU with Backend::Cpu"));
        }
        if self.time_kernels && !reports {
            return refused("time_kernels", format!("{call} returns no report, which would have the seconds"));
        }
        if self.time_kernels && self.backend == Backend::Cpu {
            return refused("time_kernels", format!("a GPU's kernels are timed, but {call} has Backend::Cpu"));
        }
        if !listens && self.progress.is_some() {
            return refused("progress", format!("{call} does not report its progress"));
        }
        if !listens && self.cancel.is_some() {
            return refused("cancel", format!("{call} works in place and cannot be stopped"));
        }
        Ok(())
    }

    /// The same run on the CPU, for the rest of a call that has none of a GPU.
    pub(crate) fn on_cpu(&self) -> Self {
        RunOptions {
            backend: Backend::Cpu,
            #[cfg(feature = "gpu")]
            context: None,
            time_kernels: false,
            ..self.clone()
        }
    }

    /// The run of a part of the call: its threads are those of the call, which also tells of the progress and has the report.
    pub(crate) fn of_part(&self) -> Self {
        RunOptions { threads: None, progress: None, half_storage: HalfStorage::Single, ..self.clone() }
    }
}

/// The options that are not their defaults, as in `keep 3, backend cpu`.
#[derive(Default)]
struct Changed(String);

/// The text of a value that is not its type's default.
fn other<T: Default + PartialEq + Display>(value: T) -> Option<String> {
    if value == T::default() { None } else { Some(value.to_string()) }
}

/// No text, for an option that is there or not.
fn there(is: bool) -> Option<String> {
    is.then(String::new)
}

impl Changed {
    fn add(&mut self, name: &str, value: Option<String>) {
        let Some(value) = value else { return };
        if !self.0.is_empty() {
            self.0.push_str(", ");
        }
        self.0.push_str(name);
        if !value.is_empty() {
            self.0.push(' ');
            self.0.push_str(&value);
        }
    }

    fn run(mut self, run: &RunOptions) -> String {
        self.add("backend", other(run.backend));
        #[cfg(feature = "gpu")]
        self.add("context", run.context.as_ref().map(|context| context.adapter_name().to_owned()));
        self.add("tuning", there(run.tuning.is_some()));
        self.add("tuning_table", there(run.tuning_table.is_some()));
        self.add("half_storage", other(run.half_storage));
        self.add("threads", run.threads.map(|threads| threads.to_string()));
        self.add("progress", there(run.progress.is_some()));
        self.add("cancel", there(run.cancel.is_some()));
        self.add("time_kernels", there(run.time_kernels));
        self.0
    }
}

/// Options whose report names those that are not their defaults.
pub(crate) trait Named {
    /// The options that are not their defaults, as in `keep 3, backend cpu`.
    fn changed(&self) -> String;
}

impl Named for SvdOptions {
    fn changed(&self) -> String {
        let mut changed = Changed::default();
        changed.add("vectors", other(self.vectors));
        changed.add("keep", self.keep.map(|keep| keep.to_string()));
        changed.add("tolerance", self.tolerance.map(|tolerance| tolerance.to_string()));
        changed.add("accuracy", self.accuracy.map(|accuracy| accuracy.to_string()));
        changed.add("seed", other(self.seed));
        changed.add("signs", other(self.signs));
        changed.add("reduction", other(self.reduction));
        changed.add("stage3", other(self.stage3));
        changed.run(&self.run)
    }
}

impl Named for QrOptions {
    fn changed(&self) -> String {
        let mut changed = Changed::default();
        changed.add("pivot", there(self.pivot));
        changed.add("tolerance", self.tolerance.map(|tolerance| tolerance.to_string()));
        changed.add("positive_diagonal", there(self.positive_diagonal));
        changed.add("products", other(self.products));
        changed.run(&self.run)
    }
}

impl Named for LstsqOptions {
    fn changed(&self) -> String {
        let mut changed = Changed::default();
        changed.add("tolerance", self.tolerance.map(|tolerance| tolerance.to_string()));
        changed.add("ridge", other(self.ridge));
        changed.add("singular_values", there(self.singular_values));
        changed.add("preconditioner", other(self.preconditioner));
        changed.add("products", other(self.products));
        changed.run(&self.run)
    }
}
