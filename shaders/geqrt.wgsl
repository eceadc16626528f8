// QR factorisation of the blocks of a panel, in compact WY form. Twin: src/cpu/qr/geqrt.rs.
//
//   Block X (rows x width)  =  (I - V T V^H) R
//
// Workgroup = (block, matrix): shared/factor_block.wgsl, which also says what the bindings hold.

import package::tuning::{GEQRT_THREADS};
import package::scalar::{Scalar};
import package::level::{Level, first_entry};
import package::factor_block::{factor_block};

@group(0) @binding(0) var<storage, read_write> new_v: array<Scalar>;
@group(0) @binding(1) var<storage, read_write> new_t: array<Scalar>;
@if(immediates) var<immediate> level: Level;
@else @group(0) @binding(2) var<uniform> level: Level;

@compute @workgroup_size(GEQRT_THREADS)
fn geqrt(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let q = workgroup.x + workgroup.y * workgroups.x;
    if q >= level.blocks { return; }
    first_entry = level.first + workgroup.z * level.matrix;
    factor_block(level, thread, q, workgroup.z);
}
