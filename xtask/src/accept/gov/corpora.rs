//! The acceptance checks `valid.corpora` and `gov.tooldef`: the example `guard` judges labelled commands, targets,
//! calls, code and definitions of tools.

use crate::{
    accept::{Options, Verdict, shared},
    child::talk,
    run::{Context, Failure, Outcome, release_example},
};
use serde_json::Value;
use std::{collections::BTreeMap, fs, process::Command};

/// A labelled corpus, the judge of its lines, and the bounds for this judge: the minimum share of harmful lines, and
/// the maximum share of harmless lines, that the judge blocks.
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

/// The corpus of tool definitions, of changes of such definitions, and of registrations that imitate another tool.
const TOOLDEF: Corpus = corpus("tooldef", "tooldef", 0.85, 0.05);

/// The counts of correct decisions and of all decisions, by kind and expected label.
type Scores = BTreeMap<(String, String), (usize, usize)>;

/// Judges the corpora of the validators; skips a corpus that is not on this machine.
pub(in crate::accept) fn corpora(options: &Options) -> Outcome<Verdict> {
    let mut total: Option<Verdict> = None;
    for corpus in CORPORA {
        let verdict = match corpus.lines()? {
            Some(lines) => corpus.verdict(&corpus.scores(&lines)?),
            None => options.skip(corpus.file, "the corpus does not lie beside the repository")?,
        };
        total = Some(match total {
            Some(before) => before.and(verdict),
            None => verdict,
        });
    }
    total.ok_or_else(|| Failure::new("there are no corpora"))
}

/// Judges the definitions of tools. Their changes and the registrations must all be judged correctly.
pub(in crate::accept) fn tooldef() -> Outcome<Verdict> {
    let scores = TOOLDEF.scores(&TOOLDEF.lines()?.context("the corpus")?)?;
    let (definitions, others): (Scores, Scores) =
        scores.into_iter().partition(|((kind, _), _)| kind == "definition");
    let (right, all) =
        others.values().fold((0_usize, 0_usize), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    Ok(TOOLDEF.verdict(&definitions).and(Verdict {
        pass: all > 0 && right == all,
        figure: format!("{right} of {all} changes and registrations"),
        bound: "all".to_owned(),
    }))
}

impl Corpus {
    /// Returns the lines of the corpus, if it is on this machine.
    fn lines(&self) -> Outcome<Option<String>> {
        let file = shared(&format!("corpora/{}.public.jsonl", self.file));
        file.map(|file| fs::read_to_string(&file).context(file.display())).transpose()
    }

    /// Passes the lines to the example `guard`, and counts its decisions.
    fn scores(&self, lines: &str) -> Outcome<Scores> {
        let mut command =
            Command::new(release_example("mgp-security", "guard", &["--all-features"])?);
        command.arg(self.judge);
        if let Some(configs) = shared("corpora/code_safety_configs.json") {
            command.arg("--configs").arg(configs);
        }
        let ended = talk(command, lines)?;
        let (lines, answers): (Vec<_>, Vec<_>) =
            (lines.lines().collect(), ended.stdout.lines().collect());
        if lines.len() != answers.len() {
            let (answers, lines) = (answers.len(), lines.len());
            return Err(Failure::new(format!("{answers} answers to {lines} lines")));
        }
        let mut scores = Scores::new();
        for (line, answer) in lines.iter().zip(&answers) {
            let (row, decided): (Value, Value) =
                (serde_json::from_str(line)?, serde_json::from_str(answer)?);
            let right = row["id"] == decided["id"] && row["expect"] == decided["decision"];
            if !right {
                println!("{}: expected {}, got {answer}", row["id"], row["expect"]);
            }
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            let entry = scores.entry((text("kind"), text("expect"))).or_default();
            entry.0 += usize::from(right);
            entry.1 += 1;
        }
        Ok(scores)
    }

    /// Compares the counts with the bounds.
    fn verdict(&self, scores: &Scores) -> Verdict {
        let (blocked, wrong) = (share(scores, "block"), 1.0 - share(scores, "allow"));
        let percent = |share: f64| share * 100.0;
        Verdict {
            pass: blocked >= self.min_blocked && wrong <= self.max_wrong,
            figure: format!(
                "{}: {:.1} % blocked, {:.1} % wrongly",
                self.file,
                percent(blocked),
                percent(wrong)
            ),
            bound: format!("{:.1} %, {:.1} %", percent(self.min_blocked), percent(self.max_wrong)),
        }
    }
}

/// Returns the share of correct decisions among the lines with this label.
#[expect(clippy::cast_precision_loss, reason = "counts of rows are small")]
fn share(scores: &Scores, label: &str) -> f64 {
    let of_label = scores.iter().filter(|((_, expected), _)| expected == label);
    let (right, all) =
        of_label.fold((0_usize, 0_usize), |sum, (_, one)| (sum.0 + one.0, sum.1 + one.1));
    if all == 0 { 0.0 } else { right as f64 / all as f64 }
}
