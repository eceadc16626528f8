// Products of a matrix with vectors in fixed point: A x and A^T y in double precision for devices without f64. Twin: src/cpu/least_squares/multiply_fixed.rs.
// The numbers: src/tile/fixed.rs.
//
//   a_lk = sum_i d_i 2^(-14 (i + 1)),  i = 0 .. 3,  |d_i| <= 2^13;  x_kv likewise, with digits e_j
//   sum_lv = sum_k sum_{i + j <= 3} d_i e_j 2^(-14 (i + j + 2))    an integer times 2^-70; integer arithmetic makes it exact, in any order
//
//   a      words (d_0, d_1), (d_2, d_3) of 16 bits a digit, of entry (l, k) at l line_stride + k term_stride; in
//   x      likewise, of entry (k, v) at x + k + v x_ld; in
//   sums   top 2^56 + middle 2^28 + low = 2^70 times the part p of sum_lv: three words, lines apart, from out + 3 (v parts + p) lines + l on; out
//
// Workgroup = (LINES adjacent lines, part of the terms, VECTORS vectors), LANES threads a line: neighbouring threads read adjacent entries, whichever stride is
// 1. A thread has every LANES-th term of its part, of at most 2^17 terms: top then is below 2^31.

import package::tuning::{LINES, LANES, FIXED_THREADS, VECTORS, TERMS};

struct Params {
    lines: u32,
    terms: u32,
    line_stride: u32,
    term_stride: u32,
    parts: u32,
    vectors: u32,
    x: u32,
    x_ld: u32,
    out: u32,
}

/// top 2^56 + the digits of a sum, from 0 to 2^14 - 1 each.
struct Sum {
    top: i32,
    digits: vec4<i32>,
}

const DIGIT = 14u;
const MASK = 0x3fff;

@group(0) @binding(0) var<storage> a: array<vec2<u32>>;
@group(0) @binding(1) var<storage> x: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> sums: array<u32>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(3) var<uniform> params: Params;

var<workgroup> tops: array<i32, FIXED_THREADS>;
var<workgroup> shares: array<vec4<i32>, FIXED_THREADS>;

/// The four digits of a number.
fn digits(words: vec2<u32>) -> vec4<i32> {
    return vec4<i32>(
        bitcast<i32>(words.x) >> 16u,
        bitcast<i32>(words.x << 16u) >> 16u,
        bitcast<i32>(words.y) >> 16u,
        bitcast<i32>(words.y << 16u) >> 16u,
    );
}

/// The digits of a product before carries: at most 2^26, 2 2^26, 3 2^26 and 4 2^26.
fn product(d: vec4<i32>, e: vec4<i32>) -> vec4<i32> {
    return vec4<i32>(
        d.x * e.x,
        d.x * e.y + d.y * e.x,
        d.x * e.z + d.y * e.y + d.z * e.x,
        d.x * e.w + d.y * e.z + d.z * e.y + d.w * e.x,
    );
}

/// The sum with more, and all carries.
fn carried(sum: Sum, more: vec4<i32>) -> Sum {
    let all = sum.digits + more;
    let z = all.z + (all.w >> DIGIT);
    let y = all.y + (z >> DIGIT);
    let x = all.x + (y >> DIGIT);
    return Sum(sum.top + (x >> DIGIT), vec4<i32>(x & MASK, y & MASK, z & MASK, all.w & MASK));
}

@compute @workgroup_size(FIXED_THREADS)
fn multiply_fixed(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let along = params.term_stride == 1u;
    let line_of = select(thread % LINES, thread / LANES, along);
    let lane = select(thread / LINES, thread % LANES, along);
    let line = workgroup.x * LINES + line_of;
    let each = (params.terms + params.parts - 1u) / params.parts;
    let begin = workgroup.y * each;
    let end = min(begin + each, params.terms);
    let vector = workgroup.z * VECTORS;

    var sum = array<Sum, VECTORS>();
    if line < params.lines {
        var k = begin + lane;
        while k < end {
            // The sums of TERMS products are below 2^31.
            var some = array<vec4<i32>, VECTORS>();
            for (var t = 0u; t < TERMS && k < end; t++) {
                let d = digits(a[line * params.line_stride + k * params.term_stride]);
                @repeat(V, VECTORS) {
                    let v = min(vector + V, params.vectors - 1u);
                    some[V] += product(d, digits(x[params.x + k + v * params.x_ld]));
                }
                k += LANES;
            }
            @repeat(V, VECTORS) sum[V] = carried(sum[V], some[V]);
        }
    }
    @repeat(V, VECTORS) {
        // The shares of the vector before have been read. (The first vector has none before it.)
        workgroupBarrier();
        tops[line_of * LANES + lane] = sum[V].top;
        shares[line_of * LANES + lane] = sum[V].digits;
        // All lanes' shares are there before they are added.
        workgroupBarrier();
        if lane == 0u && line < params.lines && vector + V < params.vectors {
            var total = Sum();
            for (var l = 0u; l < LANES; l++) {
                total = carried(Sum(total.top + tops[line_of * LANES + l], total.digits), shares[line_of * LANES + l]);
            }
            let at = params.out + 3u * ((vector + V) * params.parts + workgroup.y) * params.lines + line;
            sums[at] = bitcast<u32>(total.top);
            sums[at + params.lines] = bitcast<u32>((total.digits.x << DIGIT) | total.digits.y);
            sums[at + 2u * params.lines] = bitcast<u32>((total.digits.z << DIGIT) | total.digits.w);
        }
    }
}
