// The element type: real or complex, stored as it is or in half precision.
//
// Kernels are written once, over Scalar. For real types the operations below are the plain ones (conj(a) = a). For complex types every
// product is a fixed chain of fused operations, so that computing it twice gives the same bits.

@if(f16) enable f16;

@if(f64) alias Real = f64;
@else alias Real = f32;

/// The type of the arithmetic; complex: (re, im).
@if(complex) alias Scalar = vec2<Real>;
@else alias Scalar = Real;

/// The storage type of the matrix and the band.
@if(f16) alias Stored = f16;
@else alias Stored = Scalar;

/// Four adjacent entries, laid out as in array<Scalar>, in the widest vectors: for 16-byte or 32-byte loads.
@if(complex) struct Scalar4 {
    /// re, im, re, im.
    xy: vec4<Real>,
    zw: vec4<Real>,
}
@else alias Scalar4 = vec4<Real>;

/// Four adjacent entries as stored.
@if(f16) alias Stored4 = vec4<f16>;
@else alias Stored4 = Scalar4;

/// The four entries as separate Scalars.
@if(complex) struct Lanes {
    x: Scalar,
    y: Scalar,
    z: Scalar,
    w: Scalar,
}
@else alias Lanes = Scalar4;

@if(complex) const ONE = Scalar(Real(1.0), Real(0.0));
@else const ONE = Real(1.0);

/// Converts from the storage type, exactly.
fn load(x: Stored) -> Scalar {
    return Scalar(x);
}

/// Converts to the storage type, rounded to nearest.
fn store(x: Scalar) -> Stored {
    return Stored(x);
}

/// `load` of four entries.
fn load4(four: Stored4) -> Scalar4 {
    @if(f16) return vec4<f32>(four);
    @else return four;
}

/// `store` of four entries.
fn store4(four: Scalar4) -> Stored4 {
    @if(f16) return vec4<f16>(four);
    @else return four;
}

fn lanes(four: Scalar4) -> Lanes {
    @if(complex) return Lanes(four.xy.xy, four.xy.zw, four.zw.xy, four.zw.zw);
    @else return four;
}

fn join(four: Lanes) -> Scalar4 {
    @if(complex) return Scalar4(vec4(four.x, four.y), vec4(four.z, four.w));
    @else return four;
}

/// conj(a)
fn conjugate(a: Scalar) -> Scalar {
    @if(complex) return Scalar(a.x, -a.y);
    @else return a;
}

/// Re(a)
fn real_part(a: Scalar) -> Real {
    @if(complex) return a.x;
    @else return a;
}

/// a b
fn times(a: Scalar, b: Scalar) -> Scalar {
    @if(complex) return fma(Scalar(-a.y, a.y), b.yx, a.x * b);
    @else return a * b;
}

/// a b + c, fused.
fn multiply_add(a: Scalar, b: Scalar, c: Scalar) -> Scalar {
    @if(complex) return fma(Scalar(a.x), b, fma(Scalar(-a.y, a.y), b.yx, c));
    @else return fma(a, b, c);
}

/// a - b, elementwise.
fn difference4(a: Scalar4, b: Scalar4) -> Scalar4 {
    @if(complex) return Scalar4(a.xy - b.xy, a.zw - b.zw);
    @else return a - b;
}

/// sum + conj(a) b, entry by entry.
fn add_conjugate_product4(sum: Scalar4, a: Scalar4, b: Scalar4) -> Scalar4 {
    @if(complex) {
        let im = vec4(a.xy.y, -a.xy.y, a.xy.w, -a.xy.w);
        let more_im = vec4(a.zw.y, -a.zw.y, a.zw.w, -a.zw.w);
        return Scalar4(
            fma(a.xy.xxzz, b.xy, fma(im, b.xy.yxwz, sum.xy)),
            fma(a.zw.xxzz, b.zw, fma(more_im, b.zw.yxwz, sum.zw)),
        );
    }
    @else return fma(a, b, sum);
}

/// x a, for the four entries of x, and a real a.
fn scaled4(x: Scalar4, a: Real) -> Scalar4 {
    @if(complex) return Scalar4(x.xy * a, x.zw * a);
    @else return x * a;
}

/// x a, for the four entries of x.
fn times4(x: Scalar4, a: Scalar) -> Scalar4 {
    @if(complex) {
        let im = vec4(-a.y, a.y, -a.y, a.y);
        return Scalar4(fma(im, x.xy.yxwz, a.x * x.xy), fma(im, x.zw.yxwz, a.x * x.zw));
    }
    @else return x * a;
}

/// Adds squares of the parts of the four entries. The sum of squares is that of the result.
fn sum_of_squares4(sum: vec4<Real>, x: Scalar4) -> vec4<Real> {
    @if(complex) return fma(x.zw, x.zw, fma(x.xy, x.xy, sum));
    @else return fma(x, x, sum);
}

/// The largest of these is that of the parts' moduli.
fn magnitudes4(x: Scalar4) -> vec4<Real> {
    @if(complex) return max(abs(x.xy), abs(x.zw));
    @else return abs(x);
}

fn sum_of_lanes(four: Scalar4) -> Scalar {
    let each = lanes(four);
    return (each.x + each.y) + (each.z + each.w);
}

/// Entry i.
fn lane(four: Scalar4, i: u32) -> Scalar {
    let each = lanes(four);
    return select(select(each.x, each.y, i == 1u), select(each.z, each.w, i == 3u), i >= 2u);
}

/// The four entries, with x in place of entry i.
fn with_lane(four: Scalar4, i: u32, x: Scalar) -> Scalar4 {
    let each = lanes(four);
    return join(Lanes(
        select(each.x, x, i == 0u),
        select(each.y, x, i == 1u),
        select(each.z, x, i == 2u),
        select(each.w, x, i == 3u),
    ));
}

/// The entries of rows r, r + 1, .., with zeros up to row j.
fn below(four: Scalar4, r: u32, j: u32) -> Scalar4 {
    let each = lanes(four);
    return join(Lanes(
        select(Scalar(), each.x, r > j),
        select(Scalar(), each.y, r + 1u > j),
        select(Scalar(), each.z, r + 2u > j),
        select(Scalar(), each.w, r + 3u > j),
    ));
}

/// sum + a b, for the four entries of b.
fn add_product4(sum: Scalar4, a: Scalar, b: Scalar4) -> Scalar4 {
    @if(complex) {
        let re = vec4(a.x);
        let im = vec4(-a.y, a.y, -a.y, a.y);
        return Scalar4(fma(re, b.xy, fma(im, b.xy.yxwz, sum.xy)), fma(re, b.zw, fma(im, b.zw.yxwz, sum.zw)));
    }
    @else return sum + a * b;
}
