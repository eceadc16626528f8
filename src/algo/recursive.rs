//! Recursive Householder QR (Leng, Zou, Wang, Wu and Zhang 2025, algorithm 3), over the kernels of either backend.
//!
//! ```text
//! A = [A1 A2]     A1 = Q1 [R11; 0], by recursion, down to panels
//!                 A2 <- Q1^H A2 = A2 - V1 (T1^H (V1^H A2)) = [R12; A22]
//!                 A22 = Q2 [R22; 0], by recursion
//! T = [T1 -T1 (V1^H V2) T2; 0 T2]     up to blocks of `Recursion::merged` columns
//! Q = (I - V T V^H) of the first block, times that of the second, ..
//! ```
//!
//! Everything but the panels is a product of large matrices. The order of the steps: `tile/products.rs`.

use std::ops::Range;

use faer::Mat;

use crate::{
    base::{blas::Op, error::Result, watch::Watch},
    tile::products::{Block, Into, Operand, Panel, Products, Recursion, RecursiveKernels, Reflectors, Step},
};

/// The reflectors of a factorisation, in the backend's memory.
pub(crate) struct Recursive<K: RecursiveKernels> {
    pub kernels: K,
    reflectors: Reflectors<K::Matrix>,
    shape: (usize, usize),
    products: Products,
    recursion: Recursion,
}

/// Room for the products V^H C and T V^H C.
struct Room<M> {
    first: M,
    second: M,
}

impl<K: RecursiveKernels> Recursive<K> {
    /// The factorisation of a matrix on the host: the first min(m, n) rows of R, with what is left of `a` below the diagonal, and Q's reflectors.
    pub async fn factor(
        kernels: K,
        a: faer::MatRef<'_, f32>,
        products: Products,
        recursion: Recursion,
        watch: &Watch,
    ) -> Result<(Mat<f32>, Self)> {
        let shape = a.shape();
        let mut a = kernels.upload(a)?;
        let this = Self::factor_in_place(kernels, (&mut a, shape), products, recursion, watch).await?;
        let r = this.kernels.download(&a, shape.0.min(shape.1)).await?;
        Ok((r, this))
    }

    /// The factorisation of a matrix in the backend's memory, in any memory order. R replaces its upper trapezoid.
    pub async fn factor_in_place(
        kernels: K,
        (a, shape): (&mut K::Matrix, (usize, usize)),
        products: Products,
        recursion: Recursion,
        watch: &Watch,
    ) -> Result<Self> {
        let (m, n) = shape;
        let k = m.min(n);
        let reflectors = Reflectors { v: kernels.zeros(m, k)?, t: kernels.zeros(recursion.merged.min(k), k)? };
        let mut this = Recursive { kernels, reflectors, shape: (m, n), products, recursion };
        let mut room = this.room(n)?;
        for step in recursion.steps(k, n) {
            let flops = step.flops(m);
            match step {
                Step::Panel(panel) => this.kernels.panel(a, &mut this.reflectors, &panel, m).await?,
                Step::Apply { of, block, cols } => this.apply_block(Op::ConjTrans, of, block, a, cols, &mut room)?,
                Step::Merge { left, right, block } => this.merge(left, right, block, &mut room)?,
            }
            watch.did(flops)?;
        }
        Ok(this)
    }

    /// The same reflectors with other kernels for what follows, and these.
    #[cfg(feature = "gpu")]
    pub fn with_kernels(self, kernels: K) -> (K, Self) {
        (self.kernels, Recursive { kernels, ..self })
    }

    fn room(&self, cols: usize) -> Result<Room<K::Matrix>> {
        let rows = self.recursion.merged.min(self.shape.0.min(self.shape.1));
        let zeros = || self.kernels.zeros(rows, cols.max(rows));
        Ok(Room { first: zeros()?, second: zeros()? })
    }

    /// C <- op(I - V T V^H) C for columns `cols` of C, with the reflectors `of`. The matrices are real.
    fn apply_block(
        &self,
        op: Op,
        of: Range<usize>,
        block: usize,
        c: &mut K::Matrix,
        cols: Range<usize>,
        room: &mut Room<K::Matrix>,
    ) -> Result<()> {
        let (m, width) = (self.shape.0, of.len());
        let v = Block::new(of.start..m, of.clone());
        let t = Block::new(of.start - block..of.end - block, of.clone());
        let below = Block::new(of.start..m, cols.clone());
        let inside = Block::new(0..width, 0..cols.len());
        let Reflectors { v: all_v, t: all_t } = &self.reflectors;
        let (kernels, products) = (&self.kernels, self.products);
        kernels.product(
            products,
            Operand { of: all_v, block: v, transposed: true },
            Operand { of: &*c, block: below, transposed: false },
            (&mut room.first, inside),
            Into::Replaced,
        )?;
        kernels.product(
            products,
            Operand { of: all_t, block: t, transposed: op != Op::NoTrans },
            Operand { of: &room.first, block: inside, transposed: false },
            (&mut room.second, inside),
            Into::Replaced,
        )?;
        kernels.product(
            products,
            Operand { of: all_v, block: v, transposed: false },
            Operand { of: &room.second, block: inside, transposed: false },
            (c, below),
            Into::Subtracted,
        )
    }

    /// One T for two neighbours: its upper right block.
    fn merge(&mut self, left: Range<usize>, right: Range<usize>, block: usize, room: &mut Room<K::Matrix>) -> Result<()> {
        let Reflectors { v, t } = &mut self.reflectors;
        let m = self.shape.0;
        let in_t = |rows: &Range<usize>, cols: &Range<usize>| Block::new(rows.start - block..rows.end - block, cols.clone());
        let inside = Block::new(0..left.len(), 0..right.len());
        let (kernels, products) = (&self.kernels, self.products);
        let of_v =
            |cols: &Range<usize>, transposed| Operand { of: &*v, block: Block::new(right.start..m, cols.clone()), transposed };
        kernels.product(products, of_v(&left, true), of_v(&right, false), (&mut room.first, inside), Into::Replaced)?;
        let of_t = |cols: &Range<usize>| Operand { of: &*t, block: in_t(cols, cols), transposed: false };
        let x = Operand { of: &room.first, block: inside, transposed: false };
        kernels.product(products, of_t(&left), x, (&mut room.second, inside), Into::Replaced)?;
        let m = Operand { of: &room.second, block: inside, transposed: false };
        kernels.product(products, m, of_t(&right), (&mut room.first, inside), Into::Negated)?;
        self.kernels.copy((&room.first, inside), (t, in_t(&left, &right)))
    }

    /// op(Q) C, for C with m rows.
    pub async fn apply(&self, op: Op, c: faer::MatRef<'_, f32>) -> Result<Mat<f32>> {
        let (mut on_device, cols) = (self.kernels.upload(c)?, c.ncols());
        self.apply_in_place(op, &mut on_device, cols)?;
        self.kernels.download(&on_device, self.shape.0).await
    }

    /// op(Q) C in place of C, which has m rows and this many columns, in the backend's memory.
    pub fn apply_in_place(&self, op: Op, c: &mut K::Matrix, cols: usize) -> Result<()> {
        let mut blocks = self.recursion.blocks(0..self.shape.0.min(self.shape.1));
        if op == Op::NoTrans {
            blocks.reverse();
        }
        let mut room = self.room(cols)?;
        for of in blocks.into_iter().filter(|of| !of.is_empty() && cols > 0) {
            self.apply_block(op, of.clone(), of.start, c, 0..cols, &mut room)?;
        }
        Ok(())
    }
}

/// The flops of the factorisation.
pub(crate) fn flops((m, n): (usize, usize), recursion: Recursion) -> u64 {
    recursion.steps(m.min(n), n).iter().map(|step| step.flops(m)).sum()
}

impl Step {
    /// Rows, columns and terms of the products of a step, for a matrix with m rows.
    pub fn products(&self, m: usize) -> Vec<[usize; 3]> {
        match self {
            Step::Panel(_) => Vec::new(),
            Step::Apply { of, cols, .. } => {
                let (rows, width, cols) = (m - of.start, of.len(), cols.len());
                vec![[width, cols, rows], [width, cols, width], [rows, cols, width]]
            }
            Step::Merge { left, right, .. } => {
                let (rows, l, r) = (m - right.start, left.len(), right.len());
                vec![[l, r, rows], [l, r, l], [l, r, r]]
            }
        }
    }

    /// The flops of a step: multiplications and additions of the products; of a panel, those of its QR factorisation and of its Q.
    pub fn flops(&self, m: usize) -> u64 {
        let product = |sizes: [usize; 3]| 2 * sizes.into_iter().map(|size| size as u64).product::<u64>();
        match self {
            Step::Panel(Panel { cols, .. }) => 2 * product([m - cols.start, cols.len(), cols.len()]),
            _ => self.products(m).into_iter().map(product).sum(),
        }
    }
}
