//! What the papers report.

/// Orders in Table 1 of the unified-kernels paper: rows of the arrays below.
pub const ORDERS: [usize; 4] = [64, 256, 1024, 4096];

/// A column of Table 1: the largest error of 30 matrices by the paper's kernels on an NVIDIA GPU, and by cuSOLVER.
pub struct Column {
    pub unified: [f64; 4],
    pub cusolver: Option<[f64; 4]>,
}

pub const F64: Column =
    Column { unified: [5.8e-16, 8.3e-16, 1.4e-15, 3.7e-15], cusolver: Some([5.6e-16, 8.1e-16, 1.6e-15, 6.1e-15]) };
pub const F32: Column = Column { unified: [9.6e-8, 8.1e-8, 7.2e-8, 6.7e-8], cusolver: Some([5.7e-8, 4.8e-8, 3.6e-8, 3.5e-8]) };
/// Stored and computed as f16; cuSOLVER has no such routine.
pub const F16: Column = Column { unified: [4.3e-3, 3.3e-3, 6.4e-3, 6.2e-3], cusolver: None };

impl Column {
    /// The kernels' error at order n.
    pub fn unified_at(&self, n: usize) -> Option<f64> {
        at(&self.unified, n)
    }

    /// cuSOLVER's error at order n.
    pub fn cusolver_at(&self, n: usize) -> Option<f64> {
        at(self.cusolver.as_ref()?, n)
    }
}

fn at(column: &[f64; 4], n: usize) -> Option<f64> {
    Some(column[ORDERS.iter().position(|&order| order == n)?])
}

/// Figure 4 of the bulge-chasing paper is a picture without numbers; this is what its section VI.A says of it.
pub const FIGURE_4: &str = "\
The paper's figure has no numbers. Read from its text: FP64 errors \"remain near machine epsilon\", FP32 shows \"a predictable,
size-dependent increase\", FP16 \"retains acceptable relative accuracy\" up to n = 16384, and wider bands cost no accuracy.";

/// Figure 17 of the GPU-centred paper is a picture without numbers; this is what its section 5.1 says of it.
pub const FIGURE_17: &str = "\
The paper's figure has no numbers, and LAPACK's values are its reference. Its text: MAGMA and its own method are more accurate than rocSOLVER,
and as accurate as one another (square n = 10000, tall 20000 x 1000, in f64). Here the values s' are known, or computed in higher precision.";

/// What the paper on QR by tensor cores has in its Table IV, for n = 4096.
pub const TABLE_IV: &str = "The paper, n = 4096 on an A100 and an RTX 3090: f64 8.9e-16 to 2.5e-15 and 9.0e-17 to 2.5e-16; f32 7.6e-7 to 1.9e-6 and \
    3.1e-7 to 6.3e-7; f16 4.3e-4 to 6.4e-4 and 8.7e-5 to 9.3e-5.";
