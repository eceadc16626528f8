//! Matrices whose memory is touched first by all threads. The system gives a new page when it is touched, and takes longer for that than a thread takes to
//! fill it: with one thread, 1.1 to 1.3 GB/s. So large ones ask for huge pages, of which it has to give fewer.

use bytemuck::Pod;
use faer::Mat;

use crate::base::{
    clock::HostSpan,
    number::{Number, Scalar},
    parallel::pieces,
};

/// Bytes below which a matrix is filled by one thread.
const BY_ONE: usize = 1 << 20;

/// Bytes of a huge page, where there are such.
const HUGE: usize = 1 << 21;

/// Bytes from which huge pages are asked for, which NumPy does from here, too.
const HUGE_FROM: usize = 2 * HUGE;

/// Asks the system for huge pages where a new allocation is large. It is advice: errors change nothing. Linux gives them on request where
/// `/sys/kernel/mm/transparent_hugepage/enabled` is `madvise`, and unasked where it is `always`.
pub(crate) fn prefer_huge_pages<T>(start: *const T, len: usize) {
    let bytes = len.saturating_mul(size_of::<T>());
    if cfg!(target_os = "linux") && bytes >= HUGE_FROM {
        // Whole huge pages: the others may hold other allocations.
        let start = start.cast::<u8>();
        let before = start.addr().wrapping_neg() % HUGE;
        let whole = (bytes - before) / HUGE * HUGE;
        advise(start.wrapping_add(before), whole);
    }
}

#[cfg(target_os = "linux")]
fn advise(start: *const u8, bytes: usize) {
    // SAFETY: the pages are within an allocation of the caller, and the advice changes nothing that they hold.
    unsafe { libc::madvise(start.cast_mut().cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_: *const u8, _: usize) {}

/// The first columns of an identity matrix: m x n.
pub(crate) fn identity<T: Scalar>(m: usize, n: usize) -> Mat<T> {
    from_columns(m, n, &|j, column| {
        if let Some(x) = column.get_mut(j) {
            *x = T::one_impl();
        }
    })
}

/// The m x n matrix of zeros.
pub(crate) fn zeros<T: Number>(m: usize, n: usize) -> Mat<T> {
    from_columns(m, n, &|_, _| ())
}

/// The m x n matrix of which `fill` writes columns, by their indices; what it leaves is zero.
pub(crate) fn from_columns<T: Number>(m: usize, n: usize, fill: &(dyn Fn(usize, &mut [T]) + Sync)) -> Mat<T> {
    let bytes = m.saturating_mul(n).saturating_mul(size_of::<T>());
    if bytes < BY_ONE {
        let mut a = Mat::from_fn(m, n, |_, _| T::zeroed());
        (0..n).for_each(|j| fill(j, a.col_as_slice_mut(j)));
        return a;
    }
    let _span = HostSpan::of("memory of a result");
    let mut a = Mat::<T>::with_capacity(m, n);
    let ld = a.col_stride().unsigned_abs();
    prefer_huge_pages(a.as_ptr(), ld * n);
    let start = Start(a.as_ptr_mut());
    pieces(n, n.div_ceil(bytes / BY_ONE), &|columns| {
        for j in columns {
            let column = start.at(j * ld);
            // SAFETY: the column is within the capacity, which has `ld` >= m rows, and no two pieces have a column in common. All bits zero are a `T`.
            let column = unsafe {
                column.write_bytes(0, ld);
                std::slice::from_raw_parts_mut(column, m)
            };
            fill(j, column);
        }
    });
    // SAFETY: the dimensions are within the capacity, and every entry has been written.
    unsafe { a.set_dims(m, n) };
    a
}

/// Calls `f` with the index of each column and the column.
pub(crate) fn each_column<T: Number>(a: &mut Mat<T>, f: &(dyn Fn(usize, &mut [T]) + Sync)) {
    let ((m, n), ld) = (a.shape(), a.col_stride().unsigned_abs());
    let bytes = m.saturating_mul(n).saturating_mul(size_of::<T>());
    let start = Start(a.as_ptr_mut());
    pieces(n, n.div_ceil((bytes / BY_ONE).max(1)), &|columns| {
        for j in columns {
            // SAFETY: column j < n is there, with m rows; no two pieces have a column in common, and `a` is borrowed for as long as they take.
            f(j, unsafe { std::slice::from_raw_parts_mut(start.at(j * ld), m) });
        }
    });
}

/// Entries converted by `f`, column after column, without padding.
#[cfg_attr(not(feature = "ndarray"), allow(dead_code, reason = "arrays are made by it"))]
pub(crate) fn columns<T: Pod + Send + Sync>(a: &Mat<T>, f: impl Fn(T) -> T + Sync) -> Vec<T> {
    let (m, n) = a.shape();
    let len = m * n;
    let mut entries = Vec::<T>::with_capacity(len);
    prefer_huge_pages(entries.as_ptr(), len);
    let start = Start(entries.as_mut_ptr());
    pieces(n, n.div_ceil((len * size_of::<T>() / BY_ONE).max(1)), &|columns| {
        for j in columns {
            for (i, &x) in a.col_as_slice(j).iter().enumerate() {
                // SAFETY: i < m and j < n, so the entry is within the capacity; no two pieces have a column in common.
                unsafe { start.at(j * m + i).write(f(x)) };
            }
        }
    });
    // SAFETY: every entry has been written.
    unsafe { entries.set_len(len) };
    entries
}

/// A pointer to the first entry of an allocation that threads write parts of.
struct Start<T>(*mut T);

// SAFETY: threads write distinct entries through it, which are `Send`.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    fn at(&self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;

    /// Every entry is zero, and every column is written once, on both sides of the bound and where columns are padded.
    #[test]
    fn all_entries_are_there() {
        for (m, n) in [(0, 0), (0, 5), (5, 0), (3, 7), (517, 513), (1, 300_000), (300_000, 1), (1001, 777)] {
            let a = zeros::<f32>(m, n);
            assert_eq!(a.shape(), (m, n));
            assert!((0..n).all(|j| a.col_as_slice(j).iter().all(|&x| x == 0.0)), "{m} x {n}");
            let a = from_columns::<f32>(m, n, &|j, column| column.iter_mut().skip(1).for_each(|x| *x = j as f32));
            let expected = |i: usize, j: usize| if i == 0 { 0.0 } else { j as f32 };
            assert!((0..n).all(|j| (0..m).all(|i| a[(i, j)] == expected(i, j))), "{m} x {n}");
            let mut a = a;
            each_column(&mut a, &|j, column| column.iter_mut().for_each(|x| *x += j as f32));
            assert!((0..n).all(|j| (0..m).all(|i| a[(i, j)] == expected(i, j) + j as f32)), "{m} x {n}");
            let entry = |i: usize, j: usize| Complex::new(i as f32, j as f32);
            let b = Mat::from_fn(m, n, entry);
            let found = columns(&b, |x| x.conj());
            assert_eq!(found.len(), m * n);
            assert!((0..n).all(|j| (0..m).all(|i| found[j * m + i] == entry(i, j).conj())), "{m} x {n}");
        }
        assert!(zeros::<Complex<f64>>(700, 300) == Mat::from_fn(700, 300, |_, _| Complex::ZERO));
        assert_eq!(identity::<f32>(3, 5), Mat::<f32>::identity(3, 5));
        assert_eq!(identity::<f64>(1000, 700), Mat::<f64>::identity(1000, 700));
    }

    /// The mapping with the middle of a large matrix is marked as one that may have huge pages (proc(5), `VmFlags`), where the system marks one when it is
    /// told to.
    #[cfg(target_os = "linux")]
    #[test]
    fn large_matrices_may_have_huge_pages() {
        let is_marked = |at: usize| {
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
            let mut is_here = false;
            for line in maps.lines() {
                let number = |digits: &str| usize::from_str_radix(digits, 16).ok();
                if let Some((Some(start), Some(end))) =
                    line.split(' ').next().and_then(|ends| ends.split_once('-')).map(|(start, end)| (number(start), number(end)))
                {
                    is_here = (start..end).contains(&at);
                }
                if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_here) {
                    return flags.split_whitespace().any(|flag| flag == "hg");
                }
            }
            false
        };
        let a = zeros::<f64>(3000, 3000);
        let mut probe = vec![0u8; 4 * HUGE];
        let aligned = probe.as_ptr().align_offset(HUGE);
        let start = &mut probe[aligned..aligned + HUGE];
        // SAFETY: the page is within the allocation, and the advice changes nothing that it holds.
        let is_advised = unsafe { libc::madvise(start.as_mut_ptr().cast(), HUGE, libc::MADV_HUGEPAGE) } == 0;
        let expected = is_advised && is_marked(start.as_ptr().addr());
        assert_eq!(is_marked(a.col_as_slice(1500).as_ptr().addr()), expected);
    }
}
