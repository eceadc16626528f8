// Divides columns by their lengths.
//
//   x_j <- x_j / ||x_j||;  with NOISE: plus a vector of random direction of length about DELTA, so that no column is zero
//
//   x   rows x cols at index x, strides (rs, cs), one of them 1; in and out
//
// Workgroup = COLUMNS adjacent columns of matrix z, at index x + z matrix, with LANES threads each, or the other way round: neighbouring threads read adjacent memory. Lane l has rows l,
// l + lanes, .. Squares are summed with their rounding errors. A column whose squares all underflow counts as zero.

import package::tuning::{LINEAR_THREADS};
import package::pair::{Pair, add_modulus_squared, add_pair, root, zero};
import package::scalar::{Real, Scalar, ONE};

struct Params {
    x: u32,
    rows: u32,
    cols: u32,
    rs: u32,
    cs: u32,
    matrix: u32,
    flags: u32,
}

/// Flag: add noise.
const NOISE = 1u;
/// 2^8 eps in f32 and 2^18 eps in f64: the columns that get noise have values of at most 1e-3 and 1e-6 of the largest, of which it is less
/// than eps / 2.
@if(f64) const DELTA = Real(5.8e-11);
@else const DELTA = Real(3.05e-5);

const COLUMNS = 8u;
const LANES = LINEAR_THREADS / COLUMNS;

@group(0) @binding(0) var<storage, read_write> x: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(1) var<uniform> params: Params;

var<workgroup> sums: array<Pair, LINEAR_THREADS>;

/// A number in [-1, 1) that depends on its position alone (Wang's hash).
fn noise(i: u32, j: u32) -> Real {
    var h = (i * 0x9E3779B1u) ^ (j * 0x85EBCA77u + 0xC2B2AE3Du);
    h = (h ^ 61u) ^ (h >> 16u);
    h = h * 9u;
    h = h ^ (h >> 4u);
    h = h * 0x27D4EB2Du;
    h = h ^ (h >> 15u);
    return Real(h >> 8u) / Real(8388608.0) - Real(1.0);
}

@compute @workgroup_size(LINEAR_THREADS)
fn unit_columns(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    zero = params.flags >> 31u;
    let by_rows = params.cs == 1u;
    let column = select(thread / LANES, thread % COLUMNS, by_rows);
    let lane = select(thread % LANES, thread / COLUMNS, by_rows);
    let j = (workgroup.x + workgroup.y * workgroups.x) * COLUMNS + column;
    let start = params.x + workgroup.z * params.matrix + j * params.cs;
    var sum = Pair();
    if j < params.cols {
        for (var i = lane; i < params.rows; i += LANES) {
            sum = add_modulus_squared(sum, x[start + i * params.rs]);
        }
    }
    sums[column * LANES + lane] = sum;
    // All sums are there before they are added, by every thread in the same order.
    workgroupBarrier();
    var total = Pair();
    for (var l = 0u; l < LANES; l++) {
        total = add_pair(total, sums[column * LANES + l]);
    }
    var length = Real(0.0);
    if total.hi > Real(0.0) {
        length = root(total);
    }
    let has_noise = (params.flags & NOISE) != 0u;
    let delta = select(Real(0.0), DELTA * sqrt(Real(3.0) / Real(params.rows)), has_noise);
    if j < params.cols {
        for (var i = lane; i < params.rows; i += LANES) {
            let at = start + i * params.rs;
            var entry = Scalar();
            if length > Real(0.0) {
                entry = x[at] / length;
            }
            if has_noise {
                entry += (delta * noise(i, j)) * ONE;
            }
            x[at] = entry;
        }
    }
}
