//! Calls after a rest, as a program calls that does something else in between: one thread, all of them, and LAPACK.

use rayon::current_num_threads;

use super::{Quartiles, lapack::or_dash, take_turns_at_rest};

/// The head of a table.
pub fn title(name: &str, peer: &str) {
    let all = format!("{} threads", current_num_threads());
    println!("\n{name}: calls after a rest, milliseconds (quartiles)");
    println!("{:>14} {:>24} {all:>24} {peer:>24} {:>8} {:>10}", "matrix", "one thread", "one/all", format!("{peer}/all"));
}

/// Its row of a matrix: milliseconds of one thread, of all and of LAPACK, as first quartile, median and third.
pub fn row(matrix: &str, programs: [&mut dyn FnMut(); 3]) {
    let [one, many, peer] = take_turns_at_rest(programs);
    let of = |q: &Quartiles| format!("{:.3} {:.3} {:.3}", 1e3 * q.first, 1e3 * q.median, 1e3 * q.third);
    println!(
        "{matrix:>14} {:>24} {:>24} {:>24} {:>8.2} {:>10}",
        of(&one),
        of(&many),
        or_dash(of(&peer)),
        one.median / many.median,
        or_dash(format!("{:.2}", peer.median / many.median)),
    );
}
