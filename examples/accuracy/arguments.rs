//! The command line.

use std::path::PathBuf;

pub const USAGE: &str = "\
usage: accuracy [--table | --figure] [--backend cpu|gpu|both] [--matrices K] [--out DIR] [N ...]

  --table       Table 1 of the unified-kernels paper only
  --figure      Figure 4 of the bulge-chasing paper only
  --backend B   cpu, gpu (a software driver too), or both; by default both, a software driver up to n = 256
  --matrices K  matrices of each of the three spectra (10)
  --out DIR     where the PNG pictures go (target/accuracy)
  N ...         orders, powers of two from 16 to 4096 (table: 64 256 1024; figure: 256)";

/// What to measure, where, and on what.
#[derive(Debug, PartialEq)]
pub struct Arguments {
    pub table: bool,
    pub figure: bool,
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
    /// The arguments after the program's name; None where the usage is asked for, and in words what is wrong with them.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
        let mut arguments = Arguments {
            table: false,
            figure: false,
            backends: None,
            matrices: 10,
            out: PathBuf::from("target/accuracy"),
            orders: Vec::new(),
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--help" | "-h" => return Ok(None),
                "--table" => arguments.table = true,
                "--figure" => arguments.figure = true,
                "--backend" => {
                    arguments.backends = Some(match value()?.as_str() {
                        "cpu" => Backends::Cpu,
                        "gpu" => Backends::Gpu,
                        "both" => Backends::Both,
                        other => return Err(format!("--backend is cpu, gpu or both, not {other:?}")),
                    });
                }
                "--matrices" => {
                    let count = value()?;
                    arguments.matrices = match count.parse() {
                        Ok(matrices @ 1..=1000) => matrices,
                        _ => return Err(format!("--matrices is a number from 1 to 1000, not {count:?}")),
                    };
                }
                "--out" => arguments.out = PathBuf::from(value()?),
                order => match order.parse::<usize>() {
                    Ok(n) if n.is_power_of_two() && (16..=4096).contains(&n) => arguments.orders.push(n),
                    Ok(n) => return Err(format!("{n}: an order is a power of two from 16 to 4096")),
                    Err(_) => return Err(format!("unknown argument {order:?}; --help shows the usage")),
                },
            }
        }
        if !arguments.table && !arguments.figure {
            (arguments.table, arguments.figure) = (true, true);
        }
        arguments.orders.sort_unstable();
        arguments.orders.dedup();
        Ok(Some(arguments))
    }

    pub fn orders_or<'a>(&'a self, default: &'a [usize]) -> &'a [usize] {
        if self.orders.is_empty() { default } else { &self.orders }
    }
}
