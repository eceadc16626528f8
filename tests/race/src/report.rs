//! What was found, each once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Mutex,
};

use crate::{
    finding::Kind,
    program::{NONE, Program, Site},
    vm::Found,
};

#[derive(Clone, Debug)]
pub struct Finding {
    pub kind: Kind,
    pub shader: String,
    pub accesses: Vec<Site>,
    pub example: String,
    pub case: String,
    pub count: u64,
    /// The cases that it was seen in.
    pub cases: BTreeSet<String>,
}

type Key = (Kind, String, Vec<(String, String, String, &'static str)>, String);

#[derive(Default)]
pub struct Sink {
    found: Mutex<(HashMap<Key, usize>, Vec<Finding>)>,
    /// Dispatches, workgroups and their threads, by shader.
    pub ran: Mutex<BTreeMap<String, [u64; 3]>>,
    /// Whether a shader was changed, in a test of the detector.
    pub mutated: std::sync::atomic::AtomicBool,
    /// Most barriers that a shader's source has.
    pub barriers: Mutex<BTreeMap<(String, String), usize>>,
}

/// Whether this is a vector of four entries of which some are behind the end of a line.
fn is_padding(program: &Program, accesses: &[Site]) -> bool {
    program.label == "unmqr" && accesses.iter().all(|site| site.text.contains("-> Stored4"))
}

impl Sink {
    fn add(&self, finding: Finding, key: Key) {
        let mut guard = self.found.lock().unwrap();
        let (known, list) = &mut *guard;
        match known.get(&key) {
            Some(&at) => {
                list[at].count += finding.count;
                list[at].cases.extend(finding.cases);
            }
            None => {
                known.insert(key, list.len());
                list.push(finding);
            }
        }
    }

    /// Of a dispatch.
    pub fn dispatch(&self, program: &Program, found: Found, case: &str, what: &str) {
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|f| f.0);
        for ((kind, a, b), raw) in found {
            let accesses: Vec<Site> =
                [a, b].into_iter().filter(|&site| site != NONE).map(|site| program.sites[site as usize].clone()).collect();
            let mut names: Vec<_> =
                accesses.iter().map(|s| (s.function.clone(), s.text.clone(), s.var.clone(), s.what)).collect();
            names.sort();
            let key = (kind, program.label.clone(), names, String::new());
            let example = format!("{}; {what}", raw.example);
            let case = case.to_owned();
            let cases = [case.clone()].into();
            let kind = if kind == Kind::UnwrittenBuffer && is_padding(program, &accesses) { Kind::Padding } else { kind };
            self.add(Finding { kind, shader: program.label.clone(), accesses, example, case, count: raw.count, cases }, key);
        }
    }

    pub fn note_barriers(&self, shader: &str, source: &str) {
        for what in ["workgroupBarrier()", "storageBarrier()"] {
            let count = source.matches(&format!("{what};")).count();
            if count > 0 {
                let mut barriers = self.barriers.lock().unwrap();
                let most = barriers.entry((shader.to_owned(), what.to_owned())).or_default();
                *most = count.max(*most);
            }
        }
    }

    /// Of anything else.
    pub fn say(&self, kind: Kind, shader: &str, text: String, case: &str) {
        let key = (kind, shader.to_owned(), Vec::new(), text.clone());
        let (shader, case) = (shader.to_owned(), case.to_owned());
        let cases = [case.clone()].into();
        self.add(Finding { kind, shader, accesses: Vec::new(), example: text, case, count: 1, cases }, key);
    }

    pub fn all(&self) -> Vec<Finding> {
        let mut all = self.found.lock().unwrap().1.clone();
        all.sort_by_key(|f| f.kind);
        all
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}: {}", self.kind.text(), self.shader)?;
        for Site { function, line, text, var, what } in &self.accesses {
            let of = if var.is_empty() { String::new() } else { format!(" of `{var}`") };
            writeln!(f, "    {what}{of} in {function}, line {line} of the WGSL: {text}")?;
        }
        write!(f, "    {} ({} times in {} cases; first in {})", self.example, self.count, self.cases.len(), self.case)
    }
}
