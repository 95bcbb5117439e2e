//! Runs the example that searches for every query of a set, and reads what it ranked.

use super::{
    data::{Set, lines},
    score::Ranking,
};
use crate::run::{Context, Failure, Outcome, Program, release_example, target};
use serde::Deserialize;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// How many tools are ranked for a query.
const RANKED: &str = "20";

/// What makes vectors of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Embedder {
    /// The table in the crate.
    Static,
    /// The sentence encoder.
    Sentence,
}

/// A run: what is searched, for which queries, how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) set: &'a Set,
    pub(super) strategy: &'a str,
    pub(super) embedder: Embedder,
    /// Queries other than those of the set.
    pub(super) queries: Option<&'a Path>,
    /// Which tools were called after earlier queries.
    pub(super) history: Option<&'a Path>,
}

/// What came of a run.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) ranking: Ranking,
    /// The last line it printed.
    pub(super) figures: Value,
}

/// The example, built.
#[derive(Debug)]
pub(super) struct Searcher {
    program: PathBuf,
    /// The folder of the sentence encoder, if it is on this machine.
    model: Option<PathBuf>,
    /// Where files of the checks are put.
    pub(super) scratch: PathBuf,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    ranked: Vec<String>,
}

impl<'a> Ask<'a> {
    /// The queries of a set, by the table in the crate.
    pub(super) fn new(set: &'a Set, strategy: &'a str) -> Self {
        Self { set, strategy, embedder: Embedder::Static, queries: None, history: None }
    }
}

impl Searcher {
    /// Builds it as users would, with the encoder if one is here.
    pub(super) fn build() -> Outcome<Self> {
        let model = model();
        let features: &[&str] = if model.is_some() { &["--features", "fastembed"] } else { &[] };
        let program = release_example("mgp-toolindex", "search_eval", features)?;
        let scratch = target()?.join("scratch/index");
        fs::create_dir_all(&scratch).context(scratch.display())?;
        Ok(Self { program, model, scratch })
    }

    /// The embedders that can be run here.
    pub(super) fn embedders(&self) -> &'static [Embedder] {
        match self.model {
            Some(_) => &[Embedder::Static, Embedder::Sentence],
            None => &[Embedder::Static],
        }
    }

    /// Runs it.
    pub(super) fn run(&self, ask: Ask<'_>) -> Outcome<Answer> {
        let out = self.scratch.join("run.jsonl");
        let queries = ask.queries.map_or_else(|| ask.set.queries_file(), Path::to_path_buf);
        let mut program = Program::new(&self.program)
            .args(&["--tools"])
            .args(&[ask.set.tools_file()])
            .args(&["--queries"])
            .args(&[queries])
            .args(&["--strategy", ask.strategy, "--k", RANKED, "--out"])
            .args(&[&out]);
        if let Some(history) = ask.history {
            program = program.args(&["--history"]).args(&[history]);
        }
        if ask.embedder == Embedder::Sentence {
            let model = self.model.as_deref().context("the folder of the sentence encoder")?;
            program = program.args(&["--embedder", "fastembed", "--model"]).args(&[model]);
        }
        let text = program.output()?;
        let last = text.lines().last().context("the figures of search_eval")?;
        let figures = serde_json::from_str(last).context("the last line of search_eval")?;
        let ranking: Ranking =
            lines(&out)?.into_iter().map(|line: Line| (line.id, line.ranked)).collect();
        if ranking.is_empty() {
            return Err(Failure::new(format!("search_eval ranked nothing for {}", ask.set.name)));
        }
        Ok(Answer { ranking, figures })
    }
}

/// Where `cargo xtask model` puts the sentence encoder, if it did.
fn model() -> Option<PathBuf> {
    let folder = crate::model::place().ok()?;
    folder.join("manifest.json").is_file().then_some(folder)
}
