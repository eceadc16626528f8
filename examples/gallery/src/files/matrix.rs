//! A matrix in memory, in its own element type, and its singular values.

use std::io::{Read, Seek, SeekFrom};

use bytemuck::Pod;
use half::{bf16, f16};
use ndarray::{Array2, ShapeBuilder};
use num_complex::Complex;
use svdvals_gpu::{Backend, RealElement, SvdError, SvdOptions, SvdReport, SvdValsGpu};

/// What an entry is in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stored {
    F16,
    Bf16,
    F32,
    F64,
    C32,
    C64,
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
}

impl Stored {
    /// Bytes of an entry, and of each number in it.
    pub fn size(self) -> (usize, usize) {
        use Stored::*;
        match self {
            Bool | U8 | I8 => (1, 1),
            F16 | Bf16 | U16 | I16 => (2, 2),
            F32 | U32 | I32 => (4, 4),
            F64 | U64 | I64 => (8, 8),
            C32 => (8, 4),
            C64 => (16, 8),
        }
    }

    /// The type, and what it is computed as where the crate has no such element: the first that holds all its numbers, or f64.
    pub fn name(self) -> &'static str {
        use Stored::*;
        match self {
            F16 => "f16",
            Bf16 => "bf16",
            F32 => "f32",
            F64 => "f64",
            C32 => "c32",
            C64 => "c64",
            Bool => "bool as f32",
            U8 => "u8 as f32",
            I8 => "i8 as f32",
            U16 => "u16 as f32",
            I16 => "i16 as f32",
            U32 => "u32 as f64",
            I32 => "i32 as f64",
            U64 => "u64 as f64",
            I64 => "i64 as f64",
        }
    }
}

/// How the entries of a matrix lie in a file.
#[derive(Clone, Debug)]
pub struct Layout {
    pub stored: Stored,
    pub offset: u64,
    pub big_endian: bool,
    pub fortran_order: bool,
}

#[derive(Debug)]
pub enum Matrix {
    F16(Array2<f16>),
    Bf16(Array2<bf16>),
    F32(Array2<f32>),
    F64(Array2<f64>),
    C32(Array2<Complex<f32>>),
    C64(Array2<Complex<f64>>),
}

/// The singular values of a matrix, and what found them.
#[derive(Debug)]
pub struct Solved {
    /// Descending; each is a number of the matrix's own precision.
    pub values: Vec<f64>,
    pub backend: &'static str,
    pub adapter: Option<String>,
    pub reason: String,
    pub seconds: f64,
    /// What the matrix was held in: `f16`, `f32`, `f64`, `c32` or `c64`.
    pub held_in: &'static str,
    /// The machine epsilon of that.
    pub eps: f64,
}

impl Matrix {
    /// Reads a matrix that `file` is long enough for.
    pub fn read(mut file: impl Read + Seek, shape: (usize, usize), layout: &Layout) -> Result<Matrix, String> {
        use Stored::*;
        file.seek(SeekFrom::Start(layout.offset)).map_err(|error| error.to_string())?;
        macro_rules! read {
            ($t:ty) => {
                array(entries::<$t>(file, shape, layout)?, shape, layout)?
            };
            ($t:ty as $float:ty) => {
                array(entries::<$t>(file, shape, layout)?.into_iter().map(|x| x as $float).collect(), shape, layout)?
            };
        }
        Ok(match layout.stored {
            F16 => Matrix::F16(read!(f16)),
            Bf16 => Matrix::Bf16(read!(bf16)),
            F32 => Matrix::F32(read!(f32)),
            F64 => Matrix::F64(read!(f64)),
            C32 => Matrix::C32(read!(Complex<f32>)),
            C64 => Matrix::C64(read!(Complex<f64>)),
            Bool | U8 => Matrix::F32(read!(u8 as f32)),
            I8 => Matrix::F32(read!(i8 as f32)),
            U16 => Matrix::F32(read!(u16 as f32)),
            I16 => Matrix::F32(read!(i16 as f32)),
            U32 => Matrix::F64(read!(u32 as f64)),
            I32 => Matrix::F64(read!(i32 as f64)),
            U64 => Matrix::F64(read!(u64 as f64)),
            I64 => Matrix::F64(read!(i64 as f64)),
        })
    }

    pub fn solve(&self, options: &SvdOptions) -> Result<Solved, SvdError> {
        match self {
            Matrix::F16(a) => solve(a, options),
            Matrix::Bf16(a) => solve(a, options),
            Matrix::F32(a) => solve(a, options),
            Matrix::F64(a) => solve(a, options),
            Matrix::C32(a) => solve(a, options),
            Matrix::C64(a) => solve(a, options),
        }
    }
}

/// The entries in the order of the file, in the byte order of this machine.
fn entries<T: Pod>(mut file: impl Read, (rows, cols): (usize, usize), layout: &Layout) -> Result<Vec<T>, String> {
    let count = rows * cols;
    let mut entries: Vec<T> = Vec::new();
    entries.try_reserve_exact(count).map_err(|_| format!("no memory for {rows} x {cols} entries"))?;
    entries.resize(count, T::zeroed());
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut entries);
    file.read_exact(bytes).map_err(|error| error.to_string())?;
    if layout.big_endian != cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(layout.stored.size().1).for_each(<[u8]>::reverse);
    }
    Ok(entries)
}

fn array<T>(entries: Vec<T>, shape: (usize, usize), layout: &Layout) -> Result<Array2<T>, String> {
    Array2::from_shape_vec(shape.set_f(layout.fortran_order), entries).map_err(|error| error.to_string())
}

fn solve<A, R>(a: &A, options: &SvdOptions) -> Result<Solved, SvdError>
where
    A: SvdValsGpu<Values = ndarray::Array1<R>>,
    R: RealElement,
{
    let SvdReport { values, backend, reason, adapter, storage, seconds, .. } = a.svdvals_gpu_report(options)?;
    Ok(Solved {
        values: values.iter().map(|s| s.to_double()).collect(),
        backend: if backend == Backend::Gpu { "gpu" } else { "cpu" },
        adapter,
        reason: reason.into_owned(),
        seconds: seconds.total,
        held_in: storage,
        eps: match storage {
            "f16" => f16::EPSILON.to_f64(),
            "f32" | "c32" => f32::EPSILON.into(),
            _ => f64::EPSILON,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn read(stored: Stored, big_endian: bool, fortran_order: bool, bytes: &[u8]) -> Matrix {
        Matrix::read(Cursor::new(bytes), (2, 1), &Layout { stored, offset: 1, big_endian, fortran_order }).unwrap()
    }

    /// 3 and 4 in a column, in every type, byte order and memory order, have the one singular value 5, exactly: 9 + 16 = 25 is exact, and so
    /// is the division by the power of two.
    #[test]
    fn every_type_in_every_order() {
        macro_rules! check {
            ($($stored:ident: $of:expr),* $(,)?) => {$(
                for (big, fortran) in [(false, false), (false, true), (true, false), (true, true)] {
                    let mut bytes = vec![0]; // the offset's
                    for x in [3.0f64, 4.0] {
                        // Little and big end of every number of the entry.
                        let (little, high_first): (Vec<u8>, Vec<u8>) = $of(x);
                        bytes.extend(if big { high_first } else { little });
                    }
                    let solved = read(Stored::$stored, big, fortran, &bytes).solve(&SvdOptions::default().backend(Backend::Cpu));
                    assert_eq!(solved.unwrap().values, [5.0], "{}", Stored::$stored.name());
                }
            )*};
        }
        macro_rules! bytes {
            ($from:expr) => {
                |x: f64| ($from(x).to_le_bytes().to_vec(), $from(x).to_be_bytes().to_vec())
            };
        }
        macro_rules! complex {
            ($t:ty) => {
                // 3 is real, 4 imaginary.
                |x: f64| {
                    let parts = if x == 3.0 { [3.0 as $t, 0.0] } else { [0.0, 4.0 as $t] };
                    (parts.map(|p| p.to_le_bytes()).concat(), parts.map(|p| p.to_be_bytes()).concat())
                }
            };
        }
        check! {
            F16: bytes!(f16::from_f64), Bf16: bytes!(bf16::from_f64), F32: bytes!(|x| x as f32), F64: bytes!(|x: f64| x),
            C32: complex!(f32), C64: complex!(f64),
            U8: bytes!(|x| x as u8), I8: bytes!(|x| x as i8), U16: bytes!(|x| x as u16), I16: bytes!(|x| x as i16),
            U32: bytes!(|x| x as u32), I32: bytes!(|x| x as i32), U64: bytes!(|x| x as u64), I64: bytes!(|x| x as i64),
        }
    }

    /// Entry (i, j) is where NumPy has it, in either memory order.
    #[test]
    fn memory_orders() {
        let bytes: Vec<u8> = (0..6).collect();
        let mut layout = Layout { stored: Stored::U8, offset: 0, big_endian: false, fortran_order: false };
        let Ok(Matrix::F32(c)) = Matrix::read(Cursor::new(&bytes), (2, 3), &layout) else { panic!("no f32 matrix") };
        layout.fortran_order = true;
        let Ok(Matrix::F32(fortran)) = Matrix::read(Cursor::new(&bytes), (2, 3), &layout) else { panic!("no f32 matrix") };
        assert_eq!((c, fortran), (ndarray::array![[0., 1., 2.], [3., 4., 5.]], ndarray::array![[0., 2., 4.], [1., 3., 5.]]));
    }
}
