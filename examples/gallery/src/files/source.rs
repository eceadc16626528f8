//! From files to matrices: what is in a file is found first, and read when its turn comes.

use std::{
    fs::{self, File},
    io::{BufReader, Read, Seek},
    path::{Path, PathBuf},
};

use ndarray::Array2;

use crate::files::{
    image,
    matrix::{Layout, Matrix},
    npy, tensors,
};

/// A matrix in a file.
#[derive(Debug)]
pub struct Source {
    pub file: PathBuf,
    /// None: the file is the matrix.
    pub tensor: Option<String>,
    pub shape: (usize, usize),
    /// None: an image.
    layout: Option<Layout>,
}

/// What a file has: matrices and complaints in its order, and something to say that is no failure.
#[derive(Debug, Default)]
pub struct Found {
    pub matrices: Vec<Result<Source, String>>,
    pub note: Option<String>,
}

/// A complaint: one line that names the file, and the tensor.
pub fn complaint(file: &Path, tensor: Option<&str>, message: &str) -> String {
    let tensor = tensor.map(|name| format!("{name}: ")).unwrap_or_default();
    // Whatever a file or its parser says, the line stays one line.
    let line = format!("{}: {tensor}{message}", file.display());
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Looks into a file, for the tensors whose name matches.
pub fn find(path: &Path, pattern: Option<&str>) -> Found {
    let found = open(path).and_then(|(mut file, bytes)| {
        let mut start = Vec::new();
        file.by_ref().take(9).read_to_end(&mut start).map_err(|error| error.to_string())?;
        file.rewind().map_err(|error| error.to_string())?;
        if start.starts_with(npy::MAGIC) {
            Ok(Found { matrices: vec![Ok(array(path, file, bytes)?)], note: None })
        } else if start.starts_with(image::MAGIC) {
            let shape = checked(&image::shape(file, bytes).map(|(rows, cols)| [rows, cols])?)?;
            Ok(Found { matrices: vec![Ok(Source { file: path.into(), tensor: None, shape, layout: None })], note: None })
        } else if start.get(8) == Some(&b'{') {
            chosen(path, tensors::tensors(file, bytes)?, pattern)
        } else {
            Err("neither a .npy, nor a .safetensors, nor a .png file".into())
        }
    });
    found.unwrap_or_else(|message| Found { matrices: vec![Err(complaint(path, None, &message))], note: None })
}

fn open(path: &Path) -> Result<(BufReader<File>, u64), String> {
    // A pipe is not even opened: that would wait for its writer.
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("not a file".into());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    Ok((BufReader::new(file), metadata.len()))
}

/// The shape of a matrix that has entries.
fn checked(shape: &[usize]) -> Result<(usize, usize), String> {
    match *shape {
        [rows, cols] if rows > 0 && cols > 0 => Ok((rows, cols)),
        [_, _] => Err(format!("{}: no entries", lengths(shape))),
        _ => Err(format!("{}-D ({}), but a matrix is 2-D", shape.len(), lengths(shape))),
    }
}

fn lengths(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ")
}

fn array(path: &Path, file: impl Read, bytes: u64) -> Result<Source, String> {
    let npy::Header { stored, big_endian, fortran_order, shape, offset } = npy::header(file)?;
    let (rows, cols) = checked(&shape)?;
    let needed = rows.checked_mul(cols).and_then(|count| count.checked_mul(stored.size().0));
    let end = needed.and_then(|needed| offset.checked_add(needed as u64));
    if end.is_none_or(|end| end > bytes) {
        let has = bytes.saturating_sub(offset);
        return Err(format!("truncated: {rows} x {cols} entries of {} bytes, but {has} bytes are there", stored.size().0));
    }
    let layout = Some(Layout { stored, offset, big_endian, fortran_order });
    Ok(Source { file: path.into(), tensor: None, shape: (rows, cols), layout })
}

/// The 2-D tensors whose name matches; another is a complaint where the pattern is its whole name, and else is named in the note.
fn chosen(path: &Path, all: Vec<tensors::Tensor>, pattern: Option<&str>) -> Result<Found, String> {
    let mut found = Found::default();
    let mut others = Vec::new();
    for tensors::Tensor { name, shape, layout } in all {
        if !pattern.is_none_or(|pattern| tensors::matches(&name, pattern)) {
            continue;
        }
        if shape.len() != 2 && pattern != Some(name.as_str()) {
            others.push(format!("{name} ({}-D)", shape.len()));
            continue;
        }
        let source = checked(&shape)
            .and_then(|shape| Ok(Source { file: path.into(), tensor: Some(name.clone()), shape, layout: Some(layout?) }));
        found.matrices.push(source.map_err(|message| complaint(path, Some(&name), &message)));
    }
    let count = others.len();
    if count > 3 {
        others.splice(3.., [format!("and {} more", count - 3)]);
    }
    let others = others.join(", ");
    if !found.matrices.is_empty() {
        found.note = (count > 0).then(|| complaint(path, None, &format!("left out, not 2-D: {others}")));
        return Ok(found);
    }
    let what = pattern.map_or_else(String::new, |pattern| format!(" whose name matches {pattern:?}"));
    Err(if count > 0 { format!("no 2-D tensor{what}, only {others}") } else { format!("no tensor{what}") })
}

impl Source {
    /// What an entry is in the file, and computed as.
    pub fn element(&self) -> &'static str {
        self.layout.as_ref().map_or("grey as f32", |layout| layout.stored.name())
    }

    /// How much work the matrix is, in some unit: m n^2, m >= n, and four times that for complex numbers.
    pub fn work(&self) -> u64 {
        let (large, small) = (self.shape.0.max(self.shape.1) as u64, self.shape.0.min(self.shape.1) as u64);
        let complex = if self.element().starts_with('c') { 4 } else { 1 };
        large.saturating_mul(small).saturating_mul(small).saturating_mul(complex).max(1)
    }

    /// Bytes of the entries as the file has them; of an image one a pixel.
    pub fn bytes(&self) -> usize {
        self.shape.0 * self.shape.1 * self.layout.as_ref().map_or(1, |layout| layout.stored.size().0)
    }

    pub fn read(&self) -> Result<Matrix, String> {
        let (file, _) = open(&self.file)?;
        match &self.layout {
            Some(layout) => Matrix::read(file, self.shape, layout),
            None => image::grey(file),
        }
    }

    pub fn complain(&self, message: &str) -> String {
        complaint(&self.file, self.tensor.as_deref(), message)
    }
}

/// The one matrix in a file, which must be real.
pub fn real_matrix(path: &Path) -> Result<Array2<f64>, String> {
    let mut found = find(path, None).matrices;
    if found.len() != 1 {
        return Err(format!("{}: not one matrix, but {}", path.display(), found.len()));
    }
    let source = found.remove(0)?;
    match source.read().map_err(|message| source.complain(&message))? {
        Matrix::F16(a) => Ok(a.mapv(f64::from)),
        Matrix::Bf16(a) => Ok(a.mapv(f64::from)),
        Matrix::F32(a) => Ok(a.mapv(f64::from)),
        Matrix::F64(a) => Ok(a),
        Matrix::C32(_) | Matrix::C64(_) => Err(source.complain("complex numbers, but it must be real")),
    }
}

/// A name for each: the tensor's or the file's; both where there are several files, and the whole path where two files have one name.
pub fn names(sources: &[Source]) -> Vec<String> {
    let one_file = sources.iter().all(|source| source.file == sources[0].file);
    let name = |source: &Source| {
        let base = source.file.file_name();
        let ambiguous = sources.iter().any(|other| other.file != source.file && other.file.file_name() == base);
        let path = base.filter(|_| !ambiguous).map_or(source.file.as_path(), Path::new).display();
        match &source.tensor {
            Some(tensor) if one_file => tensor.clone(),
            Some(tensor) => format!("{path}: {tensor}"),
            None => path.to_string(),
        }
    };
    sources.iter().map(name).map(|name| name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()).collect()
}
