//! What varies from device to device: the order of threads, subgroups, and how numbers are rounded.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Random,
    Forward,
    Backward,
}

/// Which threads make a subgroup, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Those that follow one another.
    Linear,
    /// Those, the last one first.
    Reversed,
    /// Thread t is in subgroup t mod their number.
    Interleaved,
    /// Neighbours, in an order of chance.
    ShuffledLanes,
    /// Any.
    Shuffled,
    /// Neighbours, with lanes 1 and 2 of every four exchanged, as of blocks of 2 x 2.
    Quads,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub seed: u64,
    pub order: Order,
    pub subgroup: u32,
    pub mapping: Mapping,
    /// Whether `fma` is fused; WGSL leaves it open.
    pub fused: bool,
    /// Seed of the rewriting of arithmetic; None for arithmetic as the source has it.
    pub loose: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Config { seed: 1, order: Order::Random, subgroup: 32, mapping: Mapping::Linear, fused: true, loose: None }
    }
}

pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn shuffle<X>(&mut self, of: &mut [X]) {
        for k in (1..of.len()).rev() {
            of.swap(k, (self.next() % (k as u64 + 1)) as usize);
        }
    }
}

/// Subgroup and lane of every thread.
pub fn subgroups(threads: usize, config: &Config, rng: &mut Rng) -> Vec<(u32, u32)> {
    let size = config.subgroup as usize;
    let count = threads.div_ceil(size);
    let linear = |t: usize| ((t / size) as u32, (t % size) as u32);
    match config.mapping {
        Mapping::Linear => (0..threads).map(linear).collect(),
        Mapping::Reversed => (0..threads)
            .map(|t| {
                let (s, lane) = linear(t);
                let last = (threads - t / size * size).min(size) as u32 - 1;
                (s, last - lane)
            })
            .collect(),
        Mapping::Interleaved => (0..threads).map(|t| ((t % count) as u32, (t / count) as u32)).collect(),
        Mapping::Quads => (0..threads)
            .map(|t| {
                let (s, lane) = linear(t);
                let whole = t / size * size + size <= threads;
                (
                    s,
                    if whole && lane % 4 == 1 {
                        lane + 1
                    } else if whole && lane % 4 == 2 {
                        lane - 1
                    } else {
                        lane
                    },
                )
            })
            .collect(),
        Mapping::ShuffledLanes => {
            let mut out: Vec<_> = (0..threads).map(linear).collect();
            for chunk in out.chunks_mut(size) {
                let mut lanes: Vec<u32> = (0..chunk.len() as u32).collect();
                rng.shuffle(&mut lanes);
                chunk.iter_mut().zip(lanes).for_each(|(to, lane)| to.1 = lane);
            }
            out
        }
        Mapping::Shuffled => {
            let mut places: Vec<usize> = (0..threads).collect();
            rng.shuffle(&mut places);
            places.into_iter().map(linear).collect()
        }
    }
}
