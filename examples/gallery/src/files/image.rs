//! PNG images, as matrices of grey values.

use std::io::Read;

use ndarray::Array2;
use png::{BitDepth, ColorType, Decoder, Transformations};

use crate::files::matrix::Matrix;

pub const MAGIC: &[u8] = b"\x89PNG\r\n\x1a\n";

/// The most that deflate, PNG's compression, can shrink bytes to: 1 in 1032.
const RATIO: u64 = 1032;

/// Rows and columns, from a file of `bytes` bytes.
pub fn shape(file: impl Read, bytes: u64) -> Result<(usize, usize), String> {
    let mut decoder = Decoder::new(file);
    let info = decoder.read_header_info().map_err(|error| error.to_string())?;
    let (width, height) = (u64::from(info.width), u64::from(info.height));
    let bits = (width * height).checked_mul(info.bits_per_pixel() as u64);
    if bits.is_none_or(|bits| bits / 8 > RATIO * bytes) {
        return Err(format!("truncated or damaged: {bytes} bytes cannot hold {width} x {height} pixels"));
    }
    Ok((height as usize, width as usize))
}

/// Grey values from 0 to 255, or to 65535 where the image has 16 bits. Colours by their luma (ITU-R BT.601: 0.299 R + 0.587 G + 0.114 B);
/// transparency is left out. To be called on what [`shape`] accepts.
pub fn grey(file: impl Read) -> Result<Matrix, String> {
    let mut decoder = Decoder::new(file);
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(|error| error.to_string())?;
    let mut pixels = vec![0; reader.output_buffer_size()];
    let frame = reader.next_frame(&mut pixels).map_err(|error| error.to_string())?;
    let values: Vec<f32> = match frame.bit_depth {
        BitDepth::Sixteen => pixels.as_chunks().0.iter().map(|&b| u16::from_be_bytes(b).into()).collect(),
        _ => pixels.into_iter().map(f32::from).collect(),
    };
    let luma = |pixel: &[f32]| 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2];
    let grey = match frame.color_type {
        ColorType::Grayscale | ColorType::Indexed => values,
        ColorType::GrayscaleAlpha => values.chunks_exact(2).map(|pixel| pixel[0]).collect(),
        ColorType::Rgb => values.chunks_exact(3).map(luma).collect(),
        ColorType::Rgba => values.chunks_exact(4).map(luma).collect(),
    };
    let grey = Array2::from_shape_vec((frame.height as usize, frame.width as usize), grey);
    Ok(Matrix::F32(grey.map_err(|error| error.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(color: ColorType, depth: BitDepth, size: (u32, u32), data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, size.0, size.1);
        encoder.set_color(color);
        encoder.set_depth(depth);
        encoder.write_header().unwrap().write_image_data(data).unwrap();
        bytes
    }

    fn values(color: ColorType, depth: BitDepth, data: &[u8]) -> Vec<f32> {
        let Matrix::F32(grey) = grey(&png(color, depth, (2, 1), data)[..]).unwrap() else { panic!("not f32") };
        assert_eq!(grey.dim(), (1, 2));
        grey.into_raw_vec_and_offset().0
    }

    /// Two pixels of every kind. Grey ones are exact; luma is three products, so within 4 eps of 255.
    #[test]
    fn every_kind_of_pixel() {
        assert_eq!(values(ColorType::Grayscale, BitDepth::Eight, &[3, 250]), [3.0, 250.0]);
        assert_eq!(values(ColorType::Grayscale, BitDepth::One, &[0b0100_0000]), [0.0, 255.0]);
        assert_eq!(values(ColorType::Grayscale, BitDepth::Sixteen, &[1, 0, 255, 255]), [256.0, 65535.0]);
        assert_eq!(values(ColorType::GrayscaleAlpha, BitDepth::Eight, &[3, 0, 250, 128]), [3.0, 250.0]);
        let near = |found: Vec<f32>, wanted: [f32; 2]| {
            assert!(found.iter().zip(wanted).all(|(x, y)| (x - y).abs() < 4.0 * f32::EPSILON * 255.0), "{found:?}");
        };
        near(values(ColorType::Rgb, BitDepth::Eight, &[255, 0, 0, 9, 9, 9]), [76.245, 9.0]);
        near(values(ColorType::Rgba, BitDepth::Eight, &[0, 255, 0, 7, 0, 0, 255, 0]), [149.685, 29.07]);
    }

    /// An image cut anywhere is an error, or (where only its last chunk is gone) whole; never a panic, nor memory for pixels that a small file
    /// cannot have.
    #[test]
    fn cut_images() {
        let data: Vec<u8> = (0..64).map(|k| (k * 37) as u8).collect();
        let whole = png(ColorType::Grayscale, BitDepth::Eight, (8, 8), &data);
        let pixels_end = whole.len() - 12; // IEND
        for end in 0..whole.len() {
            let cut = &whole[..end];
            assert!(shape(cut, end as u64).and_then(|_| grey(cut)).is_err() || end >= pixels_end, "{end}");
        }
        let mut large = Vec::new();
        png::Encoder::new(&mut large, 0x7fff_ffff, 0x7fff_ffff).write_header().unwrap();
        assert!(shape(&large[..], large.len() as u64).unwrap_err().contains("cannot hold"));
    }
}
