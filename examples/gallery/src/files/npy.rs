//! NumPy's `.npy`: the header. (Format: NumPy's documentation, `numpy.lib.format`, versions 1 to 3.)

use std::io::Read;

use crate::files::matrix::Stored;

pub const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest header that is read. NumPy refuses more than 10000 bytes.
const LONGEST: usize = 1 << 16;

#[derive(Debug, PartialEq)]
pub struct Header {
    pub stored: Stored,
    pub big_endian: bool,
    pub fortran_order: bool,
    pub shape: Vec<usize>,
    /// Where the entries begin.
    pub offset: u64,
}

/// Reads the header, from the file's first byte on.
pub fn header(mut file: impl Read) -> Result<Header, String> {
    let truncated = |_| "truncated: it ends within the header".to_owned();
    let mut start = [0; 8];
    file.read_exact(&mut start).map_err(truncated)?;
    let (length, fixed) = match start[6] {
        1 => {
            let mut length = [0; 2];
            file.read_exact(&mut length).map_err(truncated)?;
            (usize::from(u16::from_le_bytes(length)), 10)
        }
        2 | 3 => {
            let mut length = [0; 4];
            file.read_exact(&mut length).map_err(truncated)?;
            (u32::from_le_bytes(length) as usize, 12)
        }
        version => return Err(format!("version {version} of the format is not known")),
    };
    if length > LONGEST {
        return Err(format!("a header of {length} bytes: damaged, or no plain array"));
    }
    let mut text = vec![0; length];
    file.read_exact(&mut text).map_err(truncated)?;
    parse(&String::from_utf8_lossy(&text), (fixed + length) as u64)
}

/// The header's text is a Python dictionary: `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`.
fn parse(text: &str, offset: u64) -> Result<Header, String> {
    let value = |key: &str| {
        let after = |quote: char| text.split_once(&format!("{quote}{key}{quote}")).map(|(_, after)| after);
        let value = after('\'').or_else(|| after('"')).and_then(|after| after.trim_start().strip_prefix(':'));
        value.map(str::trim_start).ok_or_else(|| format!("damaged: the header has no {key}"))
    };
    let descr = value("descr")?;
    if descr.starts_with('[') {
        return Err("a structured array, not a matrix".into());
    }
    let descr = descr.split(['\'', '"']).nth(1).ok_or("damaged: the header has no type")?;
    let (stored, big_endian) = element(descr)?;
    let order = value("fortran_order")?;
    let fortran_order = match (order.starts_with("True"), order.starts_with("False")) {
        (true, _) => true,
        (_, true) => false,
        _ => return Err("damaged: the header's fortran_order is neither True nor False".into()),
    };
    let shape = value("shape")?;
    let inner = shape.strip_prefix('(').and_then(|shape| shape.split_once(')')).map(|(inner, _)| inner);
    let lengths = inner.into_iter().flat_map(|inner| inner.split(',')).map(str::trim).filter(|length| !length.is_empty());
    let shape: Option<Vec<usize>> = lengths.map(|length| length.parse().ok()).collect();
    match (inner, shape) {
        (Some(_), Some(shape)) => Ok(Header { stored, big_endian, fortran_order, shape, offset }),
        _ => Err("damaged: the header's shape is no tuple of lengths".into()),
    }
}

/// NumPy's name of a type: a byte order, a letter, a size in bytes. And whether the high byte comes first.
fn element(descr: &str) -> Result<(Stored, bool), String> {
    let name = descr.trim_start_matches(['<', '>', '|', '=']);
    let stored = match name {
        "f2" => Stored::F16,
        "f4" => Stored::F32,
        "f8" => Stored::F64,
        // What NumPy writes for the bfloat16 of ml_dtypes (and of JAX), which it has no name for.
        "V2" => Stored::Bf16,
        "c8" => Stored::C32,
        "c16" => Stored::C64,
        "b1" => Stored::Bool,
        "u1" => Stored::U8,
        "i1" => Stored::I8,
        "u2" => Stored::U16,
        "i2" => Stored::I16,
        "u4" => Stored::U32,
        "i4" => Stored::I32,
        "u8" => Stored::U64,
        "i8" => Stored::I64,
        _ => return Err(format!("type {descr:?} is none of f2, f4, f8, bfloat16, c8, c16, the integers and b1")),
    };
    Ok((stored, descr.starts_with('>') || descr.starts_with('=') && cfg!(target_endian = "big")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u8, text: &str) -> Vec<u8> {
        let mut bytes = [MAGIC, &[version, 0]].concat();
        match version {
            1 => bytes.extend((text.len() as u16).to_le_bytes()),
            _ => bytes.extend((text.len() as u32).to_le_bytes()),
        }
        [bytes, text.as_bytes().to_vec()].concat()
    }

    /// What NumPy writes, in each version, and what others write in its name: other quotes, spaces and order of keys.
    #[test]
    fn headers() {
        let text = "{'descr': '>c16', 'fortran_order': True, 'shape': (3, 40), }   \n";
        for version in 1..=3 {
            let header = header(&file(version, text)[..]).unwrap();
            assert_eq!((header.stored, header.big_endian, header.fortran_order), (Stored::C64, true, true));
            assert_eq!(header.shape, [3, 40]);
            assert_eq!(header.offset, text.len() as u64 + if version == 1 { 10 } else { 12 });
        }
        let other = header(&file(1, "{ \"shape\":(5 ,) ,\"descr\" :\"|u1\",\"fortran_order\":False}")[..]).unwrap();
        assert_eq!((other.stored, other.shape, other.fortran_order), (Stored::U8, vec![5], false));
        for name in ["<V2", "|V2"] {
            let text = format!("{{'descr': '{name}', 'fortran_order': False, 'shape': (2, 3), }}");
            assert_eq!(header(&file(1, &text)[..]).unwrap().stored, Stored::Bf16);
        }
    }

    /// A damaged header is an error, wherever it ends and whatever it says.
    #[test]
    fn damaged_headers() {
        let whole = file(2, "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }");
        assert!((0..whole.len()).all(|end| header(&whole[..end]).is_err()));
        for text in [
            "{'descr': '<f16', 'fortran_order': False, 'shape': (3, 4)}",
            "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<f8', 'fortran_order': None, 'shape': (3, 4)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3, -4)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 99999999999999999999999)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4",
            "{'descr': '<f8', 'shape': (3, 4)}",
            "{'descr': ",
            "((((((((",
        ] {
            assert!(header(&file(1, text)[..]).is_err(), "{text}");
        }
    }
}
