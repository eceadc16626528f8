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
// (`vectors`), rows and columns start at multiples of four, R goes out by way of workgroup memory, and V by way of new_v.
//
// Thread (c, s) of TS x SPLIT holds column c of rows 4 (s + k SPLIT) .. + 4 in registers x[k]. Loops over k are repeated in
// the text, so that every index of x is a constant, and groups of pieces below the block's last row are skipped: a branch for each piece
// would have the loads of a group wait for one another. The loops that load and store x run once
// a block; they are loops that choose x[k], for a shorter text. Column by column, t is X[j + 1.., j] as it is, in workgroup memory:
//
//   first of all a power of two for each column, which v does not depend on and R is freed of
//   d_c = t^H X[j + 1.., c] for every c, SPLIT shares each; d_j = ||t||^2
//   every thread: H = I - tau v v^H with v = (1, g t), and u_c = v^H X[j.., c] = X[j, c] + conj(g) d_c
//   c > j:  X[j.., c] -= tau u_c v          c < j:  registers hold v_c / g_c, so conj(g_c u_c) = (V^H V)_cj, which T needs
//
// Two barriers a column, and no thread waits while another computes. v = g t is formed where it is stored.

import package::tuning::{TS, SPLIT, PIECES, GROUP, GROUPS, TOP_PIECES, ROWS, GEQRT_THREADS, NORM_FLOOR};
import package::scalar::{
    Real, Scalar, Scalar4, ONE, add_conjugate_product4, add_product4, below, conjugate, lane, load, magnitudes4, real_part,
    scaled4, store, sum_of_lanes, times, with_lane
};
import package::reflector::{Squares, larfg};
import package::dense::{read_entry, write_entry};
import package::level::{Level, is_below_triangle, matrix_row, place_of};
@if(vectors) import package::level::{Place};
@if(vectors) import package::tuning::{TS4};
import package::pair::{
    Pair, zero, add, add_pair, add_scalar, exact_square, exactly, leading, pair_product, product, two_over_one_plus
};
import package::compact_wy::{gram, make_row_of_t, entry_of_t};
@if(vectors) import package::scalar::{Lanes, join, load4, store4};
@if(kept_in_vectors) import package::scalar::{lanes};

/// Below row j column j, above it zeros, and zero in row j itself: of odd and of even columns.
const COLUMN = ROWS / 4u;
var<workgroup> column: array<Scalar4, 2 * COLUMN>;
/// The SPLIT shares of d_c, and X[j, c]. Rows are padded by four entries: 8 x 4 neighbours do not conflict in a bank.
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

/// Where the rows of V of a block are in new_v, and how many.
@if(kept_in_vectors)
struct Kept {
    first: u32,
    rows: u32,
}

/// What the matrix keeps in row r and column c of the block: the entry of R, or of V, or what `was` there below a triangle that the block stacks.
@if(kept_in_vectors)
fn kept_entry(level: Level, block: Kept, r: u32, c: u32, of_r: Scalar, was: Scalar) -> Scalar {
    if is_below_triangle(level, r, c) { return was; }
    if r <= c || r >= block.rows { return of_r; }
    return new_v[(block.first + r) * TS + c];
}

/// Writes the R that is in `gram` over zeros to the block of the matrix, in vectors. Neighbouring threads write adjacent ones.
@if(vectors)
fn write_in_vectors(level: Level, matrix: u32, thread: u32, first: u32, rows: u32) {
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
            let vector = Place(place.buffer, place.at / 4u);
            @if(kept_in_vectors) {
                let was = lanes(load4(read_entry(vector)));
                let down = select(1u, 0u, by_rows);
                let right = 1u - down;
                let block = Kept(matrix * level.rows + first, rows);
                four.x = kept_entry(level, block, r, c, four.x, was.x);
                four.y = kept_entry(level, block, r + down, c + right, four.y, was.y);
                four.z = kept_entry(level, block, r + 2u * down, c + 2u * right, four.z, was.z);
                four.w = kept_entry(level, block, r + 3u * down, c + 3u * right, four.w, was.w);
            }
            write_entry(vector, store4(join(four)));
        }
    }
}

/// A power of two, and its reciprocal.
struct ColumnScale {
    up: Real,
    down: Real,
}

/// What brings a column's largest entry near 1 (f64: far from where squares underflow). Then a tail whose squares underflow is negligible in its
/// column.
fn column_scale(largest: Real) -> ColumnScale {
    @if(f64) {
        if largest < TINY { return ColumnScale(Real(1.0) / TINY, TINY); }
        return ColumnScale(Real(1.0), Real(1.0));
    }
    @else {
        let exponent = clamp(bitcast<u32>(largest) >> 23u, 1u, 253u);
        return ColumnScale(bitcast<f32>((254u - exponent) << 23u), bitcast<f32>(exponent << 23u));
    }
}

/// 2^-400
@if(f64) const TINY = Real(3.872591914849318e-121);

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

    var x = array<Scalar4, PIECES>();
    var largest = vec4<Real>();
    for (var k = 0u; 4u * SPLIT * k < rows; k++) {
        var piece = Scalar4();
        for (var i = 0u; i < 4u; i++) {
            piece = with_lane(piece, i, entry_of_block(level, first, rows, 4u * (s + k * SPLIT) + i, c));
        }
        @repeat(K, PIECES) x[K] = chosen4(x[K], piece, k == K);
        largest = max(largest, magnitudes4(piece));
    }
    shares[s * SHARES_LD + c] = max(max(largest.x, largest.y), max(largest.z, largest.w)) * ONE;
    // The shares of every column's largest entry are complete before they are read.
    workgroupBarrier();
    var most = Real();
    @repeat(P, SPLIT) most = max(most, real_part(shares[P * SHARES_LD + c]));
    let scale = column_scale(most);
    @repeat(K, PIECES) x[K] = scaled4(x[K], scale.up);

    if c == 0u {
        @repeat(G, GROUPS) {
            if 4u * SPLIT * GROUP * G < rows {
                @repeat(K, GROUP) {
                    var tail = x[G * GROUP + K];
                    if G * GROUP + K < TOP_PIECES { tail = below(tail, 4u * (s + (G * GROUP + K) * SPLIT), 0u); }
                    column[s + (G * GROUP + K) * SPLIT] = tail;
                }
            }
        }
    }
    // Of the thread's column.
    var factor = Scalar();
    for (var j = 0u; j < reflectors; j++) {
        let t = (j % 2u) * COLUMN + s;
        // Column j is complete, and all threads have read the shares of the column before.
        workgroupBarrier();

        var sums = Scalar4();
        @repeat(G, GROUPS) {
            if 4u * SPLIT * GROUP * G < rows {
                @repeat(K, GROUP) sums = add_conjugate_product4(sums, column[t + (G * GROUP + K) * SPLIT], x[G * GROUP + K]);
            }
        }
        shares[s * SHARES_LD + c] = sum_of_lanes(sums);
        @repeat(K, TOP_PIECES) {
            let r = 4u * (s + K * SPLIT);
            if r <= j && j < r + 4u { top[c] = lane(x[K], j - r); }
        }
        // The shares of every d_c are complete before they are added.
        workgroupBarrier();

        // Four sums of each, which wait less for one another than one.
        var dots = array<Scalar, 4>();
        var squares = array<Pair, 4>();
        @repeat(P, SPLIT) {
            dots[P % 4u] += shares[P * SHARES_LD + c];
            let square = real_part(shares[P * SHARES_LD + j]);
            if P < 4u { squares[P % 4u] = Pair(square, Real(0.0)); } else { squares[P % 4u] = add(squares[P % 4u], square); }
        }
        let dot = (dots[0] + dots[1]) + (dots[2] + dots[3]);
        var square = add_pair(squares[0], squares[1]);
        if SPLIT > 2u { square = add_pair(square, add_pair(squares[2], squares[3])); }
        // H = I where the rest of the column is negligible.
        if square.hi < NORM_FLOOR { square = Pair(); }
        let h = larfg(top[j], Squares(square.hi + square.lo, Real()), square);
        // tau = 2 / v^H v, or zero where H = I.
        var tau = Pair();
        if any(h.inverse != Scalar()) { tau = two_over_one_plus(pair_product(square, exact_square(h.inverse))); }
        let u = add_scalar(exactly(top[c]), times(conjugate(h.inverse), dot));
        if c < j {
            if s == 0u { gram[c * TS + j] = conjugate(times(factor, leading(u))); }
        } else if c == j {
            factor = h.inverse;
            if s == 0u { gram[j * TS + j] = tau.hi * ONE; }
            @repeat(K, TOP_PIECES) {
                let r = 4u * (s + K * SPLIT);
                if r <= j && j < r + 4u { x[K] = with_lane(x[K], j - r, h.beta); }
            }
        } else {
            let w = product(tau, u);
            let w_of_t = -times(w, h.inverse);
            @repeat(G, GROUPS) {
                if 4u * SPLIT * GROUP * G < rows {
                    @repeat(K, GROUP) x[G * GROUP + K] = add_product4(x[G * GROUP + K], w_of_t, column[t + (G * GROUP + K) * SPLIT]);
                }
            }
            @repeat(K, TOP_PIECES) {
                let r = 4u * (s + K * SPLIT);
                if r <= j && j < r + 4u { x[K] = with_lane(x[K], j - r, lane(x[K], j - r) - w); }
            }
            if c == j + 1u && c < reflectors {
                let next = (c % 2u) * COLUMN + s;
                @repeat(G, GROUPS) {
                    if 4u * SPLIT * GROUP * G < rows {
                        @repeat(K, GROUP) {
                            var tail = x[G * GROUP + K];
                            if G * GROUP + K < TOP_PIECES { tail = below(tail, 4u * (s + (G * GROUP + K) * SPLIT), c); }
                            column[next + (G * GROUP + K) * SPLIT] = tail;
                        }
                    }
                }
            }
        }
    }

    // The last column of V^H V is complete before T is computed from it, a row a thread, while other threads store.
    workgroupBarrier();
    if thread < TS { make_row_of_t(thread, reflectors); }

    for (var k = 0u; 4u * SPLIT * k < rows; k++) {
        var piece = Scalar4();
        @repeat(K, PIECES) piece = chosen4(piece, x[K], k == K);
        for (var i = 0u; i < 4u; i++) {
            let r = 4u * (s + k * SPLIT) + i;
            let entry = lane(piece, i);
            // Below the diagonal v = g t; the others are R, unscaled.
            write_out(level, matrix, first, rows, reflectors, r, c, select(scale.down * entry, times(factor, entry), r > c));
        }
    }

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
                if r < TS { gram[r * TS + c] = select(Scalar(), scale.down * lane(x[K], i), r <= c); }
            }
        }
        // R is complete before it is written.
        workgroupBarrier();
        write_in_vectors(level, matrix, thread, first, rows);
    }
}
