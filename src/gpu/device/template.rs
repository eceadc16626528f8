//! The shader preprocessor: imports and conditions in the syntax of WESL, an extension of WGSL.
//!
//! | in a source | what it does |
//! | --- | --- |
//! | `import package::module::{a, b};` | includes the text of `module`, once, before the text that imports it |
//! | `@if(name) ITEM`, `@if(!name) ITEM` | keeps ITEM if the condition holds (does not hold) |
//! | `@else ITEM` | directly after the item of an `@if`: keeps ITEM if that one is dropped |
//! | `@repeat(K, COUNT) ITEM` | ITEM with `0u`, `1u`, .. in place of the word K, COUNT times: a `const` u32 of some module |
//!
//! An ITEM is a declaration, an import, an `enable`, a statement, a block in braces, or one entry of a list in parentheses (a parameter
//! with its attributes). Imports and `enable` must be outside all brackets. The result starts with the `enable` directives.
//!
//! Modules share one scope, so their declarations must have different names. An import includes the whole module; its list is for readers.
//! Comments are dropped. Malformed source is an error whatever the values of the conditions.

use std::fmt::Display;

/// Errors say what is malformed, with the module and the line.
type Result<T> = std::result::Result<T, String>;

/// A module's name and source.
pub(crate) type Module<'a> = (&'a str, &'a str);

/// Most repetitions of an item.
const MOST: usize = 512;

/// The text of `root`, after that of every module that it imports, directly or indirectly. Sources may use only these conditions.
pub(crate) fn assemble(root: Module<'_>, modules: &[Module<'_>], conditions: &[(&str, bool)]) -> Result<String> {
    let numbers: Vec<String> = (0..MOST).map(|k| format!("{k}u")).collect();
    let mut assembly =
        Assembly { modules, conditions, numbers: &numbers, included: vec![root.0], enabled: String::new(), text: String::new() };
    assembly.include(root)?;
    Ok(assembly.enabled + &assembly.text)
}

/// A word (letters, digits, `_`) or another character, with the white space before it, from the last line break on.
#[derive(Clone, Copy)]
struct Token<'a> {
    module: &'a str,
    line: usize,
    space: &'a str,
    text: &'a str,
}

impl Token<'_> {
    fn malformed<T>(&self, reason: impl Display) -> Result<T> {
        Err(format!("{}, line {}: {reason}", self.module, self.line))
    }
}

/// The tokens of a module, without comments.
fn tokens<'a>((module, source): Module<'a>) -> Result<Vec<Token<'a>>> {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut tokens, mut rest, mut line) = (Vec::new(), source, 1);
    loop {
        let before = rest;
        rest = rest.trim_start();
        while rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]).trim_start();
        }
        let space = &before[..before.len() - rest.len()];
        line += space.matches('\n').count();
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let len = if is_of_word(first) { rest.find(|c| !is_of_word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let token = Token { module, line, space: &space[space.rfind('\n').unwrap_or(0)..], text: &rest[..len] };
        if rest.starts_with("/*") {
            return token.malformed("comments in /* */ are not supported");
        }
        tokens.push(token);
        rest = &rest[len..];
    }
}

/// Whether the first two tokens are `@` and `word`.
fn is_attribute(tokens: &[Token<'_>], word: &str) -> bool {
    matches!(tokens, [at, name, ..] if at.text == "@" && name.text == word)
}

/// The innermost bracket around a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// No bracket.
    Module,
    /// Braces or square brackets.
    Block,
    /// Parentheses, where commas separate items.
    List,
}

/// Length of the item at the start of `tokens`; None if there is no item or it has no end.
fn item_len(tokens: &[Token<'_>], scope: Scope) -> Option<usize> {
    let list = scope == Scope::List;
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            ")" | "]" | "}" if depth == 0 => return (list && at > 0).then_some(at),
            "," if list && depth == 0 => return Some(at + 1),
            ";" if !list && depth == 0 => return Some(at + 1),
            "(" | "[" | "{" => depth += 1,
            // In a parameter's type: array<f32, 4>.
            "<" if list => depth += 1,
            ")" | "]" => depth -= 1,
            ">" if list => depth = depth.saturating_sub(1),
            "}" => {
                depth -= 1;
                // An item continues with `else`, and may end with a semicolon after the brace.
                let goes_on = tokens.get(at + 1).is_some_and(|next| matches!(next.text, "else" | ";"));
                if !list && depth == 0 && !goes_on {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

struct Assembly<'a> {
    modules: &'a [Module<'a>],
    conditions: &'a [(&'a str, bool)],
    /// What takes the place of a repeated item's word.
    numbers: &'a [String],
    /// Modules whose text is in `text`, or is being assembled.
    included: Vec<&'a str>,
    enabled: String,
    text: String,
}

impl<'a> Assembly<'a> {
    /// Appends a module to the text, after its imports.
    fn include(&mut self, module: Module<'a>) -> Result<()> {
        let mut own = String::new();
        self.expand(&tokens(module)?, Scope::Module, true, &mut own)?;
        self.text += own.trim_start();
        self.text.push('\n');
        Ok(())
    }

    /// Expands tokens. If `keep`, appends the result to `own` and includes what they import.
    fn expand(&mut self, tokens: &[Token<'a>], scope: Scope, keep: bool, own: &mut String) -> Result<()> {
        let mut open: Vec<&Token<'_>> = Vec::new();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let here = open.last().map_or(scope, |bracket| if bracket.text == "(" { Scope::List } else { Scope::Block });
            let rest = &tokens[at..];
            if is_attribute(rest, "if") {
                let (holds, len) = self.condition(rest)?;
                if keep {
                    own.push_str(token.space);
                }
                at = self.item(tokens, at + len, here, keep && holds, own)?;
                if is_attribute(&tokens[at..], "else") {
                    at = self.item(tokens, at + 2, here, keep && !holds, own)?;
                }
                continue;
            }
            if is_attribute(rest, "repeat") {
                let (word, count) = self.repetition(rest)?;
                const ATTRIBUTE: usize = 7;
                let Some(len) = item_len(&rest[ATTRIBUTE..], here) else {
                    return token.malformed("a repeated item is missing or has no end");
                };
                let item = &rest[ATTRIBUTE..ATTRIBUTE + len];
                // An item that is not there at all is checked too.
                for k in 0..count.max(1) {
                    let number = |of: &Token<'a>| if of.text == word { Token { text: &self.numbers[k], ..*of } } else { *of };
                    let item: Vec<Token<'a>> = item.iter().map(number).collect();
                    self.expand(&item, here, keep && k < count, own)?;
                }
                at += ATTRIBUTE + len;
                continue;
            }
            match token.text {
                "@" if is_attribute(rest, "else") => return token.malformed("`@else` without `@if`"),
                "import" | "enable" => {
                    let len = if here == Scope::Module { item_len(rest, here) } else { None };
                    let Some(len) = len else { return token.malformed(format!("misplaced or unfinished `{}`", token.text)) };
                    self.directive(&rest[..len], keep)?;
                    at += len;
                    continue;
                }
                "(" | "[" | "{" => open.push(token),
                close @ (")" | "]" | "}") => match (open.pop().map(|bracket| bracket.text), close) {
                    (Some("("), ")") | (Some("["), "]") | (Some("{"), "}") => {}
                    _ => return token.malformed(format!("`{close}` closes nothing")),
                },
                _ => {}
            }
            if keep {
                own.push_str(token.space);
                own.push_str(token.text);
            }
            at += 1;
        }
        open.last().map_or(Ok(()), |bracket| bracket.malformed(format!("`{}` is not closed", bracket.text)))
    }

    /// Expands the item at `start`, without the attribute before it. Returns the index of its end.
    fn item(&mut self, tokens: &[Token<'a>], start: usize, scope: Scope, keep: bool, own: &mut String) -> Result<usize> {
        let rest = &tokens[start..];
        let attribute = &tokens[start - 1];
        if is_attribute(rest, "if") || is_attribute(rest, "else") {
            return attribute.malformed("one condition directly after another");
        }
        let Some(len) = item_len(rest, scope) else { return attribute.malformed("a condition's item is missing or has no end") };
        self.expand(&rest[..len], scope, keep, own)?;
        Ok(start + len)
    }

    /// Whether the condition of `@if(name)` or `@if(!name)` holds, and its number of tokens.
    fn condition(&self, tokens: &[Token<'a>]) -> Result<(bool, usize)> {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
        let negated = text(3) == "!";
        let at = if negated { 4 } else { 3 };
        if text(2) != "(" || text(at + 1) != ")" {
            return tokens[0].malformed("`@if` is followed by (name) or (!name)");
        }
        match self.conditions.iter().find(|(name, _)| *name == text(at)) {
            Some((_, value)) => Ok((*value != negated, at + 2)),
            None => tokens[0].malformed(format!("unknown condition `{}`", text(at))),
        }
    }

    /// The word and the count of `@repeat(word, count)`.
    fn repetition(&self, tokens: &[Token<'a>]) -> Result<(&'a str, usize)> {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
        if (text(2), text(4), text(6)) != ("(", ",", ")") {
            return tokens[0].malformed("`@repeat` is followed by (word, count)");
        }
        let declaration = format!("const {}: u32 = ", text(5));
        let value = self.modules.iter().find_map(|(_, source)| source.split_once(&declaration));
        let value = value.and_then(|(_, rest)| rest.split_once("u;")?.0.parse().ok());
        match value {
            Some(count) if count <= MOST => Ok((text(3), count)),
            Some(count) => tokens[0].malformed(format!("{count} repetitions, of at most {MOST}")),
            None => tokens[0].malformed(format!("no module declares `{}` as a u32", text(5))),
        }
    }

    /// Handles `enable ...;` or `import package::module::{...};`.
    fn directive(&mut self, tokens: &[Token<'a>], keep: bool) -> Result<()> {
        let texts: Vec<&'a str> = tokens.iter().map(|token| token.text).collect();
        let name = match texts[..] {
            ["enable", ..] => {
                if keep {
                    let text: String = tokens.iter().flat_map(|token| [token.space, token.text]).collect();
                    self.enabled.extend([text.trim_start(), "\n"]);
                }
                return Ok(());
            }
            ["import", "package", ":", ":", name, ":", ":", "{", .., "}", ";"] => name,
            _ => return tokens[0].malformed("an import that is not `import package::module::{..};`"),
        };
        let Some(&module) = self.modules.iter().find(|module| module.0 == name) else {
            return tokens[0].malformed(format!("unknown module `{name}`"));
        };
        if keep && !self.included.contains(&name) {
            self.included.push(module.0);
            self.include(module)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONDITIONS: [(&str, bool); 2] = [("yes", true), ("no", false)];

    /// The result for `source`, with its words separated by single spaces.
    fn expanded(source: &str) -> Result<String> {
        let modules = [
            ("one", "import package::two::{y};\nconst x = y;"),
            ("two", "import package::one::{x};\n@if(yes) enable f16;\nconst y = 1;"),
            ("three", "import package::two::{y};\nenable subgroups;\nconst z = y;"),
            ("open", "const x = 1;\nfn f() {"),
            ("counts", "const NONE: u32 = 0u;\nconst TWO: u32 = 2u;\nconst MANY: u32 = 513u;"),
        ];
        let text = assemble(("root", source), &modules, &CONDITIONS)?;
        Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    fn error(source: &str) -> String {
        expanded(source).unwrap_err()
    }

    /// A module is included once, before the modules that import it, in any order of imports. Directives come first.
    #[test]
    fn imports() {
        let all = "enable f16; enable subgroups; const y = 1; const x = y; const z = y; const w = x + z;";
        let source = "import package::one::{\n    x, // an entry\n};\nimport package::three::{z};\nconst w = x + z;";
        assert_eq!(expanded(source).unwrap(), all);
        assert_eq!(expanded("@if(no) import package::one::{x};\nconst w = 1;").unwrap(), "const w = 1;");
        assert_eq!(
            expanded("@if(yes) import package::two::{y}; @else import package::three::{z};").unwrap(),
            "enable f16; const x = y; const y = 1;"
        );
    }

    /// The items that a condition may precede, and where they end.
    #[test]
    fn items() {
        for (source, text) in [
            ("@if(yes) alias A = f32; @else alias A = f64;", "alias A = f32;"),
            ("@if(no) alias A = f32;\n@else alias A = f64;", "alias A = f64;"),
            ("@if(!no) const A = array(1, 2); const b = 1;", "const A = array(1, 2); const b = 1;"),
            ("@if(no) struct S { a: u32, b: array<u32, 2>, } const b = 1;", "const b = 1;"),
            ("@if(no) struct S { a: u32 }; @else struct S { b: u32 };", "struct S { b: u32 };"),
            ("@if(no) @compute @workgroup_size(2, 3) fn f() { if a { b(); } c(); } fn g() {}", "fn g() {}"),
            (
                "@if(no) var<immediate> p: P; @else @group(0) @binding(3) var<uniform> p: P;",
                "@group(0) @binding(3) var<uniform> p: P;",
            ),
            ("fn f() { @if(no) return a[0] < b; @else { return g({1}); } }", "fn f() { { return g({1}); } }"),
            ("fn f() { @if(no) { a(); { b(); } } @else { c(); } d(); }", "fn f() { { c(); } d(); }"),
            ("fn f() { @if(no) if a { b(); } else if c { d(); } else { e(); } g(); }", "fn f() { g(); }"),
            ("fn f() { @if(no) for (var i = 0; i < n; i++) { a(); } g(); }", "fn f() { g(); }"),
            ("fn f() { @if(yes) { @if(no) a(); @else b(); } @else { @if(yes) c(); } }", "fn f() { { b(); } }"),
            ("fn f(a: u32, @if(no) @builtin(x) b: vec3<u32>, c: u32) {}", "fn f(a: u32, c: u32) {}"),
            ("fn f(a: u32, @if(no) b: array<vec2<f32>, 4>, c: u32) {}", "fn f(a: u32, c: u32) {}"),
            ("fn f(a: u32, @if(yes) @builtin(x) b: u32) {}", "fn f(a: u32, @builtin(x) b: u32) {}"),
            ("fn f(@if(no) a: u32) {}", "fn f() {}"),
        ] {
            assert_eq!(expanded(source).unwrap(), text, "{source}");
        }
    }

    /// A repeated item has numbers in place of a word, and may have conditions and repeated items within.
    #[test]
    fn repetitions() {
        for (source, text) in [
            ("fn f() { @repeat(K, TWO) { a[K] = K; } b(); }", "fn f() { { a[0u] = 0u; } { a[1u] = 1u; } b(); }"),
            ("fn f() { @repeat(K, TWO) a(K); b(); }", "fn f() { a(0u); a(1u); b(); }"),
            ("fn f() { @repeat(K, NONE) { a[K] = 0; } b(); }", "fn f() { b(); }"),
            (
                "fn f() { @repeat(K, TWO) { @if(no) a(K); @repeat(L, TWO) b(K, L); } }",
                "fn f() { { b(0u, 0u); b(0u, 1u); } { b(1u, 0u); b(1u, 1u); } }",
            ),
            ("fn f() { @if(no) @repeat(K, TWO) { a(); } }", "fn f() { }"),
        ] {
            assert_eq!(expanded(source).unwrap(), text, "{source}");
        }
        for (source, reason) in [
            ("fn f() { @repeat(K) { a(); } }", "root, line 1: `@repeat` is followed by (word, count)"),
            ("fn f() {\n@repeat(K, SOME) { a(); } }", "root, line 2: no module declares `SOME` as a u32"),
            ("fn f() { @repeat(K, MANY) { a(); } }", "root, line 1: 513 repetitions, of at most 512"),
            ("fn f() { @repeat(K, TWO) }", "root, line 1: a repeated item is missing or has no end"),
            ("fn f() { @repeat(K, NONE) { @if(maybe) a(); } }", "root, line 1: unknown condition `maybe`"),
        ] {
            assert_eq!(error(source), reason, "{source}");
        }
    }

    /// Comments have no effect, whatever they contain, and lines stay separate.
    #[test]
    fn comments() {
        let source = "// { @if(unknown) import ( \n@if(yes) // @else }\nfn f() { // }\n    g(); /// ]\n}\n// end {";
        assert_eq!(expanded(source).unwrap(), "fn f() { g(); }");
        let text = assemble(("root", "const a = 1; // one\n\n    // more\n    const b = 2;"), &[], &[]).unwrap();
        assert_eq!(text, "const a = 1;\n    const b = 2;\n");
    }

    /// Every error names the module and the line.
    #[test]
    fn errors() {
        for (source, reason) in [
            ("\nimport package::four::{x};", "root, line 2: unknown module `four`"),
            ("@if(no)\nimport package::four::{x};", "root, line 2: unknown module `four`"),
            ("// import\n\nimport package::open::{x};", "open, line 2: `{` is not closed"),
            ("import package::one;", "root, line 1: an import that is not `import package::module::{..};`"),
            ("import package::one::{x", "root, line 1: misplaced or unfinished `import`"),
            ("fn f() {\n    import package::one::{x};\n}", "root, line 2: misplaced or unfinished `import`"),
            ("fn f() {\n    @if(yes) import package::one::{x};\n}", "root, line 2: misplaced or unfinished `import`"),
            ("fn f() { enable f16; }", "root, line 1: misplaced or unfinished `enable`"),
            ("\n\n@if(maybe) const a = 1;", "root, line 3: unknown condition `maybe`"),
            ("fn f() { @if(no) {\n@if(maybe) a(); } }", "root, line 2: unknown condition `maybe`"),
            ("@if yes const a = 1;", "root, line 1: `@if` is followed by (name) or (!name)"),
            ("@if(yes && no) const a = 1;", "root, line 1: `@if` is followed by (name) or (!name)"),
            ("@if", "root, line 1: `@if` is followed by (name) or (!name)"),
            ("const a = 1;\n@else const b = 1;", "root, line 2: `@else` without `@if`"),
            ("@if(yes) const a = 1; const b = 2; @else const c = 3;", "root, line 1: `@else` without `@if`"),
            ("@if(yes) const a = 1; @else const b = 2; @else const c = 3;", "root, line 1: `@else` without `@if`"),
            ("@if(yes) @if(no) const a = 1;", "root, line 1: one condition directly after another"),
            ("@if(yes) @else const a = 1;", "root, line 1: one condition directly after another"),
            ("@if(yes) const a = 1", "root, line 1: a condition's item is missing or has no end"),
            ("fn f() {\n @if(yes) }", "root, line 2: a condition's item is missing or has no end"),
            ("fn f(\n @if(yes) ) {}", "root, line 2: a condition's item is missing or has no end"),
            ("@if(yes)", "root, line 1: a condition's item is missing or has no end"),
            ("fn f() {\n{ }", "root, line 1: `{` is not closed"),
            ("fn f() {\n}\n}", "root, line 3: `}` closes nothing"),
            ("fn f() {\n g(a];\n}", "root, line 2: `]` closes nothing"),
            ("fn f() {\n @if(no) { g(a] }\n}", "root, line 2: `]` closes nothing"),
            ("const a = 1; /* two */", "root, line 1: comments in /* */ are not supported"),
        ] {
            assert_eq!(error(source), reason, "{source}");
        }
    }

    /// Any sequence of tokens gives a text or an error, and never a panic.
    #[test]
    fn no_panic() {
        let pieces = [
            "@", "if", "else", "(", ")", "{", "}", "[", "]", "<", ">", ",", ";", "yes", "!", "import", "enable", "//", "é", "\n",
        ];
        let mut state = 1u64;
        for _ in 0..20_000 {
            let source: String = (0..12)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    pieces[(state >> 33) as usize % pieces.len()]
                })
                .collect();
            let _ = expanded(&source);
            let _ = expanded(&format!("fn f(@if(no) {source}"));
            let _ = expanded(&format!("fn f() {{ @if(yes) {source}"));
        }
    }
}
