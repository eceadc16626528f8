//! A shader as flat code: every call inlined, one register of 64 bits for each scalar, memory accesses as single steps.
//!
//! Registers below the first one of the threads hold what is the same in the whole dispatch: constants, immediates, uniforms.

mod op;

pub use op::{Atomic, Bin, Op, Tri, Ty, Un};

use std::sync::atomic::AtomicU8;

/// No register, no site.
pub const NONE: u32 = u32::MAX;
/// An address outside what it indexes.
pub const INVALID: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub struct AtomicOp {
    pub o: Atomic,
    pub signed: bool,
    pub storage: bool,
    pub mem: u32,
    pub at: u32,
    pub off: u32,
    pub d: u32,
    pub v: u32,
    pub compare: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    First,
    Broadcast,
    Shuffle,
    Down,
    Up,
    Xor,
    /// The sum of integers, and the largest one without a sign.
    Sum,
    Max,
}

/// Where threads wait for one another.
#[derive(Clone, Debug)]
pub struct Sync {
    /// Counters of the loops around it.
    pub loops: Vec<u32>,
    pub site: u32,
    pub workgroup: bool,
    pub storage: bool,
    pub gather: Option<(Gather, u32, u32, u32, u32)>, // mode, argument, components, index, result
}

#[derive(Clone, Debug)]
pub struct Site {
    pub function: String,
    pub line: u32,
    pub text: String,
    pub var: String,
    /// "read", "write", ...
    pub what: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    GlobalId,
    LocalId,
    LocalIndex,
    GroupId,
    GroupSize,
    NumGroups,
    SubgroupSize,
    SubgroupLane,
    SubgroupId,
    NumSubgroups,
}

#[derive(Clone, Debug)]
pub struct WorkgroupVar {
    pub name: String,
    pub bytes: u32,
    /// log2 of the bytes that are always accessed together.
    pub grain: u32,
}

#[derive(Clone, Debug)]
pub struct Binding {
    pub name: String,
    pub group: u32,
    pub binding: u32,
    pub uniform: bool,
    pub writable: bool,
    /// Declared `@coherent`.
    pub coherent: bool,
    /// Least bytes that must be bound.
    pub least: u32,
    pub grain: u32,
}

#[derive(Clone, Debug)]
pub struct Preload {
    pub reg: u32,
    pub binding: Option<u32>, // index into `binds`; None for immediates
    pub off: u32,
    pub width: u32,
}

#[derive(Debug)]
pub struct Program {
    pub id: u64,
    pub label: String,
    pub ops: Vec<Op>,
    pub registers: u32,
    pub consts: Vec<(u32, u64)>,
    pub preloads: Vec<Preload>,
    pub immediate_bytes: u32,
    pub workgroup: Vec<WorkgroupVar>,
    pub binds: Vec<Binding>,
    pub size: [u32; 3],
    pub builtins: Vec<(u32, Builtin)>,
    pub syncs: Vec<Sync>,
    pub atomics: Vec<AtomicOp>,
    pub sites: Vec<Site>,
    /// Which of them have run.
    pub hits: Vec<AtomicU8>,
}
