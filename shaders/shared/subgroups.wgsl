// Sums over neighbouring threads that share a subgroup, without workgroup memory or barriers.
//
// WGSL does not specify which threads form a subgroup, or their order. `neighbours_share_subgroups` checks the assumptions at run time.

import package::scalar::{Real};
import package::pair::{Pair, ScalarPair, add_pair};

/// Number of threads whose check failed.
var<workgroup> strays: atomic<u32>;
var<workgroup> in_order: u32;

/// Whether every aligned group of `count` consecutive threads is in one subgroup, with subgroup invocation ids such that an exclusive or
/// with a mask reaches the thread whose number differs by that mask. The result is uniform. All threads of the workgroup must call it.
fn neighbours_share_subgroups(thread: u32, count: u32, subgroup_size: u32) -> bool {
    var reached = (count & (count - 1u)) == 0u && count <= subgroup_size;
    for (var mask = 1u; mask < count; mask *= 2u) {
        let neighbour = subgroupShuffleXor(thread, mask);
        reached = reached && neighbour == (thread ^ mask);
    }
    if thread == 0u { atomicStore(&strays, 0u); }
    // Zero before any thread adds to it.
    workgroupBarrier();
    if !reached { atomicAdd(&strays, 1u); }
    // Complete before it is read.
    workgroupBarrier();
    if thread == 0u { in_order = u32(atomicLoad(&strays) == 0u); }
    return workgroupUniformLoad(&in_order) == 1u;
}

/// The sum of x and the x of the thread whose number differs by `mask`. The lower thread's x comes first, so that both get the same bits.
fn add_neighbour(x: Pair, mask: u32, thread: u32) -> Pair {
    var other = Pair(subgroupShuffleXor(x.hi, mask), Real(0.0));
    @if(!f64) other.lo = subgroupShuffleXor(x.lo, mask);
    // `select` in place of a branch keeps control flow uniform for the next shuffle.
    let lower = (thread & mask) == 0u;
    let first = Pair(select(other.hi, x.hi, lower), select(other.lo, x.lo, lower));
    let second = Pair(select(x.hi, other.hi, lower), select(x.lo, other.lo, lower));
    return add_pair(first, second);
}

/// The sum of the x of `count` neighbours, with the same bits in each of them.
fn sum_of_neighbours(x: Pair, count: u32, thread: u32) -> Pair {
    var sum = x;
    for (var mask = 1u; mask < count; mask *= 2u) { sum = add_neighbour(sum, mask, thread); }
    return sum;
}

/// `sum_of_neighbours` for Scalars.
fn scalar_sum_of_neighbours(x: ScalarPair, count: u32, thread: u32) -> ScalarPair {
    @if(complex) return ScalarPair(sum_of_neighbours(x.re, count, thread), sum_of_neighbours(x.im, count, thread));
    @else return sum_of_neighbours(x, count, thread);
}
