//! What can be wrong.

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    RaceWorkgroup,
    RaceStorage,
    BetweenWorkgroups,
    OutOfBounds,
    UnwrittenWorkgroup,
    UnwrittenBuffer,
    Barrier,
    Subgroup,
    DivisionByZero,
    Runaway,
    Aliased,
    Api,
    Value,
    /// Ordered by barriers, but of the other address space alone.
    Weak,
    /// In a matrix with lines of a multiple of four entries, where WebGPU has zeros.
    Padding,
    /// Shown to the host, though nobody wrote it.
    UnwrittenReadBack,
    /// One thread reads what another has stored in a buffer that is not `@coherent`, where the device has that.
    Incoherent,
    /// An atomic load, and another thread's change, in no order.
    AtomicOrder,
}

impl Kind {
    /// Whether it fails a run that is not strict.
    pub fn fails(self) -> bool {
        !matches!(self, Kind::Weak | Kind::Incoherent | Kind::Padding | Kind::UnwrittenReadBack | Kind::AtomicOrder)
    }

    pub fn text(self) -> &'static str {
        match self {
            Kind::RaceWorkgroup => "data race on workgroup memory",
            Kind::RaceStorage => "data race in a workgroup on a storage buffer",
            Kind::BetweenWorkgroups => "conflict between workgroups of a dispatch",
            Kind::OutOfBounds => "out of bounds",
            Kind::UnwrittenWorkgroup => "read of workgroup memory that the workgroup has not written",
            Kind::UnwrittenBuffer => "read of buffer memory that nobody wrote",
            Kind::Barrier => "barrier in non-uniform control flow",
            Kind::Subgroup => "subgroup operation in non-uniform control flow",
            Kind::DivisionByZero => "division by zero",
            Kind::Runaway => "loop without an end",
            Kind::Aliased => "bindings that overlap, one of them written",
            Kind::Api => "wrong use of the interface",
            Kind::Value => "wrong result",
            Kind::Weak => "note: storage accesses ordered by workgroupBarrier alone, without storageBarrier",
            Kind::Padding => "note: read of a line's padding that nobody wrote",
            Kind::Incoherent => "note: a thread reads what another has stored, in a buffer that is not `@coherent`",
            Kind::AtomicOrder => "note: an atomic load and a change by another thread, in no order",
            Kind::UnwrittenReadBack => "note: the host reads buffer memory that nobody wrote",
        }
    }
}
