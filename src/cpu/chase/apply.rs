//! Storage of the reflectors of bulge chasing, and their application to any matrix. Twin: `shaders/apply_chase.wgsl`.
//!
//! Both reflectors of cycle i of sweep R act on indices c0 ..= c1, where c0 > R. The ranges of one sweep are disjoint. So the reflectors of
//! one side of a reduction step fit below the diagonal of an n x n array: those of sweep R in column R, v in rows c0 ..= c1. tau replaces
//! the first entry of v, which is 1. The columns are stored one after the other without what is above.

use std::iter::once;

use faer::{MatMut, prelude::ReborrowMut};

use crate::{
    base::{
        blas::{Op, Side},
        error::{Result, SvdError},
        number::{Number, Re, RealElement, Scalar},
        parallel::{each, pieces_mut, threads},
    },
    cpu::{
        chase::reflector::Reflector,
        qr::strips::{self, Ahead},
        simd::{
            aligned::{Aligned, zeros},
            convert::{narrow_from_rows, widen_to_rows},
        },
        vectors::compact_wy::{CompactWy, Room, tau_of},
    },
    tile::chase_schedule::ReductionStep,
};

/// Most columns of C in a task. The rows in use of that many columns stay in the L2 cache.
const COLUMNS: usize = 128;
/// Sweeps whose reflectors are applied as one product: the columns of a group in [`strips`]. More sweeps make more
/// flops on the zeros of V.
const SWEEPS: usize = 12;

/// The type of the reflectors of a band stored as `B`.
type Wide<B> = <<B as Number>::Scalar as Scalar>::Wide;

/// The reflectors of one reduction step.
pub(crate) struct ChaseReflectors<B: Number> {
    step: ReductionStep,
    /// Those of the left and of the right side, if they are kept.
    sides: [Option<Aligned<Wide<B>>>; 2],
}

/// Where the threads of a step store reflectors: in [`Places`], or, with `()`, nowhere. A type, so that calls which keep nothing run no code
/// for it (it would take 6% of stage 2).
pub(crate) trait Keep<T>: Copy + Send + Sync {
    /// Stores the reflector of one side of the cycle of `sweep` that begins at index `c0`.
    ///
    /// # Safety
    /// The cycle is one of this step, and nobody else uses its entries during the call.
    unsafe fn keep(self, side: Side, sweep: usize, c0: usize, h: &Reflector<T>);
}

impl<T> Keep<T> for () {
    // SAFETY: it touches no memory.
    #[inline(always)]
    unsafe fn keep(self, _: Side, _: usize, _: usize, _: &Reflector<T>) {}
}

/// Shared pointers to the reflectors of a step, for threads that store those of different cycles. Null for a side that is not kept.
#[derive(Clone, Copy)]
pub(crate) struct Places<T> {
    sides: [*mut T; 2],
    n: usize,
}

// SAFETY: the pointers are used by `keep` alone, whose callers have the entries that it writes to themselves.
unsafe impl<T: Send> Send for Places<T> {}
// SAFETY: likewise.
unsafe impl<T: Send> Sync for Places<T> {}

/// The place of row `row` of column `sweep`, row > sweep, of an n x n array of which only the entries below the diagonal are stored.
fn place(n: usize, sweep: usize, row: usize) -> usize {
    sweep * (n - 1) - sweep * sweep.saturating_sub(1) / 2 + row - sweep - 1
}

impl<B: Number> ChaseReflectors<B> {
    /// Storage for the reflectors of `step` on these sides, initially all H = I.
    pub fn new(step: &ReductionStep, sides: &[Side]) -> Result<Self> {
        let len = step.n.checked_mul(step.n.saturating_sub(1)).map(|entries| entries / 2);
        let len = len.ok_or_else(|| SvdError::invalid("matrix", "its size overflows the address space"))?;
        let of = |side| sides.contains(&side).then(|| zeros("reflectors of stage 2", len)).transpose();
        Ok(ChaseReflectors { step: *step, sides: [of(Side::Left)?, of(Side::Right)?] })
    }

    pub fn step(&self) -> ReductionStep {
        self.step
    }

    pub fn places(&mut self) -> Places<Wide<B>> {
        let of = |side: &mut Option<Aligned<_>>| side.as_mut().map_or(std::ptr::null_mut(), |entries| entries.as_mut_ptr());
        Places { sides: self.sides.each_mut().map(of), n: self.step.n }
    }

    /// C <- op(Q) C or C <- op(P) C. Q is the product of the left reflectors in the order of their generation, and P that of the conjugates
    /// of the right ones. `c` has n rows. The arithmetic is that of `S`.
    ///
    /// The reflectors of cycle i of [`SWEEPS`] consecutive sweeps form a diamond. Their first rows are consecutive too, so V has few zeros.
    /// Diamond (g, i) comes after (g + 1, i), (g + 1, i - 1) and (g, i - 1), or before them for the adjoint. For one i after the other and all
    /// g from the last to the first, the rows in use move up by [`SWEEPS`] from diamond to diamond. C is copied in blocks of columns, with
    /// rows contiguous.
    ///
    /// # Errors
    /// [`SvdError::InvalidOption`] if that side was not kept, and [`SvdError::OutOfMemory`].
    pub fn apply<S: Number>(&self, c: MatMut<'_, S>, side: Side, op: Op) -> Result<()> {
        let entries = self.sides[usize::from(side == Side::Right)].as_deref();
        let entries = entries.ok_or_else(|| SvdError::invalid("reflectors", format!("those of side {side:?} were not kept")))?;
        let of = Diamonds { step: &self.step, entries, conjugate: (side == Side::Right) != (op == Op::Trans) };
        let (n, all, forward) = (self.step.n, c.ncols(), op != Op::NoTrans);
        if n == 0 || all == 0 {
            return Ok(());
        }
        // What is computed for a column depends neither on its place in a strip, nor on how many strips there are.
        let width = strips::registers::<S::Scalar>().unwrap_or(COLUMNS);
        let share = all.div_ceil(2 * threads()).next_multiple_of(width);
        let cols = share.clamp(width, COLUMNS.max(width));
        let mut copy = zeros::<S::Scalar>("copy of vectors", all.div_ceil(cols).saturating_mul(cols).saturating_mul(n))?;
        let mut blocks: Vec<_> = chunks(c, cols).into_iter().zip(copy.chunks_mut(n * cols)).collect();
        each(&mut blocks, |(c, x)| widen_to_rows(c.as_ref(), x, cols));

        let (groups, cycles) = (self.step.sweeps().div_ceil(SWEEPS), self.step.cycles(0));
        let rows = (self.step.tile_width + SWEEPS).min(n);
        let mut diamonds = Vec::with_capacity(groups);
        for _ in 0..groups {
            diamonds.push((None, CompactWy::<S::Scalar>::new(rows, SWEEPS)));
        }
        let room = || Room::new(SWEEPS, cols);
        for i in 0..cycles {
            let i = if forward { cycles - 1 - i } else { i };
            pieces_mut(&mut diamonds, 1, 1, &|g, diamonds| {
                let mut room = room();
                let some = (g..).zip(diamonds);
                some.for_each(|(g, (first, diamond))| *first = of.set(diamond, &mut room, g, i));
            });
            let apply = |room: &mut Room<_>, x: &mut [S::Scalar]| {
                let mut x = MatMut::from_row_major_slice_mut(x, n, cols);
                let at = |g: usize| if forward { g } else { (groups - 1).wrapping_sub(g) };
                for g in 0..groups {
                    let (Some(first), diamond) = &diamonds[at(g)] else { continue };
                    // What the next diamond needs: it, and its rows that this one has not.
                    let mut ahead = [(x.as_ptr(), 0); 3];
                    if let Some((Some(next), diamond)) = diamonds.get(at(g + 1)) {
                        let new = if forward { *next + diamond.rows() - SWEEPS.min(diamond.rows()) } else { *next };
                        let [v, t] = diamond.elements();
                        ahead = [(x.as_ptr().wrapping_add(new * cols), SWEEPS * cols), v, t];
                    }
                    let rows = x.rb_mut().subrows_mut(*first, diamond.rows());
                    diamond.apply(rows, forward, Ahead::Elements(&ahead), room);
                }
            };
            pieces_mut(&mut blocks, 1, 1, &|_, blocks| {
                let mut room = room();
                blocks.iter_mut().for_each(|(_, x)| apply(&mut room, x));
            });
        }
        each(&mut blocks, |(c, x)| narrow_from_rows(x, cols, c.rb_mut()));
        Ok(())
    }
}

/// The columns of `c` in blocks of `cols`.
fn chunks<T>(c: MatMut<'_, T>, cols: usize) -> Vec<MatMut<'_, T>> {
    let (mut blocks, mut rest) = (Vec::new(), c);
    while rest.ncols() > 0 {
        let (block, others) = {
            let cols = cols.min(rest.ncols());
            rest.split_at_col_mut(cols)
        };
        blocks.push(block);
        rest = others;
    }
    blocks
}

/// The reflectors of one side, of which [`SWEEPS`] at a time are multiplied.
#[derive(Clone, Copy)]
struct Diamonds<'a, W> {
    step: &'a ReductionStep,
    entries: &'a [W],
    /// Whether to take the conjugates.
    conjugate: bool,
}

impl<W: Scalar> Diamonds<'_, W> {
    /// Sets `diamond` to the product of the reflectors of cycle `i` of group `g` of sweeps. Returns its first row, or None if there are none.
    fn set<T: Scalar>(self, diamond: &mut CompactWy<T>, room: &mut Room<T>, g: usize, i: usize) -> Option<usize> {
        let (step, first) = (self.step, g * SWEEPS);
        // Later sweeps have no more cycles than earlier ones.
        let sweeps = (first..step.sweeps().min(first + SWEEPS)).take_while(|&sweep| i < step.cycles(sweep)).count();
        let (begin, last) = (step.cycle(first, i).c0, step.cycle(first + sweeps.checked_sub(1)?, i).c1);
        diamond.set((last + 1 - begin, sweeps), Some(step.tile_width), room, |j, v| {
            let at = step.cycle(first + j, i);
            let tau = self.read(first + j, at.c0, &mut v[at.c0 - begin..=at.c1 - begin]);
            Re::<T>::from_double(tau)
        });
        Some(begin)
    }

    /// Copies the reflector of the cycle of `sweep` that begins at `c0` to `v`, with first entry 1. Returns tau.
    fn read<T: Scalar>(self, sweep: usize, c0: usize, v: &mut [T]) -> f64 {
        let from = &self.entries[place(self.step.n, sweep, c0)..][..v.len()];
        let conj = |x: &W| if self.conjugate { W::conj_impl(x) } else { *x };
        for (v, x) in v.iter_mut().zip(from) {
            *v = T::from_complex(conj(x).to_complex());
        }
        v[0] = T::one_impl();
        if from[0].to_complex().re == 0.0 { 0.0 } else { tau_of(v) }
    }
}

impl<T: Scalar + Number<Real = f64>> Keep<T> for Places<T> {
    // SAFETY: by the trait's contract the cycle is one of the step that the array is for, so its entries are inside, and nobody else
    // uses them.
    #[inline(always)]
    unsafe fn keep(self, side: Side, sweep: usize, c0: usize, h: &Reflector<T>) {
        let at = self.sides[usize::from(side == Side::Right)];
        if at.is_null() {
            return;
        }
        let first = place(self.n, sweep, c0);
        for (k, v) in once(T::from_real_impl(&h.tau)).chain(h.v()[1..].iter().copied()).enumerate() {
            // SAFETY: rows c0 .. c0 + len of column `sweep` are inside the array.
            unsafe { *at.add(first + k) = v };
        }
    }
}
