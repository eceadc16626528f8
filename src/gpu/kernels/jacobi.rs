//! Singular vectors of a batch on the device: one workgroup a matrix.

use crate::{
    base::{
        error::{Result, SvdError},
        number::Scalar,
        parallel::map,
    },
    cost::{
        jacobi::{JacobiShape, MOST_SWEEPS, leading_dimension_of_w},
        shape::Bounds,
        work::Work,
    },
    gpu::{
        device::{
            buffers::{Buffer, storage},
            parameters,
            pipeline::{JACOBI, JACOBI_SPILLED, Shader, Wanted},
        },
        kernels::{
            SOFTWARE_ITERATIONS,
            batch::{Begun, Classes, GpuBatch, Rotated, WORDS},
        },
    },
};

/// `done` of a matrix whose columns are orthogonal.
const FINISHED: u32 = 2;

/// The vectors of a round, being computed.
pub(super) struct Rotating {
    vectors: Buffer,
    done: Buffer,
    /// For each matrix its index in `done`, its columns, and the index and leading dimension of its W.
    placed: Vec<(usize, usize, usize, usize)>,
    len: usize,
}

fn shader(shape: &JacobiShape) -> &'static Shader {
    if shape.spilled { &JACOBI_SPILLED } else { &JACOBI }
}

impl Classes {
    /// The class of an m x n matrix, m >= n >= 1, with vectors, if it fits one.
    pub fn of_vectors(&self, (m, n): (usize, usize)) -> Option<JacobiShape> {
        let bounds = Bounds::of(&self.context);
        let shape = JacobiShape::of(self.kind, JacobiShape::largest(self.kind, &bounds), &bounds, (m, n)).filter(|_| n > 0)?;
        let bytes = (n * leading_dimension_of_w((m, n)) * self.kind.scalar_bytes()) as u64;
        let (outside, sweep) = shape.iterations((m, n));
        // The last sweep comes after another one, in a dispatch of its own if need be.
        let loops_end = !self.context.is_software() || outside + sweep <= SOFTWARE_ITERATIONS;
        (loops_end && bytes <= self.context.max_buffer_bytes()).then_some(shape)
    }
}

impl GpuBatch {
    fn class_of_vectors(&self, size: (usize, usize)) -> Result<JacobiShape> {
        let unfit = || SvdError::invalid("matrix", format!("{} x {} does not fit a workgroup", size.0, size.1));
        self.classes.of_vectors(size).ok_or_else(unfit)
    }

    /// The pipelines for matrices of these shapes.
    pub(super) fn wanted_for_vectors(&self, shapes: impl Iterator<Item = (usize, usize)>) -> Result<Vec<Wanted>> {
        let mut classes = shapes.map(|size| self.class_of_vectors(size)).collect::<Result<Vec<_>>>()?;
        classes.sort_unstable();
        classes.dedup();
        Ok(classes.into_iter().map(|shape| (shader(&shape), shape.constants().into(), 0)).collect())
    }

    /// Dispatches `jacobi` for the matrices of a round: once for each class, or for as many matrices as have the flops of a submission. On a
    /// software driver, which limits the iterations of a thread's loops, sweeps are spread over several dispatches.
    pub(super) fn rotate(&self, Begun { placed: of_round, entries, .. }: &Begun) -> Result<Rotating> {
        let (context, stream) = (&self.classes.context, &self.stream);
        let classes = of_round.iter().map(|placed| self.class_of_vectors(placed.size)).collect::<Result<Vec<_>>>()?;
        let mut order: Vec<usize> = (0..of_round.len()).collect();
        order.sort_by_key(|&k| classes[k]);
        let (mut len, mut placed, mut words) = (0usize, vec![(0, 0, 0, 0); of_round.len()], Vec::new());
        for (at, &k) in order.iter().enumerate() {
            let ((m, n), ld) = (of_round[k].size, leading_dimension_of_w(of_round[k].size));
            placed[k] = (at, n, len, ld);
            words.extend([m as u32, n as u32, of_round[k].from as u32, len as u32]);
            len += n * ld;
        }
        if len > u32::MAX as usize {
            // Shaders count in u32.
            return Err(SvdError::invalid("matrix", "the vectors of a round exceed an index of 32 bits"));
        }
        let vectors = storage(context, "vectors of a batch", (len * self.classes.kind.scalar_bytes()) as u64)?;
        let done = storage(context, "what is done of a batch", (4 * order.len()) as u64)?;
        let table = storage(context, "the table of the vectors of a batch", (4 * WORDS * order.len()) as u64)?;
        stream.upload(&table, words.len(), |at, piece: &mut [u32]| piece.copy_from_slice(&words[at..at + piece.len()]))?;

        let mut first = 0;
        for class in order.chunk_by(|&x, &y| classes[x] == classes[y]) {
            let shape = classes[class[0]];
            let pipeline = context.pipeline(self.classes.kind, shader(&shape), &shape.constants(), 0)?;
            let bindings = stream.bind(&pipeline, &[&table, entries, &done, &vectors], &[])?;
            let mut rest = class;
            while !rest.is_empty() {
                let sizes = |some: &[usize]| some.iter().map(|&k| of_round[k].size).collect::<Vec<_>>();
                let (some, others) = rest.split_at(self.decomposed_at_once(&shape, &sizes(rest)));
                let work = Work::jacobi(self.classes.kind, &shape, sizes(some).into_iter());
                let at_once = self.sweeps_at_once(&shape, &sizes(some));
                for begun in (0..MOST_SWEEPS).step_by(at_once) {
                    let sweeps = at_once.min(MOST_SWEEPS - begun) as u32;
                    let parameters = parameters::Jacobi { first, count: some.len() as u32, sweeps, begun: begun as u32 };
                    let [x, y] = stream.fold(some.len())?;
                    stream.dispatch(&pipeline, &bindings, parameters, [x, y, 1], work)?;
                }
                first += some.len() as u32;
                rest = others;
            }
        }
        Ok(Rotating { vectors, done, placed, len })
    }

    /// The number of matrices of these sizes, at least one, of one dispatch.
    fn decomposed_at_once(&self, shape: &JacobiShape, sizes: &[(usize, usize)]) -> usize {
        let mut flops = 0u64;
        let fits = |&&size: &&(usize, usize)| {
            flops = flops.saturating_add(Work::jacobi(self.classes.kind, shape, std::iter::once(size)).flops);
            flops <= self.stream.most_flops()
        };
        let most = self.stream.most_workgroups().saturating_pow(2).min(shape.most(self.classes.kind));
        sizes.iter().take(most).take_while(fits).count().max(1)
    }

    /// The number of sweeps, at least one, of one dispatch.
    fn sweeps_at_once(&self, shape: &JacobiShape, sizes: &[(usize, usize)]) -> usize {
        if !self.classes.context.is_software() {
            return MOST_SWEEPS;
        }
        let of_one = |&size: &(usize, usize)| {
            let (outside, sweep) = shape.iterations(size);
            SOFTWARE_ITERATIONS.saturating_sub(outside) / sweep
        };
        sizes.iter().map(of_one).min().unwrap_or(1).clamp(1, MOST_SWEEPS)
    }

    /// The W of each matrix; None if its columns are not orthogonal after [`MOST_SWEEPS`].
    pub(super) async fn rotated<T: Scalar>(
        &self,
        Rotating { vectors, done, placed, len }: Rotating,
    ) -> Result<Vec<Option<Rotated<T>>>> {
        let done: Vec<u32> = self.stream.read_back(&done, placed.len()).await?;
        let all: Vec<T> = self.stream.read_back(&vectors, len).await?;
        let of_one = |k: usize| {
            let (index, n, at, ld) = placed[k];
            (done[index] == FINISHED).then(|| Rotated { w: all[at..at + n * ld].to_vec(), ld })
        };
        Ok(map(placed.len(), of_one))
    }
}
