//! A rule of WGSL's grammar that naga does not enforce. A browser's compiler does, and then refuses the shader.

/// Operators, the longer ones first. Those of `SEPARATORS` begin a new expression.
const OPERATORS: [&str; 35] = [
    "<<=", ">>=", "&&", "||", "<<", ">>", "==", "!=", "<=", ">=", "->", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=",
    "^=", "&", "|", "^", "+", "-", "*", "/", "%", "<", ">", "=", ",", ";", ":",
];
const SEPARATORS: [&str; 17] =
    ["<<=", ">>=", "->", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "=", ",", ";", ":"];
const BITWISE: [&str; 3] = ["&", "|", "^"];
const SHIFTS: [&str; 2] = ["<<", ">>"];
const ARITHMETIC: [&str; 5] = ["+", "-", "*", "/", "%"];
const LOGICAL: [&str; 2] = ["&&", "||"];

/// Whether the next operator may follow these of the same expression, with no parentheses between them.
fn mixes(before: &[&str], next: &str) -> bool {
    let is_of = |op: &str, ops: &[&str]| ops.contains(&op);
    // Comparisons and logical operators bind less than shifts and sums do.
    let operand = before.iter().rev().take_while(|op| is_of(op, &SHIFTS) || is_of(op, &ARITHMETIC));
    before.iter().any(|op| *op != next && (is_of(op, &BITWISE) || is_of(next, &BITWISE)))
        || before.iter().any(|op| *op != next && is_of(op, &LOGICAL) && is_of(next, &LOGICAL))
        || (is_of(next, &SHIFTS) && operand.clone().next().is_some())
        || (is_of(next, &ARITHMETIC) && operand.clone().any(|op| is_of(op, &SHIFTS)))
}

/// The first operator, with what is before it, whose operands need parentheses. WGSL has no precedence between `&`, `|` or `^` and any
/// other operator, between shifts and arithmetic, and between `&&` and `||`.
pub(super) fn mixed_operators(source: &str) -> Option<&str> {
    // The operators of each open bracket's expression.
    let mut open: Vec<Vec<&str>> = vec![Vec::new()];
    let (mut at, mut after_operand) = (0, false);
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        let is_of_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        if is_of_word(first) {
            let len = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
            after_operand = &rest[..len] != "return";
            at += len;
            // A list of types or constants begins directly after a name. Comparisons have a space there.
            if source[at..].starts_with('<') && !source[at..].starts_with("<<") {
                let mut depth = 0;
                let end = source[at..].find(|c: char| {
                    depth += i32::from(c == '<') - i32::from(c == '>');
                    depth == 0
                });
                at += end.map_or(1, |end| end + 1);
            }
            continue;
        }
        match first {
            '(' | '[' | '{' => open.push(Vec::new()),
            ')' | ']' | '}' => drop(open.pop()),
            _ => {}
        }
        let operator = OPERATORS.into_iter().find(|op| rest.starts_with(op));
        let ends_expression = matches!(first, '{' | '}') || operator.is_some_and(|op| SEPARATORS.contains(&op));
        if let Some(before) = open.last_mut() {
            match operator {
                _ if ends_expression => before.clear(),
                // A sign, an address or an indirection is no binary operator.
                Some(operator) if after_operand => {
                    if mixes(before, operator) {
                        return Some(&source[at.saturating_sub(60)..at + operator.len()]);
                    }
                    before.push(operator);
                }
                _ => {}
            }
        }
        if !first.is_whitespace() {
            after_operand = matches!(first, ')' | ']');
        }
        at += operator.map_or(first.len_utf8(), str::len);
    }
    None
}

/// The rule itself, by expressions that WGSL has and has not.
#[test]
fn mixed_operators_are_found() {
    for wrong in
        ["i * 3u ^ j", "a & b == c", "x << y + z", "x + y >> 2u", "a << b << c", "f && g || h", "a | b & c", "f(a, b - c ^ d)"]
    {
        assert!(mixed_operators(&format!("fn f() {{ let x = {wrong}; }}")).is_some(), "{wrong}");
    }
    for right in [
        "(i * 3u) ^ (j + 1u)",
        "(a & b) == c",
        "x >> 2u == y + z",
        "bitcast<f32>(bitcast<u32>(x) ^ zero)",
        "a ^ b ^ c",
        "f(a & b, -c * d)",
        "x < y && z >= 2u",
        "atomicLoad(&strays) + 1u",
        "array<f32, TS * 4>(a & b)",
    ] {
        assert_eq!(mixed_operators(&format!("fn f() {{ let x = {right}; return -a & b; }}")), None, "{right}");
    }
}
