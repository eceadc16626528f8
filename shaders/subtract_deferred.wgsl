// Stage 1 with deferred updates: a product of two windows of the matrix, subtracted from a third: shared/window.wgsl. See src/algo/deferred.rs.

import package::tuning::{CPB, GEMM_THREADS};
import package::product::{RPB};
import package::window::{Window, window, subtract_in_chunk};

@if(immediates) var<immediate> params: Window;
@else @group(0) @binding(0) var<uniform> params: Window;

@compute @workgroup_size(GEMM_THREADS)
fn subtract_deferred(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    window = params;
    let row = (workgroup.y + workgroup.z * workgroups.y) * RPB;
    if row < params.rows { subtract_in_chunk(thread, row, workgroup.x * CPB, params.inner); }
}
