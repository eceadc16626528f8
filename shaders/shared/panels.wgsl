// The panels P and R of the one-stage reduction, and what its kernels leave for one another. Twin: src/tile/one_stage.rs.
//
// A line is a column of the matrix or, if TRANSPOSED, a row: then rs and cs are swapped, and so are P and R.
//
//   panels   P, R (PAIRS columns of ld entries each), x (ld entries), and the products of a reflector in parts: each has PAIRS
//            products with the columns of P, then one with each column of the matrix
//   sums     tau of each reflector as a pair (4 ld numbers in all), then sums of squares of x: a pair, and a scaled sum, for each
//            workgroup of update_line

import package::level::{Level, Place, place_of};
import package::tuning::{PAIRS};

struct Line {
    rs: u32,
    cs: u32,
    lines: u32,
    /// The line, and the first row of its reflector.
    line: u32,
    first: u32,
    rows: u32,
    cols: u32,
    /// Columns of P and R that earlier reflectors of the panel have.
    done: u32,
    /// Parts of the products: of the reflector before the line in update_line, of the line's in multiply_line.
    parts: u32,
    ld: u32,
    /// A sum of the constants below.
    flags: u32,
}

const TRANSPOSED = 1u;
/// There is no line. update_line only completes the last column of P.
const LAST = 2u;

/// Index of column c of the panel with the line's reflectors (P), and of the other one (R).
fn of_p(line: Line, c: u32) -> u32 {
    return (select(0u, PAIRS, (line.flags & TRANSPOSED) != 0u) + c) * line.ld;
}

fn of_r(line: Line, c: u32) -> u32 {
    return (select(PAIRS, 0u, (line.flags & TRANSPOSED) != 0u) + c) * line.ld;
}

fn of_x(line: Line) -> u32 {
    return 2u * PAIRS * line.ld;
}

/// Index of the products of a part with the columns of P. Those with the matrix follow after PAIRS entries.
fn of_products(line: Line, part: u32) -> u32 {
    return (2u * PAIRS + 1u) * line.ld + part * (PAIRS + line.ld);
}

/// Index of tau of a reflector. They alternate: one of a column, one of a row.
fn of_tau(reflector: u32) -> u32 {
    return 2u * reflector;
}

fn reflector_of(line: Line) -> u32 {
    return 2u * line.line + (line.flags & TRANSPOSED);
}

/// Index of the sums of squares of a workgroup.
fn of_squares(line: Line, workgroup: u32) -> u32 {
    return 4u * line.ld + 3u * workgroup;
}

/// The place of entry (i, j) of the matrix, or of its transpose.
fn place_in(line: Line, i: u32, j: u32) -> Place {
    var level = Level();
    level.rs = line.rs;
    level.cs = line.cs;
    level.lines = line.lines;
    return place_of(level, i, j);
}
