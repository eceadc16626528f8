// The triangular factor of the compact WY form:  H_0 H_1 .. H_(r-1) = I - V T V^H  for H_k = I - tau_k v_k v_k^H
// and real tau_k (Schreiber and Van Loan 1989).

import package::tuning::{TS};
import package::scalar::{Scalar, times};

/// (V^H V)_ik at [i][k] for i < k, and T_ik at [k][i] for i <= k. The caller sets (V^H V)_ik and the diagonal, T_kk = tau_k.
var<workgroup> gram: array<Scalar, TS * TS>;

/// T_ik = -tau_k sum_{i <= l < k} T_il (V^H V)_lk for i < k < r. Row i of T depends only on itself, so one thread computes it.
fn make_row_of_t(i: u32, r: u32) {
    for (var k = i + 1u; k < r; k++) { make_entry_of_t(i, k); }
}

/// T_ik for i < k, as above, if the columns of T before k are complete. Nothing for other i.
fn make_entry_of_t(i: u32, k: u32) {
    if i < k {
        var sum = Scalar();
        for (var l = i; l < k; l++) {
            sum += times(gram[l * TS + i], gram[l * TS + k]);
        }
        gram[k * TS + i] = times(-gram[k * TS + k], sum);
    }
}

/// T_ik, zero below the diagonal and outside r x r.
fn entry_of_t(i: u32, k: u32, r: u32) -> Scalar {
    if i <= k && k < r {
        return gram[k * TS + i];
    }
    return Scalar();
}
