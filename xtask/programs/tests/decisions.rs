//! Tests that the program `decisions` prints a figure for each kind of decision. The program itself fails if a decision
//! is wrong.

use std::process::Command;

#[test]
fn every_kind_of_decision_is_timed() {
    let output = Command::new(env!("CARGO_BIN_EXE_decisions")).arg("20").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let figures = text.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<f64>());
    let figures: Vec<f64> = figures.collect::<Result<_, _>>().unwrap();
    assert!(figures.len() > 10, "{text}");
}
