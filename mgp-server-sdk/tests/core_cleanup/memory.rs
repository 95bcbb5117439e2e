//! Measures the memory that a scenario (a part of a test) needs, in a separate process.

use std::process::{Command, Stdio};

use mgp_testkit::process_memory;

/// The environment variable that is set in the process that runs the scenario.
const SCENARIO_VARIABLE: &str = "MGP_TEST_SCENARIO";

/// Runs a scenario in a separate process, and checks that its memory does not grow by more than `bound` bytes.
///
/// `name` is the path of the test that calls this function. The separate process runs that test, which calls this
/// function again and so runs the scenario.
#[track_caller]
pub(crate) fn grows_less_than(bound: u64, name: &str, scenario: impl FnOnce()) {
    if std::env::var_os(SCENARIO_VARIABLE).is_some() {
        let memory = |figure| process_memory(std::process::id(), figure).unwrap_or(0);
        let before = memory("VmRSS");
        scenario();
        let grown = memory("VmHWM").saturating_sub(before);
        assert!(grown < bound, "memory grew by {} KiB", grown >> 10);
        return;
    }
    let played = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(SCENARIO_VARIABLE, "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let output = [played.stdout, played.stderr]
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .concat();
    assert!(played.status.success() && output.contains("1 passed"), "{output}");
}
