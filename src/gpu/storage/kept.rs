//! The kept reflectors of stage 1, or of a QR factorisation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Bound, Dense, Ready, StageOne};
use crate::{
    base::error::{Result, SvdError},
    gpu::{
        device::{
            buffers::{Buffer, storage},
            context::GpuContext,
            parameters,
            pipeline::GATHER_REFLECTORS,
            stream::Stream,
        },
        limits::fitting_bytes,
    },
    tile::{
        deferred::DeferredPanel,
        panel_tree::{Level, RowMap},
    },
};

/// Where the reflectors of a matrix are kept: V overwrites the entries that become zero, and `Dense::t` holds T of all levels in order.
#[derive(Clone)]
pub(super) struct Kept {
    /// The index of the first T of each level of one matrix, then the total number of its T. Those of a level of several matrices lie one after the
    /// other.
    pub(super) first: Vec<usize>,
    /// The number of matrices that share `Dense::t`, and the first of those that these are.
    pub(super) matrices: usize,
    pub(super) matrix: usize,
    /// The number of levels factored so far.
    pub(super) made: usize,
    /// The size of the whole matrix, before `keep_rows`.
    pub(super) size: (usize, usize),
    /// The index of the first T behind those, of the leaves of a panel whose updates are deferred.
    pub(super) behind: usize,
    /// T of a level that is being applied, in the order that `unmqr` expects, of all matrices.
    pub(super) t: Buffer,
    pub(super) gather: Bound,
    /// Held while a level is applied: it is gathered to `t` and `Dense::v`, which the threads that share the reflectors have in common.
    pub(super) turn: Arc<Mutex<()>>,
}

impl Kept {
    /// The number of blocks of level `k` of one matrix.
    pub(super) fn blocks(&self, k: usize) -> usize {
        self.first[k + 1] - self.first[k]
    }

    /// The index in `Dense::t` of the first T of level `k`.
    pub(super) fn at(&self, k: usize) -> usize {
        match self.first.get(k + 1) {
            Some(next) => self.matrices * self.first[k] + self.matrix * (next - self.first[k]),
            None => 0,
        }
    }
}

impl Dense {
    /// From now on `geqrt` keeps the reflectors of `levels`. It must be called once for each of them, in this order.
    pub(crate) fn keep_reflectors(&mut self, context: &GpuContext, levels: &mut dyn Iterator<Item = Level>) -> Result<()> {
        let (mut first, mut most) = (vec![0], 0);
        for level in levels {
            let blocks = level.map.blocks();
            most = most.max(blocks);
            first.push(first.last().map_or(0, |sum: &usize| sum.saturating_add(blocks)));
        }
        let square = self.shape.ts * self.shape.ts;
        let of_blocks = |blocks: usize| {
            let what = "the reflectors' triangular factors";
            let bytes = fitting_bytes(context, what, self.kind.scalar_bytes(), blocks.max(1).checked_mul(square))?;
            storage(context, what, bytes)
        };
        let matrices = self.matrices;
        let behind = first.last().copied().unwrap_or_default().saturating_mul(matrices);
        let of_leaves = if self.room > 0 { self.t.size() as usize / (square * self.kind.scalar_bytes()) } else { 0 };
        self.t = of_blocks(behind.saturating_add(of_leaves))?;
        self.kernels = StageOne::default();
        let (t, gather) = (of_blocks(most.saturating_mul(matrices))?, Bound::default());
        self.kept = Some(Kept { first, matrices, matrix: 0, made: 0, size: self.size, behind, t, gather, turn: Arc::default() });
        Ok(())
    }

    /// Checks that `level` is the next of the levels to keep. To be called before each call of `geqrt`, which leaves its V and T in `v` and `t`.
    pub(crate) fn keep_next(&mut self, level: &Level) -> Result<()> {
        self.in_beside = false;
        self.keep(level)
    }

    pub(super) fn keep(&mut self, level: &Level) -> Result<()> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        match kept.first.get(kept.made..kept.made + 2) {
            Some(&[first, next]) if next - first == level.map.blocks() => kept.made += 1,
            _ => return Err(SvdError::invalid("level", format!("{level:?} is not level {} of those to be kept", kept.made))),
        }
        Ok(())
    }

    /// Waits until no other thread applies a level of the kept reflectors.
    pub(crate) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.kept.as_ref().map(|kept| kept.turn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// `gather_reflectors` of the kept level `k`, with its bind group and parameters.
    pub(crate) fn gathered(
        &self,
        context: &GpuContext,
        stream: &Stream,
        (k, level): (usize, &Level),
        c: &Dense,
    ) -> Result<(&Ready, parameters::Level)> {
        let missing = || SvdError::invalid("reflectors", format!("those of level {k} were not kept"));
        let kept = self.kept.as_ref().filter(|kept| k < kept.made).ok_or_else(missing)?;
        let &Level { transposed, map, .. } = level;
        let size = if transposed { (kept.size.1, kept.size.0) } else { kept.size };
        if c.matrices != self.matrices {
            return Err(SvdError::invalid("c", format!("{} matrices, for the reflectors of {}", c.matrices, self.matrices)));
        }
        if kept.blocks(k) != map.blocks() {
            return Err(SvdError::invalid("level", format!("{level:?} is not the one that was kept")));
        }
        // `unmqr` takes blocks of any length.
        let parameters = self.parameters_in(self.last(), level, size, (kept.at(k), usize::MAX))?;
        let gather = kept.gather.get(|| {
            let pipeline = context.pipeline(self.kind, &GATHER_REFLECTORS, &[("TS", self.shape.ts as u32)], self.a.len())?;
            let bindings = stream.bind(&pipeline, &[&self.v, &kept.t, &self.t], &self.a)?;
            Ok((pipeline, bindings))
        })?;
        Ok((gather, parameters))
    }

    /// The `unmqr` that applies reflectors that are gathered, of a level with this map, to `c`, with its bind group.
    pub(crate) fn unmqr_of(&self, context: &GpuContext, stream: &Stream, map: RowMap, c: &Dense) -> Result<Ready> {
        let shader = self.unmqr_shader(&Level { transposed: false, col: 0, width: 0, map });
        let pipeline = context.pipeline(self.kind, shader, &self.shape.unmqr_constants(), c.a.len())?;
        let bindings = stream.bind(&pipeline, &self.gathered_to()?, &c.a)?;
        Ok((pipeline, bindings))
    }

    /// Where `gather_reflectors` leaves V and T.
    pub(crate) fn gathered_to(&self) -> Result<[&Buffer; 2]> {
        let kept = self.kept.as_ref().ok_or_else(|| SvdError::invalid("reflectors", "none were kept".to_owned()))?;
        Ok([&self.v, &kept.t])
    }

    /// The index of the first T of the leaves of a panel whose updates are deferred: behind those that are kept.
    pub(crate) fn first_t_of_leaves(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.behind)
    }

    /// Whether reflectors are kept.
    pub(crate) fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// The index of the T of a panel's joined reflectors, the next level to be kept; zero if none are.
    pub(crate) fn keep_joined(&mut self, panel: &DeferredPanel) -> Result<usize> {
        self.keep_next(&panel.level())?;
        Ok(self.kept.as_ref().map_or(0, |kept| kept.at(kept.made.saturating_sub(1))))
    }
}
