//! What has become of work on a device: it is waited for, and its failures become values.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::PoisonError,
    time::Duration,
};

use futures_channel::oneshot;
use pollster::block_on;
use wgpu::{ErrorFilter, PollError, PollType, SubmissionIndex};

use super::GpuContext;
use crate::base::{
    clock::HostSpan,
    error::{Result, SvdError},
    pool::on_thread,
};

/// How a call waits for the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Waits {
    /// The thread blocks.
    #[default]
    Blocking,
    /// The task is woken.
    Awaited,
}

/// The future result of an error scope.
pub(super) type Scope = Pin<Box<dyn Future<Output = Option<wgpu::Error>> + Send>>;

/// Timeout for work that is bounded to about a second (see `stream.rs`). After it, the device is considered hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether threads must not block, as in a browser.
pub(crate) const CANNOT_BLOCK: bool = cfg!(target_family = "wasm");

impl GpuContext {
    fn lost(&self, fallback: impl FnOnce() -> String) -> SvdError {
        SvdError::DeviceLost { reason: self.0.lost.get().cloned().unwrap_or_else(fallback) }
    }

    /// Checks that a call may wait in this way.
    pub(crate) fn may_wait(&self, waits: Waits) -> Result<()> {
        if CANNOT_BLOCK && waits == Waits::Blocking {
            return Err(SvdError::invalid("backend", "a GPU in a browser is waited for by `svdvals_gpu_async` alone"));
        }
        Ok(())
    }

    /// Runs `body`, which uses the device, and returns the errors that the device reports meanwhile. A browser reports them later, and
    /// [`done`](Self::done) returns them there. (Error scopes are per thread.)
    pub(crate) fn scoped<R>(&self, what: &'static str, body: impl FnOnce() -> Result<R>) -> Result<R> {
        if self.is_lost() {
            return Err(self.lost(String::new));
        }
        let filters = [ErrorFilter::Internal, ErrorFilter::Validation, ErrorFilter::OutOfMemory];
        let mut scopes = Vec::from(filters.map(|filter| self.0.device.push_error_scope(filter)));
        let result = body();
        // Scopes are popped innermost first.
        let errors = std::iter::from_fn(|| scopes.pop()).map(|scope| scope.pop());
        if CANNOT_BLOCK {
            let mut unchecked = self.0.unchecked.lock().unwrap_or_else(PoisonError::into_inner);
            unchecked.extend(errors.map(|error| (what, Box::pin(error) as _)));
            return result;
        }
        let errors: Vec<_> = errors.filter_map(block_on).collect();
        if result.is_err() || !errors.is_empty() {
            // Polling reveals that the device is lost, which explains any other error.
            let _ = self.poll(PollType::Poll);
        }
        if self.is_lost() {
            return Err(self.lost(String::new));
        }
        match errors.into_iter().next() {
            None => result,
            Some(error) => Err(error_of(what, error)),
        }
    }

    /// Completes when `submission` is done.
    pub(crate) async fn done(&self, submission: SubmissionIndex, waits: Waits) -> Result<()> {
        if CANNOT_BLOCK {
            let (tell, told) = oneshot::channel();
            // There is no receiver any more if the call was dropped.
            self.0.queue.on_submitted_work_done(move || {
                let _ = tell.send(());
            });
            told.await.map_err(|never| self.lost(|| never.to_string()))?;
            let unchecked = std::mem::take(&mut *self.0.unchecked.lock().unwrap_or_else(PoisonError::into_inner));
            for (what, error) in unchecked {
                if let Some(error) = error.await {
                    return Err(error_of(what, error));
                }
            }
            return Ok(());
        }
        match waits {
            Waits::Blocking => self.wait(submission),
            Waits::Awaited => {
                // Some thread must poll the device: one that nothing else waits for.
                let context = self.clone();
                on_thread(move || context.wait(submission)).await?
            }
        }
    }

    /// Blocks until `submission` is done.
    fn wait(&self, submission: SubmissionIndex) -> Result<()> {
        let _span = HostSpan::of("wait");
        let result = self.poll(PollType::Wait { submission_index: Some(submission), timeout: Some(PATIENCE) });
        if self.is_lost() { Err(self.lost(String::new)) } else { result }
    }

    /// Blocks until all submissions are done.
    pub(crate) fn wait_for_all(&self) -> Result<()> {
        self.poll(PollType::Wait { submission_index: None, timeout: Some(PATIENCE) })
    }

    /// `Device::poll`, with its panic turned into an error. wgpu 30 panics there if the device is lost (backend/wgpu_core.rs,
    /// `handle_error_fatal`).
    pub(super) fn poll(&self, poll: PollType) -> Result<()> {
        // Unwind safe: of this crate, the stack below has only callbacks that send a message, and wgpu's locks do not poison.
        match catch_unwind(AssertUnwindSafe(|| self.0.device.poll(poll))) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(PollError::Timeout)) => Err(self.lost(|| format!("no answer for {} seconds", PATIENCE.as_secs()))),
            Ok(Err(error)) => Err(self.lost(|| error.to_string())),
            Err(_) => Err(self.lost(|| "lost while waited for".into())),
        }
    }
}

fn error_of(what: &'static str, error: wgpu::Error) -> SvdError {
    match error {
        wgpu::Error::OutOfMemory { .. } => {
            let reason = std::error::Error::source(&error).map_or(what.into(), |e| format!("{what}: {e}"));
            SvdError::OutOfMemory { reason: format!("{reason}; Backend::Cpu takes the host's") }
        }
        error => SvdError::Gpu { what, reason: error.to_string() },
    }
}
