//! Copies between the host and the device.

use std::ops::Range;

use bytemuck::Pod;
use futures_channel::oneshot;
use num_complex::Complex;
use pollster::block_on;
use wgpu::{BufferAsyncError, BufferSize, BufferUsages, CommandEncoderDescriptor, MapMode, SubmissionIndex, WriteOnly};

use super::{State, Stream};
use crate::{
    base::{
        clock::HostSpan,
        element_kind::ElementKind,
        error::{Result, SvdError},
        number::Scalar,
        parallel::each as in_parallel,
    },
    gpu::device::{
        buffers::{Buffer, buffer},
        context::Waits,
    },
};

/// Bytes read back at a time.
const READ_BACK_BYTES: usize = 4 << 20;
/// Bytes uploaded at a time. On an H100 new staging memory of this size is filled and copied at 10 GB/s, of 16 MiB and more at 4.
const UPLOAD_BYTES: usize = 4 << 20;
/// Bytes of uploads, at most, that wait for another submission.
const SMALL_BYTES: usize = 64 << 10;
/// Bytes that a thread scales at a time, before it copies them to staging memory.
const PIECE_BYTES: usize = 16 << 10;

/// A buffer that is being written by a submission, and then read.
pub(super) struct Reading {
    staging: Buffer,
    index: SubmissionIndex,
    told: oneshot::Receiver<std::result::Result<(), BufferAsyncError>>,
}

impl Reading {
    /// Begins to read a buffer that the submission of this index writes.
    pub(super) fn begin(staging: Buffer, index: SubmissionIndex) -> Reading {
        let (tell, told) = oneshot::channel();
        staging.goes_back(false);
        staging.map_async(MapMode::Read, .., move |mapped| {
            // There is no receiver any more after an error elsewhere.
            let _ = tell.send(mapped);
        });
        Reading { staging, index, told }
    }
}

impl State {
    /// Whether an upload of so many bytes needs a submission of its own: because of those that have had none.
    fn submits(&mut self, bytes: usize) -> bool {
        self.unsubmitted += bytes;
        let submits = self.unsubmitted > SMALL_BYTES;
        if submits {
            self.unsubmitted = 0;
        }
        submits
    }
}

impl Stream {
    /// Fills the first `len` elements of a new buffer: `fill(at, piece)` writes those from `at` on. A call that must not block allocates
    /// staging memory for all of them at once. Zeros follow up to a multiple of 16 bytes.
    pub fn upload<T: Pod + Send>(&self, target: &Buffer, len: usize, fill: impl Fn(usize, &mut [T]) + Sync) -> Result<()> {
        self.upload_bytes(target, (len, size_of::<T>()), &|at, piece| fill(at, bytemuck::cast_slice_mut(piece)))
    }

    /// [`upload`](Self::upload) of elements of `size` bytes, a power of two. All threads fill staging memory, which no cache may hold: each a part of
    /// it, from memory of its own that is in its cache.
    fn upload_bytes(&self, target: &Buffer, (len, size): (usize, usize), fill: Fill<'_>) -> Result<()> {
        let _span = HostSpan::of("upload, its waits included");
        let (chunk, piece) = (UPLOAD_BYTES / size, PIECE_BYTES / size);
        self.zero_unless_covered(target, len * size)?;
        for start in (0..len).step_by(chunk) {
            let submits = self.state().submits(chunk.min(len - start) * size);
            let index = self.context.scoped("an upload", || {
                let count = chunk.min(len - start);
                let bytes = BufferSize::new(padded(target, (start + count) * size) - (start * size) as u64);
                let view = bytes.and_then(|bytes| self.context.queue().write_buffer_with(target, (start * size) as u64, bytes));
                // If there is no staging memory, the scope's out-of-memory error takes precedence over this one.
                let mut view = view.ok_or_else(|| SvdError::DeviceLost { reason: "it takes no uploads".into() })?;
                let write = |k: usize, mut part: WriteOnly<'_, [u8]>| {
                    let bytes = (count * size - k * PIECE_BYTES).min(PIECE_BYTES);
                    // Aligned for every element.
                    let mut own = [0u128; PIECE_BYTES / size_of::<u128>()];
                    let own: &mut [u8] = bytemuck::cast_slice_mut(&mut own);
                    fill(start + k * piece, &mut own[..bytes]);
                    part.copy_from_slice(&own[..part.len()]);
                };
                let (parts, rest) = view.slice(..).into_chunks::<PIECE_BYTES>();
                let whole = parts.len();
                in_parallel(parts.into_iter().enumerate(), |(k, part)| write(k, part.into()));
                if count > whole * piece {
                    write(whole, rest);
                }
                drop(view);
                // Starts the copy, and frees the staging memory after it. That of small ones waits for the next submission.
                Ok(submits.then(|| self.context.queue().submit([])))
            })?;
            match index {
                Some(index) if self.manner.waits == Waits::Blocking => block_on(self.submitted(index, 0))?,
                Some(_) => self.state().counts.submissions += 1,
                None => {}
            }
        }
        self.state().counts.bytes_uploaded += (len * size) as u64;
        Ok(())
    }

    /// Fills a new buffer with these numbers, rounded to this kind's arithmetic type.
    pub fn upload_numbers(&self, target: &Buffer, kind: ElementKind, numbers: &[Complex<f64>]) -> Result<()> {
        let bytes = encoded(kind, numbers);
        let each = kind.scalar_bytes();
        self.upload_bytes(target, (numbers.len(), each), &|at, piece| {
            piece.copy_from_slice(&bytes[at * each..][..piece.len()]);
        })
    }

    /// The first `len` real numbers of this kind's arithmetic in `source`, after all earlier commands.
    pub async fn read_back_reals(&self, kind: ElementKind, source: &Buffer, len: usize) -> Result<Vec<f64>> {
        match kind.is_double() {
            true => self.read_back(source, len).await,
            false => Ok(self.read_back::<f32>(source, len).await?.into_iter().map(f64::from).collect()),
        }
    }

    /// The first `len` numbers of this kind's arithmetic in `source`, after all earlier commands.
    pub async fn read_back_numbers(&self, kind: ElementKind, source: &Buffer, len: usize) -> Result<Vec<Complex<f64>>> {
        if !kind.is_complex() {
            return Ok(self.read_back_reals(kind, source, len).await?.into_iter().map(Complex::from).collect());
        }
        match kind.is_double() {
            true => self.read_back(source, len).await,
            false => Ok(self.read_back::<Complex<f32>>(source, len).await?.into_iter().map(Scalar::to_wide).collect()),
        }
    }

    /// Submits the uploads that wait for a submission.
    pub fn start_copies(&self) -> Result<()> {
        if std::mem::take(&mut self.state().unsubmitted) == 0 {
            return Ok(());
        }
        self.state().counts.submissions += 1;
        self.context.scoped("an upload", || Ok(self.context.queue().submit([]))).map(drop)
    }

    /// Zeroes the target of an upload if it is used again, unless all of it will be written.
    fn zero_unless_covered(&self, target: &Buffer, bytes: usize) -> Result<()> {
        let mut zeroing = self.context.pool().zeroing();
        if padded(target, bytes) == target.size() {
            zeroing.remove(target);
        }
        if !zeroing.contains(target) {
            return Ok(());
        }
        self.state().counts.submissions += 1;
        self.context.scoped("zeroing buffers", || {
            let mut encoder = self.context.device().create_command_encoder(&CommandEncoderDescriptor::default());
            zeroing.encode(&mut encoder);
            self.context.queue().submit([encoder.finish()]);
            Ok(())
        })?;
        zeroing.end();
        Ok(())
    }

    /// Begins to copy these bytes of each source to `staging`, one after the other.
    fn begin_copies(&self, sources: &[(&Buffer, Range<u64>)], staging: &Buffer) -> Result<Reading> {
        let zeroing = self.context.pool().zeroing();
        let reading = self.context.scoped("a read-back", || {
            let mut encoder = self.context.device().create_command_encoder(&CommandEncoderDescriptor::default());
            zeroing.encode(&mut encoder);
            let mut at = 0;
            for (source, bytes) in sources {
                let count = bytes.end - bytes.start;
                encoder.copy_buffer_to_buffer(source, bytes.start, staging, at, count);
                at += count;
            }
            Ok(Reading::begin(staging.clone(), self.context.queue().submit([encoder.finish()])))
        })?;
        zeroing.end();
        let counts = &mut self.state().counts;
        counts.submissions += 1;
        counts.bytes_read_back += sources.iter().map(|(_, bytes)| bytes.end - bytes.start).sum::<u64>();
        Ok(reading)
    }

    /// What `take` makes of the first `bytes` bytes.
    pub(super) async fn read<R>(&self, reading: Reading, bytes: u64, take: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let Reading { staging, index, told } = reading;
        self.context.done(index, self.manner.waits).await?;
        let unmapped = |reason: String| SvdError::Gpu { what: "a read-back", reason };
        // Another thread's poll may be about to run the callback.
        match told.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(SvdError::DeviceLost { reason: format!("a read-back failed: {error}") }),
            Err(never) => return Err(unmapped(never.to_string())),
        }
        let result = {
            let _span = HostSpan::of("copy of what is read back");
            let view = staging.slice(..bytes).get_mapped_range().map_err(|e| unmapped(e.to_string()))?;
            take(&view)
        };
        staging.unmap();
        staging.goes_back(true);
        Ok(result)
    }

    /// [`read_back`](Self::read_back) for a call that blocks.
    pub fn read_back_now<T: Pod + Send>(&self, source: &Buffer, len: usize) -> Result<Vec<T>> {
        block_on(self.read_back(source, len))
    }

    /// The first `len` elements of `source`, after all earlier commands.
    pub async fn read_back<T: Pod + Send>(&self, source: &Buffer, len: usize) -> Result<Vec<T>> {
        self.read_back_from(source, 0, len).await
    }

    /// `len` elements of `source` from index `first` on, at a multiple of four bytes.
    pub async fn read_back_from<T: Pod + Send>(&self, source: &Buffer, first: usize, len: usize) -> Result<Vec<T>> {
        let mut result = Vec::new();
        result.try_reserve_exact(len).map_err(|e| SvdError::OutOfMemory { reason: format!("read-back: {e}") })?;
        let size = size_of::<T>();
        self.in_pieces(source, (first, len, size), READ_BACK_BYTES / size, &mut |_, piece| {
            elements(piece, &mut |all| result.extend_from_slice(all))
        })
        .await?;
        Ok(result)
    }

    /// [`read_back_from`](Self::read_back_from) in pieces of a multiple of `line` elements, except the last: `take(at, piece)` is given those from `first + at`
    /// on. `line` is a multiple of four bytes, or 1.
    pub async fn read_back_in<T: Pod + Send>(
        &self,
        source: &Buffer,
        (first, len): (usize, usize),
        line: usize,
        mut take: impl FnMut(usize, &[T]) + Send,
    ) -> Result<()> {
        let size = size_of::<T>();
        let (most, line) = (READ_BACK_BYTES / size, line.max(1));
        if line <= most {
            let piece = most / line * line;
            return self
                .in_pieces(source, (first, len, size), piece, &mut |at, piece| elements(piece, &mut |all| take(at, all)))
                .await;
        }
        for start in (0..len).step_by(line) {
            take(start, &self.read_back_from::<T>(source, first + start, line.min(len - start)).await?);
        }
        Ok(())
    }

    fn staging(&self, bytes: u64) -> Result<Buffer> {
        buffer(&self.context, "read-back", bytes, BufferUsages::MAP_READ | BufferUsages::COPY_DST)
    }

    /// The first elements of several buffers, of whole words each, after all earlier commands: by one copy, if they are few.
    pub async fn read_back_several<T: Pod + Send>(&self, sources: &[(&Buffer, usize)]) -> Result<Vec<Vec<T>>> {
        let size = size_of::<T>();
        let all: usize = sources.iter().map(|(_, len)| len * size).sum();
        let mut found = Vec::with_capacity(sources.len());
        if all == 0 || all > READ_BACK_BYTES {
            for (source, len) in sources {
                found.push(self.read_back(source, *len).await?);
            }
            return Ok(found);
        }
        self.run_all().await?;
        let ranges: Vec<_> =
            sources.iter().filter(|(_, len)| *len > 0).map(|&(source, len)| (source, 0..(len * size) as u64)).collect();
        let reading = self.begin_copies(&ranges, &self.staging(all as u64)?)?;
        self.read(reading, all as u64, |bytes| {
            let mut rest = bytes;
            for (_, len) in sources {
                let (these, others) = rest.split_at(len * size);
                let mut elements_of = Vec::with_capacity(*len);
                elements(these, &mut |all| elements_of.extend_from_slice(all));
                found.push(elements_of);
                rest = others;
            }
        })
        .await?;
        Ok(found)
    }

    /// [`read_back_in`](Self::read_back_in) of elements of `size` bytes, in pieces of so many elements.
    async fn in_pieces(
        &self,
        source: &Buffer,
        (first, len, size): (usize, usize, usize),
        piece: usize,
        take: &mut (dyn FnMut(usize, &[u8]) + Send),
    ) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let chunk = piece.min(len);
        self.run_all().await?;
        let staging = || self.staging(whole_words(chunk * size));
        // A piece is on its way while the one before is taken.
        let mut free = if len > chunk { vec![staging()?, staging()?] } else { vec![staging()?] };
        let mut on_its_way = None;
        for start in (0..len).step_by(chunk) {
            let count = chunk.min(len - start);
            let Some(staging) = free.pop() else { break };
            let from = ((first + start) * size) as u64;
            let reading = self.begin_copies(&[(source, from..from + whole_words(count * size))], &staging)?;
            if let Some((start, count, reading, staging)) = on_its_way.replace((start, count, reading, staging)) {
                self.read(reading, whole_words(count * size), |view| take(start, &view[..count * size])).await?;
                free.push(staging);
            }
        }
        match on_its_way {
            Some((start, count, reading, _)) => {
                self.read(reading, whole_words(count * size), |view| take(start, &view[..count * size])).await
            }
            None => Ok(()),
        }
    }
}

/// The numbers in this kind's arithmetic type, as bytes.
pub(crate) fn encoded(kind: ElementKind, numbers: &[Complex<f64>]) -> Vec<u8> {
    fn of<T: Scalar>(numbers: &[Complex<f64>]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size_of_val(numbers));
        numbers.iter().for_each(|&x| bytes.extend_from_slice(bytemuck::bytes_of(&T::from_complex(x))));
        bytes
    }
    match kind {
        ElementKind::F16 | ElementKind::F32 => of::<f32>(numbers),
        ElementKind::F64 => of::<f64>(numbers),
        ElementKind::C32 => of::<Complex<f32>>(numbers),
        ElementKind::C64 => of::<Complex<f64>>(numbers),
    }
}

/// Fills a piece of elements from an index on.
type Fill<'a> = &'a (dyn Fn(usize, &mut [u8]) + Sync);

/// Gives the elements to `take`. The bytes need not be aligned for them.
fn elements<T: Pod>(bytes: &[u8], take: &mut dyn FnMut(&[T])) {
    match bytemuck::try_cast_slice(bytes) {
        Ok(all) => take(all),
        Err(_) => {
            let all: Vec<T> = bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>).collect();
            take(&all);
        }
    }
}

/// The end of an upload that ends at byte `end`: the next multiple of 16, of which chunks and the crate's buffers are, within the target.
fn padded(target: &Buffer, end: usize) -> u64 {
    end.next_multiple_of(16).min(target.size() as usize / 4 * 4) as u64
}

/// Rounds up to words of four bytes, the unit of copies.
fn whole_words(bytes: usize) -> u64 {
    bytes.next_multiple_of(4) as u64
}
