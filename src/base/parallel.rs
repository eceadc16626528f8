//! Parallel loops, in the rayon pool of the caller.
//!
//! rayon compiles its scheduler anew for each closure and each iterator. Here it is compiled once: closures go through a vtable, which costs a
//! few nanoseconds a task, and the tasks are long. The iterators are ordinary ones, and the items of a loop are collected first.

use std::sync::{Mutex, OnceLock, PoisonError};

use faer::MatMut;
use rayon::prelude::*;

/// Calls `f` with each item, as rayon's `for_each`.
pub(crate) fn each<X: Send>(items: impl IntoIterator<Item = X>, f: impl Fn(X) + Sync) {
    let items: Vec<_> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    each_below(items.len(), &|k| {
        let item = items[k].lock().unwrap_or_else(PoisonError::into_inner).take();
        item.into_iter().for_each(&f);
    });
}

fn each_below(count: usize, f: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(f);
}

/// The results of both closures, as rayon's `join`.
pub(crate) fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    fn both(a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
        rayon::join(a, b);
    }
    let mut of_b = None;
    let mut b = Some(b);
    let of_a = through(|a| both(a, &mut || of_b = b.take().map(|b| b())), a);
    match of_b {
        Some(of_b) => (of_a, of_b),
        None => unreachable!("join runs both closures"),
    }
}

/// The result of `body`, called by `run` through a vtable.
pub(crate) fn through<R: Send>(run: impl FnOnce(&mut (dyn FnMut() + Send)), body: impl FnOnce() -> R + Send) -> R {
    let (mut body, mut result) = (Some(body), None);
    run(&mut || result = body.take().map(|body| body()));
    match result {
        Some(result) => result,
        None => unreachable!("it runs the closure"),
    }
}

/// The value in `cell`, computed if there is none. Not within `get_or_init`: a worker that waits there may take up another call that needs the value.
pub(crate) fn computed<R>(cell: &OnceLock<R>, compute: impl FnOnce() -> R) -> &R {
    match cell.get() {
        Some(value) => value,
        None => {
            let value = compute();
            cell.get_or_init(|| value)
        }
    }
}

/// The columns of `x` in chunks of `cols`, the last one of what is left.
pub(crate) fn col_chunks<T>(x: MatMut<'_, T>, cols: usize) -> impl Iterator<Item = MatMut<'_, T>> {
    let widths = std::iter::repeat_n(cols, x.ncols() / cols).chain([x.ncols() % cols]).filter(|&width| width > 0);
    in_widths(x, widths)
}

/// As [`col_chunks`], of rows.
pub(crate) fn row_chunks<T>(x: MatMut<'_, T>, rows: usize) -> impl Iterator<Item = MatMut<'_, T>> {
    col_chunks(x.transpose_mut(), rows).map(MatMut::transpose_mut)
}

/// The columns of `x` in `count` parts, the first of which may be wider by one.
pub(crate) fn col_parts<T>(x: MatMut<'_, T>, count: usize) -> impl Iterator<Item = MatMut<'_, T>> {
    let cols = x.ncols();
    in_widths(x, (0..count).map(move |k| cols / count + usize::from(k < cols % count)))
}

/// The next columns of `x`, as many as each of `widths` says.
fn in_widths<'a, T>(x: MatMut<'a, T>, widths: impl Iterator<Item = usize>) -> impl Iterator<Item = MatMut<'a, T>> {
    widths.scan(Some(x), |rest, width| {
        let (part, others) = rest.take()?.split_at_col_mut(width);
        *rest = Some(others);
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use faer::Mat;

    use super::*;

    /// Each item is taken once, and both closures of a join run once.
    #[test]
    fn every_item_once() {
        let seen: Vec<_> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
        each(0..seen.len(), |k| _ = seen[k].fetch_add(1, Ordering::Relaxed));
        assert!(seen.iter().all(|seen| seen.load(Ordering::Relaxed) == 1));
        let mut changed = [0, 0];
        let [x, y] = &mut changed;
        assert_eq!(join(|| std::mem::replace(x, 3), || std::mem::replace(y, 4)), (0, 0));
        assert_eq!(changed, [3, 4]);
        each(Vec::<u8>::new(), |_| unreachable!("no item"));
    }

    /// Chunks and parts are the columns, or rows, in order.
    #[test]
    fn parts_are_the_whole() {
        for (cols, by) in [(0, 3), (1, 3), (3, 3), (7, 3), (8, 4), (5, 9)] {
            let mut x = Mat::from_fn(2, cols, |_, j| j);
            let firsts = |parts: Vec<MatMut<'_, usize>>| {
                parts.iter().flat_map(|part| (0..part.ncols()).map(|j| part[(1, j)]).collect::<Vec<_>>()).collect::<Vec<_>>()
            };
            let all: Vec<_> = (0..cols).collect();
            let chunks: Vec<_> = col_chunks(x.as_mut(), by).collect();
            assert!(chunks.len() == cols.div_ceil(by) && chunks.iter().rev().skip(1).all(|chunk| chunk.ncols() == by));
            assert_eq!(firsts(chunks), all);
            let chunks = row_chunks(x.as_mut().transpose_mut(), by).map(MatMut::transpose_mut);
            assert_eq!(firsts(chunks.collect()), all);
            let parts: Vec<_> = col_parts(x.as_mut(), by).collect();
            assert!(parts.len() == by && parts.iter().all(|part| part.ncols().abs_diff(cols / by) <= 1));
            assert_eq!(firsts(parts), all);
        }
    }
}
