//! Types with their layout, in bytes and in registers.

use std::rc::Rc;

use wgpu::naga as n;

/// A type with its layout.
#[derive(Clone, Debug, PartialEq)]
pub enum T {
    Scalar(n::Scalar),
    Vector(u32, n::Scalar),
    Array(Rc<T>, Option<u32>, u32),
    Struct(Rc<Vec<(T, u32)>>, u32),
    Atomic(n::Scalar),
}

impl T {
    pub fn slots(&self) -> u32 {
        match self {
            T::Scalar(_) | T::Atomic(_) => 1,
            T::Vector(n, _) => *n,
            T::Array(t, len, _) => t.slots() * len.unwrap_or(0),
            T::Struct(members, _) => members.iter().map(|(t, _)| t.slots()).sum(),
        }
    }

    pub fn bytes(&self) -> u32 {
        match self {
            T::Scalar(s) | T::Atomic(s) => s.width.into(),
            T::Vector(n, s) => n * u32::from(s.width),
            T::Array(_, len, stride) => stride * len.unwrap_or(0),
            T::Struct(_, span) => *span,
        }
    }

    /// Offset and width of every scalar.
    pub fn leaves(&self, at: u32, out: &mut Vec<(u32, u32)>) {
        match self {
            T::Scalar(s) | T::Atomic(s) => out.push((at, s.width.into())),
            T::Vector(n, s) => (0..*n).for_each(|i| out.push((at + i * u32::from(s.width), s.width.into()))),
            T::Array(t, len, stride) => (0..len.unwrap_or(0)).for_each(|i| t.leaves(at + i * stride, out)),
            T::Struct(members, _) => members.iter().for_each(|(t, offset)| t.leaves(at + offset, out)),
        }
    }

    /// Runs of scalars of one width, side by side: offset, width, how many.
    pub fn runs(&self) -> Vec<(u32, u32, u32)> {
        let mut leaves = Vec::new();
        self.leaves(0, &mut leaves);
        let mut runs: Vec<(u32, u32, u32)> = Vec::new();
        for (at, width) in leaves {
            match runs.last_mut() {
                Some((start, w, len)) if *w == width && *start + *w * *len == at => *len += 1,
                _ => runs.push((at, width, 1)),
            }
        }
        runs
    }

    /// Part i: its type, and where it is, in bytes and in registers.
    pub fn part(&self, i: u32) -> Result<(T, u32, u32), String> {
        Ok(match self {
            T::Vector(n, s) if i < *n => (T::Scalar(*s), i * u32::from(s.width), i),
            T::Array(t, _, stride) => ((**t).clone(), i * stride, i * t.slots()),
            T::Struct(members, _) => {
                let before = members[..i as usize].iter().map(|(t, _)| t.slots()).sum();
                let (t, offset) = &members[i as usize];
                (t.clone(), *offset, before)
            }
            other => return Err(format!("part {i} of {other:?}")),
        })
    }

    /// What an index chooses from: type, distance in bytes and in registers, how many.
    pub fn element(&self) -> Result<(T, u32, u32, Option<u32>), String> {
        Ok(match self {
            T::Vector(n, s) => (T::Scalar(*s), s.width.into(), 1, Some(*n)),
            T::Array(t, len, stride) => ((**t).clone(), *stride, t.slots(), *len),
            other => return Err(format!("an index into {other:?}")),
        })
    }
}
