//! Arithmetic as a compiler with fast math may rewrite it.
//!
//! Every sum, difference, product and quotient of floats is taken apart down to what it is made of, through `let`, variables and calls, and
//! put together again in another way: terms in another order, terms that cancel left out, a common factor taken out, products fused into
//! sums, quotients as products with a reciprocal. Chance decides at each expression, so that one and the same formula may be rewritten here
//! and not there. Of f64, which compilers with fast math do not have (Metal), only products are fused. What is loaded from a buffer or from
//! workgroup memory, a bit operation, `fma` and a merge of control flow end an expression.

use std::collections::HashMap;

use super::Cx;
use crate::{
    config::Rng,
    program::{Bin, Op, Tri, Ty, Un},
};

/// How a value was computed; registers of its operands, which nobody writes again.
#[derive(Clone, Copy)]
enum Node {
    Sum(u32, u32),
    Difference(u32, u32),
    Product(u32, u32),
    Quotient(u32, u32),
    Negative(u32),
    Root(u32),
}

/// What is known of a register.
#[derive(Clone, Copy)]
struct Value {
    /// Equal for values that are equal in exact arithmetic.
    number: u32,
    node: Option<Node>,
    /// Of a variable's register: the version that this is true of.
    version: u32,
}

const FOR_EVER: u32 = u32::MAX;

/// Expressions as deep as this, and as long, are rewritten as a whole.
const DEPTH: u32 = 6;
const TERMS: usize = 12;

pub struct Loose {
    rng: Rng,
    values: HashMap<u32, Value>,
    /// Whether a register belongs to a variable.
    variables: Vec<bool>,
    /// Changes where control flow merges.
    version: u32,
    numbers: HashMap<(u8, u32, u32), u32>,
    next: u32,
}

impl Loose {
    pub(super) fn new(seed: u64) -> Loose {
        let (values, variables, numbers) = (HashMap::new(), Vec::new(), HashMap::new());
        Loose { rng: Rng(seed), values, variables, version: 0, numbers, next: 0 }
    }

    /// True in `of` cases out of 8.
    fn chance(&mut self, of: u64) -> bool {
        self.rng.next() % 8 < of
    }

    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    pub(super) fn is_variable(&mut self, r: u32, n: u32) {
        let end = (r + n) as usize;
        if self.variables.len() < end {
            self.variables.resize(end, false);
        }
        self.variables[r as usize..end].fill(true);
    }

    fn version_of(&self, r: u32) -> u32 {
        if self.variables.get(r as usize).copied().unwrap_or(false) { self.version } else { FOR_EVER }
    }

    /// Variables may have other values from here on.
    pub(super) fn forget(&mut self) {
        self.version += 1;
    }

    pub(super) fn forget_registers(&mut self, r: u32, n: u32) {
        for r in r..r + n {
            self.values.remove(&r);
        }
    }

    fn value(&mut self, r: u32) -> Value {
        let version = self.version_of(r);
        match self.values.get(&r) {
            Some(value) if value.version == version => *value,
            _ => {
                let value = Value { number: self.fresh(), node: None, version };
                self.values.insert(r, value);
                value
            }
        }
    }

    fn same(&mut self, a: u32, b: u32) -> bool {
        self.value(a).number == self.value(b).number
    }

    fn copied(&mut self, d: u32, s: u32) {
        let value = Value { version: self.version_of(d), ..self.value(s) };
        self.values.insert(d, value);
    }

    fn define(&mut self, d: u32, node: Node) {
        let mut key = |kind, a, b, commutes: bool| {
            let (a, b) = (self.value(a).number, self.value(b).number);
            if commutes { (kind, a.min(b), a.max(b)) } else { (kind, a, b) }
        };
        let key = match node {
            Node::Sum(a, b) => key(0, a, b, true),
            Node::Difference(a, b) => key(1, a, b, false),
            Node::Product(a, b) => key(2, a, b, true),
            Node::Quotient(a, b) => key(3, a, b, false),
            Node::Negative(a) => key(4, a, a, false),
            Node::Root(a) => key(5, a, a, false),
        };
        let fresh = self.fresh();
        let number = *self.numbers.entry(key).or_insert(fresh);
        let version = self.version_of(d);
        self.values.insert(d, Value { number, node: Some(node), version });
    }

    /// What a step makes known.
    pub(super) fn note(&mut self, op: &Op) {
        match *op {
            Op::Copy { d, s, n } => (0..n).for_each(|i| self.copied(d + i, s + i)),
            Op::Splat { d, s, n } => (0..n).for_each(|i| self.copied(d + i, s)),
            Op::Swizzle { d, s, n, p } => (0..u32::from(n)).for_each(|i| self.copied(d + i, s + u32::from(p[i as usize]))),
            Op::Zero { r, n } => self.forget_registers(r, n),
            Op::Put { .. } => self.forget(),
            Op::Un { o: o @ (Un::Neg | Un::Sqrt), t: Ty::F32 | Ty::F64, n, d, a } => {
                let node = if o == Un::Neg { Node::Negative } else { Node::Root };
                (0..u32::from(n)).for_each(|i| self.define(d + i, node(a + i)));
            }
            _ => {}
        }
    }
}

impl Cx<'_> {
    /// d = a o b, n components; strides are 0 for an operand that is one scalar. False if this is nothing to rewrite.
    pub(super) fn loose(&mut self, o: Bin, t: Ty, n: u32, d: u32, (a, sa): (u32, u8), (b, sb): (u32, u8)) -> bool {
        let node = match o {
            Bin::Add => Node::Sum,
            Bin::Sub => Node::Difference,
            Bin::Mul => Node::Product,
            Bin::Div => Node::Quotient,
            _ => return false,
        };
        if self.loose.is_none() || !matches!(t, Ty::F32 | Ty::F64) {
            return false;
        }
        for i in 0..n {
            let node = node(a + i * u32::from(sa), b + i * u32::from(sb));
            let r = match node {
                Node::Sum(..) | Node::Difference(..) => self.sum(t, node),
                Node::Product(a, b) if t == Ty::F64 => self.binary(Bin::Mul, t, a, b),
                Node::Quotient(a, b) if t == Ty::F64 => self.binary(Bin::Div, t, a, b),
                _ => self.product(t, node),
            };
            self.ops.push(Op::Copy { d: d + i, s: r, n: 1 });
            self.about().define(d + i, node);
        }
        true
    }

    fn about(&mut self) -> &mut Loose {
        self.loose.as_mut().expect("loose arithmetic")
    }

    fn chance(&mut self, of: u64) -> bool {
        self.about().chance(of)
    }

    fn node(&mut self, r: u32) -> Option<Node> {
        self.about().value(r).node
    }

    fn binary(&mut self, o: Bin, t: Ty, a: u32, b: u32) -> u32 {
        let d = self.alloc(1);
        self.ops.push(Op::Bin { o, t, n: 1, sa: 0, sb: 0, d, a, b });
        d
    }

    fn negative(&mut self, t: Ty, a: u32) -> u32 {
        let d = self.alloc(1);
        self.ops.push(Op::Un { o: Un::Neg, t, n: 1, d, a });
        d
    }

    fn number(&mut self, t: Ty, x: f64) -> u32 {
        self.constant(vec![if t == Ty::F64 { x.to_bits() } else { (x as f32).to_bits().into() }])
    }

    /// Terms of r, and whether each is subtracted.
    fn terms(&mut self, t: Ty, r: u32, minus: bool, depth: u32, terms: &mut Vec<(bool, u32)>) {
        let goes_on = depth == 0 || (depth < DEPTH && terms.len() < TERMS && self.chance(7));
        let goes_on = goes_on && t == Ty::F32;
        match self.node(r) {
            Some(Node::Negative(a)) if goes_on => self.terms(t, a, !minus, depth + 1, terms),
            Some(Node::Sum(a, b)) if goes_on => {
                self.terms(t, a, minus, depth + 1, terms);
                self.terms(t, b, minus, depth + 1, terms);
            }
            Some(Node::Difference(a, b)) if goes_on => {
                self.terms(t, a, minus, depth + 1, terms);
                self.terms(t, b, !minus, depth + 1, terms);
            }
            _ => terms.push((minus, r)),
        }
    }

    fn sum(&mut self, t: Ty, node: Node) -> u32 {
        let mut terms = Vec::new();
        match node {
            Node::Sum(a, b) => [(false, a), (false, b)],
            Node::Difference(a, b) => [(false, a), (true, b)],
            _ => unreachable!(),
        }
        .into_iter()
        .for_each(|(minus, r)| self.terms(t, r, minus, 1, &mut terms));
        if t == Ty::F32 {
            self.cancel(&mut terms);
        }
        if t == Ty::F32 && self.chance(2) {
            self.take_out_factor(t, &mut terms);
        }
        let in_order = self.chance(4);
        while terms.len() > 1 {
            let (mut i, mut j) = (0, 1);
            if !in_order {
                let len = terms.len() as u64;
                i = (self.about().rng.next() % len) as usize;
                j = (i + 1 + (self.about().rng.next() % (len - 1)) as usize) % terms.len();
            }
            let sum = self.add(t, terms[i], terms[j]);
            terms[i] = sum;
            terms.remove(j);
        }
        match terms.pop() {
            None => self.number(t, 0.0),
            Some((false, r)) => r,
            Some((true, r)) => self.negative(t, r),
        }
    }

    /// Leaves out pairs that cancel, and factors with their reciprocals.
    fn cancel(&mut self, terms: &mut Vec<(bool, u32)>) {
        let mut i = 0;
        while i < terms.len() {
            let (minus, r) = terms[i];
            let other = (i + 1..terms.len()).find(|&j| terms[j].0 != minus && self.about().same(terms[j].1, r));
            match other {
                Some(j) if self.chance(7) => {
                    terms.remove(j);
                    terms.remove(i);
                }
                _ => i += 1,
            }
        }
    }

    /// a b + a c as a (b + c), for the first such pair.
    fn take_out_factor(&mut self, t: Ty, terms: &mut Vec<(bool, u32)>) {
        for i in 0..terms.len() {
            for j in i + 1..terms.len() {
                let ((minus, p), (minus_too, q)) = (terms[i], terms[j]);
                let (Some(Node::Product(a, b)), Some(Node::Product(c, d))) = (self.node(p), self.node(q)) else { continue };
                for [common, other, one, rest] in [[a, b, c, d], [a, b, d, c], [b, a, c, d], [b, a, d, c]] {
                    if self.about().same(common, one) {
                        let o = if minus == minus_too { Bin::Add } else { Bin::Sub };
                        let inner = self.binary(o, t, other, rest);
                        let product = self.binary(Bin::Mul, t, common, inner);
                        self.about().define(product, Node::Product(common, inner));
                        terms[i] = (minus, product);
                        terms.remove(j);
                        return;
                    }
                }
            }
        }
    }

    /// The sum of two terms, where a product may be fused.
    fn add(&mut self, t: Ty, p: (bool, u32), q: (bool, u32)) -> (bool, u32) {
        let (p, q) = if self.chance(4) { (p, q) } else { (q, p) };
        if self.chance(6) {
            for (p, q) in [(p, q), (q, p)] {
                if let Some(Node::Product(a, b)) = self.node(q.1) {
                    let a = if p.0 == q.0 { a } else { self.negative(t, a) };
                    let d = self.alloc(1);
                    self.ops.push(Op::Tri { o: Tri::Contracted, t, n: 1, sa: 0, sb: 0, sc: 0, d, a, b, c: p.1 });
                    return (p.0, d);
                }
            }
        }
        let o = if p.0 == q.0 { Bin::Add } else { Bin::Sub };
        (p.0, self.binary(o, t, p.1, q.1))
    }

    /// Factors of r, and whether each is divided by. Returns whether the sign changes.
    fn factors(&mut self, r: u32, below: bool, depth: u32, factors: &mut Vec<(bool, u32)>) -> bool {
        let goes_on = depth < DEPTH && factors.len() < TERMS && self.chance(6);
        match self.node(r) {
            Some(Node::Negative(a)) if goes_on => !self.factors(a, below, depth + 1, factors),
            Some(Node::Product(a, b)) if goes_on => {
                self.factors(a, below, depth + 1, factors) ^ self.factors(b, below, depth + 1, factors)
            }
            Some(Node::Quotient(a, b)) if goes_on => {
                self.factors(a, below, depth + 1, factors) ^ self.factors(b, !below, depth + 1, factors)
            }
            _ => {
                factors.push((below, r));
                false
            }
        }
    }

    fn product(&mut self, t: Ty, node: Node) -> u32 {
        let mut factors = Vec::new();
        let minus = match node {
            Node::Product(a, b) => self.factors(a, false, 1, &mut factors) ^ self.factors(b, false, 1, &mut factors),
            Node::Quotient(a, b) => self.factors(a, false, 1, &mut factors) ^ self.factors(b, true, 1, &mut factors),
            _ => unreachable!(),
        };
        self.cancel(&mut factors);
        self.square_roots(&mut factors);
        let in_order = self.chance(4);
        while factors.len() > 1 {
            let (mut i, mut j) = (0, 1);
            if !in_order {
                let len = factors.len() as u64;
                i = (self.about().rng.next() % len) as usize;
                j = (i + 1 + (self.about().rng.next() % (len - 1)) as usize) % factors.len();
            }
            factors[i] = self.multiply(t, factors[i], factors[j]);
            factors.remove(j);
        }
        let one = self.number(t, 1.0);
        let r = match factors.pop() {
            None => one,
            Some((false, r)) => r,
            Some((true, r)) => self.binary(Bin::Div, t, one, r),
        };
        if minus { self.negative(t, r) } else { r }
    }

    /// sqrt(x) sqrt(x) as x.
    fn square_roots(&mut self, factors: &mut Vec<(bool, u32)>) {
        for i in 0..factors.len() {
            for j in i + 1..factors.len() {
                let ((below, p), (below_too, q)) = (factors[i], factors[j]);
                if let Some(Node::Root(x)) = self.node(p)
                    && below == below_too
                    && self.about().same(p, q)
                {
                    factors[i] = (below, x);
                    factors.remove(j);
                    return;
                }
            }
        }
    }

    /// The product of two factors, where a quotient may be a product with a reciprocal.
    fn multiply(&mut self, t: Ty, p: (bool, u32), q: (bool, u32)) -> (bool, u32) {
        if p.0 == q.0 {
            return (p.0, self.binary(Bin::Mul, t, p.1, q.1));
        }
        let (above, below) = if p.0 { (q.1, p.1) } else { (p.1, q.1) };
        if self.chance(4) {
            return (false, self.binary(Bin::Div, t, above, below));
        }
        let one = self.number(t, 1.0);
        let reciprocal = self.binary(Bin::Div, t, one, below);
        (false, self.binary(Bin::Mul, t, above, reciprocal))
    }
}
