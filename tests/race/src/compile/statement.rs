//! Statements: control flow, barriers, calls.

use wgpu::naga::{self as n, Statement as S};

use super::{Cx, Frame, Target, V, types::T};
use crate::program::{Atomic, Gather, NONE, Op, Sync};

impl<'m> Cx<'m> {
    /// Whether these statements may wait for other threads.
    pub(super) fn syncs(&mut self, block: &'m n::Block) -> bool {
        block.iter().any(|statement| match statement {
            S::ControlBarrier(_)
            | S::WorkGroupUniformLoad { .. }
            | S::SubgroupGather { .. }
            | S::SubgroupBallot { .. }
            | S::SubgroupCollectiveOperation { .. } => true,
            S::Block(b) => self.syncs(b),
            S::If { accept, reject, .. } => self.syncs(accept) || self.syncs(reject),
            S::Switch { cases, .. } => cases.iter().any(|case| self.syncs(&case.body)),
            S::Loop { body, continuing, .. } => self.syncs(body) || self.syncs(continuing),
            S::Call { function, .. } => {
                if let Some(&known) = self.syncing.get(&function.index()) {
                    return known;
                }
                let does = self.syncs(&self.module.functions[*function].body);
                self.syncing.insert(function.index(), does);
                does
            }
            _ => false,
        })
    }

    pub(super) fn patch(&mut self, at: usize, target: u32) {
        match &mut self.ops[at] {
            Op::Jmp { to } | Op::Jz { to, .. } | Op::Jnz { to, .. } | Op::Jeq { to, .. } => *to = target,
            other => unreachable!("{other:?}"),
        }
    }

    pub(super) fn jump(&mut self, op: Op) -> usize {
        self.push(op);
        self.ops.len() - 1
    }

    pub(super) fn block(&mut self, f: &mut Frame<'m>, block: &'m n::Block) -> Result<(), String> {
        for (statement, span) in block.span_iter() {
            self.statement(f, statement, *span)?;
        }
        Ok(())
    }

    pub(super) fn statement(&mut self, f: &mut Frame<'m>, statement: &'m S, span: n::Span) -> Result<(), String> {
        match statement {
            S::Emit(range) => {
                for h in range.clone() {
                    self.emit(f, h)?;
                }
            }
            S::Block(b) => self.block(f, b)?,
            S::If { condition, accept, reject } => {
                let c = self.reg(f, *condition)?;
                let to_reject = self.jump(Op::Jz { c, to: NONE });
                self.block(f, accept)?;
                if reject.is_empty() {
                    let here = self.ops.len() as u32;
                    self.patch(to_reject, here);
                } else {
                    let to_end = self.jump(Op::Jmp { to: NONE });
                    let here = self.ops.len() as u32;
                    self.patch(to_reject, here);
                    self.merge();
                    self.block(f, reject)?;
                    let here = self.ops.len() as u32;
                    self.patch(to_end, here);
                }
                self.merge();
            }
            S::Switch { selector, cases } => {
                let c = self.reg(f, *selector)?;
                let mut jumps = Vec::new();
                for (k, case) in cases.iter().enumerate() {
                    let imm = match case.value {
                        n::SwitchValue::U32(x) => x,
                        n::SwitchValue::I32(x) => x as u32,
                        n::SwitchValue::Default => continue,
                    };
                    jumps.push((self.jump(Op::Jeq { c, imm, to: NONE }), k));
                }
                let otherwise = self.jump(Op::Jmp { to: NONE });
                let default = cases.iter().position(|case| case.value == n::SwitchValue::Default);
                f.targets.push(Target::Switch { breaks: Vec::new() });
                let mut starts = Vec::new();
                for case in cases {
                    starts.push(self.ops.len() as u32);
                    self.merge();
                    self.block(f, &case.body)?;
                    if !case.fall_through {
                        let out = self.jump(Op::Jmp { to: NONE });
                        let Some(Target::Switch { breaks }) = f.targets.last_mut() else { unreachable!() };
                        breaks.push(out);
                    }
                }
                let end = self.ops.len() as u32;
                let Some(Target::Switch { breaks }) = f.targets.pop() else { unreachable!() };
                breaks.into_iter().for_each(|at| self.patch(at, end));
                jumps.into_iter().for_each(|(at, k)| self.patch(at, starts[k]));
                self.merge();
                self.patch(otherwise, default.map_or(end, |k| starts[k]));
            }
            S::Loop { body, continuing, break_if } => {
                let counted = self.syncs(body) || self.syncs(continuing);
                if counted {
                    let r = self.alloc(1);
                    self.push(Op::Zero { r, n: 1 });
                    self.loops.push(r);
                }
                let start = self.ops.len() as u32;
                self.merge();
                f.targets.push(Target::Loop { continues: Vec::new(), breaks: Vec::new() });
                self.block(f, body)?;
                let next = self.ops.len() as u32;
                if let Some(Target::Loop { continues, .. }) = f.targets.last_mut() {
                    let continues = std::mem::take(continues);
                    continues.into_iter().for_each(|at| self.patch(at, next));
                }
                self.merge();
                self.block(f, continuing)?;
                let mut out = None;
                if let Some(condition) = break_if {
                    let c = self.reg(f, *condition)?;
                    out = Some(self.jump(Op::Jnz { c, to: NONE }));
                }
                if counted {
                    let r = *self.loops.last().unwrap();
                    self.push(Op::Inc { r });
                }
                let site = self.site(f, span, "", "loop");
                self.push(Op::Back { to: start, site });
                let end = self.ops.len() as u32;
                self.merge();
                let Some(Target::Loop { breaks, .. }) = f.targets.pop() else { unreachable!() };
                breaks.into_iter().chain(out).for_each(|at| self.patch(at, end));
                if counted {
                    self.loops.pop();
                }
            }
            S::Break => {
                let at = self.jump(Op::Jmp { to: NONE });
                match f.targets.last_mut() {
                    Some(Target::Loop { breaks, .. } | Target::Switch { breaks }) => breaks.push(at),
                    None => return Err("break outside a loop".into()),
                }
            }
            S::Continue => {
                let at = self.jump(Op::Jmp { to: NONE });
                let target = f.targets.iter_mut().rev().find_map(|target| match target {
                    Target::Loop { continues, .. } => Some(continues),
                    Target::Switch { .. } => None,
                });
                target.ok_or("continue outside a loop")?.push(at);
            }
            S::Return { value } => {
                if let Some(value) = value {
                    let n = self.type_of(f, *value)?.slots();
                    let s = self.full(f, *value)?;
                    self.push(Op::Copy { d: f.ret, s, n });
                }
                let at = self.jump(Op::Jmp { to: NONE });
                f.exits.push(at);
            }
            S::ControlBarrier(flags) => self.barrier(f, *flags, span)?,
            S::WorkGroupUniformLoad { pointer, result } => {
                self.barrier(f, n::Barrier::WORK_GROUP, span)?;
                let p = self.pointer(f, *pointer)?;
                let r = self.load(f, &p, span)?;
                self.barrier(f, n::Barrier::WORK_GROUP, span)?;
                f.vals[result.index()] = Some(V::Reg(r, false));
            }
            S::Store { pointer, value } => {
                let p = self.pointer(f, *pointer)?;
                if let T::Atomic(s) = p.ty {
                    let v = self.reg(f, *value)?;
                    self.atomic(f, &p, s, Atomic::Store, v, NONE, span)?;
                } else {
                    let s = self.full(f, *value)?;
                    self.store(f, &p, s, span)?;
                }
            }
            S::Atomic { pointer, fun, value, result } => {
                let p = self.pointer(f, *pointer)?;
                let T::Atomic(s) = p.ty else { return Err("an atomic operation on what is not atomic".into()) };
                let v = self.reg(f, *value)?;
                use n::AtomicFunction as A;
                let mut compare = NONE;
                let o = match fun {
                    A::Add => Atomic::Add,
                    A::Subtract => Atomic::Sub,
                    A::And => Atomic::And,
                    A::ExclusiveOr => Atomic::Xor,
                    A::InclusiveOr => Atomic::Or,
                    A::Min => Atomic::Min,
                    A::Max => Atomic::Max,
                    A::Exchange { compare: None } => Atomic::Exchange,
                    A::Exchange { compare: Some(c) } => {
                        compare = self.reg(f, *c)?;
                        Atomic::CompareExchange
                    }
                };
                let d = self.atomic(f, &p, s, o, v, compare, span)?;
                if let Some(result) = result {
                    f.vals[result.index()] = Some(V::Reg(d, false));
                }
            }
            S::Call { function, arguments, result } => {
                let callee = &self.module.functions[*function];
                let mut args = Vec::new();
                for &h in arguments {
                    args.push(self.value(f, h)?);
                }
                let (mut ret, mut results) = (NONE, 0);
                if let Some(result) = result {
                    results = self.ty(callee.result.as_ref().ok_or("a result of a function that has none")?.ty)?.slots();
                    ret = self.alloc(results);
                    f.vals[result.index()] = Some(V::Reg(ret, false));
                }
                // What the callee has in registers is free again after it.
                let mark = self.next;
                let path = format!("{} > {}", f.path, callee.name.as_deref().unwrap_or("?"));
                let straight = self.function(callee, &self.info[*function], args, ret, path)?;
                match &mut self.loose {
                    None => self.next = mark,
                    // What the result was computed from stays known.
                    Some(_) if straight => {}
                    Some(loose) => {
                        loose.forget();
                        loose.forget_registers(ret, results);
                    }
                }
            }
            S::SubgroupGather { mode, argument, result } => {
                use n::GatherMode as G;
                let (mode, index) = match mode {
                    G::BroadcastFirst => (Gather::First, None),
                    G::Broadcast(h) => (Gather::Broadcast, Some(h)),
                    G::Shuffle(h) => (Gather::Shuffle, Some(h)),
                    G::ShuffleDown(h) => (Gather::Down, Some(h)),
                    G::ShuffleUp(h) => (Gather::Up, Some(h)),
                    G::ShuffleXor(h) => (Gather::Xor, Some(h)),
                    other => return Err(format!("subgroup operation {other:?}")),
                };
                let index = index.map(|&h| self.reg(f, h)).transpose()?.unwrap_or(NONE);
                self.gather(f, (mode, index), *argument, *result, span)?;
            }
            S::SubgroupCollectiveOperation { op, collective_op: n::CollectiveOperation::Reduce, argument, result } => {
                let of = self.type_of(f, *argument)?;
                let mode = match (op, of) {
                    (n::SubgroupOperation::Add, T::Scalar(n::Scalar::U32 | n::Scalar::I32)) => Gather::Sum,
                    (n::SubgroupOperation::Max, T::Scalar(n::Scalar::U32)) => Gather::Max,
                    (other, of) => return Err(format!("subgroup operation {other:?} of {of:?}")),
                };
                self.gather(f, (mode, NONE), *argument, *result, span)?;
            }
            other => return Err(format!("statement {other:?}")),
        }
        Ok(())
    }

    /// A subgroup operation on `argument`.
    fn gather(
        &mut self,
        f: &mut Frame<'m>,
        (mode, index): (Gather, u32),
        argument: n::Handle<n::Expression>,
        result: n::Handle<n::Expression>,
        span: n::Span,
    ) -> Result<(), String> {
        let slots = self.type_of(f, argument)?.slots();
        let from = self.full(f, argument)?;
        let to = self.alloc(slots);
        let site = self.site(f, span, "", "subgroup operation");
        let loops = self.loops.clone();
        self.syncs.push(Sync { loops, site, workgroup: false, storage: false, gather: Some((mode, from, slots, index, to)) });
        self.push(Op::Sub { sync: self.syncs.len() as u32 - 1 });
        f.vals[result.index()] = Some(V::Reg(to, false));
        Ok(())
    }

    pub(super) fn barrier(&mut self, f: &Frame<'m>, flags: n::Barrier, span: n::Span) -> Result<(), String> {
        if flags.intersects(n::Barrier::SUB_GROUP | n::Barrier::TEXTURE) {
            return Err(format!("barrier {flags:?}"));
        }
        let site = self.site(f, span, "", "barrier");
        let (workgroup, storage) = (flags.contains(n::Barrier::WORK_GROUP), flags.contains(n::Barrier::STORAGE));
        self.syncs.push(Sync { loops: self.loops.clone(), site, workgroup, storage, gather: None });
        self.push(Op::Barrier { sync: self.syncs.len() as u32 - 1 });
        Ok(())
    }
}
