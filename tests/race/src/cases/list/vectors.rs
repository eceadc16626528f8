//! Cases with vectors.

use super::*;

impl List {
    /// Decompositions with vectors, through the band and in one stage; values of the one-stage reduction.
    pub(super) fn vectors(&mut self) {
        let kinds = ["random", "two clusters", "graded", "rank third", "zero border", "unitary", "equal columns"];
        let shapes = [(40, 40), (50, 33), (33, 50), (90, 20), (20, 61), (17, 17), (1, 1), (65, 64), (5, 3)];
        let sides = [Vectors::Thin, Vectors::Full, Vectors::Left, Vectors::Right];
        for round in 0..if self.quick { 14 } else { 90 } {
            self.turn += 1;
            let turn = self.turn;
            let (k, kind, (m, n)) = (round % 5, kinds[(round / 2) % kinds.len()], shapes[(2 * round + round / 9) % shapes.len()]);
            let side = sides[if round % 3 == 0 { round / 3 % 4 } else { 0 }];
            let reduction = if round % 2 == 0 { Reduction::TwoStage } else { Reduction::OneStage };
            let tune = if round % 4 < 2 { self.tunings[0] } else { self.tunings[turn % self.tunings.len()] };
            let by_rows = round % 7 < 3;
            let call = Call { tune, m, n, by_rows, half: HalfStorage::Single, stage3: Stage3::Auto };
            let device = self.device(matches!(k, 1 | 4), turn * 3);
            let tell = |what: &str| format!("{what} {} {m} x {n} {}, tuning {tune}", WIDE_TYPES[k], order(by_rows));
            let name = tell(&format!("vectors {side:?}, {reduction:?}, {kind}"));
            let body: Body = Box::new(move |env: &Env| for_wide_types!(k, decomposition, env, call, kind, side, reduction));
            self.add(name, &device, body);
            if round % 4 == 0 {
                let call = Call { m: [50, 33, 40][round / 4 % 3], n: [33, 50, 40][round / 4 % 3], ..call };
                let kind = ["rank third", "zero", "graded", "one entry"][round / 4 % 4];
                let name = tell(&format!("leading triples, {kind}, {} x {}", call.m, call.n));
                self.add(name, &device, Box::new(move |env: &Env| for_wide_types!(k, leading, env, call, kind)));
            }
            let device = self.device(matches!(k, 1 | 4), turn * 5 + 1);
            let stage3 = if round % 4 == 1 { Stage3::Device } else { Stage3::Auto };
            if round % 3 == 0 {
                let call = Call { stage3, ..call };
                let name = tell("one-stage values");
                self.add(name, &device, Box::new(move |env: &Env| for_types!(k, one_stage, env, call)));
            } else if round % 3 == 1 {
                let name = tell(&format!("resident vectors {reduction:?}"));
                self.add(name, &device, Box::new(move |env: &Env| for_wide_types!(k, resident_vectors, env, call, reduction)));
            } else {
                let bandwidth = [1, 3, 7, 20][round / 3 % 4];
                let name = tell(&format!("vectors of a band of {bandwidth}"));
                self.add(name, &device, Box::new(move |env: &Env| for_wide_types!(k, band_vectors, env, call, bandwidth)));
            }
        }
    }

    /// Vectors of panels with several levels, `geqrt` of one of which runs beside `unmqr` of the level before and keeps its reflectors.
    pub(super) fn kept_beside(&mut self) {
        let tune = self.tunings[2];
        for (k, by_rows) in [(0, false), (0, true), (2, true)] {
            let call = Call { tune, m: 90, n: 61, by_rows, half: HalfStorage::Single, stage3: Stage3::Auto };
            let name = format!("kept beside, {} 90 x 61 {}", WIDE_TYPES[k], order(by_rows));
            let body: Body = Box::new(move |env: &Env| {
                for_wide_types!(k, decomposition, env, call, "random", Vectors::Thin, Reduction::TwoStage)
            });
            let device = self.device(false, k);
            self.add(name, &device, body);
        }
    }
}
