// Sums over neighbouring threads that share a subgroup, without workgroup memory and without a barrier.
//
// WGSL leaves open which threads a subgroup has and in which order. What is relied on here is looked at first, on the device.

import package::scalar::{Real};
import package::pair::{Pair, ScalarPair, add_pair};

/// How many threads found themselves out of order.
var<workgroup> strays: atomic<u32>;
var<workgroup> in_order: u32;

/// Whether every `count` threads that follow one another, from a multiple of `count` on, share a subgroup, and reach one another by their
/// numbers. The same in all threads of the workgroup; all of them ask.
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

/// The sum of x and of the same of the thread whose number differs by `mask`: the lower thread's first, so that both have the same bits.
fn add_neighbour(x: Pair, mask: u32, thread: u32) -> Pair {
    var other = Pair(subgroupShuffleXor(x.hi, mask), Real(0.0));
    @if(!f64) other.lo = subgroupShuffleXor(x.lo, mask);
    // No branch: the threads go on side by side to the next exchange.
    let lower = (thread & mask) == 0u;
    let first = Pair(select(other.hi, x.hi, lower), select(other.lo, x.lo, lower));
    let second = Pair(select(x.hi, other.hi, lower), select(x.lo, other.lo, lower));
    return add_pair(first, second);
}

/// The sum of the x of `count` neighbours, the same in each of them.
fn sum_of_neighbours(x: Pair, count: u32, thread: u32) -> Pair {
    var sum = x;
    for (var mask = 1u; mask < count; mask *= 2u) { sum = add_neighbour(sum, mask, thread); }
    return sum;
}

/// The same of Scalars.
fn scalar_sum_of_neighbours(x: ScalarPair, count: u32, thread: u32) -> ScalarPair {
    @if(complex) return ScalarPair(sum_of_neighbours(x.re, count, thread), sum_of_neighbours(x.im, count, thread));
    @else return sum_of_neighbours(x, count, thread);
}
