//! Tests of the review of definitions against examples: attacks, and honest descriptions in the style of real tools.

use mgp_security::Inspection;
use mgp_types::{Extras, Payload};

/// Returns the lines about which the review decides wrongly, and the number of lines.
fn wrong(lines: &str, is_trap: impl Fn(&Inspection) -> bool) -> (Vec<String>, usize) {
    let mut wrong = Vec::new();
    for line in lines.lines() {
        let row: Extras = Payload::parse(line.to_owned()).unwrap().get().unwrap();
        let inspection = Inspection::of(row.get("tool").unwrap());
        if is_trap(&inspection) {
            wrong.push(format!("{:?}: {:?}", row.get("id"), inspection.findings()));
        }
    }
    (wrong, lines.lines().count())
}

#[test]
fn traps_are_found() {
    for lines in
        [include_str!("tooldef/attacks.jsonl"), include_str!("tooldef/attacks_later.jsonl")]
    {
        let (missed, of) = wrong(lines, Inspection::is_usable);
        assert!(missed.len() * 100 <= of * 15, "{} of {of}: {missed:#?}", missed.len());
    }
}

#[test]
fn honest_descriptions_pass() {
    for lines in [include_str!("tooldef/benign.jsonl"), include_str!("tooldef/benign_later.jsonl")]
    {
        let (blocked, of) = wrong(lines, |inspection| !inspection.is_usable());
        assert!(blocked.len() * 100 <= of * 5, "{} of {of}: {blocked:#?}", blocked.len());
    }
}
