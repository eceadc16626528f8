// The largest entry of a matrix, for stage 0 of a matrix that is on the device, and its norm.
//
//   found_t = max of |Re a_e| and |Im a_e| over e = t, t + T, t + 2 T, ... < len, T = number of threads;  -1 if one is NaN or infinite
//
//   found_(T + t) = sum of |a_e|^2 over the same
//
//   a         len entries in lines of `inner`, with leading dimension `ld`, in
//   found     2 T real numbers, out
//
// Thread t reads `each` entries.

import package::tuning::{LINEAR_THREADS, SMALLEST_NORMAL};
import package::scalar::{Real, Scalar};

struct Params {
    inner: u32,
    ld: u32,
    len: u32,
    each: u32,
}

@group(0) @binding(0) var<storage, read_write> a: array<Scalar>;
@group(0) @binding(1) var<storage, read_write> found: array<Real>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(2) var<uniform> params: Params;

/// Whether x is neither NaN nor infinite. The bits are tested, because compilers may assume that there is no NaN. (A finite f64 times the
/// smallest normal number is a finite f32.)
fn is_finite(x: Real) -> bool {
    @if(f64) let near = f32(x * SMALLEST_NORMAL);
    @else let near = x;
    return (bitcast<u32>(near) & 0x7f800000u) != 0x7f800000u;
}

/// max(most, |x|), or -1 if x is not finite or most is -1.
fn larger(most: Real, x: Real) -> Real {
    if most < Real(0.0) || !is_finite(x) {
        return Real(-1.0);
    }
    // In f32 the bits are compared, whose order is that of the numbers: GPUs may take subnormal ones for zero.
    @if(f64) return max(most, abs(x));
    @else return bitcast<f32>(max(bitcast<u32>(most), bitcast<u32>(x) & 0x7fffffffu));
}

@compute @workgroup_size(LINEAR_THREADS)
fn largest(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let t = workgroup.x * LINEAR_THREADS + thread;
    var most = Real(0.0);
    var squares = Real(0.0);
    for (var k = 0u; k < params.each; k++) {
        let e = t + k * workgroups.x * LINEAR_THREADS;
        if e < params.len {
            let x = a[e / params.inner * params.ld + e % params.inner];
            @if(complex) {
                most = larger(larger(most, x.x), x.y);
                squares = fma(x.x, x.x, fma(x.y, x.y, squares));
            }
            @else {
                most = larger(most, x);
                squares = fma(x, x, squares);
            }
        }
    }
    found[t] = most;
    found[workgroups.x * LINEAR_THREADS + t] = squares;
}
