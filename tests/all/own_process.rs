//! Tests in a process of their own: this program again, with one test.

use std::{env, ffi::OsStr, process::Command};

/// Names the test for which a process was started.
const TEST: &str = "SVDVALS_GPU_TEST";

/// Whether this process was started for the test of this name. Elsewhere the test is run in a new process, and its failure is a panic.
pub fn is_own(test: &str) -> bool {
    let own = env::var(TEST).is_ok_and(|name| name == test);
    if !own {
        run(test, [(TEST, test)]);
    }
    own
}

/// Runs one test in a new process with these environment variables.
pub fn run<V: AsRef<OsStr>>(test: &str, variables: impl IntoIterator<Item = (&'static str, V)>) {
    let mut again = Command::new(env::current_exe().expect("the path of this program"));
    let run = again.args(["--exact", test]).envs(variables).output().expect("this program starts again");
    let [said, errors] = [run.stdout, run.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(run.status.success() && said.contains("1 passed"), "{test}, in a process of its own: {said}{errors}");
}
