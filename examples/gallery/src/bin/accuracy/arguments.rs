//! The command line.

use std::path::PathBuf;

use crate::shared::arguments::{Words, unknown};

pub const USAGE: &str = "\
usage: accuracy [--table] [--figure] [--figure17] [--qr] [--backend cpu|gpu|both] [--matrices K] [--out DIR] [N ...]

  --table       Table 1 of the unified-kernels paper only
  --figure      Figure 4 of the bulge-chasing paper only
  --figure17    Figure 17 of the GPU-centred paper only: the decomposition with vectors; for each N also 5 N x N/4 matrices
  --qr          Table IV and Figures 9 and 10 of the paper on QR by tensor cores only
  --backend B   cpu, gpu (a software driver too), or both; by default both, a software driver up to n = 256
  --matrices K  matrices of each of the three spectra (10)
  --out DIR     where the PNG pictures go (target/accuracy)
  N ...         orders, powers of two from 16 to 4096 (table: 64 256 1024; figures: 256; qr: 128)";

/// What to measure, where, and on what.
#[derive(Debug, PartialEq)]
pub struct Arguments {
    pub table: bool,
    pub figure: bool,
    pub figure_17: bool,
    pub qr: bool,
    /// None: both, and a software driver only as far as it is quick.
    pub backends: Option<Backends>,
    pub matrices: u64,
    pub out: PathBuf,
    /// Empty: the experiment's own.
    pub orders: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Backends {
    Cpu,
    Gpu,
    Both,
}

impl Arguments {
    /// The arguments, or what is wrong with them.
    pub fn parse(words: &mut Words) -> Result<Arguments, String> {
        let mut arguments = Arguments {
            table: false,
            figure: false,
            figure_17: false,
            qr: false,
            backends: None,
            matrices: 10,
            out: PathBuf::from("target/accuracy"),
            orders: Vec::new(),
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--table" => arguments.table = true,
                "--figure" => arguments.figure = true,
                "--figure17" => arguments.figure_17 = true,
                "--qr" => arguments.qr = true,
                "--backend" => {
                    arguments.backends = Some(match words.name(&word, &["cpu", "gpu", "both"])? {
                        "cpu" => Backends::Cpu,
                        "gpu" => Backends::Gpu,
                        _ => Backends::Both,
                    });
                }
                "--matrices" => arguments.matrices = words.number(&word, 1..=1000)?,
                "--out" => arguments.out = PathBuf::from(words.value(&word)?),
                order => match order.parse::<usize>() {
                    Ok(n) if n.is_power_of_two() && (16..=4096).contains(&n) => arguments.orders.push(n),
                    Ok(n) => return Err(format!("{n}: an order is a power of two from 16 to 4096")),
                    Err(_) => return Err(unknown(order)),
                },
            }
        }
        if !(arguments.table || arguments.figure || arguments.figure_17 || arguments.qr) {
            (arguments.table, arguments.figure, arguments.figure_17, arguments.qr) = (true, true, true, true);
        }
        arguments.orders.sort_unstable();
        arguments.orders.dedup();
        Ok(arguments)
    }

    pub fn orders_or<'a>(&'a self, default: &'a [usize]) -> &'a [usize] {
        if self.orders.is_empty() { default } else { &self.orders }
    }
}
