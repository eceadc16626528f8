//! A state in files and messages.

use faer::{Mat, traits::ComplexField};

use crate::{
    base::{
        error::Result,
        number::{Number, Scalar},
    },
    cpu::tall::leaves::Wide,
    plan::row_blocks::{Mean, Part, State},
};

/// A state in files and messages.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    element: String,
    columns: usize,
    right_sides: usize,
    rows: u64,
    blocks: u64,
    /// The two parts of the mean.
    mean: Option<[Vec<f64>; 2]>,
    /// The triangle is that of 2^`exponent` times the rows.
    exponent: i32,
    /// Its columns, down to the diagonal.
    triangle: Vec<f64>,
}

impl<T: Scalar> State<T> {
    pub(crate) fn held(&self, element: &str) -> Result<Held> {
        let Part { rows: r, exponent } = self.whole()?;
        let columns = self.columns();
        let parts = |x: Wide<T>| {
            let x = x.to_complex();
            [x.re, x.im].into_iter().take(1 + usize::from(T::IS_COMPLEX))
        };
        let triangle = (0..columns).flat_map(|j| (0..=j).map(move |i| (i, j))).flat_map(|at| parts(r[at])).collect();
        let mean = self.mean.as_ref().map(|mean| [&mean.shift, &mean.rest].map(|of| of.iter().flat_map(|&x| parts(x)).collect()));
        let (element, right_sides) = (element.into(), self.p);
        Ok(Held { element, columns: self.n, right_sides, rows: self.rows, blocks: self.blocks, mean, exponent, triangle })
    }
}

impl Held {
    /// The state.
    ///
    /// # Errors
    /// As text, if it is none of `T`.
    pub(crate) fn into_state<T: Scalar>(self, name: &str) -> std::result::Result<State<T>, String> {
        let Held { element, columns: n, right_sides: p, rows, blocks, mean, exponent, triangle } = self;
        if element != name {
            return Err(format!("rows of {element}, not {name}"));
        }
        let mut state = State::new(n, p, mean.is_some()).map_err(|error| error.to_string())?;
        let (columns, parts) = (state.columns(), 1 + usize::from(T::IS_COMPLEX));
        let numbers = |of: &[f64], count: usize, what| match of.len() == count * parts && of.iter().all(|x| x.is_finite()) {
            true => {
                let number = |x: &[f64]| Wide::<T>::from_complex(num_complex::Complex::new(x[0], *x.get(1).unwrap_or(&0.0)));
                Ok(of.chunks_exact(parts).map(number).collect::<Vec<_>>())
            }
            false => Err(format!("{what} must have {} finite numbers", count * parts)),
        };
        let packed = numbers(&triangle, columns * (columns + 1) / 2, "triangle")?;
        let entry = |i: usize, j: usize| if i <= j { packed[j * (j + 1) / 2 + i] } else { Wide::<T>::zero_impl() };
        if rows > 0 {
            state.triangle = Part { rows: Mat::from_fn(columns, columns, entry), exponent };
        }
        if let Some([shift, rest]) = mean {
            state.mean = Some(Mean { shift: numbers(&shift, columns, "mean")?, rest: numbers(&rest, columns, "mean")? });
        }
        (state.rows, state.blocks) = (rows, blocks);
        if exponent.abs() > 1022 {
            return Err(format!("exponent {exponent} is not between -1022 and 1022"));
        }
        Ok(state)
    }
}
