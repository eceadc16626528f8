//! A backend of wgpu that runs compute shaders in the interpreter.

use std::{
    cell::RefCell,
    fmt,
    ops::Range,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use wgpu::{custom::*, naga};

use crate::{
    config::{Config, Rng},
    finding::Kind,
    program::Program,
    report::Sink,
    vm::{BufState, Scratch},
};

mod buffer;
mod create;
mod encoder;
mod programs;
mod queue;

pub use programs::coverage;

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What wgpu's traits ask of a device and the crate never calls: rendering, textures, acceleration structures, buffers mapped for writing.
/// A call of it must not pass for a result.
fn only_computes() -> ! {
    panic!("this device only computes, but the crate has called something else")
}

macro_rules! opaque {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}

/// A mistake in a shader, for tests of the detector.
#[derive(Clone)]
pub struct Mutation {
    /// Its name; empty for every shader.
    pub shader: String,
    /// What stands there, and what is to stand there.
    pub from: String,
    pub to: String,
    /// Which occurrence; None for all.
    pub nth: Option<usize>,
}

/// What all objects of a device share.
pub struct Inner {
    features: wgpu::Features,
    limits: wgpu::Limits,
    info: wgpu::AdapterInfo,
    config: Config,
    pub case: String,
    sink: Arc<Sink>,
    exec: Mutex<Exec>,
    waiting: Mutex<Vec<(BufferMapCallback, bool)>>,
    mutation: Option<Mutation>,
}

struct Exec {
    rng: Rng,
    epoch: u32,
    scratch: Scratch,
    submissions: u64,
    ticks: u64,
}

thread_local! {
    /// Errors that no scope has taken, with what filters take them.
    static ERRORS: RefCell<Vec<wgpu::Error>> = const { RefCell::new(Vec::new()) };
    static SCOPES: RefCell<Vec<wgpu::ErrorFilter>> = const { RefCell::new(Vec::new()) };
}

impl Inner {
    /// A misuse of the interface.
    fn api(&self, holds: bool, text: impl FnOnce() -> String) -> bool {
        if !holds {
            let description = text();
            self.sink.say(Kind::Api, "", description.clone(), &self.case);
            let source = Box::<dyn std::error::Error + Send + Sync>::from(description.clone());
            ERRORS.with_borrow_mut(|errors| errors.push(wgpu::Error::Validation { source, description }));
        }
        holds
    }
}

#[derive(Clone)]
pub struct Device(Arc<Inner>);

#[derive(Clone)]
struct Queue(Arc<Inner>);

struct BufInner {
    device: Arc<Inner>,
    label: String,
    size: u64,
    usage: wgpu::BufferUsages,
    state: Mutex<BufState>,
    mapped: Mutex<Option<Range<u64>>>,
}

#[derive(Clone)]
struct Buffer(Arc<BufInner>);

struct Module {
    label: String,
    source: String,
    module: naga::Module,
    info: naga::valid::ModuleInfo,
}

#[derive(Clone)]
struct ShaderModule(Option<Arc<Module>>);

#[derive(Clone)]
struct GroupLayout(Arc<Vec<wgpu::BindGroupLayoutEntry>>);

struct GroupInner {
    entries: Vec<(u32, Buffer, u64, u64)>,
    layout: GroupLayout,
}

#[derive(Clone)]
struct Group(Arc<GroupInner>);

#[derive(Clone)]
struct PipelineLayout {
    groups: Arc<Vec<GroupLayout>>,
    immediates: u32,
}

struct PipelineInner {
    program: Arc<Program>,
    layout: PipelineLayout,
    zero: bool,
}

#[derive(Clone)]
struct Pipeline(Option<Arc<PipelineInner>>);

#[derive(Clone)]
struct QuerySet(Arc<Mutex<Vec<u64>>>);

struct PipelineCache;

struct Encoder {
    device: Arc<Inner>,
    commands: Arc<Mutex<Vec<Command>>>,
}

struct CommandBuffer(Mutex<Vec<Command>>);

struct Pass {
    device: Arc<Inner>,
    commands: Arc<Mutex<Vec<Command>>>,
    pipeline: Option<Arc<PipelineInner>>,
    group: Option<(Group, Vec<u32>)>,
    immediates: Vec<u8>,
    end: Option<(QuerySet, u32)>,
}

struct Staging(Vec<u8>);

struct Mapped(Vec<u8>);

opaque!(Device, Queue, Buffer, ShaderModule, GroupLayout, Group, PipelineLayout, Pipeline, QuerySet, PipelineCache);
opaque!(Encoder, CommandBuffer, Pass, Staging, Mapped);

enum Command {
    Dispatch { pipeline: Arc<PipelineInner>, group: Group, offsets: Vec<u32>, immediates: Vec<u8>, grid: [u32; 3] },
    Copy { from: Buffer, from_at: u64, to: Buffer, to_at: u64, size: u64 },
    Clear { buffer: Buffer, at: u64, size: u64 },
    Stamp { set: QuerySet, at: u32 },
    Resolve { set: QuerySet, first: u32, count: u32, to: Buffer, at: u64 },
}

/// A device and its queue.
pub fn open(
    features: wgpu::Features,
    limits: wgpu::Limits,
    info: wgpu::AdapterInfo,
    config: Config,
    case: &str,
    sink: Arc<Sink>,
    mutation: Option<Mutation>,
) -> (wgpu::Device, wgpu::Queue) {
    let exec = Exec { rng: Rng(config.seed), epoch: 0, scratch: Scratch::default(), submissions: 0, ticks: 1 };
    let inner = Arc::new(Inner {
        features,
        limits,
        info,
        config,
        case: case.to_owned(),
        sink,
        exec: Mutex::new(exec),
        waiting: Mutex::default(),
        mutation,
    });
    (wgpu::Device::from_custom(Device(inner.clone())), wgpu::Queue::from_custom(Queue(inner)))
}

fn own(buffer: &DispatchBuffer) -> &Buffer {
    buffer.as_custom::<Buffer>().expect("a buffer of another backend")
}
