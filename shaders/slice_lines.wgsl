// An operand of a product by low precision: its lines (rows of M, columns of X) divided by powers of two, and rounded to f16 or cut into slices.
//
//   s_l = 2^e, max |line l| / s_l in [1/2, 1);   0 < e + 127 < 254, e = 0 for a line of zeros
//   HALF    slice 0 = a_lk / s_l, rounded to nearest
//   SPLIT   a_lk / s_l = slice 0 + slice 1 / 2^9 + slice 2 / 2^18 + rest: multiples of 2^-9
//
//   a        lines x terms at index a, strides (line_stride, term_stride); in
//   slices   (slice * padded + l) * columns + k: zeros for k >= terms and for l >= lines; out
//   scales   s_l, `padded` numbers; out
//
// Workgroup = LINES adjacent lines, with LANES threads each, or the other way round: neighbouring threads read adjacent memory. Lane t has the terms
// t, t + LANES, ..

enable f16;

import package::tuning::{LINEAR_THREADS};

struct Params {
    lines: u32,
    terms: u32,
    a: u32,
    line_stride: u32,
    term_stride: u32,
    columns: u32,
    padded: u32,
    flags: u32,
}

/// Flag: three slices in place of one rounded number.
const SPLIT = 1u;

const LINES = 8u;
const LANES = LINEAR_THREADS / LINES;
/// The unit of a slice, and its inverse.
const UNIT = 512.0;
const PART = 0.001953125;

@group(0) @binding(0) var<storage, read_write> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> slices: array<f16>;
@group(0) @binding(2) var<storage, read_write> scales: array<f32>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(3) var<uniform> params: Params;

var<workgroup> largest: array<f32, LINEAR_THREADS>;

fn power_of_two(e: i32) -> f32 {
    return bitcast<f32>(u32(e + 127) << 23u);
}

/// A number of modulus at most 1, rounded to f16 to nearest, ties to even: by its bits, because a conversion may round otherwise.
fn rounded(x: f32) -> f32 {
    if abs(x) < 6.103515625e-5 {
        return round(x * 16777216.0) * 5.9604644775390625e-8;
    }
    let bits = bitcast<u32>(x);
    return bitcast<f32>((bits + 0xfffu + ((bits >> 13u) & 1u)) & 0xffffe000u);
}

fn entry(line: u32, k: u32) -> f32 {
    if line < params.lines && k < params.terms {
        return a[params.a + line * params.line_stride + k * params.term_stride];
    }
    return 0.0;
}

@compute @workgroup_size(LINEAR_THREADS)
fn slice_lines(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let along = params.term_stride == 1u;
    let line_of = select(thread % LINES, thread / LANES, along);
    let lane = select(thread / LINES, thread % LANES, along);
    let line = (workgroup.x + workgroup.y * workgroups.x) * LINES + line_of;
    var most = 0.0;
    for (var k = lane; k < params.terms; k += LANES) {
        most = max(most, abs(entry(line, k)));
    }
    largest[line_of * LANES + lane] = most;
    // All lanes' maxima are there before they are compared.
    workgroupBarrier();
    most = 0.0;
    for (var l = 0u; l < LANES; l++) {
        most = max(most, largest[line_of * LANES + l]);
    }
    if line >= params.padded {
        return;
    }
    var e = 0;
    if most > 0.0 {
        e = clamp(i32((bitcast<u32>(most) >> 23u) & 255u) - 126, -126, 126);
    }
    if lane == 0u {
        scales[line] = power_of_two(e);
    }
    let inverse = power_of_two(-e);
    for (var k = lane; k < params.columns; k += LANES) {
        var rest = entry(line, k) * inverse;
        let at = line * params.columns + k;
        if (params.flags & SPLIT) == 0u {
            slices[at] = f16(rounded(rest));
        } else {
            for (var s = 0u; s < 3u; s++) {
                let slice = round(rest * UNIT) * PART;
                slices[s * params.padded * params.columns + at] = f16(slice);
                rest = (rest - slice) * UNIT;
            }
        }
    }
}
