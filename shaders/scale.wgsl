// Scales a matrix on the device into another one of the same memory order: stage 0 of a matrix that is on the device, and the upper
// trapezoid of a matrix.
//
//   out[j ld + k] = factors[0] a[j from_ld + k] for k < inner, else 0,  0 <= k < ld, 0 <= j ld < len
//
// With UPTO also 0 where k > j, with FROM where k < j.
//
//   a         lines of `inner` entries, with leading dimension from_ld, in
//   out       lines of ld >= inner entries as stored, out
//   factors   one power of two; for complex a its imaginary part is zero
//
// Thread = element of `out`.

import package::tuning::{LINEAR_THREADS};
import package::scalar::{Real, Scalar, Stored, store};

struct Params {
    inner: u32,
    from_ld: u32,
    ld: u32,
    len: u32,
    flags: u32,
}

/// Flags: of line j only the entries up to the j-th are copied; only those from the j-th on.
const UPTO = 1u;
const FROM = 2u;

@group(0) @binding(0) var<storage, read_write> a: array<Scalar>;
@group(0) @binding(1) var<storage, read_write> out: array<Stored>;
@group(0) @binding(2) var<storage, read_write> factors: array<Scalar>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(3) var<uniform> params: Params;

/// x times a power of two, rounded to nearest; zeros, infinities and NaN stay. In f32 it is computed from the bits: many GPUs take subnormal numbers for zero, as operands and
/// as results, and compilers may multiply constants first.
fn times_power(x: Real, power: Real) -> Real {
    @if(f64) return power * x;
    @else {
        let sign = bitcast<u32>(x) & 0x80000000u;
        let size = bitcast<u32>(x) & 0x7fffffffu;
        if size == 0u || size >= 0x7f800000u { return x; }
        // |x| = digits 2^(exponent - 150), of 24 digits
        var digits = (size & 0x007fffffu) | 0x00800000u;
        var exponent = i32(size >> 23u);
        if exponent == 0 {
            // A subnormal number is an integer times 2^-149, here a normal number.
            let integer = bitcast<u32>(f32(size));
            digits = (integer & 0x007fffffu) | 0x00800000u;
            exponent = i32(integer >> 23u) - 149;
        }
        exponent += i32(bitcast<u32>(power) >> 23u) - 127;
        if exponent > 254 { return bitcast<f32>(sign | 0x7f800000u); }
        if exponent > 0 { return bitcast<f32>(sign | (u32(exponent) << 23u) | (digits & 0x007fffffu)); }
        // Such an integer again: ties go to the even one. 2^23 is the first normal number's.
        let down = u32(min(1 - exponent, 31));
        let rest = digits & ((1u << down) - 1u);
        let half = 1u << (down - 1u);
        var integer = digits >> down;
        if rest > half || (rest == half && (integer & 1u) == 1u) { integer += 1u; }
        return bitcast<f32>(sign | integer);
    }
}

@compute @workgroup_size(LINEAR_THREADS)
fn scale(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let e = (workgroup.x + workgroup.y * workgroups.x) * LINEAR_THREADS + thread;
    if e >= params.len {
        return;
    }
    let k = e % params.ld;
    let j = e / params.ld;
    let outside = ((params.flags & UPTO) != 0u && k > j) || ((params.flags & FROM) != 0u && k < j);
    var entry = Stored();
    if k < params.inner && !outside {
        let x = a[j * params.from_ld + k];
        @if(complex) entry = store(Scalar(times_power(x.x, factors[0].x), times_power(x.y, factors[0].x)));
        @else entry = store(times_power(x, factors[0]));
    }
    out[e] = entry;
}
