//! The backends that the experiments run on.

use std::cell::RefCell;

use svdvals_gpu::{Backend, GpuContext, RunOptions, SvdError};

use crate::{arguments::Backends, shared::machine::cpu};

/// The largest order that a software driver is given, unless it is asked for.
const SOFTWARE: usize = 256;

/// A backend, and what is to be said of it below the tables.
pub struct Place {
    pub name: &'static str,
    /// The machine behind it.
    pub machine: String,
    pub options: RunOptions,
    largest: usize,
    remarks: RefCell<Vec<String>>,
}

impl Place {
    fn new(name: &'static str, machine: String, options: RunOptions, largest: usize) -> Place {
        Place { name, machine, options, largest, remarks: RefCell::default() }
    }

    /// What `compute` gives for order n; None, with a remark, where this backend is not asked or cannot.
    pub fn attempt<R>(&self, n: usize, compute: impl FnOnce(&RunOptions) -> Result<R, SvdError>) -> Result<Option<R>, SvdError> {
        if n > self.largest {
            self.remark(format!("a software driver is slow: `--backend {}` runs n > {}", self.name.to_lowercase(), self.largest));
            return Ok(None);
        }
        match compute(&self.options) {
            Ok(value) => Ok(Some(value)),
            Err(
                error @ (SvdError::UnsupportedElement { .. }
                | SvdError::TooLarge { .. }
                | SvdError::InvalidOption { option: "products", .. }),
            ) => {
                self.remark(format!("n = {n}: {error}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn remark(&self, remark: String) {
        let mut remarks = self.remarks.borrow_mut();
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }

    /// Prints what was left out, once.
    pub fn print_remarks(&self) {
        for remark in self.remarks.borrow_mut().drain(..) {
            println!("\n{}: {remark}", self.name);
        }
    }
}

/// All places and their machines, for pictures.
pub fn machines(places: &[Place]) -> String {
    places.iter().map(|place| format!("{}: {}", place.name, place.machine)).collect::<Vec<_>>().join("; ")
}

/// The backends asked for, or both; without a GPU the CPU alone, unless the GPU was asked for.
pub fn places(asked: Option<Backends>) -> Result<Vec<Place>, SvdError> {
    let mut places = Vec::new();
    if asked != Some(Backends::Gpu) {
        places.push(Place::new("CPU", cpu(), RunOptions::default().backend(Backend::Cpu), usize::MAX));
    }
    if asked != Some(Backends::Cpu) {
        match GpuContext::global() {
            Ok(context) => {
                let (name, through) = (context.adapter_name().to_owned(), context.backend());
                let largest = if context.is_software() && asked.is_none() { SOFTWARE } else { usize::MAX };
                let options = RunOptions::default().backend(Backend::Gpu).context(context);
                places.push(Place::new("GPU", format!("{name}, through {through:?}"), options, largest));
            }
            Err(error) if asked.is_none() => println!("GPU: {error}"),
            Err(error) => return Err(error),
        }
    }
    Ok(places)
}
