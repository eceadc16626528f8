// A product of sliced operands (slice_lines) by cooperative matrices: f16 factors, f32 sums.
//
//   C <- P, C <- -P or C <- C - P,   P = diag(s) (sum of products of slices) diag(t)
//   HALF    M0 X0
//   SPLIT   for each block of EXACT_TERMS terms  M0 X0 + (M0 X1 + M1 X0) / 2^9 + (M0 X2 + M1 X1 + M2 X0) / 2^18, whose three sums are exact
//
//   m, x     slices of M's rows and of X's columns: (slice * padded + line) * columns + k
//   s, t     their powers of two
//   c        rows x cols at index c, strides (c_rs, c_cs); in and out
//
// Workgroup = one subgroup, and a square of C of order SIDE = SQUARES * ORDER. Its sums are SQUARES x SQUARES cooperative matrices of order ORDER; the
// operands are padded to multiples of SIDE lines.

enable f16;
enable wgpu_cooperative_matrix;

import package::tuning::{COOP_THREADS, ORDER, SQUARES, SUMS, THREE_SQUARES, SIDE, EXACT_TERMS};

struct Params {
    rows: u32,
    cols: u32,
    columns: u32,
    m_padded: u32,
    x_padded: u32,
    c: u32,
    c_rs: u32,
    c_cs: u32,
    flags: u32,
}

/// What becomes of C: replaced by the product, by minus the product, or less the product.
const NEGATED = 1u;
const SUBTRACTED = 2u;

const PART = 0.001953125;

@if(sixteen) alias Left = coop_mat16x16<f16, A>;
@else alias Left = coop_mat8x8<f16, A>;
@if(sixteen) alias Right = coop_mat16x16<f16, B>;
@else alias Right = coop_mat8x8<f16, B>;
@if(sixteen) alias Sum = coop_mat16x16<f32, C>;
@else alias Sum = coop_mat8x8<f32, C>;

@group(0) @binding(0) var<storage, read> m: array<f16>;
@group(0) @binding(1) var<storage, read> x: array<f16>;
@group(0) @binding(2) var<storage, read> s: array<f32>;
@group(0) @binding(3) var<storage, read> t: array<f32>;
@group(0) @binding(4) var<storage, read_write> c: array<f32>;
@if(immediates) var<immediate> params: Params;
@else @group(0) @binding(5) var<uniform> params: Params;

/// The sums, column after column.
var<workgroup> out: array<f32, SIDE * SIDE>;

fn update(i: u32, j: u32, product: f32) {
    let at = params.c + i * params.c_rs + j * params.c_cs;
    if (params.flags & SUBTRACTED) != 0u {
        c[at] = c[at] - product;
    } else {
        c[at] = select(product, -product, (params.flags & NEGATED) != 0u);
    }
}

@compute @workgroup_size(COOP_THREADS)
fn coop_gemm(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = (workgroup.y + workgroup.z * workgroups.y) * SIDE;
    let col = workgroup.x * SIDE;
    if row >= params.rows {
        return;
    }
    var sums: array<Sum, SUMS>;
    @if(!split)
    for (var k = 0u; k < params.columns; k += ORDER) {
        var left: array<Left, SQUARES>;
        var right: array<Right, SQUARES>;
        @repeat(I, SQUARES) left[I] = coopLoadT<Left>(&m[(row + I * ORDER) * params.columns + k], params.columns);
        @repeat(I, SQUARES) right[I] = coopLoad<Right>(&x[(col + I * ORDER) * params.columns + k], params.columns);
        @repeat(E, SUMS) sums[E] = coopMultiplyAdd(left[E / SQUARES], right[E % SQUARES], sums[E]);
    }
    @if(split)
    for (var block = 0u; block < params.columns; block += EXACT_TERMS) {
        var one: array<Sum, SUMS>;
        var two: array<Sum, SUMS>;
        var three: array<Sum, SUMS>;
        for (var k = block; k < block + EXACT_TERMS; k += ORDER) {
            var left: array<Left, THREE_SQUARES>;
            var right: array<Right, THREE_SQUARES>;
            @repeat(I, THREE_SQUARES)
            left[I] = coopLoadT<Left>(
                &m[((I / SQUARES) * params.m_padded + row + (I % SQUARES) * ORDER) * params.columns + k], params.columns);
            @repeat(I, THREE_SQUARES)
            right[I] = coopLoad<Right>(
                &x[((I / SQUARES) * params.x_padded + col + (I % SQUARES) * ORDER) * params.columns + k], params.columns);
            @repeat(E, SUMS) {
                one[E] = coopMultiplyAdd(left[E / SQUARES], right[E % SQUARES], one[E]);
                two[E] = coopMultiplyAdd(left[E / SQUARES], right[SQUARES + E % SQUARES], two[E]);
                two[E] = coopMultiplyAdd(left[SQUARES + E / SQUARES], right[E % SQUARES], two[E]);
                three[E] = coopMultiplyAdd(left[E / SQUARES], right[2u * SQUARES + E % SQUARES], three[E]);
                three[E] = coopMultiplyAdd(left[SQUARES + E / SQUARES], right[SQUARES + E % SQUARES], three[E]);
                three[E] = coopMultiplyAdd(left[2u * SQUARES + E / SQUARES], right[E % SQUARES], three[E]);
            }
        }
        @repeat(E, SUMS) sums[E] = sums[E] + (one[E] + PART * (two[E] + PART * three[E]));
    }
    @repeat(E, SUMS) coopStore(sums[E], &out[(E % SQUARES) * ORDER * SIDE + (E / SQUARES) * ORDER], SIDE);
    // All sums are stored before threads read those of others.
    workgroupBarrier();
    let by_rows = params.c_cs == 1u;
    for (var e = thread; e < SIDE * SIDE; e += COOP_THREADS) {
        let i = select(e % SIDE, e / SIDE, by_rows);
        let j = select(e / SIDE, e % SIDE, by_rows);
        if row + i < params.rows && col + j < params.cols {
            update(row + i, col + j, out[j * SIDE + i] * (s[row + i] * t[col + j]));
        }
    }
}
