//! Twenty thousand mutated lines: no panic, no wrong answer. The example of the same name does millions.
//!
//! Applies to: inbound.

use std::process::{Command, Stdio};

#[test]
fn twenty_thousand_mutated_lines() {
    let mut fuzz = std::env::current_exe().unwrap();
    fuzz.pop();
    fuzz.pop();
    fuzz.push("examples");
    fuzz.push("fuzz_lines");
    assert!(fuzz.exists(), "{} is missing: run the whole `cargo test`", fuzz.display());
    let output = Command::new(fuzz)
        .args(["--seed", "20250618", "--n", "20000"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let [said, complaint] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{complaint}");
    assert!(said.contains(r#""lines":20000"#) && said.contains(r#""panics":0"#), "{said}");
}
