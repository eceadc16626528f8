//! Hyperparameters from a table: which entry counts, before what, and what a file may not be. The reports say what was used.

use std::{env, ffi::OsStr, fs, path::PathBuf};

use faer::Mat;
use half::f16;
use num_complex::Complex;
use svdvals_gpu::{
    Backend, CancelFlag, Element, GpuContext, HalfStorage, LstsqOptions, PanelTree, PartialTuning, QrOptions, RunOptions, Signs,
    SvdError, SvdOptions, SvdReport, SvdValsGpu, Tuning, TuningTable, Vectors,
};

use crate::{common::gaussian, own_process};

fn cpu() -> SvdOptions {
    SvdOptions::default().backend(Backend::Cpu)
}

fn leaf(leaf: usize) -> PartialTuning {
    PartialTuning::default().leaf(leaf)
}

fn tuning_of<T: Element>(m: usize, n: usize, options: &SvdOptions) -> svdvals_gpu::Result<Tuning> {
    let a: Mat<T> = gaussian(m, n, 1);
    a.svdvals_gpu_report(options).map(|report| report.tuning)
}

/// A file in the system's folder for such, removed when dropped.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let path = env::temp_dir().join(format!("svdvals-gpu-{}-{name}.json", std::process::id()));
        fs::write(&path, text).expect("a folder for temporary files");
        File(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The entry for the storage type and with the smallest bound that is no less than the smaller side; what it leaves open, and all where
/// there is no entry, is the default. Every storage type is found by its name.
#[test]
fn the_entry_that_fits() {
    let mut table = TuningTable::default();
    for (n_up_to, rows) in [(60, 600), (40, 400)] {
        table.set::<f32>(TuningTable::CPU, n_up_to, leaf(rows));
    }
    table.set::<f16>(TuningTable::CPU, 60, leaf(160));
    table.set::<f64>(TuningTable::CPU, 60, leaf(640));
    table.set::<Complex<f32>>(TuningTable::CPU, 60, leaf(320));
    table.set::<Complex<f64>>(TuningTable::CPU, 60, leaf(1280));
    table.set::<f32>("another device", 60, leaf(999));
    let options = cpu().tuning_table(table);
    for (shape, rows) in [((40, 40), 400), ((100, 40), 400), ((40, 100), 400), ((41, 41), 600), ((60, 60), 600)] {
        let n = shape.0.min(shape.1);
        let expected = Tuning::for_cpu::<f32>(n).leaf(rows);
        assert_eq!(tuning_of::<f32>(shape.0, shape.1, &options).unwrap(), expected, "{shape:?}");
    }
    assert_eq!(tuning_of::<f32>(61, 61, &options).unwrap(), Tuning::for_cpu::<f32>(61));
    assert_eq!(tuning_of::<f64>(50, 50, &options).unwrap().leaf, 640);
    assert_eq!(tuning_of::<Complex<f32>>(50, 50, &options).unwrap().leaf, 320);
    assert_eq!(tuning_of::<Complex<f64>>(50, 50, &options).unwrap().leaf, 1280);
    // What counts is what the matrix is held in.
    assert_eq!(tuning_of::<f16>(50, 50, &options).unwrap().leaf, 600);
    assert_eq!(tuning_of::<f16>(50, 50, &options.clone().half_storage(HalfStorage::Half)).unwrap().leaf, 160);
    // The hyperparameters of the call come first.
    let asked = Tuning::for_cpu::<f32>(40).leaf(77);
    assert_eq!(tuning_of::<f32>(40, 40, &options.tuning(asked.clone())).unwrap(), asked);
}

/// The stages one at a time take the same entry: a tile size shows as the band's width.
#[test]
fn single_stages_use_it() {
    let mut table = TuningTable::default();
    table.set::<f64>(TuningTable::CPU, 50, PartialTuning::default().tile_size(7));
    let a: Mat<f64> = gaussian(50, 50, 1);
    let band = SvdValsGpu::to_band(&a, &cpu().tuning_table(table.clone()).run).unwrap();
    assert_eq!(band.bandwidth(), 7);
    table.set::<f64>(TuningTable::CPU, 50, PartialTuning::default().tile_width(0));
    assert!(matches!(
        band.band_to_bidiag(&cpu().tuning_table(table).run),
        Err(SvdError::InvalidOption { option: "tile_width", .. })
    ));
}

/// An entry that makes no sense with the defaults beside it, or for the device, is an error that names hyperparameter and entry.
#[test]
fn entries_are_checked() {
    let mut table = TuningTable::default();
    table.set::<f32>(TuningTable::CPU, 300, leaf(33)); // a tile has 32 rows
    match tuning_of::<f32>(200, 200, &cpu().tuning_table(table.clone())) {
        Err(SvdError::InvalidOption { option: "leaf", reason }) => {
            assert!(reason.contains("\"cpu\", f32, n up to 300"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    let context = match GpuContext::global() {
        Ok(context) => context,
        Err(error) if env::var("SVDVALS_GPU_REQUIRE").is_ok_and(|v| v == "1") => panic!("{error}"),
        Err(_) => return,
    };
    let gpu = SvdOptions::default().backend(Backend::Gpu).context(context.clone());
    let defaults = Tuning::for_adapter::<f32>(&context, 50);
    let threads = |count| PartialTuning::default().threads_per_block(count);
    table.set::<f32>(context.adapter_name(), 50, threads(defaults.gpu.threads_per_block / 2));
    let tuning = tuning_of::<f32>(50, 50, &gpu.clone().tuning_table(table.clone())).unwrap();
    let half = defaults.gpu.threads_per_block / 2;
    assert_eq!(tuning, defaults.threads_per_block(half));
    table.set::<f32>(context.adapter_name(), 50, threads(1 << 30));
    match tuning_of::<f32>(50, 50, &gpu.tuning_table(table)) {
        Err(SvdError::InvalidOption { option: "threads_per_block", reason }) => {
            assert!(reason.contains(context.adapter_name()) && reason.contains("n up to 50"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

/// Every mistake in a file is an error with the file, the line and, where there is one, the field.
#[test]
fn bad_files_are_refused() {
    let key = r#""adapter": "cpu", "element": "f32", "n_up_to": 10"#;
    let entry = |tuning: &str| format!("{{\"entries\": [\n{{{key}, \"tuning\": {tuning}}}\n]}}");
    let rates = |rates: &str| format!("{{\"entries\": [],\n{rates}}}");
    let cases: [(&str, String, usize, Option<&str>, &str); 20] = [
        ("empty", String::new(), 1, None, "EOF"),
        ("not JSON", "{\n  entries\n}".into(), 2, None, "key must be a string"),
        ("cut off", "{\"entries\": [\n".into(), 2, Some("entries"), "EOF"),
        ("more behind it", "{\"entries\": []}\n[]".into(), 2, None, "trailing characters"),
        ("no entries", "{}".into(), 1, None, "missing field `entries`"),
        ("no list", "{\"entries\": 3}".into(), 1, Some("entries"), "a list of entries"),
        ("an unknown field", "{\"entries\": [],\n\"entry\": 1}".into(), 2, Some("entry"), "unknown field `entry`"),
        ("an unknown hyperparameter", entry("{\"leef\": 64}"), 2, Some("entries[0].tuning.leef"), "unknown field `leef`"),
        ("text for a number", entry("{\"leaf\": \"64\"}"), 2, Some("entries[0].tuning.leaf"), "invalid type"),
        ("a negative number", entry("{\"leaf\": -64}"), 2, Some("entries[0].tuning.leaf"), "invalid value"),
        ("an unknown tree", entry("{\"tree\": \"oak\"}"), 2, Some("entries[0].tuning.tree"), "unknown variant `oak`"),
        ("zero", entry("{\"tile_width\": 0}"), 2, Some("entries[0].tuning"), "tile_width: 0"),
        ("a small leaf", entry("{\"tile_size\": 32, \"leaf\": 63}"), 2, Some("entries[0].tuning"), "leaf: 63"),
        ("no tuning", format!("{{\"entries\": [{{{key}}}]}}"), 1, Some("entries[0]"), "missing field `tuning`"),
        (
            "an unknown type",
            format!("{{\"entries\": [{{{}, \"tuning\": {{}}}}]}}", key.replace("f32", "bf16")),
            1,
            Some("entries[0].element"),
            "\"bf16\" is none of f16, f32, f64, c32, c64",
        ),
        ("a rate of zero", rates(r#""cpu_rates": {"f32": 1e11, "f64": 0}"#), 2, Some("cpu_rates"), "a rate of 0"),
        ("one rate", rates(r#""cpu_rates": {"f32": 1e11}"#), 2, Some("cpu_rates"), "missing field `f64`"),
        ("a rate of f16", rates(r#""cpu_rates": {"f16": 1e11}"#), 2, Some("cpu_rates.f16"), "unknown field `f16`"),
        ("a negative speed", rates(r#""gpu_speeds": {"A GPU": -0.5}"#), 2, Some("gpu_speeds"), "a rate of -0.5"),
        (
            "an entry twice",
            format!("{{\"entries\": [\n{{{key}, \"tuning\": {{}}}},\n{{{key}, \"tuning\": {{}}}}]}}"),
            3,
            Some("entries"),
            "entry 1 is for the same as entry 0",
        ),
    ];
    for (what, text, at, of, why) in cases {
        let file = File::new("bad", &text);
        match TuningTable::load(&file.0) {
            Err(SvdError::TuningFile { path, line, field, reason }) => {
                let name = file.0.display().to_string();
                assert_eq!((path.as_str(), line, field.as_deref()), (name.as_str(), Some(at), of), "{what}: {reason}");
                assert!(reason.contains(why) && !reason.contains(" line "), "{what}: {reason}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    assert!(matches!(TuningTable::load(env::temp_dir()), Err(SvdError::TuningFile { line: None, .. })));
    assert!(matches!(TuningTable::default().save(env::temp_dir()), Err(SvdError::TuningFile { line: None, .. })));
}

/// What was saved is what is loaded, every hyperparameter, and `Tuning` and the options' names go through serde and back.
#[test]
fn round_trips() {
    let all = Tuning::for_cpu::<f64>(100).direct_up_to(1).tile_size(2).leaf(5).tree(PanelTree::Flat).split_k(3).cols_per_block(4);
    let all = all
        .tile_width(6)
        .threads_per_block(7)
        .sweeps_per_block(5)
        .cycles_per_dispatch(9)
        .max_blocks(8)
        .tiles_held(10)
        .split_beside(11)
        .rows_per_block(12)
        .lines_per_thread(1)
        .subgroup_threads(32)
        .strips_per_thread(2)
        .deferred_columns(13)
        .deferred_from(14)
        .deferred_beside(1)
        .formed_beside(1);
    let mut table = TuningTable::default();
    table.set::<f64>("a device, \"quoted\"\n", 1000, all.clone());
    table.set::<f16>(TuningTable::CPU, usize::MAX, PartialTuning::default());
    let file = File::new("saved", "");
    let loaded = |table: &TuningTable| {
        table.save(&file.0).unwrap();
        TuningTable::load(&file.0).unwrap()
    };
    assert_eq!((loaded(&table).cpu_rates(), loaded(&table).gpu_speed("a device, \"quoted\"\n")), (None, None));
    table.set_cpu_rates(1.25e11, 5e10).unwrap();
    table.set_gpu_speed("a device, \"quoted\"\n", 0.8).unwrap();
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let errors = [table.set_cpu_rates(rate, 1e9), table.set_cpu_rates(1e9, rate), table.set_gpu_speed("A GPU", rate)];
        assert!(errors.iter().all(|error| matches!(error, Err(SvdError::InvalidOption { option: "tuning_table", .. }))));
    }
    let loaded = loaded(&table);
    assert_eq!(loaded.entries(), table.entries());
    assert_eq!((loaded.cpu_rates(), loaded.gpu_speed("A GPU")), (Some((1.25e11, 5e10)), None));
    assert_eq!(loaded.gpu_speed("a device, \"quoted\"\n"), Some(0.8));
    assert_eq!(loaded.entries()[0].tuning.over(Tuning::for_cpu::<f64>(9)), all);

    let text = serde_json::to_string(&all).unwrap();
    assert_eq!(serde_json::from_str::<Tuning>(&text).unwrap(), all);
    assert!(serde_json::from_str::<Tuning>(r#"{"leaf": 64}"#).is_err());
    assert_eq!(serde_json::from_str::<Backend>("\"auto\"").unwrap(), Backend::Auto);
    assert_eq!(serde_json::from_str::<HalfStorage>("\"half\"").unwrap(), HalfStorage::Half);
    assert_eq!(serde_json::to_string(&svdvals_gpu::Stage3::Newton).unwrap(), "\"newton\"");
    assert_eq!(serde_json::to_string(&(Vectors::Thin, Signs::Largest)).unwrap(), r#"["thin","largest"]"#);
    let options = cpu().tuning(all.clone()).tuning_table(table).half_storage(HalfStorage::Half).threads(2);
    let options = options.vectors(Vectors::Left).keep(3).tolerance(1e-6).signs(Signs::Largest);
    let text = serde_json::to_string(&options.clone().cancel(CancelFlag::default())).unwrap();
    let back: SvdOptions = serde_json::from_str(&text).unwrap();
    assert_eq!(format!("{back:?}"), format!("{options:?}"));
    assert_eq!(format!("{:?}", serde_json::from_str::<SvdOptions>("{}").unwrap()), format!("{:?}", SvdOptions::default()));
    // One object: the options of the run stand beside those of the decomposition. Those of another decomposition are refused by name.
    let given: serde_json::Value = serde_json::from_str(&serde_json::to_string(&cpu().keep(3).threads(2)).unwrap()).unwrap();
    assert_eq!((&given["keep"], &given["threads"], &given["backend"]), (&3.into(), &2.into(), &"cpu".into()));
    let refused = |error: Option<serde_json::Error>, name: &str| {
        let text = error.unwrap_or_else(|| panic!("{name} is no error")).to_string();
        assert!(text.contains(&format!("unknown field `{name}`")), "{text}");
    };
    refused(serde_json::from_str::<SvdOptions>(r#"{"thread": 2}"#).err(), "thread");
    refused(serde_json::from_str::<SvdOptions>(r#"{"backend": "cpu", "ridge": 2.0}"#).err(), "ridge");
    refused(serde_json::from_str::<QrOptions>(r#"{"pivot": true, "keep": 3}"#).err(), "keep");
    refused(serde_json::from_str::<LstsqOptions>(r#"{"ridge": 2.0, "pivot": true}"#).err(), "pivot");
    refused(serde_json::from_str::<RunOptions>(r#"{"threads": 2, "vectors": "thin"}"#).err(), "vectors");
    let ridge: LstsqOptions = serde_json::from_str(r#"{"ridge": 2.0, "threads": 3}"#).unwrap();
    assert_eq!((ridge.ridge, ridge.run.threads), (2.0, Some(3)));
    assert!(all.to_string().starts_with("tile_size=2 leaf=5 tree=flat cols_per_block=4 tile_width=6 "), "{all}");
    let a: Mat<f64> = gaussian(5, 5, 1);
    let report: SvdReport<Vec<f64>> = a.svdvals_gpu_report(&cpu()).unwrap().map(|s| s.iter().copied().collect());
    let json: serde_json::Value = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(json["tuning"]["leaf"], 1024);
    assert_eq!(json["values"].as_array().unwrap().len(), 5);
    assert!(json["seconds"]["total"].as_f64().unwrap() > 0.0);
    assert_eq!(json["counts"]["dispatches"], 0);
}

/// `SVDVALS_GPU_TUNING` is read once in a process, so that each case is a process of its own: this test, run again.
#[test]
fn environment() {
    const CASE: &str = "SVDVALS_GPU_TEST_CASE";
    match env::var(CASE).as_deref() {
        Err(_) => {}
        Ok("good") => {
            assert_eq!(tuning_of::<f32>(50, 50, &cpu()).unwrap().leaf, 111);
            assert_eq!(tuning_of::<f32>(50, 50, &SvdOptions::default()).unwrap().leaf, 111);
            assert_eq!(tuning_of::<f32>(51, 51, &cpu()).unwrap(), Tuning::for_cpu::<f32>(51));
            // What the call brings comes first, an empty table too.
            let mut table = TuningTable::default();
            assert_eq!(tuning_of::<f32>(50, 50, &cpu().tuning_table(table.clone())).unwrap(), Tuning::for_cpu::<f32>(50));
            table.set::<f32>(TuningTable::CPU, 50, leaf(222));
            assert_eq!(tuning_of::<f32>(50, 50, &cpu().tuning_table(table)).unwrap().leaf, 222);
            return;
        }
        Ok("bad") => {
            // In every call, whatever its backend; but where the call needs no table, there is none to be wrong.
            for backend in [Backend::Cpu, Backend::Auto, Backend::Cpu] {
                match tuning_of::<f32>(50, 50, &SvdOptions::default().backend(backend)) {
                    Err(SvdError::TuningFile { line: Some(2), field: Some(field), .. }) => {
                        assert_eq!(field, "entries[0].n_up_to")
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(tuning_of::<f32>(50, 50, &cpu().tuning(Tuning::for_cpu::<f32>(50))).is_ok());
            return;
        }
        Ok("missing") => {
            let error = tuning_of::<f32>(50, 50, &cpu());
            assert!(matches!(error, Err(SvdError::TuningFile { line: None, .. })), "{error:?}");
            return;
        }
        Ok("empty") => {
            assert_eq!(tuning_of::<f32>(50, 50, &cpu()).unwrap(), Tuning::for_cpu::<f32>(50));
            return;
        }
        other => panic!("{other:?}"),
    }
    let good = r#"{"entries": [{"adapter": "cpu", "element": "f32", "n_up_to": 50, "tuning": {"leaf": 111}}]}"#;
    let (good, bad) = (File::new("good", good), File::new("ill", &good.replace("50", "\n\"many\"")));
    let cases = [("good", good.0.clone()), ("bad", bad.0.clone()), ("missing", "no/such/file".into()), ("empty", "".into())];
    for (case, path) in cases {
        own_process::run("tuning_table::environment", [(CASE, OsStr::new(case)), ("SVDVALS_GPU_TUNING", path.as_os_str())]);
    }
}
