//! The functions of shaders/shared/pair.wgsl, whatever a compiler makes of their arithmetic.

use super::{Done, Env, Trouble};
use crate::{compute, config::Rng, template::assemble};

/// Eight threads, each with numbers of its own; the results beside one another.
const SHADER: &str = "
import package::scalar::{Real, Scalar};
import package::pair::{Pair, zero, add, exact_product, exact_square, root, two_over_one_plus};
@group(0) @binding(0) var<storage, read_write> y: array<Real>;
@group(0) @binding(1) var<storage, read_write> x: array<Real>;

var<private> at: u32;

fn put(pair: Pair) {
    y[at] = pair.hi;
    y[at + 1u] = pair.lo;
    at += 2u;
}

@compute @workgroup_size(8)
fn pairs(@builtin(local_invocation_index) thread: u32) {
    zero = arrayLength(&x) >> 31u;
    at = 16u * thread;
    let a = x[4u * thread];
    let b = x[4u * thread + 1u];
    let c = x[4u * thread + 2u];
    let d = x[4u * thread + 3u];
    var sum = add(Pair(a, Real(0.0)), b);
    sum = add(sum, -c);
    put(add(sum, d));
    put(exact_product(a, b));
    @if(complex) put(exact_square(Scalar(c, d)));
    @else put(exact_square(c));
    put(Pair(root(Pair(abs(a), Real(0.0))), Real(0.0)));
    put(Pair(root(exact_product(b, b)), Real(0.0)));
    put(two_over_one_plus(Pair(abs(b), Real(0.0))));
    @if(complex) put(Pair(quotient(c, a), Real(0.0)));
    @else put(Pair(Real(0.0), Real(0.0)));
    put(Pair(Real(0.0), Real(0.0)));
}
";

const MODULES: [(&str, &str); 3] = [
    ("pair", include_str!("../../../../shaders/shared/pair.wgsl")),
    ("scalar", include_str!("../../../../shaders/shared/scalar.wgsl")),
    ("tuning", ""),
];

pub fn pairs(env: &Env, complex: bool, fused: bool) -> Done {
    let conditions = [("f64", false), ("f16", false), ("complex", complex), ("fused", fused)];
    let source = assemble(("pairs", SHADER), &MODULES, &conditions).map_err(Trouble::Wrong)?;
    let mut rng = Rng(env.seed);
    for round in 0..8 {
        // Between 1/2 and 2, of either sign, all 24 bits.
        let numbers: Vec<f32> = (0..32)
            .map(|_| {
                let bits = rng.next();
                let x = (1.0 + (bits >> 41) as f32 / (1u64 << 23) as f32) * if bits & 1 == 0 { 0.5 } else { 1.0 };
                if bits & 2 == 0 { x } else { -x }
            })
            .collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let zeros = [0; 1024];
        let pair = (env.context.device(), env.context.queue());
        let got = compute::run(pair, ("pairs", source.clone()), &[Some(&zeros), Some(&bytes)], 1);
        let got: Vec<f64> = got.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]).into()).collect();
        for thread in 0..8 {
            let [a, b, c, d] = [0, 1, 2, 3].map(|k| f64::from(numbers[4 * thread + k]));
            let square = if complex { c * c + d * d } else { c * c };
            // Half a unit in the last place and little more for numbers; a pair has at least 44 bits, and is exact for a product.
            let (rounded, pair) = (1.02 * 2f64.powi(-24), 2f64.powi(-44));
            let wanted = [
                ("sum", a + b - c + d, pair * 8.0),
                ("product", a * b, 0.0),
                ("square", square, if complex { pair * square } else { 0.0 }),
                ("root", a.abs().sqrt(), rounded * a.abs().sqrt()),
                ("root of a square", b.abs(), rounded * b.abs()),
                ("2 / (1 + q)", 2.0 / (1.0 + b.abs()), pair * 2.0),
                ("quotient", if complex { c / a } else { 0.0 }, rounded * (c / a).abs()),
            ];
            for (k, (name, value, bound)) in wanted.into_iter().enumerate() {
                let off = (got[16 * thread + 2 * k] + got[16 * thread + 2 * k + 1] - value).abs();
                if off.is_nan() || off > bound {
                    return Err(Trouble::Wrong(format!("{name}, round {round}: off by {off:.1e}, bound {bound:.1e}")));
                }
            }
        }
    }
    Ok(())
}
