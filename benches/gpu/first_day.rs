//! The first day on hardware: every check and measurement, each a process of its own with a time limit, and a report in Markdown that is
//! complete up to where it broke off. It needs no cargo and no network: `benches/first_day.sh pack DIR` puts the programs together.

use std::{
    error::Error,
    fmt::Write as _,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use svdvals_gpu::GpuContext;

use crate::{Arguments, shared::machine};

/// Seconds of all steps together, at least the sum of their limits.
const TOGETHER: f64 = 20.0 * 60.0;
/// Characters of a step's output that the report keeps, the last ones. The files have all of it.
const KEPT: usize = 12_000;

/// A step: a program beside this one, or this one itself.
struct Step {
    title: &'static str,
    /// None: this program.
    program: Option<&'static str>,
    arguments: Vec<String>,
    /// In seconds.
    limit: u64,
}

impl Step {
    fn own(title: &'static str, limit: u64, line: String) -> Step {
        Step { title, program: None, arguments: line.split_whitespace().map(String::from).collect(), limit }
    }

    fn other(title: &'static str, limit: u64, program: &'static str, line: String) -> Step {
        Step { program: Some(program), ..Step::own(title, limit, line) }
    }
}

/// The steps in the order of what they tell; small ones on a software driver.
fn steps(software: bool) -> Vec<Step> {
    let size = |hardware: &str, small: &str| if software { small.to_owned() } else { hardware.to_owned() };
    let (middle, small) = (size("1024,4096", "64"), size("512,1024", "32,64"));
    let mut steps = vec![
        Step::own("Do results repeat", 40, format!("--probe repeat --sizes {small} --types f32,c32")),
        Step::other(
            "Tests, every element type, with the driver's checks and without",
            160,
            "gpu_tests",
            size("", "own::f32::qr"),
        ),
        Step::other("Accuracy", 60, "accuracy", format!("--table --backend gpu --matrices 1 {}", size("1024 4096", "64"))),
        Step::own("What a dispatch costs", 20, "--probe gap".into()),
        Step::own("What the host does", 20, format!("--probe host --sizes {} --types f32", size("1024,4096", "64"))),
        Step::own("Compiled kernels", 80, format!("--probe statistics --sizes {} --types f32,f64,c32", size("4096", "64"))),
    ];
    for (n, limit) in if software { vec![("64", 20)] } else { vec![("1024", 20), ("4096", 30), ("16384", 60)] } {
        steps.push(Step::other("Kernels beside the model", limit, "cost", format!("{n} f32 measure")));
    }
    let large = size("16384 f32 measure deferred_columns=0", "64 f32 measure deferred_columns=0");
    steps.push(Step::other("And without deferred updates", 60, "cost", large));
    steps.extend([
        Step::own(
            "Singular values",
            120,
            format!("--sizes {} --types f32,f64,f16 --repeat 3 --csv gpu.csv", size("256,1024,4096,16384", "64")),
        ),
        Step::own("Hyperparameters", 130, format!("--probe grid --sizes {middle} --types f32 --repeat 2")),
        Step::own(
            "QR and least squares",
            90,
            format!("--qr --products native,split,half --sizes {middle} --types f32 --repeat 3 --csv qr.csv"),
        ),
        Step::own("Triangles", 40, format!("--triangular --sizes {middle} --types f32 --repeat 3 --csv triangular.csv")),
        Step::own("The first call", 30, format!("--startup --sizes {} --types f32", size("1024", "64"))),
        Step::other(
            "Peers",
            150,
            "python3",
            format!(
                "gpu_peers.py --sizes {} --types f32 --repeat 1 --give-up 40 --no-solves --csv peers.csv",
                size("1024,4096,16384", "64")
            ),
        ),
        Step::other(
            "Peers, QR",
            50,
            "python3",
            format!("gpu_peers.py --qr --sizes {middle} --types f32 --repeat 2 --csv peers_qr.csv"),
        ),
        Step::own(
            "Large",
            75,
            format!("--sizes {} --types f32 --repeat 1 --seconds 1 --csv large.csv", size("23200,32768", "128")),
        ),
    ]);
    steps
}

/// The program of a step: beside this one, or on the path.
fn program(step: &Step, beside: &Path) -> PathBuf {
    match step.program {
        None => std::env::current_exe().unwrap_or_else(|_| beside.join("gpu")),
        Some(name) => Some(beside.join(name)).filter(|path| path.is_file()).unwrap_or_else(|| name.into()),
    }
}

/// Runs a step, and returns what became of it.
fn run(step: &Step, beside: &Path, out: &Path, left: f64) -> String {
    let limit = (step.limit as f64).min(left);
    let start = |log: &File| -> std::io::Result<Child> {
        let mut command = Command::new(program(step, beside));
        // A script is beside the programs, and results go where the report is.
        let place = |word: &String| if word.ends_with(".py") { beside.join(word).into_os_string() } else { word.into() };
        command.args(step.arguments.iter().map(place)).current_dir(out).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log.try_clone()?).env("SVDVALS_GPU_REQUIRE", "1");
        // A step that is stopped leaves what it had to say. And Mesa's device-select layer prints a line for every device where there is no display.
        command.env("PYTHONUNBUFFERED", "1");
        if std::env::var_os("XDG_RUNTIME_DIR").is_none() {
            command.env("NODEVICE_SELECT", "1");
        }
        command.spawn()
    };
    let name = format!("{}_{}", step.title, step.arguments.first().map_or("", |word| word.trim_start_matches('-')));
    let name: String = name.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    let path = out.join(format!("{name}.log"));
    let log = match File::create(&path) {
        Ok(log) => log,
        Err(error) => return format!("{}: {error}\n", path.display()),
    };
    let clock = Instant::now();
    let mut child = match start(&log) {
        Ok(child) => child,
        Err(error) => return format!("did not start: {error}\n"),
    };
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break format!("passed, {:.1} s", clock.elapsed().as_secs_f64()),
            Ok(Some(status)) => break format!("FAILED, {status}, {:.1} s", clock.elapsed().as_secs_f64()),
            Ok(None) if clock.elapsed().as_secs_f64() > limit => {
                let _ = child.kill();
                let _ = child.wait();
                break format!("STOPPED after its {limit:.0} s");
            }
            Ok(None) => sleep(Duration::from_millis(100)),
            Err(error) => break format!("lost: {error}"),
        }
    };
    let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
    let from = (text.len().saturating_sub(KEPT)..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("{ended}\n\n```text\n{}\n```\n", text[from..].trim_end())
}

/// Runs all steps, and writes the report after each.
pub fn first_day(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let context = GpuContext::global()?;
    let own = std::env::current_exe()?;
    let beside = arguments.beside.clone().or_else(|| own.parent().map(Path::to_path_buf)).unwrap_or_default().canonicalize()?;
    let out = arguments.out.clone().unwrap_or_else(|| "first_day".into());
    fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let out = out.canonicalize()?;
    let commit = fs::read_to_string(beside.join("commit")).unwrap_or_else(|_| machine::commit());
    let mut report = format!("# {}\n\n", context.adapter_name());
    writeln!(report, "{}; svdvals-gpu {}\n", machine::adapter(&context), commit.trim())?;
    writeln!(report, "Limits: {:?}\n", context.limits())?;
    let software = context.is_software();
    drop(context);
    let (clock, steps) = (Instant::now(), steps(software));
    let allowed: u64 = steps.iter().map(|step| step.limit).sum();
    println!("{} steps, {allowed} s at most", steps.len());
    assert!(allowed as f64 <= TOGETHER, "the limits of the steps exceed {TOGETHER} s");
    for step in steps {
        let left = TOGETHER - clock.elapsed().as_secs_f64();
        let line = format!("{} {}", step.program.unwrap_or("gpu"), step.arguments.join(" "));
        println!("{} ({line})", step.title);
        let found = if left < 5.0 { "left out: the time is up\n".into() } else { run(&step, &beside, &out, left) };
        println!("  {}", found.lines().next().unwrap_or_default());
        writeln!(report, "## {}\n\n`{}`: {found}", step.title, line.trim())?;
        fs::write(out.join("report.md"), &report)?;
    }
    println!("{}", out.join("report.md").display());
    Ok(())
}
