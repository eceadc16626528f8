// QR factorisation of a block of a panel, in compact WY form. Twin: src/cpu/qr/geqrt.rs.
//
//   Block X (rows x width)  =  (I - V T V^H) R,    rows <= ROWS = 4 SPLIT PIECES, width <= TS, r = min(rows, width) reflectors
//
//   The importer declares new_v and new_t:
//
//   package::dense   the matrix as stored, strides (rs, cs): X in, R over zeros out
//   new_v            V, unit lower trapezoidal, one row of TS for each stacked row of the level (columns from r on zero), out
//   new_t            T, upper triangular, TS x TS row-major for each block from t_first on (rows and columns from r on zero), out
//
//   Those of several matrices lie one after the other.
//
// If reflectors are kept (`kept`), V below its diagonal also goes to the matrix, in place of the zeros. If the matrix is bound in vectors
// (`vectors`), rows and columns start at multiples of four, and R goes out by way of workgroup memory.
//
// Thread (c, s) of TS x SPLIT holds column c of rows 4 (s + k SPLIT) .. + 4 in registers x[k]. Loops over k are repeated in
// the text, so that every index of x is a constant, and pieces below the block's last row are skipped. The loops that load and store x run once
// a block; they are loops that choose x[k], for a shorter text. Column by column:
//
//   v_j from X[j.., j], once;   u_c = v_j^H X[j.., c] for every c
//   c > j:  X[j.., c] -= tau u_c v_j          c < j:  registers hold v_c, so conj(u_c) = (V^H V)_cj, which T needs
//
// The threads of column j are neighbours. While they compute v_j, threads of other columns compute column j - 1 of T.

import package::tuning::{TS, SPLIT, PIECES, TOP_PIECES, ROWS, GEQRT_THREADS, NORM_FLOOR};
import package::scalar::{
    Real, Scalar, Scalar4, ONE, add_conjugate_product4, add_product4, below, conjugate, lane, load, magnitudes4, sum_of_lanes,
    sum_of_squares4, store, times4, with_lane
};
import package::reflector::{Squares, larfg, scaled_for_norm};
import package::dense::{read_entry, write_entry};
import package::level::{Level, is_below_triangle, matrix_row, place_of};
@if(vectors) import package::level::{Place};
@if(vectors) import package::tuning::{TS4};
import package::pair::{Pair, zero, add, add_scalar, exactly, leading, product, two_over_one_plus};
import package::compact_wy::{gram, make_entry_of_t, entry_of_t};
@if(vectors) import package::scalar::{Lanes, join, load4, store4};

/// Below row j v_j, above it zeros; and zero in row j itself, whose 1 is added apart.
var<workgroup> column: array<Scalar4, ROWS / 4u>;
/// X[j, j], the SPLIT partial sums of squares of X[j + 1.., j], and those of v_j below row j.
var<workgroup> alpha: Scalar;
var<workgroup> squares: array<Squares, SPLIT>;
var<workgroup> lengths: array<Real, SPLIT>;
/// Whether H is not the identity, and its tau.
var<workgroup> reflects: u32;
var<workgroup> tau: Pair;
/// The SPLIT partial sums of u_c below row j, and X[j, c]. Rows are padded by four entries: 8 x 4 neighbours do not conflict in a bank.
const SHARES_LD = TS + 4u;
var<workgroup> shares: array<Scalar, SPLIT * SHARES_LD>;
var<workgroup> top: array<Scalar, TS>;

/// The entry of row r and column c of the block, zero where it has none.
fn entry_of_block(level: Level, first: u32, rows: u32, r: u32, c: u32) -> Scalar {
    @if(kept) let is_there = r < rows && c < level.width && !is_below_triangle(level, r, c);
    @else let is_there = r < rows && c < level.width;
    if !is_there { return Scalar(); }
    let place = place_of(level, matrix_row(level, first + r), level.col + c);
    @if(vectors) return lane(load4(read_entry(Place(place.buffer, place.at / 4u))), place.at % 4u);
    @else return load(read_entry(place));
}

/// Writes x, which is at row r and column c, to V and, unless it is bound in vectors, to the matrix.
fn write_out(level: Level, matrix: u32, first: u32, rows: u32, reflectors: u32, r: u32, c: u32, x: Scalar) {
    if r < rows {
        let tail = select(Scalar(), x, c < reflectors && r > c);
        new_v[(matrix * level.rows + first + r) * TS + c] = select(tail, ONE, c < reflectors && r == c);
        @if(!vectors) if c < level.width {
            let place = place_of(level, matrix_row(level, first + r), level.col + c);
            @if(kept) { if !is_below_triangle(level, r, c) { write_entry(place, store(x)); } }
            @else write_entry(place, store(select(Scalar(), x, r <= c)));
        }
    }
}

/// Writes the R that is in `gram` over zeros to the block of the matrix, in vectors. Neighbouring threads write adjacent ones.
@if(vectors)
fn write_in_vectors(level: Level, thread: u32, first: u32, rows: u32) {
    let by_rows = level.cs == 1u;
    let rows4 = (rows + 3u) / 4u;
    for (var e = thread; e < rows4 * TS; e += GEQRT_THREADS) {
        let r = select(4u * (e % rows4), e / TS4, by_rows);
        let c = select(e / rows4, 4u * (e % TS4), by_rows);
        if r < rows && c < level.width {
            var four = Lanes();
            if r < TS {
                let at = r * TS + c;
                let step = select(TS, 1u, by_rows);
                four = Lanes(gram[at], gram[at + step], gram[at + 2u * step], gram[at + 3u * step]);
            }
            let place = place_of(level, matrix_row(level, first + r), level.col + c);
            write_entry(Place(place.buffer, place.at / 4u), store4(join(four)));
        }
    }
}

/// b if `is_b`, else a.
fn chosen4(a: Scalar4, b: Scalar4, is_b: bool) -> Scalar4 {
    @if(complex) return Scalar4(select(a.xy, b.xy, is_b), select(a.zw, b.zw, is_b));
    @else return select(a, b, is_b);
}

/// Factors block q of the level of a matrix. Both numbers are the same for all threads of the workgroup.
fn factor_block(level: Level, thread: u32, q: u32, matrix: u32) {
    zero = level.rows >> 31u;
    let c = thread / SPLIT;
    let s = thread % SPLIT;
    let first = q * level.block_rows;
    let rows = min(level.block_rows, level.rows - first);
    let reflectors = min(rows, level.width);

    var x: array<Scalar4, PIECES>;
    @repeat(K, PIECES) x[K] = Scalar4();
    for (var k = 0u; 4u * SPLIT * k < rows; k++) {
        var piece = Scalar4();
        for (var i = 0u; i < 4u; i++) {
            piece = with_lane(piece, i, entry_of_block(level, first, rows, 4u * (s + k * SPLIT) + i, c));
        }
        @repeat(K, PIECES) x[K] = chosen4(x[K], piece, k == K);
    }

    for (var j = 0u; j < reflectors; j++) {
        if c == j {
            var sums = vec4<Real>();
            var largest = vec4<Real>();
            @repeat(K, PIECES) {
                if 4u * SPLIT * K < rows {
                    var tail = x[K];
                    if K < TOP_PIECES { tail = below(tail, 4u * (s + K * SPLIT), j); }
                    sums = sum_of_squares4(sums, tail);
                    largest = max(largest, magnitudes4(tail));
                }
            }
            var sum = Squares((sums.x + sums.y) + (sums.z + sums.w), Real(0.0));
            let most = max(max(largest.x, largest.y), max(largest.z, largest.w));
            // Only squares that may have underflown need the scaled sum.
            if sum.plain < NORM_FLOOR && most > Real(0.0) {
                sums = vec4<Real>();
                @repeat(K, PIECES) {
                    if 4u * SPLIT * K < rows {
                        var tail = x[K];
                        if K < TOP_PIECES { tail = below(tail, 4u * (s + K * SPLIT), j); }
                        sums = sum_of_squares4(sums, scaled_for_norm(tail));
                    }
                }
                sum.scaled = (sums.x + sums.y) + (sums.z + sums.w);
            }
            squares[s] = sum;
            @repeat(K, TOP_PIECES) {
                let r = 4u * (s + K * SPLIT);
                if r <= j && j < r + 4u { alpha = lane(x[K], j - r); }
            }
        }
        // Sums and alpha are complete before they are read. All threads have read column j - 1, its products and its tau.
        workgroupBarrier();

        if c == j {
            var sum = Squares();
            for (var p = 0u; p < SPLIT; p++) {
                sum.plain += squares[p].plain;
                sum.scaled += squares[p].scaled;
            }
            let h = larfg(alpha, sum, Pair(sum.plain, Real(0.0)));
            var sums = vec4<Real>();
            @repeat(K, PIECES) {
                if 4u * SPLIT * K < rows {
                    var tail = times4(x[K], h.inverse);
                    if K < TOP_PIECES {
                        let r = 4u * (s + K * SPLIT);
                        tail = below(tail, r, j);
                        // Rows above j keep R.
                        for (var i = 0u; i < 4u; i++) {
                            if r + i == j { x[K] = with_lane(x[K], i, h.beta); }
                            if r + i > j { x[K] = with_lane(x[K], i, lane(tail, i)); }
                        }
                    } else {
                        x[K] = tail;
                    }
                    column[s + K * SPLIT] = tail;
                    sums = sum_of_squares4(sums, tail);
                }
            }
            lengths[s] = (sums.x + sums.y) + (sums.z + sums.w);
            if s == 0u { reflects = select(0u, 1u, any(h.inverse != Scalar())); }
        }
        // The last or the first TS threads, whichever do not have column j.
        if j > 0u { make_entry_of_t(select(thread, thread - (GEQRT_THREADS - TS), 2u * j < TS), j - 1u); }
        // v_j and its sums are complete before they are read.
        workgroupBarrier();

        if c == j {
            if s == 0u {
                var square = Pair();
                for (var p = 0u; p < SPLIT; p++) { square = add(square, lengths[p]); }
                // tau = 2 / v^H v, or zero where H = I.
                tau = Pair();
                if reflects == 1u { tau = two_over_one_plus(square); }
            }
        } else {
            var sums = Scalar4();
            @repeat(K, PIECES) {
                if 4u * SPLIT * K < rows { sums = add_conjugate_product4(sums, column[s + K * SPLIT], x[K]); }
            }
            shares[s * SHARES_LD + c] = sum_of_lanes(sums);
            @repeat(K, TOP_PIECES) {
                let r = 4u * (s + K * SPLIT);
                if r <= j && j < r + 4u { top[c] = lane(x[K], j - r); }
            }
        }
        // The shares of every u_c and tau are complete before they are read.
        workgroupBarrier();

        if c == j {
            if s == 0u { gram[j * TS + j] = tau.hi * ONE; }
        } else {
            var sum = Scalar();
            for (var p = 0u; p < SPLIT; p++) { sum += shares[p * SHARES_LD + c]; }
            let dot = add_scalar(exactly(top[c]), sum);
            if c < j {
                if s == 0u { gram[c * TS + j] = conjugate(leading(dot)); }
            } else {
                let w = product(tau, dot);
                @repeat(K, PIECES) {
                    if 4u * SPLIT * K < rows { x[K] = add_product4(x[K], -w, column[s + K * SPLIT]); }
                }
                @repeat(K, TOP_PIECES) {
                    let r = 4u * (s + K * SPLIT);
                    if r <= j && j < r + 4u { x[K] = with_lane(x[K], j - r, lane(x[K], j - r) - w); }
                }
            }
        }
    }

    for (var k = 0u; 4u * SPLIT * k < rows; k++) {
        var piece = Scalar4();
        @repeat(K, PIECES) piece = chosen4(piece, x[K], k == K);
        for (var i = 0u; i < 4u; i++) {
            write_out(level, matrix, first, rows, reflectors, 4u * (s + k * SPLIT) + i, c, lane(piece, i));
        }
    }

    // The last column of V^H V, which threads of all columns write, is complete before that of T is computed from it.
    workgroupBarrier();
    make_entry_of_t(thread, reflectors - 1u);
    // T is complete before the workgroup copies it out.
    workgroupBarrier();
    for (var e = thread; e < TS * TS; e += GEQRT_THREADS) {
        new_t[(level.t_first + matrix * level.blocks + q) * TS * TS + e] = entry_of_t(e / TS, e % TS, reflectors);
    }
    @if(vectors) {
        // All threads have read T before R replaces it, and the block before it is written.
        storageBarrier();
        workgroupBarrier();
        @repeat(K, TOP_PIECES) {
            for (var i = 0u; i < 4u; i++) {
                let r = 4u * (s + K * SPLIT) + i;
                if r < TS { gram[r * TS + c] = select(Scalar(), lane(x[K], i), r <= c); }
            }
        }
        // R is complete before it is written.
        workgroupBarrier();
        write_in_vectors(level, thread, first, rows);
    }
}
