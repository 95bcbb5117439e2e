//! The scenarios of the conformance suite that are known to fail, with reasons. A run fails if another scenario fails,
//! or if one of these passes.

use super::{judged::Judged, sets::Set};
use crate::run::{Failure, Outcome, root};
use std::fs;

const FILE: &str = "xtask/conformance-baseline.txt";

/// The parsed lines of the baseline file.
#[derive(Debug, Default)]
pub(super) struct Baseline(Vec<Line>);

#[derive(Debug, PartialEq, Eq)]
struct Line {
    set: String,
    scenario: String,
}

impl Baseline {
    pub(super) fn load() -> Outcome<Self> {
        Self::read(&fs::read_to_string(root().join(FILE))?)
    }

    /// Parses lines of the form `SIDE SET SCENARIO: why`.
    fn read(text: &str) -> Outcome<Self> {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let lines = lines.map(|line| {
            let wrong =
                || Failure::new(format!("{FILE}: `{line}` is not `SIDE SET SCENARIO: why`"));
            let (name, why) = line.split_once(": ").ok_or_else(wrong)?;
            let (set, scenario) = name.rsplit_once(' ').ok_or_else(wrong)?;
            if why.trim().is_empty() || Set::named(set).is_none() {
                return Err(wrong());
            }
            Ok(Line { set: set.to_owned(), scenario: scenario.to_owned() })
        });
        Ok(Self(lines.collect::<Outcome<_>>()?))
    }

    pub(super) fn lists(&self, set: &Set, scenario: &str) -> bool {
        self.0.iter().any(|line| line.set == set.shown() && line.scenario == scenario)
    }

    /// Returns a message for each deviation of a run from the baseline.
    pub(super) fn against(&self, set: &Set, run: &[Judged], all: Whole) -> Vec<String> {
        let name = set.shown();
        let mut wrong = Vec::new();
        for judged in run {
            let word = judged.verdict.word();
            match (self.lists(set, &judged.scenario), judged.verdict.is_bad()) {
                (false, true) => wrong.push(format!("{name} {}: {word}", judged.scenario)),
                (true, false) => wrong.push(format!(
                    "{name} {}: {word}, and {FILE} says that it fails; remove the line",
                    judged.scenario
                )),
                _ => {}
            }
        }
        if all == Whole::Yes {
            let lines = self.0.iter().filter(|line| line.set == name);
            let unknown = lines.filter(|line| !run.iter().any(|one| one.scenario == line.scenario));
            wrong.extend(unknown.map(|line| {
                format!("{name} {}: {FILE} lists it, and there is no such scenario", line.scenario)
            }));
        }
        wrong
    }
}

/// The extent of a run: all scenarios of a set, or only some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{judged::Verdict, sets::ALL};

    fn judged(scenario: &str, verdict: Verdict) -> Judged {
        Judged { verdict, ..Judged::lost(scenario) }
    }

    #[test]
    fn the_file_of_the_project_is_read() {
        Baseline::load().unwrap();
        assert!(Baseline::read("server 2026-07-28 a").is_err());
        assert!(Baseline::read("server 1999 a: b").is_err());
        assert!(Baseline::read("server 2026-07-28 a:  ").is_err());
    }

    #[test]
    fn it_is_strict_in_both_directions() {
        let set = ALL.iter().find(|set| set.shown() == "server 2026-07-28").unwrap();
        let baseline = Baseline::read("# why\nserver 2026-07-28 a: no\nserver 2025-11-25 b: no\n");
        let baseline = baseline.unwrap();
        let wrong = |run: &[Judged]| baseline.against(set, run, Whole::Yes).len();
        assert_eq!(wrong(&[judged("a", Verdict::Fail)]), 0);
        assert_eq!(wrong(&[judged("a", Verdict::Fail), judged("c", Verdict::Vacuous)]), 0);
        assert_eq!(wrong(&[judged("a", Verdict::Warned), judged("b", Verdict::Fail)]), 1);
        assert_eq!(wrong(&[judged("a", Verdict::Pass)]), 1);
        assert_eq!(wrong(&[]), 1);
        assert_eq!(baseline.against(set, &[], Whole::No).len(), 0);
    }
}
