//! In place of `vulkan` where wgpu does not run through it.

use std::error::Error;

use svdvals_gpu::GpuContext;

use crate::Arguments;

const APART: &str = "does not apply: wgpu runs through Vulkan on Linux and Windows alone";

pub fn gap(_: &GpuContext, _: &str, _: [u32; 2], _: usize) -> Result<Vec<(&'static str, [f64; 2])>, Box<dyn Error>> {
    println!("{APART}");
    Ok(Vec::new())
}

pub fn statistics(_: &GpuContext, _: &[usize], _: &Arguments) -> Result<(), Box<dyn Error>> {
    println!("{APART}");
    Ok(())
}
