// The triangular factor of a block of reflectors that the one-stage reduction has kept (LAPACK's larft).
//
//   H_0 H_1 ..  =  I - V T V^H      V rows x width, unit lower trapezoidal
//
//   package::dense   the matrix as stored, with V below its diagonal, as `level` says
//   sums             tau of each reflector, as shared/panels.wgsl has them: those of the rows `level.col`, ..
//   kept_t           T, TS x TS row-major, out
//
// One workgroup. LARFT_ROWS rows of V at a time are staged in workgroup memory. Thread = LARFT_EACH entries of V^H V.

import package::tuning::{TS, LARFT_EACH, LARFT_ROWS, LARFT_THREADS};
import package::compact_wy::{gram, make_row_of_t, entry_of_t};
import package::dense::{read_entry};
import package::level::{Level, matrix_row, place_of};
import package::scalar::{Real, Scalar, ONE, conjugate, load, multiply_add};

@group(0) @binding(0) var<storage, read_write> sums: array<Real>;
@group(0) @binding(1) var<storage, read_write> kept_t: array<Scalar>;
@if(immediates) var<immediate> level: Level;
@else @group(0) @binding(2) var<uniform> level: Level;

var<workgroup> rows_of_v: array<Scalar, LARFT_ROWS * TS>;

/// V at row g and column c.
fn entry_of_v(g: u32, c: u32, reflectors: u32) -> Scalar {
    if c >= reflectors || g >= level.rows || g < c { return Scalar(); }
    if g == c { return ONE; }
    return load(read_entry(place_of(level, matrix_row(level, g), level.col + c)));
}

@compute @workgroup_size(LARFT_THREADS)
fn larft(@builtin(local_invocation_index) thread: u32) {
    let reflectors = min(level.rows, level.width);
    var products = array<Scalar, LARFT_EACH>();
    for (var first = 0u; first < level.rows; first += LARFT_ROWS) {
        for (var e = thread; e < LARFT_ROWS * TS; e += LARFT_THREADS) {
            rows_of_v[e] = entry_of_v(first + e / TS, e % TS, reflectors);
        }
        // The rows are complete before they are multiplied.
        workgroupBarrier();
        for (var e = 0u; e < LARFT_EACH; e++) {
            let at = min(thread + e * LARFT_THREADS, TS * TS - 1u);
            for (var r = 0u; r < LARFT_ROWS; r++) {
                products[e] = multiply_add(conjugate(rows_of_v[r * TS + at / TS]), rows_of_v[r * TS + at % TS], products[e]);
            }
        }
        // All threads have read the rows before they are overwritten.
        workgroupBarrier();
    }
    for (var e = 0u; e < LARFT_EACH; e++) {
        let at = thread + e * LARFT_THREADS;
        if at < TS * TS && at / TS < at % TS { gram[at] = products[e]; }
    }
    for (var k = thread; k < reflectors; k += LARFT_THREADS) { gram[k * TS + k] = sums[4u * (level.col + k) + 2u] * ONE; }
    // V^H V and the diagonal of T are complete before T is computed from them.
    workgroupBarrier();
    for (var i = thread; i < TS; i += LARFT_THREADS) { make_row_of_t(i, reflectors); }
    // T is complete before the workgroup copies it out.
    workgroupBarrier();
    for (var e = thread; e < TS * TS; e += LARFT_THREADS) { kept_t[e] = entry_of_t(e / TS, e % TS, reflectors); }
}
