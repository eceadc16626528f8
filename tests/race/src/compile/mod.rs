//! naga IR to a program.

mod expression;
mod loose;
mod math;
mod memory;
mod statement;
mod types;
mod value;

use std::collections::HashMap;

use wgpu::naga::{self as n, Handle, TypeInner as TI, proc::TypeResolution};

use self::{loose::Loose, types::T};
use crate::program::{AtomicOp, Binding, Builtin, NONE, Op, Preload, Program, Site, Sync, WorkgroupVar};

#[derive(Clone)]
enum Base {
    /// Registers.
    Own(u32),
    /// Registers that nobody writes.
    Fixed(u32),
    Workgroup(u32),
    Storage(u32),
}

#[derive(Clone)]
struct Ptr {
    base: Base,
    /// In registers or bytes.
    off: u32,
    /// Register of the index, distance, length (None: as long as the buffer, from the offset that follows).
    indices: Vec<(u32, u32, Option<u32>, u32)>,
    ty: T,
    name: String,
    /// The vector that this is a component of: how many of the indices lead to it, where it is, its bytes.
    vector: Option<(usize, u32, u32)>,
}

#[derive(Clone)]
enum V {
    /// First register; whether it stands for all components.
    Reg(u32, bool),
    Ptr(Ptr),
}

enum Target {
    Loop { continues: Vec<usize>, breaks: Vec<usize> },
    Switch { breaks: Vec<usize> },
}

struct Frame<'m> {
    fun: &'m n::Function,
    info: &'m n::valid::FunctionInfo,
    vals: Vec<Option<V>>,
    locals: Vec<u32>,
    ret: u32,
    exits: Vec<usize>,
    path: String,
    targets: Vec<Target>,
    args: Vec<V>,
}

struct Cx<'m> {
    module: &'m n::Module,
    info: &'m n::valid::ModuleInfo,
    source: &'m str,
    lines: Vec<u32>,
    ops: Vec<Op>,
    next: u32,
    most: u32,
    consts: HashMap<Vec<u64>, u32>,
    const_values: Vec<(u32, u64)>,
    next_const: u32,
    globals: HashMap<usize, Ptr>,
    preloads: Vec<Preload>,
    immediate_bytes: u32,
    workgroup: Vec<WorkgroupVar>,
    grains_w: Vec<u32>,
    binds: Vec<Binding>,
    grains_s: Vec<u32>,
    syncs: Vec<Sync>,
    atomics: Vec<AtomicOp>,
    sites: Vec<Site>,
    loops: Vec<u32>,
    syncing: HashMap<usize, bool>,
    /// None where arithmetic is as the source has it.
    loose: Option<Loose>,
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn log2_grain(g: u32) -> u32 {
    if g == 0 { 2 } else { g.trailing_zeros().min(6) }
}

/// Compiles the entry point; arithmetic rewritten at random from the seed `loose`, if there is one.
pub fn compile(
    module: &n::Module,
    info: &n::valid::ModuleInfo,
    source: &str,
    entry: Option<&str>,
    label: &str,
    loose: Option<u64>,
) -> Result<Program, String> {
    // Twice: how many constants there are is known after the first time.
    let first = compile_with(module, info, source, entry, label, loose, 1 << 24)?;
    let fixed = first.1;
    Ok(compile_with(module, info, source, entry, label, loose, fixed)?.0)
}

fn compile_with(
    module: &n::Module,
    info: &n::valid::ModuleInfo,
    source: &str,
    entry: Option<&str>,
    label: &str,
    loose: Option<u64>,
    fixed: u32,
) -> Result<(Program, u32), String> {
    let at = module
        .entry_points
        .iter()
        .position(|e| e.stage == n::ShaderStage::Compute && entry.is_none_or(|name| name == e.name))
        .ok_or_else(|| format!("no entry point {entry:?}"))?;
    let entry = &module.entry_points[at];
    if !module.overrides.is_empty() {
        return Err("overrides".into());
    }
    let lines = std::iter::once(0).chain(source.match_indices('\n').map(|(k, _)| k as u32 + 1)).collect();
    let mut cx = Cx {
        module,
        info,
        source,
        lines,
        ops: Vec::new(),
        next: fixed,
        most: fixed,
        consts: HashMap::new(),
        const_values: Vec::new(),
        next_const: 0,
        globals: HashMap::new(),
        preloads: Vec::new(),
        immediate_bytes: 0,
        workgroup: Vec::new(),
        grains_w: Vec::new(),
        binds: Vec::new(),
        grains_s: Vec::new(),
        syncs: Vec::new(),
        atomics: Vec::new(),
        sites: Vec::new(),
        loops: Vec::new(),
        syncing: HashMap::new(),
        loose: loose.map(Loose::new),
    };
    let finfo = info.get_entry_point(at);
    for (handle, var) in module.global_variables.iter() {
        if finfo[handle].is_empty() {
            continue; // Not of this entry point.
        }
        cx.global(handle, var)?;
    }
    let mut builtins = Vec::new();
    let mut args = Vec::new();
    for argument in &entry.function.arguments {
        let ty = cx.ty(argument.ty)?;
        let r = cx.alloc(ty.slots());
        match (&argument.binding, &module.types[argument.ty].inner) {
            (Some(n::Binding::BuiltIn(b)), _) => builtins.push((r, builtin(*b)?)),
            (None, TI::Struct { members, .. }) => {
                let mut at = r;
                for member in members {
                    let Some(n::Binding::BuiltIn(b)) = member.binding else {
                        return Err("an argument that is no builtin".into());
                    };
                    builtins.push((at, builtin(b)?));
                    at += cx.ty(member.ty)?.slots();
                }
            }
            other => return Err(format!("an argument {other:?}")),
        }
        args.push(V::Reg(r, false));
    }
    cx.function(&entry.function, finfo, args, NONE, entry.name.clone())?;
    cx.ops.push(Op::End);
    for op in &mut cx.ops {
        if let Op::Copy { d, s, n: 1 } = *op {
            *op = Op::Copy1 { d, s };
        }
    }
    let Cx {
        ops, most, const_values, next_const, preloads, immediate_bytes, mut workgroup, grains_w, mut binds, grains_s, ..
    } = cx;
    workgroup.iter_mut().zip(&grains_w).for_each(|(w, &g)| w.grain = log2_grain(g));
    binds.iter_mut().zip(&grains_s).for_each(|(b, &g)| b.grain = log2_grain(g));
    static IDS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let program = Program {
        id: IDS.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
        label: label.to_owned(),
        ops,
        registers: most,
        consts: const_values,
        preloads,
        immediate_bytes,
        workgroup,
        binds,
        size: entry.workgroup_size,
        builtins,
        syncs: cx.syncs,
        atomics: cx.atomics,
        hits: cx.sites.iter().map(|_| Default::default()).collect(),
        sites: cx.sites,
    };
    Ok((program, next_const))
}

fn builtin(b: n::BuiltIn) -> Result<Builtin, String> {
    use n::BuiltIn as B;
    Ok(match b {
        B::GlobalInvocationId => Builtin::GlobalId,
        B::LocalInvocationId => Builtin::LocalId,
        B::LocalInvocationIndex => Builtin::LocalIndex,
        B::WorkGroupId => Builtin::GroupId,
        B::WorkGroupSize => Builtin::GroupSize,
        B::NumWorkGroups => Builtin::NumGroups,
        B::SubgroupSize => Builtin::SubgroupSize,
        B::SubgroupInvocationId => Builtin::SubgroupLane,
        B::SubgroupId => Builtin::SubgroupId,
        B::NumSubgroups => Builtin::NumSubgroups,
        other => return Err(format!("builtin {other:?}")),
    })
}

impl<'m> Cx<'m> {
    fn ty(&self, handle: Handle<n::Type>) -> Result<T, String> {
        self.inner(&self.module.types[handle].inner)
    }

    fn inner(&self, inner: &TI) -> Result<T, String> {
        Ok(match inner {
            TI::Scalar(s) => T::Scalar(*s),
            TI::Vector { size, scalar } => T::Vector(*size as u32, *scalar),
            TI::Atomic(s) => T::Atomic(*s),
            TI::Array { base, size, stride } => {
                let len = match size {
                    n::ArraySize::Constant(len) => Some(len.get()),
                    n::ArraySize::Dynamic => None,
                    n::ArraySize::Pending(_) => return Err("an array with an override for its size".into()),
                };
                T::Array(std::rc::Rc::new(self.ty(*base)?), len, *stride)
            }
            TI::Struct { members, span } => {
                let members = members.iter().map(|m| Ok((self.ty(m.ty)?, m.offset))).collect::<Result<Vec<_>, String>>()?;
                T::Struct(std::rc::Rc::new(members), *span)
            }
            other => return Err(format!("type {other:?}")),
        })
    }

    /// The type of a value.
    fn type_of(&self, f: &Frame<'m>, h: Handle<n::Expression>) -> Result<T, String> {
        match &f.info[h].ty {
            TypeResolution::Handle(h) => self.ty(*h),
            TypeResolution::Value(inner) => self.inner(inner),
        }
    }

    fn scalar_of(&self, f: &Frame<'m>, h: Handle<n::Expression>) -> Result<(n::Scalar, u32), String> {
        match self.type_of(f, h)? {
            T::Scalar(s) => Ok((s, 1)),
            T::Vector(n, s) => Ok((s, n)),
            other => Err(format!("arithmetic on {other:?}")),
        }
    }

    fn alloc(&mut self, n: u32) -> u32 {
        let r = self.next;
        self.next += n;
        self.most = self.most.max(self.next);
        r
    }

    /// Registers that are written more than once.
    fn variable(&mut self, n: u32) -> u32 {
        let r = self.alloc(n);
        if let Some(loose) = &mut self.loose {
            loose.is_variable(r, n);
        }
        r
    }

    fn push(&mut self, op: Op) {
        if let Some(loose) = &mut self.loose {
            loose.note(&op);
        }
        self.ops.push(op);
    }

    /// Control flow merges here.
    fn merge(&mut self) {
        if let Some(loose) = &mut self.loose {
            loose.forget();
        }
    }

    fn constant(&mut self, values: Vec<u64>) -> u32 {
        if let Some(&r) = self.consts.get(&values) {
            return r;
        }
        let r = self.next_const;
        self.next_const += values.len() as u32;
        self.const_values.extend((r..).zip(values.iter().copied()));
        self.consts.insert(values, r);
        r
    }

    fn global(&mut self, handle: Handle<n::GlobalVariable>, var: &n::GlobalVariable) -> Result<(), String> {
        let ty = self.ty(var.ty)?;
        let name = var.name.clone().unwrap_or_default();
        let base = match var.space {
            n::AddressSpace::Private => {
                if var.init.is_some() {
                    return Err(format!("private {name} with an initial value"));
                }
                let r = self.variable(ty.slots());
                self.push(Op::Zero { r, n: ty.slots() });
                Base::Own(r)
            }
            n::AddressSpace::WorkGroup => {
                self.workgroup.push(WorkgroupVar { name: name.clone(), bytes: ty.bytes(), grain: 0 });
                self.grains_w.push(0);
                Base::Workgroup(self.workgroup.len() as u32 - 1)
            }
            n::AddressSpace::Immediate => {
                self.immediate_bytes = ty.bytes();
                Base::Fixed(self.preload(None, &ty))
            }
            n::AddressSpace::Uniform | n::AddressSpace::Storage { .. } => {
                let uniform = var.space == n::AddressSpace::Uniform;
                let b = var.binding.as_ref().ok_or("a buffer without a binding")?;
                let writable =
                    matches!(var.space, n::AddressSpace::Storage { access } if access.contains(n::StorageAccess::STORE));
                let coherent = var.memory_decorations.contains(n::MemoryDecorations::COHERENT);
                let least = match &ty {
                    T::Array(_, None, stride) => *stride,
                    other => other.bytes(),
                };
                let binding = Binding {
                    name: name.clone(),
                    group: b.group,
                    binding: b.binding,
                    uniform,
                    writable,
                    coherent,
                    least,
                    grain: 0,
                };
                self.binds.push(binding);
                self.grains_s.push(0);
                let at = self.binds.len() as u32 - 1;
                if uniform { Base::Fixed(self.preload(Some(at), &ty)) } else { Base::Storage(at) }
            }
            other => return Err(format!("address space {other:?}")),
        };
        self.globals.insert(handle.index(), Ptr { base, off: 0, indices: Vec::new(), ty, name, vector: None });
        Ok(())
    }

    fn preload(&mut self, binding: Option<u32>, ty: &T) -> u32 {
        let mut leaves = Vec::new();
        ty.leaves(0, &mut leaves);
        let r = self.next_const;
        self.next_const += leaves.len() as u32;
        self.preloads.extend((r..).zip(leaves).map(|(reg, (off, width))| Preload { reg, binding, off, width }));
        r
    }

    fn site(&mut self, f: &Frame<'m>, span: n::Span, var: &str, what: &'static str) -> u32 {
        let (line, text) = match span.to_range() {
            Some(range) => {
                let line = self.lines.partition_point(|&start| start as usize <= range.start);
                let text = self.source.lines().nth(line - 1).unwrap_or_default().trim().to_owned();
                (line as u32, text)
            }
            None => (0, String::new()),
        };
        self.sites.push(Site { function: f.path.clone(), line, text, var: var.to_owned(), what });
        self.sites.len() as u32 - 1
    }

    fn function(
        &mut self,
        fun: &'m n::Function,
        info: &'m n::valid::FunctionInfo,
        args: Vec<V>,
        ret: u32,
        path: String,
    ) -> Result<bool, String> {
        let mut f = Frame {
            fun,
            info,
            vals: vec![None; fun.expressions.len()],
            locals: Vec::new(),
            ret,
            exits: Vec::new(),
            path,
            targets: Vec::new(),
            args,
        };
        for (_, local) in fun.local_variables.iter() {
            let n = self.ty(local.ty)?.slots();
            let r = self.variable(n);
            f.locals.push(r);
            match local.init {
                Some(init) => {
                    let values = self.const_value(&fun.expressions, init)?;
                    let s = self.constant(values);
                    self.push(Op::Copy { d: r, s, n });
                }
                None => self.push(Op::Zero { r, n }),
            }
        }
        self.block(&mut f, &fun.body)?;
        let end = self.ops.len() as u32;
        let straight = f.exits.iter().all(|&exit| exit + 1 == end as usize);
        for exit in f.exits {
            self.patch(exit, end);
        }
        Ok(straight)
    }
}
