use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use faer::Mat;

use super::*;

fn zeros(count: usize) -> Vec<AtomicUsize> {
    (0..count).map(|_| AtomicUsize::new(0)).collect()
}

fn are_all(seen: &[AtomicUsize], times: usize) -> bool {
    seen.iter().all(|seen| seen.load(Ordering::Relaxed) == times)
}

/// A piece of a loop has at least as many numbers as are asked for, and no more than all; together they have each number once. Pieces of a
/// slice begin at multiples of the unit. In pools of one thread and of several, and outside of any.
#[test]
fn pieces_are_the_whole() {
    for (count, least) in [(0, 3), (1, 0), (2, 1), (5, 3), (6, 3), (1000, 1), (1000, 16), (1000, 2000)] {
        let run = || {
            let seen = zeros(count);
            pieces(count, least, &|piece| {
                assert!(piece.len() >= least.min(count) && !piece.is_empty());
                piece.for_each(|k| _ = seen[k].fetch_add(1, Ordering::Relaxed));
            });
            assert!(are_all(&seen, 1), "{count} {least}");
            for unit in [1, 7, 2000] {
                let mut numbers = vec![0; count];
                pieces_mut(&mut numbers, unit, least, &|first, piece| {
                    assert!(first % unit == 0 && (piece.len() % unit == 0 || first + piece.len() == count));
                    assert!(piece.len() > (least.min(count.div_ceil(unit)).max(1) - 1) * unit);
                    piece.iter_mut().zip(first..).for_each(|(number, k)| *number += k + 1);
                });
                assert_eq!(numbers, (1..=count).collect::<Vec<_>>(), "{unit}");
            }
        };
        run();
        [1, 2, 5].into_iter().for_each(|threads| Pool::new(threads).expect("a pool").install(run));
    }
}

/// Each item is taken once, and both closures of a join run once.
#[test]
fn every_item_once() {
    let seen = zeros(1000);
    each(0..seen.len(), |k| _ = seen[k].fetch_add(1, Ordering::Relaxed));
    assert!(are_all(&seen, 1));
    let mut changed = [0, 0];
    let [x, y] = &mut changed;
    assert_eq!(join(|| std::mem::replace(x, 3), || std::mem::replace(y, 4)), (0, 0));
    assert_eq!(changed, [3, 4]);
    each(Vec::<u8>::new(), |_| unreachable!("no item"));
}

/// Results are in order, whether or not they need room or drop. A room serves one call at a time.
#[test]
fn results_in_order() {
    for count in [0, 1, 2, 300] {
        let words: Vec<_> = (0..count).map(|k| k.to_string()).collect();
        assert_eq!(map(count, |k| k.to_string()), words);
        assert_eq!(map_each(words.clone(), |word| word), words);
        assert_eq!(map(count, |_| ()).len(), count);
        let rooms = AtomicUsize::new(0);
        let room = || (rooms.fetch_add(1, Ordering::Relaxed), 0);
        let found = map_with(count, 16, room, |(room, calls), k| {
            *calls += 1;
            (k, *room, *calls)
        });
        assert!(found.iter().enumerate().all(|(at, &(k, ..))| at == k));
        // The calls of a room are those of consecutive numbers.
        assert!(
            found.windows(2).all(|of| (of[0].1 == of[1].1) == (of[1].2 == of[0].2 + 1) && (of[0].1 == of[1].1 || of[1].2 == 1))
        );
        assert!(rooms.into_inner() <= (count / 16).max(1));
    }
}

/// The error is that of the lowest number with one, and results before it are dropped. Without one, all results are there.
#[test]
fn lowest_error() {
    let alive = Arc::new(());
    for fails in [[0, 0], [7, 7], [990, 31], [999, 998], [3000, 3000]] {
        let found = try_map(1000, || (), |(), k| if fails.contains(&k) { Err(k) } else { Ok((k, alive.clone())) });
        match found {
            Ok(found) => assert!(fails[0] == 3000 && found.iter().map(|of| of.0).eq(0..1000)),
            Err(k) => assert_eq!(k, fails[0].min(fails[1])),
        }
        assert_eq!(Arc::strong_count(&alive), 1);
    }
    assert_eq!(try_map(0, || (), |(), k| Err::<(), _>(k)), Ok(vec![]));
}

/// A panic reaches the caller, from every loop, and from either side of a join or scope; there the other side runs to its end.
#[test]
fn panics_go_on() {
    fn message(body: impl FnOnce()) -> Option<&'static str> {
        catch_unwind(AssertUnwindSafe(body)).err().and_then(|panic| panic.downcast_ref().copied())
    }
    fn fail() {
        std::panic::resume_unwind(Box::new("seen"));
    }
    let fail_at = |k: usize| {
        if k == 77 {
            fail()
        }
    };
    let loops: [&dyn Fn(); 5] = [
        &|| each(0..100, fail_at),
        &|| _ = map(100, fail_at),
        &|| _ = map_each(0..100, fail_at),
        &|| {
            _ = try_map(
                100,
                || (),
                |(), k| {
                    fail_at(k);
                    Ok::<_, ()>(())
                },
            )
        },
        &|| through(on_worker, fail),
    ];
    assert!(loops.into_iter().all(|of| message(of) == Some("seen")));
    let ended = AtomicUsize::new(0);
    let end = || _ = ended.fetch_add(1, Ordering::Relaxed);
    assert_eq!(message(|| beside(2, &|k| if k == 0 { fail() } else { end() }, end)), Some("seen"));
    assert_eq!(message(|| beside(2, &|_| end(), fail)), Some("seen"));
    assert_eq!(message(|| _ = join(fail, end)), Some("seen"));
    assert_eq!(message(|| _ = join(end, fail)), Some("seen"));
    // The first of a join may fail before the second has begun.
    assert!((5..=6).contains(&ended.into_inner()));
}

/// The body of a scope runs on this thread, at the same time as its tasks, each of which runs once.
#[test]
fn tasks_beside_a_body() {
    let pool = Pool::new(3).expect("a pool");
    assert_eq!((pool.threads(), pool.install(threads)), (3, 3));
    assert!(worker().is_none() && pool.install(worker).is_some_and(|worker| worker < 3));
    let meet = Barrier::new(3);
    let seen = zeros(2);
    let together = || {
        let here = worker();
        let task = |k: usize| {
            meet.wait();
            seen[k].fetch_add(1, Ordering::Relaxed);
        };
        beside(2, &task, || {
            meet.wait();
            worker() == here
        })
    };
    assert!(pool.install(together) && are_all(&seen, 1));
    assert_eq!(beside(0, &|_| unreachable!("no task"), || 5), 5);
    assert!(through(on_worker, || worker().is_some()));
}

/// Jobs for later run on workers: one, or one on each. A worker that is told so runs one that waits, and other threads run none.
#[test]
fn jobs_for_later() {
    assert!(!run_waiting_job());
    let pool = Pool::new(2).expect("a pool");
    let (seen, done) = (Arc::new(zeros(2)), Arc::new(AtomicBool::new(false)));
    pool.install(|| {
        let (of_each, of_one) = (seen.clone(), done.clone());
        spawn_on_each(Box::new(move |index| _ = of_each[index].fetch_add(1, Ordering::Relaxed)));
        spawn(Box::new(move || of_one.store(true, Ordering::Relaxed)));
        while !(are_all(&seen, 1) && done.load(Ordering::Relaxed)) {
            run_waiting_job();
        }
    });
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
