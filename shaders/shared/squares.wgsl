// Squared moduli of the entries of a bidiagonal, scaled to at most 2: the input of Sturm counts.

import package::scalar::{Real, Scalar};
import package::tuning::{SMALLEST_NORMAL};

/// max(|Re x|, |Im x|)
fn largest_part(x: Scalar) -> Real {
    @if(complex) return max(abs(x.x), abs(x.y));
    @else return abs(x);
}

/// 1 / the largest real or imaginary part, rounded; 1 if that is below the smallest normal number.
fn factor_for(most: Real) -> Real {
    if most >= SMALLEST_NORMAL { return Real(1.0) / most; }
    return Real(1.0);
}

/// |factor x|^2
fn scaled_square(factor: Real, x: Scalar) -> Real {
    let y = factor * x;
    @if(complex) return y.x * y.x + y.y * y.y;
    @else return y * y;
}
