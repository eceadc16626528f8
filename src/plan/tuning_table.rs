//! Hyperparameters from a table, by adapter, element type and size; the rates by which the backend is chosen; and tables from files.

mod rates;

use std::{borrow::Cow, sync::OnceLock};

use crate::{
    base::{
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::Number,
    },
    plan::options::RunOptions,
    tile::{
        panel_tree::PanelTree,
        tuning::{Tuning, hyperparameters},
    },
};
#[cfg(feature = "gpu")]
use crate::{cost::shape::Bounds, gpu::device::context::GpuContext};

/// Hyperparameters for certain devices, element types and sizes, which take precedence over the crate's defaults.
///
/// A call looks for a table in [`RunOptions::tuning_table`], then in the file that the environment variable `SVDVALS_GPU_TUNING` names
/// (feature `serde`; read once a process). It considers the entries for the adapter (or [`TuningTable::CPU`]) and for the storage type
/// ([`SvdReport::storage`](crate::SvdReport::storage)). Of these it takes the one with the smallest [`n_up_to`](TuningEntry::n_up_to) that
/// is not below the matrix's smaller side. Without such an entry it takes the defaults. [`RunOptions::tuning`] takes precedence over any
/// table.
///
/// ```
/// # #[cfg(feature = "faer")] {
/// use svdvals_gpu::{Backend, PartialTuning, SvdOptions, SvdValsGpu, TuningTable};
/// let mut table = TuningTable::default();
/// table.set::<f64>(TuningTable::CPU, 1000, PartialTuning::default().tile_size(16));
/// let a = faer::Mat::from_fn(300, 250, |i, j| ((i * j) as f64).sin());
/// let report = a.svdvals_gpu_report(&SvdOptions::default().backend(Backend::Cpu).tuning_table(table))?;
/// assert_eq!(report.tuning.tile_size, 16);
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
///
/// # Files
/// A JSON object with the field `entries`: a list of objects with all fields of [`TuningEntry`]. Their `tuning` has any of the fields of
/// [`Tuning`]; a missing field is the device's default for the matrix. Two more fields, both optional, are the rates by which
/// [`Backend::Auto`](crate::Backend::Auto) estimates seconds: `cpu_rates` (see [`set_cpu_rates`](Self::set_cpu_rates)) and `gpu_speeds`
/// ([`set_gpu_speed`](Self::set_gpu_speed)). Anything else is an error that names the line. `cargo run --release
/// --example tune` finds and writes such a file.
///
/// ```
/// # #[cfg(feature = "serde")] {
/// use svdvals_gpu::TuningTable;
/// let path = std::env::temp_dir().join(format!("svdvals-gpu-{}.json", std::process::id()));
/// std::fs::write(&path, r#"{"entries": [
///     {"adapter": "NVIDIA H100", "element": "f32", "n_up_to": 4096, "tuning": {"tile_size": 32, "max_blocks": 264}},
///     {"adapter": "cpu", "element": "f64", "n_up_to": 1024, "tuning": {"leaf": 512, "tree": "reduction"}}
/// ], "cpu_rates": {"f32": 1.1e11, "f64": 5.2e10}, "gpu_speeds": {"NVIDIA H100": 0.8}}"#).unwrap();
/// let table = TuningTable::load(&path)?;
/// assert_eq!((table.cpu_rates(), table.gpu_speed("NVIDIA H100")), (Some((1.1e11, 5.2e10)), Some(0.8)));
/// assert_eq!(table.find::<f32>("NVIDIA H100", 3000).unwrap().tuning.max_blocks, Some(264));
///
/// std::fs::write(&path, r#"{"entries": [{"adapter": "cpu", "element": "f8"}]}"#).unwrap();
/// println!("{}", TuningTable::load(&path).unwrap_err());
/// # std::fs::remove_file(&path).unwrap();
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct TuningTable {
    #[cfg_attr(feature = "serde", serde(deserialize_with = "file::entries"))]
    entries: Vec<TuningEntry>,
    #[cfg_attr(
        feature = "serde",
        serde(default, deserialize_with = "rates::file::cpu_rates", skip_serializing_if = "Option::is_none")
    )]
    cpu_rates: Option<rates::CpuRates>,
    #[cfg_attr(
        feature = "serde",
        serde(default, deserialize_with = "rates::file::gpu_speeds", skip_serializing_if = "rates::Speeds::is_empty")
    )]
    gpu_speeds: rates::Speeds,
    /// The file that the table was read from.
    #[cfg_attr(feature = "serde", serde(skip))]
    path: Option<String>,
}

/// One row of a [`TuningTable`].
///
/// ```
/// use svdvals_gpu::{Tuning, TuningTable};
/// let mut table = TuningTable::default();
/// table.set::<f32>("NVIDIA H100", 4096, Tuning::for_cpu::<f32>(4096));
/// let entry = &table.entries()[0];
/// assert_eq!((entry.adapter.as_str(), entry.element.as_str(), entry.n_up_to), ("NVIDIA H100", "f32", 4096));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
#[non_exhaustive]
pub struct TuningEntry {
    /// The adapter's name, as [`GpuContext::adapter_name`](crate::GpuContext::adapter_name) gives it, or [`TuningTable::CPU`].
    pub adapter: String,
    /// The storage type of the matrices: `f16`, `f32`, `f64`, `c32` or `c64`.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "file::element"))]
    pub element: String,
    /// The largest smaller side of the matrices that the entry is for.
    pub n_up_to: usize,
    /// The hyperparameters.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "file::tuning"))]
    pub tuning: PartialTuning,
}

macro_rules! partial_tuning {
    ($($(#[$_:meta])* $name:ident $(in $group:ident)?: $t:ty = $example:expr),* $(,)?) => {
        /// Some of the hyperparameters of [`Tuning`], with the same meanings. Those that are None are the device's defaults.
        ///
        /// ```
        /// use svdvals_gpu::{PartialTuning, Tuning};
        /// let partial = PartialTuning::default().leaf(256);
        /// assert_eq!(partial.over(Tuning::for_cpu::<f32>(500)), Tuning::for_cpu::<f32>(500).leaf(256));
        /// ```
        #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields, default))]
        #[non_exhaustive]
        pub struct PartialTuning {
            $(
                #[doc = concat!("Of [`Tuning`]: `", $(stringify!($group), ".",)? stringify!($name), "`.")]
                #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
                pub $name: Option<$t>,
            )*
        }

        impl PartialTuning {
            $(
                #[doc = concat!("Sets [`Tuning::", stringify!($name), "`].")]
                ///
                /// ```
                #[doc = concat!("let partial = svdvals_gpu::PartialTuning::default().", stringify!($name), "(", stringify!($example), ");")]
                #[doc = concat!("assert_eq!(partial.", stringify!($name), ", Some(", stringify!($example), "));")]
                /// ```
                pub fn $name(mut self, $name: $t) -> Self {
                    self.$name = Some($name);
                    self
                }
            )*

            /// `tuning`, with the fields that are set here replaced.
            ///
            /// ```
            /// use svdvals_gpu::{PartialTuning, Tuning};
            /// let tuning = Tuning::for_cpu::<f64>(100);
            /// assert_eq!(PartialTuning::default().over(tuning.clone()), tuning);
            /// ```
            pub fn over(&self, mut tuning: Tuning) -> Tuning {
                $(if let Some(value) = self.$name {
                    tuning.$($group.)?$name = value;
                })*
                tuning
            }
        }

        /// Sets every field.
        impl From<Tuning> for PartialTuning {
            fn from(tuning: Tuning) -> Self {
                PartialTuning { $($name: Some(tuning.$($group.)?$name)),* }
            }
        }
    };
}

hyperparameters!(partial_tuning);

/// The environment variable that names the file of the default table.
const ENVIRONMENT: &str = "SVDVALS_GPU_TUNING";

impl TuningTable {
    /// The adapter name of entries for [`Backend::Cpu`](crate::Backend::Cpu).
    ///
    /// ```
    /// use svdvals_gpu::{PartialTuning, TuningTable};
    /// let mut table = TuningTable::default();
    /// table.set::<f32>(TuningTable::CPU, 1000, PartialTuning::default().leaf(512));
    /// assert!(table.find::<f32>("cpu", 500).is_some());
    /// ```
    pub const CPU: &str = "cpu";

    /// The entries, in the order in which they were set or read.
    ///
    /// ```
    /// assert!(svdvals_gpu::TuningTable::default().entries().is_empty());
    /// ```
    pub fn entries(&self) -> &[TuningEntry] {
        &self.entries
    }

    /// Sets the hyperparameters for matrices stored as `T` with smaller sides up to `n_up_to`. An entry for the same matrices is replaced.
    ///
    /// ```
    /// use svdvals_gpu::{Tuning, TuningTable};
    /// let mut table = TuningTable::default();
    /// for leaf in [128, 256] {
    ///     table.set::<f32>(TuningTable::CPU, 500, Tuning::for_cpu::<f32>(500).leaf(leaf));
    /// }
    /// assert_eq!(table.entries().len(), 1);
    /// assert_eq!(table.entries()[0].tuning.leaf, Some(256));
    /// ```
    pub fn set<T: Number>(&mut self, adapter: &str, n_up_to: usize, tuning: impl Into<PartialTuning>) {
        let entry = TuningEntry { adapter: adapter.into(), element: T::NAME.into(), n_up_to, tuning: tuning.into() };
        match self.entries.iter_mut().find(|other| other.is_for_the_same_as(&entry)) {
            Some(other) => *other = entry,
            None => self.entries.push(entry),
        }
    }

    /// The entry for matrices stored as `T` whose smaller side is `n`.
    ///
    /// ```
    /// use svdvals_gpu::{PartialTuning, TuningTable};
    /// let mut table = TuningTable::default();
    /// for n_up_to in [4000, 1000] {
    ///     table.set::<f32>("A GPU", n_up_to, PartialTuning::default());
    /// }
    /// assert_eq!(table.find::<f32>("A GPU", 1000).unwrap().n_up_to, 1000);
    /// assert_eq!(table.find::<f32>("A GPU", 1001).unwrap().n_up_to, 4000);
    /// assert!(table.find::<f32>("A GPU", 4001).is_none() && table.find::<f64>("A GPU", 1000).is_none());
    /// ```
    pub fn find<T: Number>(&self, adapter: &str, n: usize) -> Option<&TuningEntry> {
        self.find_named(T::NAME, adapter, n)
    }

    fn find_named(&self, element: &str, adapter: &str, n: usize) -> Option<&TuningEntry> {
        let fits = |entry: &&TuningEntry| entry.adapter == adapter && entry.element == element && n <= entry.n_up_to;
        self.entries.iter().filter(fits).min_by_key(|entry| entry.n_up_to)
    }

    /// The table in the file that the environment variable names.
    fn of_environment() -> Result<Option<&'static TuningTable>> {
        static TABLE: OnceLock<Result<Option<TuningTable>>> = OnceLock::new();
        let table = TABLE.get_or_init(|| match std::env::var_os(ENVIRONMENT).filter(|path| !path.is_empty()) {
            None => Ok(None),
            #[cfg(feature = "serde")]
            Some(path) => TuningTable::load(path).map(Some),
            #[cfg(not(feature = "serde"))]
            Some(path) => {
                log::warn!("svdvals-gpu does not read {} ({ENVIRONMENT}): its feature `serde` is off", path.display());
                Ok(None)
            }
        });
        table.as_ref().map(Option::as_ref).map_err(Clone::clone)
    }
}

impl TuningEntry {
    fn is_for_the_same_as(&self, other: &TuningEntry) -> bool {
        (&self.adapter, &self.element, self.n_up_to) == (&other.adapter, &other.element, other.n_up_to)
    }
}

impl RunOptions {
    /// The hyperparameters for a matrix stored as `kind` whose smaller side is `n`, on the CPU.
    pub(crate) fn tuning_for_cpu(&self, kind: ElementKind, n: usize) -> Result<Tuning> {
        self.tuning_for(kind, TuningTable::CPU, n, || Tuning::for_cpu_of(kind, n), Tuning::check)
    }

    /// The hyperparameters for a matrix stored as `kind` whose smaller side is `n`, on a GPU.
    #[cfg(feature = "gpu")]
    pub(crate) fn tuning_for_adapter(&self, kind: ElementKind, context: &GpuContext, n: usize) -> Result<Tuning> {
        let defaults = || Tuning::within(kind, &Bounds::of(context), n);
        self.tuning_for(kind, context.adapter_name(), n, defaults, |tuning| tuning.check_for_kind(kind, context))
    }

    /// Those of a QR factorisation, also within least squares.
    #[cfg(feature = "gpu")]
    pub(crate) fn tuning_of_factors(&self, kind: ElementKind, context: &GpuContext, n: usize) -> Result<Tuning> {
        let defaults = || Tuning::of_factors(kind, &Bounds::of(context), n);
        self.tuning_for(kind, context.adapter_name(), n, defaults, |tuning| tuning.check_for_kind(kind, context))
    }

    /// The hyperparameters of the options, else those of the table if `check` accepts them, else the defaults.
    fn tuning_for(
        &self,
        kind: ElementKind,
        adapter: &str,
        n: usize,
        defaults: impl FnOnce() -> Tuning,
        check: impl FnOnce(&Tuning) -> Result<()>,
    ) -> Result<Tuning> {
        if let Some(tuning) = &self.tuning {
            return Ok(tuning.clone());
        }
        let table = match &self.tuning_table {
            Some(table) => Some(table),
            None => TuningTable::of_environment()?,
        };
        let Some((table, entry)) = table.and_then(|table| Some((table, table.find_named(kind.name(), adapter, n)?))) else {
            return Ok(defaults());
        };
        let tuning = entry.tuning.over(defaults());
        check(&tuning).map_err(|error| match error {
            SvdError::InvalidOption { option, reason } => {
                let table = table.path.as_deref().map_or(Cow::Borrowed("the table"), |path| path.into());
                let TuningEntry { adapter, element, n_up_to, .. } = entry;
                let entry = format!("the entry of {table} for {adapter:?}, {element}, n up to {n_up_to}");
                SvdError::invalid(option, format!("{reason} ({entry}, for n = {n})"))
            }
            error => error,
        })?;
        Ok(tuning)
    }
}

/// Reading and writing.
#[cfg(feature = "serde")]
mod file {
    use std::{fmt, fs, path::Path};

    use half::f16;
    use num_complex::Complex;
    use serde::{
        Deserialize, Deserializer,
        de::{Error, SeqAccess, Visitor},
    };

    use super::{PartialTuning, TuningEntry, TuningTable};
    use crate::{
        base::{
            error::{Result, SvdError},
            number::Number,
        },
        tile::tuning::Tuning,
    };

    const ELEMENTS: [&str; 5] = [f16::NAME, f32::NAME, f64::NAME, <Complex<f32>>::NAME, <Complex<f64>>::NAME];

    impl TuningTable {
        /// Reads a file (feature `serde`): see [above](TuningTable#files).
        ///
        /// ```
        /// use svdvals_gpu::{SvdError, TuningTable};
        /// assert!(matches!(TuningTable::load("no/such/file.json"), Err(SvdError::TuningFile { line: None, .. })));
        /// ```
        ///
        /// # Errors
        /// [`SvdError::TuningFile`], with the line and the field, if the file cannot be read, is not JSON, has an unknown field, lacks a
        /// field of an entry, has a value of the wrong type or out of range, or has two entries for the same matrices.
        pub fn load(path: impl AsRef<Path>) -> Result<TuningTable> {
            let path = path.as_ref().display().to_string();
            let fail = |line, field, reason| SvdError::TuningFile { path: path.clone(), line, field, reason };
            let of_json = |error: serde_json::Error, field| {
                // The error has the place as a field, so it is removed from serde_json's message.
                let (message, place) = (error.to_string(), format!(" at line {} column {}", error.line(), error.column()));
                fail(Some(error.line()), field, message.strip_suffix(&place).unwrap_or(&message).to_owned())
            };
            let text = fs::read_to_string(&path).map_err(|error| fail(None, None, error.to_string()))?;
            let mut json = serde_json::Deserializer::from_str(&text);
            let table: TuningTable = serde_path_to_error::deserialize(&mut json).map_err(|error| {
                // A "?" stands for an unnamed part, a lone "." for the whole.
                let path = error.path().to_string();
                let field = Some(path.trim_end_matches(['?', '.']).to_owned()).filter(|path| !path.is_empty());
                of_json(error.into_inner(), field)
            })?;
            json.end().map_err(|error| of_json(error, None))?;
            Ok(TuningTable { path: Some(path), ..table })
        }

        /// Writes a file (feature `serde`), one line an entry.
        ///
        /// ```
        /// use svdvals_gpu::{Tuning, TuningTable};
        /// let mut table = TuningTable::default();
        /// table.set::<f32>("A \"GPU\"", 1000, Tuning::for_cpu::<f32>(1000));
        /// let path = std::env::temp_dir().join(format!("svdvals-gpu-saved-{}.json", std::process::id()));
        /// table.save(&path)?;
        /// assert_eq!(TuningTable::load(&path)?.entries(), table.entries());
        /// # std::fs::remove_file(&path).unwrap();
        /// # Ok::<(), svdvals_gpu::SvdError>(())
        /// ```
        ///
        /// # Errors
        /// [`SvdError::TuningFile`] where the file cannot be written.
        pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
            let path = path.as_ref();
            let fail = |reason: String| {
                let path = path.display().to_string();
                SvdError::TuningFile { path, line: None, field: None, reason }
            };
            let lines: std::result::Result<Vec<String>, _> = self.entries.iter().map(serde_json::to_string).collect();
            let lines = lines.map_err(|error| fail(error.to_string()))?;
            let rates = self.lines_of_rates().map_err(|error| fail(error.to_string()))?;
            let text = format!("{{\"entries\": [\n{}\n]{rates}}}\n", lines.join(",\n"));
            fs::write(path, text).map_err(|error| fail(error.to_string()))
        }
    }

    pub(super) fn element<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<String, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = ELEMENTS.contains(&name.as_str());
        if known { Ok(name) } else { Err(Error::custom(format!("{name:?} is none of {}", ELEMENTS.join(", ")))) }
    }

    /// Hyperparameters, each checked for its range as far as that is possible without a device and a matrix.
    pub(super) fn tuning<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<PartialTuning, D::Error> {
        let partial = PartialTuning::deserialize(deserializer)?;
        // These defaults are valid with any valid value of a field, so an error is that of the file's value.
        let any = Tuning::for_cpu::<f32>(1).leaf(usize::MAX);
        partial.over(any).check().map_err(Error::custom)?;
        Ok(partial)
    }

    /// Entries, no two for the same matrices.
    pub(super) fn entries<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Vec<TuningEntry>, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Vec<TuningEntry>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of entries")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Vec<TuningEntry>, A::Error> {
                let mut entries: Vec<TuningEntry> = Vec::new();
                while let Some(entry) = list.next_element::<TuningEntry>()? {
                    if let Some(first) = entries.iter().position(|other| other.is_for_the_same_as(&entry)) {
                        return Err(Error::custom(format!("entry {} is for the same as entry {first}", entries.len())));
                    }
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_seq(Entries)
    }
}
