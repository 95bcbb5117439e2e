//! Derives the verdict on a scenario from the files that the conformance suite writes.

use crate::run::{Context, Outcome};
use serde_json::Value;
use std::{fs, path::Path};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) scenario: String,
    pub(super) verdict: Verdict,
    /// The number of passed checks; [`ADDED`], which the suite adds to every scenario, does not count.
    pub(super) passed: usize,
    /// The failed checks with their reasons, one per line.
    pub(super) faults: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    /// The suite reports no fault, but has checked nothing about the scenario.
    Vacuous,
    /// The scenario did not meet a recommendation.
    Warned,
    Fail,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Vacuous => "vacuous",
            Self::Warned => "WARNED",
            Self::Fail => "FAIL",
        }
    }

    /// Returns whether the verdict counts as a failure.
    pub(super) fn is_bad(self) -> bool {
        matches!(self, Self::Warned | Self::Fail)
    }
}

/// The check that the suite adds to every scenario. If a scenario has no other check, nothing about the scenario itself
/// was checked.
const ADDED: &str = "wire-schema-valid";

impl Judged {
    /// Derives the verdict from the checks in a `checks.json`.
    pub(super) fn of(scenario: &str, checks: &Value) -> Self {
        let mut judged = Self {
            scenario: scenario.to_owned(),
            verdict: Verdict::Vacuous,
            passed: 0,
            faults: Vec::new(),
        };
        let (mut failed, mut warned) = (false, false);
        for check in checks.as_array().map(Vec::as_slice).unwrap_or_default() {
            let text = |member: &str| check[member].as_str().unwrap_or_default();
            match text("status") {
                "SUCCESS" if text("id") != ADDED => judged.passed += 1,
                "FAILURE" => failed = true,
                "WARNING" => warned = true,
                _ => continue,
            }
            if matches!(text("status"), "FAILURE" | "WARNING") {
                let why: String = text("errorMessage").chars().take(400).collect();
                judged.faults.push(format!("{}: {}", text("id"), why.replace('\n', " ")));
            }
        }
        judged.verdict = match (failed, warned, judged.passed) {
            (true, _, _) => Verdict::Fail,
            (_, true, _) => Verdict::Warned,
            (_, _, 0) => Verdict::Vacuous,
            _ => Verdict::Pass,
        };
        judged
    }

    /// Returns the verdict on a scenario for which the suite wrote no output: a failure.
    pub(super) fn lost(scenario: &str) -> Self {
        Self {
            scenario: scenario.to_owned(),
            verdict: Verdict::Fail,
            passed: 0,
            faults: vec!["the suite did not run it".to_owned()],
        }
    }
}

/// Reads the output of the suite, in which each scenario has a folder with a `checks.json`; returns the verdicts.
pub(super) fn read(folder: &Path, side: &str) -> Outcome<Vec<Judged>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at).context(at.display())? {
            let path = entry?.path();
            if !path.is_dir() {
                continue;
            }
            let file = path.join("checks.json");
            if !file.is_file() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
            let name = name.strip_prefix(&format!("{side}-")).unwrap_or(&name);
            let checks = serde_json::from_str(&fs::read_to_string(&file).context(file.display())?)?;
            found.push(Judged::of(without_time(name), &checks));
        }
    }
    found.sort_by(|one, other| one.scenario.cmp(&other.scenario));
    Ok(found)
}

/// Removes the time, such as `-2026-11-20T12-00-00-000Z`, from the end of a folder's name.
fn without_time(name: &str) -> &str {
    const TIME: usize = "-2026-11-20T12-00-00-000Z".len();
    match name.len().checked_sub(TIME) {
        Some(at) if name.is_char_boundary(at) && name[at..].starts_with("-2") => &name[..at],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(status: &str, id: &str) -> Value {
        json!({"status": status, "id": id, "errorMessage": "because"})
    }

    #[test]
    fn only_what_was_checked_counts() {
        let judge = |checks: Value| Judged::of("s", &checks).verdict;
        assert_eq!(judge(json!([])), Verdict::Vacuous);
        assert_eq!(
            judge(json!([check("SUCCESS", ADDED), check("SKIPPED", "a")])),
            Verdict::Vacuous
        );
        assert_eq!(judge(json!([check("SUCCESS", "a"), check("INFO", "b")])), Verdict::Pass);
        assert_eq!(judge(json!([check("SUCCESS", "a"), check("WARNING", "b")])), Verdict::Warned);
        let failed = Judged::of("s", &json!([check("SUCCESS", "a"), check("FAILURE", ADDED)]));
        assert_eq!((failed.verdict, failed.passed), (Verdict::Fail, 1));
        assert_eq!(failed.faults, [format!("{ADDED}: because")]);
    }
}
