//! The acceptance check `valid.corpora`: the validators decide on labelled commands, targets, calls and code.

use super::tooldef::{Score, score, share};
use crate::{
    accept::{Options, Verdict, shared},
    child::talk,
    run::{Outcome, release_example},
};
use std::{fs, process::Command};

/// A labelled corpus, the validator that judges its lines, and the bounds for this validator: the minimum share of
/// harmful lines and the maximum share of harmless lines that the validator blocks.
struct Corpus {
    judge: &'static str,
    file: &'static str,
    min_blocked: f64,
    max_wrong: f64,
}

const fn corpus(judge: &'static str, file: &'static str, blocked: f64, wrong: f64) -> Corpus {
    Corpus { judge, file, min_blocked: blocked, max_wrong: wrong }
}

const CORPORA: &[Corpus] = &[
    corpus("sandbox", "sandbox", 0.97, 0.01),
    corpus("network_restricted", "network_restricted", 0.995, 0.005),
    corpus("readonly", "readonly", 0.95, 0.03),
    corpus("code_safety", "code_safety_python", 0.97, 0.01),
    corpus("code_safety", "code_safety_javascript", 0.95, 0.02),
];

/// Passes each corpus to the example `guard`, and checks its decisions; skips a corpus that is not on this machine.
pub(in crate::accept) fn corpora(options: &Options) -> Outcome<Verdict> {
    let mut total: Option<Verdict> = None;
    for corpus in CORPORA {
        let verdict = match shared(&format!("corpora/{}.public.jsonl", corpus.file)) {
            Some(file) => measured(corpus, &fs::read_to_string(file)?)?,
            None => options.skip(corpus.file, "the corpus does not lie beside the repository")?,
        };
        total = Some(match total {
            Some(before) => before.and(verdict),
            None => verdict,
        });
    }
    total.ok_or_else(|| crate::run::Failure::new("there are no corpora"))
}

fn measured(corpus: &Corpus, lines: &str) -> Outcome<Verdict> {
    let mut command = Command::new(release_example("mgp-security", "guard", &["--all-features"])?);
    command.arg(corpus.judge);
    if let Some(configs) = shared("corpora/code_safety_configs.json") {
        command.arg("--configs").arg(configs);
    }
    let ended = talk(command, lines)?;
    let scores = score(lines, &ended.stdout)?;
    let blocked = of(&scores, "block");
    let wrong = 1.0 - of(&scores, "allow");
    Ok(Verdict {
        pass: blocked >= corpus.min_blocked && wrong <= corpus.max_wrong,
        figure: format!(
            "{}: {:.1} % blocked, {:.1} % wrongly",
            corpus.file,
            blocked * 100.0,
            wrong * 100.0
        ),
        bound: format!("{:.1} %, {:.1} %", corpus.min_blocked * 100.0, corpus.max_wrong * 100.0),
    })
}

/// Returns the share of correct decisions among the lines with this label.
fn of(scores: &Score, label: &str) -> f64 {
    let (mut right, mut all) = (0, 0);
    for ((_, expected), (correct, lines)) in scores {
        if expected == label {
            right += correct;
            all += lines;
        }
    }
    share(right, all)
}
