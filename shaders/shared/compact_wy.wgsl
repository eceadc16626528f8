// The triangular factor of the compact WY form:  H_0 H_1 .. H_(r-1) = I - V T V^T  for H_k = I - tau_k v_k v_k^T
// (Schreiber and Van Loan 1989).

import package::tuning::{TS};
import package::scalar::{Real};

/// (V^T V)_ik at [i][k] for i < k, and T_ik at [k][i] for i <= k. The diagonal, T_kk = tau_k, is the caller's to set.
var<workgroup> gram: array<Real, TS * TS>;

/// T_ik = -tau_k sum_{i <= l < k} T_il (V^T V)_lk for i < k < r. Row i depends on itself alone, so that a thread makes one.
fn make_row_of_t(i: u32, r: u32) {
    for (var k = i + 1u; k < r; k++) {
        var sum = Real(0.0);
        for (var l = i; l < k; l++) {
            sum += gram[l * TS + i] * gram[l * TS + k];
        }
        gram[k * TS + i] = -gram[k * TS + k] * sum;
    }
}

/// T_ik, zero below the diagonal and outside r x r.
fn entry_of_t(i: u32, k: u32, r: u32) -> Real {
    if i <= k && k < r {
        return gram[k * TS + i];
    }
    return Real(0.0);
}
