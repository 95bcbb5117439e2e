//! Runs the example `search_eval`, which searches for every query of a labelled set, and parses its rankings.

use super::{
    data::{Set, lines},
    score::Ranking,
};
use crate::run::{Context, Failure, Outcome, Program, release_example, target};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The number of tools that the example ranks for each query.
const RANKED: &str = "20";

/// The model that turns texts into vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Embedder {
    /// The static word table that is part of the crate `mgp-toolindex`.
    Static,
    /// The sentence encoder, which is loaded from a folder.
    Sentence,
}

/// The arguments of one run of the example.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) set: &'a Set,
    pub(super) strategy: &'a str,
    pub(super) embedder: Embedder,
    /// A file with queries to use instead of the set's own queries.
    pub(super) queries: Option<&'a Path>,
    /// A file with earlier queries and the tools that were called after them.
    pub(super) history: Option<&'a Path>,
    /// `true` if each user's searches learn from the calls of all users of the tenant.
    pub(super) is_shared: bool,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) ranking: Ranking,
    /// The figures that the example prints in its last line.
    pub(super) figures: Value,
}

/// The built example `search_eval`, and the folders for its runs.
#[derive(Debug)]
pub(super) struct Searcher {
    program: PathBuf,
    /// The folder of the sentence encoder, if it is on this machine.
    model: Option<PathBuf>,
    /// A folder for the input and output files of the checks.
    scratch: PathBuf,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    ranked: Vec<String>,
}

impl<'a> Ask<'a> {
    /// Describes a run with the queries of a set and the static word table.
    pub(super) fn new(set: &'a Set, strategy: &'a str) -> Self {
        Self {
            set,
            strategy,
            embedder: Embedder::Static,
            queries: None,
            history: None,
            is_shared: false,
        }
    }
}

impl Searcher {
    /// Builds the example as users would. It supports the sentence encoder only if the folder of the encoder is
    /// available.
    pub(super) fn build() -> Outcome<Self> {
        let model = model();
        let features: &[&str] = if model.is_some() { &["--features", "fastembed"] } else { &[] };
        let program = release_example("mgp-toolindex", "search_eval", features)?;
        let scratch = target()?.join("scratch/index");
        fs::create_dir_all(&scratch).context(scratch.display())?;
        Ok(Self { program, model, scratch })
    }

    /// Returns the embedders that can be used on this machine.
    pub(super) fn embedders(&self) -> &'static [Embedder] {
        match self.model {
            Some(_) => &[Embedder::Static, Embedder::Sentence],
            None => &[Embedder::Static],
        }
    }

    /// Searches the tools of a set for `texts` instead of the set's own queries. Each element of `texts` is a pair of
    /// an id and a text.
    pub(super) fn ask_all<'a>(
        &self,
        set: &Set,
        strategy: &str,
        texts: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Outcome<Answer> {
        let lines = texts.into_iter().map(|(id, query)| json!({ "id": id, "query": query }));
        let file = self.write("texts.jsonl", lines)?;
        self.run(Ask { queries: Some(&file), ..Ask::new(set, strategy) })
    }

    /// Writes an input file of a run, with a JSON value per line.
    pub(super) fn write(&self, name: &str, lines: impl Iterator<Item = Value>) -> Outcome<PathBuf> {
        let file = self.scratch.join(name);
        let lines = lines.map(|line| format!("{line}\n"));
        fs::write(&file, lines.collect::<String>()).context(file.display())?;
        Ok(file)
    }

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
        if ask.is_shared {
            program = program.args(&["--learn-from", "tenant"]);
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

/// Returns the folder of the sentence encoder from the variable `MGP_MODEL`, if it contains a model.
fn model() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("MGP_MODEL")?);
    folder.join("manifest.json").is_file().then_some(folder)
}
