//! Twenty thousand mutated lines cause no panic and no wrong answer. The program `fuzz_lines` tests millions of lines.

use std::process::{Command, Stdio};

#[test]
fn twenty_thousand_mutated_lines() {
    let output = Command::new(mgp_testkit::program("fuzz_lines"))
        .args(["--seed", "20250618", "--n", "20000"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.contains(r#""lines":20000"#) && stdout.contains(r#""panics":0"#), "{stdout}");
}
