//! A state in files and messages.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};

use crate::{
    api::{element::Element, row_blocks::RowBlocks},
    plan::row_blocks::Held,
};

/// The element type, the numbers of columns, right-hand sides, rows and blocks, the mean, and the upper triangle of R column by column, of
/// complex numbers both parts: in binary formats the state is stored exactly. `serde_json` reads numbers back exactly with its feature
/// `float_roundtrip`, and else to the last digit or so.
///
/// ```
/// # #[cfg(feature = "ndarray")] {
/// use svdvals_gpu::RowBlocks;
/// let mut rows = RowBlocks::new(2)?;
/// rows.push(&ndarray::array![[3.0f32, 1.0], [4.0, 2.0]])?;
/// let text = serde_json::to_string(&rows).unwrap();
/// let mut later: RowBlocks<f32> = serde_json::from_str(&text).unwrap();
/// later.push(&ndarray::array![[0.0, 5.0]])?;
/// assert_eq!(later.rows(), 3);
/// assert!(serde_json::from_str::<RowBlocks<f64>>(&text).unwrap_err().to_string().starts_with("rows of f32, not f64"));
/// # }
/// # Ok::<(), svdvals_gpu::SvdError>(())
/// ```
impl<T: Element> Serialize for RowBlocks<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        T::held_rows(&self.state).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de, T: Element> Deserialize<'de> for RowBlocks<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let state = T::rows_of_held(Held::deserialize(deserializer)?).map_err(D::Error::custom)?;
        Ok(RowBlocks { state })
    }
}
