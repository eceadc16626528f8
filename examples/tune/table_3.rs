//! Table 3 of the unified-kernels paper: what one hyperparameter alone changes.

use svdvals_gpu::{Element, SvdError, Tuning};

use crate::{
    is_of_combination,
    search::{Place, Search},
};

/// The order, and the gains of TILESIZE 64 to 32 and of COLPERBLOCK 32 to 16; None where the device cannot.
pub type Row = (usize, [Option<f64>; 2]);

/// The papers' reference: SPLITK = 8, TILESIZE = 32, COLPERBLOCK = 32.
pub fn row<T: Element>(search: &Search<T>) -> Result<Row, SvdError> {
    let of = |tile_size: usize, cols_per_block: usize| {
        let base: Tuning = search.place().defaults::<T>(search.n).split_k(8).tile_size(tile_size).cols_per_block(cols_per_block);
        // The paper has no leaves: the longest that both fit and are common here.
        let fitting = [8, 4, 2].map(|tiles| base.clone().leaf(tiles * tile_size));
        let Some(tuning) = fitting.into_iter().find(|tuning| search.place().check::<T>(tuning)) else { return Ok(None) };
        match search.resident(&tuning) {
            Ok(seconds) => Ok(Some(seconds)),
            Err(error) if is_of_combination(&error) => Ok(None),
            Err(error) => Err(error),
        }
    };
    let (reference, tiles, columns) = (of(32, 32)?, of(64, 32)?, of(32, 16)?);
    let gain = |from: Option<f64>, to: Option<f64>| Some(1.0 - to? / from?);
    Ok((search.n, [gain(tiles, reference), gain(reference, columns)]))
}

pub fn print(rows: &[Row], place: &Place, element: &str) {
    println!("\nTable 3 of the unified-kernels paper, {element} on {}", place.machine());
    for (k, name) in ["TILESIZE 64 to 32", "COLPERBLOCK 32 to 16"].into_iter().enumerate() {
        println!("  {name}");
        for (n, gains) in rows {
            let gain = gains[k].map_or("the device does not allow it".into(), |gain| format!("{:.1}%", 100.0 * gain));
            println!("    {n:>6}  {gain}");
        }
    }
    println!(
        "  The share of the time that the second value saves (negative: that it adds), with the others at {}TILESIZE 32, COLPERBLOCK 32;\n  \
         time from the matrix on the device to the values; leaves of 8 tiles, or as many as fit.",
        if matches!(place, Place::Cpu) { "" } else { "SPLITK 8, " }
    );
}
