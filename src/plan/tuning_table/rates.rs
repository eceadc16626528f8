//! The rates of a [`TuningTable`]: those by which [`Backend::Auto`](crate::Backend::Auto) estimates seconds.

use std::collections::BTreeMap;

use crate::{
    base::error::{Result, SvdError},
    plan::tuning_table::TuningTable,
};
#[cfg(feature = "gpu")]
use crate::{cpu::rate::ProductRates, plan::options::RunOptions};

/// Flops a second of one thread in a matrix product.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub(super) struct CpuRates {
    f32: f64,
    f64: f64,
}

/// How many times as fast as the model says adapters are, by name.
pub(super) type Speeds = BTreeMap<String, f64>;

fn checked(rate: f64) -> std::result::Result<f64, String> {
    match rate.is_finite() && rate > 0.0 {
        true => Ok(rate),
        false => Err(format!("a rate of {rate}, but it must be positive and finite")),
    }
}

fn invalid(reason: String) -> SvdError {
    SvdError::invalid("tuning_table", reason)
}

impl TuningTable {
    /// Sets the flops a second of one CPU thread in a matrix product, in `f32` and in `f64`. [`Backend::Auto`](crate::Backend::Auto) estimates the
    /// CPU's seconds by them, in place of those that it measures once in a process.
    ///
    /// ```
    /// use svdvals_gpu::TuningTable;
    /// let mut table = TuningTable::default();
    /// table.set_cpu_rates(1.1e11, 5.2e10)?;
    /// assert_eq!(table.cpu_rates(), Some((1.1e11, 5.2e10)));
    /// assert!(table.set_cpu_rates(0.0, 5.2e10).is_err());
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] unless both are positive and finite.
    pub fn set_cpu_rates(&mut self, f32: f64, f64: f64) -> Result<()> {
        self.cpu_rates = Some(CpuRates { f32: checked(f32).map_err(invalid)?, f64: checked(f64).map_err(invalid)? });
        Ok(())
    }

    /// The rates of [`set_cpu_rates`](Self::set_cpu_rates), in `f32` and in `f64`.
    ///
    /// ```
    /// assert_eq!(svdvals_gpu::TuningTable::default().cpu_rates(), None);
    /// ```
    pub fn cpu_rates(&self) -> Option<(f64, f64)> {
        self.cpu_rates.map(|rates| (rates.f32, rates.f64))
    }

    /// Sets how many times as fast the adapter of this name is as [`Backend::Auto`](crate::Backend::Auto)'s model of it. A call's report has the
    /// seconds of the model in its reason.
    ///
    /// ```
    /// use svdvals_gpu::TuningTable;
    /// let mut table = TuningTable::default();
    /// table.set_gpu_speed("NVIDIA H100", 0.5)?; // calls take twice as long
    /// assert_eq!((table.gpu_speed("NVIDIA H100"), table.gpu_speed("another")), (Some(0.5), None));
    /// # Ok::<(), svdvals_gpu::SvdError>(())
    /// ```
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] unless it is positive and finite.
    pub fn set_gpu_speed(&mut self, adapter: &str, speed: f64) -> Result<()> {
        self.gpu_speeds.insert(adapter.into(), checked(speed).map_err(invalid)?);
        Ok(())
    }

    /// The speed of [`set_gpu_speed`](Self::set_gpu_speed).
    ///
    /// ```
    /// assert_eq!(svdvals_gpu::TuningTable::default().gpu_speed("NVIDIA H100"), None);
    /// ```
    pub fn gpu_speed(&self, adapter: &str) -> Option<f64> {
        self.gpu_speeds.get(adapter).copied()
    }
}

#[cfg(feature = "gpu")]
impl RunOptions {
    /// The table of the options, or of the environment. An unreadable file is an error where hyperparameters are taken from it.
    fn table(&self) -> Option<&TuningTable> {
        self.tuning_table.as_ref().or_else(|| TuningTable::of_environment().ok().flatten())
    }

    /// The product rates of a CPU thread in the table.
    pub(crate) fn cpu_rates(&self) -> Option<ProductRates> {
        self.table()?.cpu_rates().map(|(f32, f64)| ProductRates { f32, f64 })
    }

    /// The speed of an adapter in the table.
    pub(crate) fn gpu_speed(&self, adapter: &str) -> Option<f64> {
        self.table()?.gpu_speed(adapter)
    }
}

/// Reading and writing.
#[cfg(feature = "serde")]
pub(super) mod file {
    use serde::{Deserialize, Deserializer, de::Error};

    use super::{CpuRates, Speeds, checked};
    use crate::plan::tuning_table::TuningTable;

    pub fn cpu_rates<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CpuRates>, D::Error> {
        let rates = CpuRates::deserialize(deserializer)?;
        checked(rates.f32).and(checked(rates.f64)).map_err(Error::custom)?;
        Ok(Some(rates))
    }

    pub fn gpu_speeds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Speeds, D::Error> {
        let speeds = Speeds::deserialize(deserializer)?;
        speeds.values().try_for_each(|&speed| checked(speed).map(drop)).map_err(Error::custom)?;
        Ok(speeds)
    }

    impl TuningTable {
        /// The lines of a file for the rates, each with the comma before it.
        pub(crate) fn lines_of_rates(&self) -> serde_json::Result<String> {
            let mut lines = String::new();
            if let Some(rates) = &self.cpu_rates {
                lines += &format!(",\n\"cpu_rates\": {}", serde_json::to_string(rates)?);
            }
            if !self.gpu_speeds.is_empty() {
                lines += &format!(",\n\"gpu_speeds\": {}", serde_json::to_string(&self.gpu_speeds)?);
            }
            Ok(lines)
        }
    }
}
