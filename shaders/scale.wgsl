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

/// x times a power of two, rounded to nearest. Many GPUs take subnormal numbers of f32 for zero, as operands and as results. Here they have
/// their values: integers times 2^-149.
fn times_power(x: Real, power: Real) -> Real {
    @if(f64) return power * x;
    @else {
        let size = bitcast<u32>(x) & 0x7fffffffu;
        let subnormal = size < 0x00800000u;
        var to = power * abs(x);
        if subnormal { to = (f32(size) * 0x1p-75f) * (power * 0x1p-74f); }
        if size > 0u && bitcast<u32>(to) < 0x00800000u {
            // Of a subnormal result the bits are the integer, and 2^23 those of the first normal number.
            let part = select(abs(x) * 0x1p75f, f32(size) * 0x1p-74f, subnormal);
            to = bitcast<f32>(u32(round(part * (power * 0x1p74f))));
        }
        return bitcast<f32>(bitcast<u32>(to) | (bitcast<u32>(x) & 0x80000000u));
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
