//! `.safetensors`: the header, and the tensors that are asked for. (Entries are read later, one matrix at a time.)

use std::io::Read;

use safetensors::{Dtype, tensor::Metadata};

use crate::files::matrix::{Layout, Stored};

/// The longest header that the format allows.
const LONGEST: u64 = 100_000_000;

/// A tensor of the file, as its header has it.
pub struct Tensor {
    pub name: String,
    pub shape: Vec<usize>,
    /// Where and how its entries lie, or why they cannot be used.
    pub layout: Result<Layout, String>,
}

/// All tensors, in the file's order, from a file of `bytes` bytes.
pub fn tensors(mut file: impl Read, bytes: u64) -> Result<Vec<Tensor>, String> {
    let mut start = [0; 8];
    file.read_exact(&mut start).map_err(|error| error.to_string())?;
    let length = u64::from_le_bytes(start);
    if length > LONGEST.min(bytes.saturating_sub(8)) {
        return Err(format!("truncated or damaged: a header of {length} bytes in a file of {bytes}"));
    }
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text).map_err(|error| error.to_string())?;
    let header: Metadata = serde_json::from_slice(&text).map_err(|error| format!("damaged header: {error}"))?;
    let offset = 8 + length;
    let describe = |name: String| {
        let info = header.info(&name)?;
        let end = offset.saturating_add(info.data_offsets.1 as u64);
        let layout = element(info.dtype).and_then(|stored| {
            if end > bytes {
                return Err(format!("truncated: its entries end at byte {end}, the file at {bytes}"));
            }
            let offset = offset + info.data_offsets.0 as u64;
            Ok(Layout { stored, offset, big_endian: false, fortran_order: false })
        });
        let shape = info.shape.clone();
        Some(Tensor { name, shape, layout })
    };
    Ok(header.offset_keys().into_iter().filter_map(describe).collect())
}

fn element(dtype: Dtype) -> Result<Stored, String> {
    match dtype {
        Dtype::F16 => Ok(Stored::F16),
        Dtype::BF16 => Ok(Stored::Bf16),
        Dtype::F32 => Ok(Stored::F32),
        Dtype::F64 => Ok(Stored::F64),
        Dtype::C64 => Ok(Stored::C32), // named by the bits of both parts together
        other => Err(format!("type {other:?} is none of F16, BF16, F32, F64 and C64")),
    }
}

/// Whether `name` contains `pattern`, in which `*` stands for anything.
pub fn matches(name: &str, pattern: &str) -> bool {
    let mut rest = Some(name);
    for part in pattern.split('*') {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, after)| after);
    }
    rest.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: usize) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; data]].concat()
    }

    /// Parts between stars stand in the name in their order, and do not overlap.
    #[test]
    fn patterns() {
        let name = "encoder.layer.0.attention.self.query.weight";
        for pattern in ["", "*", "query", "layer.0.*weight", "*self*", "encoder*weight*", name] {
            assert!(matches(name, pattern), "{pattern}");
        }
        for pattern in ["keys", "weight*layer", "query*query", "Query"] {
            assert!(!matches(name, pattern), "{pattern}");
        }
    }

    /// A tensor is where the header says; one of an unknown type, and one that the file ends in, keep the others from nothing.
    #[test]
    fn one_bad_tensor_leaves_the_others() {
        let header = r#"{"__metadata__":{"format":"pt"},
            "b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},
            "a":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8]},
            "c":{"dtype":"F64","shape":[2,2],"data_offsets":[20,52]}}"#;
        let whole = file(header, 52);
        let found = tensors(&whole[..], whole.len() as u64).unwrap();
        assert_eq!(found.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(found[0].layout.as_ref().unwrap_err().contains("I64"));
        let b = found[1].layout.as_ref().unwrap();
        assert_eq!((b.stored, b.offset, &found[1].shape[..]), (Stored::Bf16, (8 + header.len() + 8) as u64, &[2, 3][..]));
        let cut = &whole[..whole.len() - 1];
        let found = tensors(cut, cut.len() as u64).unwrap();
        assert!(found[1].layout.is_ok());
        assert!(found[2].layout.as_ref().unwrap_err().contains("truncated"));
    }

    /// A damaged header is an error, wherever it ends and whatever it says, and asks for no memory that the file does not have.
    #[test]
    fn damaged_headers() {
        let whole = file(r#"{"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}"#, 4);
        let header_end = whole.len() - 4;
        assert!((0..header_end).all(|end| tensors(&whole[..end], end as u64).is_err()));
        for header in [
            r#"{"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,4]}}"#,
            r#"{"a":{"dtype":"F32","shape":[1,1],"data_offsets":[4,0]}}"#,
            r#"{"a":{"dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,4]}}"#,
            r#"{"a":{"dtype":"Q4","shape":[1,1],"data_offsets":[0,4]}}"#,
            r#"{"a":[1,2]}"#,
            &"[".repeat(100_000),
        ] {
            assert!(tensors(&file(header, 4)[..], 8 + header.len() as u64 + 4).is_err(), "{header:.60}");
        }
        assert!(tensors(&[0xff; 100][..], 100).is_err());
    }
}
