//! Runs the program `index_bench`, which measures the tool index.

use super::{Place, Size};
use crate::{
    bench::programs::last_processor,
    run::{self, Context, Outcome, has, release_program, target},
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The built program, which runs on one processor or on all, with the catalogue and the queries of a folder.
pub(super) struct Program {
    path: PathBuf,
    processor: Option<String>,
    data: Option<PathBuf>,
    pub(super) scratch: PathBuf,
}

impl Program {
    pub(super) fn build(data: Option<&Path>, place: Place) -> Outcome<Self> {
        let path = release_program("index_bench")?;
        let scratch = target()?.join("scratch/index");
        fs::create_dir_all(&scratch).context(scratch.display())?;
        let processor = match place {
            Place::One if has("taskset") => Some(last_processor()?),
            Place::One => {
                println!("!! taskset is not installed; the program runs on any processor");
                None
            }
            Place::Free => None,
        };
        Ok(Self { path, processor, data: data.map(Path::to_path_buf), scratch })
    }

    /// Builds an index of the given size, searches it and changes it; returns the figures.
    pub(super) fn measure(&self, size: &Size, sets: &[&str]) -> Outcome<Value> {
        let [asked, rounds] = size.asked.map(|number| number.to_string());
        let numbers = ["--tools", &size.tools.to_string(), "--asked", &asked, "--rounds", &rounds];
        let mut program = self.command("measure").args(&numbers);
        for set in self.data.iter().flat_map(|data| sets.iter().map(move |set| data.join(set))) {
            program = program.args(&["--queries"]).args(&[set.join("queries.public.jsonl")]);
        }
        figures(program)
    }

    /// Builds a small index and leaves it idle; returns its memory.
    pub(super) fn small(&self, tools: usize) -> Outcome<Value> {
        figures(self.bare("small").args(&["--tools", &tools.to_string()]))
    }

    /// Builds an index and stores it in a file.
    pub(super) fn keep(&self, file: &Path, tools: usize) -> Outcome<Value> {
        let tools = tools.to_string();
        let program = self.command("keep").args(&["--tools", &tools]);
        figures(program.args(&["--db"]).args(&[file]))
    }

    /// Opens a stored index and searches it, on all processors; returns the times.
    pub(super) fn open(&self, file: &Path) -> Outcome<Value> {
        let program = run::Program::new(&self.path).args(&["open", "--db"]);
        figures(program.args(&[file]))
    }

    /// Returns a run of the program with this command. The run uses the real catalogue, if any.
    fn command(&self, word: &str) -> run::Program {
        let program = self.bare(word);
        match &self.data {
            Some(data) => {
                program.args(&["--templates"]).args(&[data.join("mcp_large/tools.jsonl")])
            }
            None => program,
        }
    }

    fn bare(&self, word: &str) -> run::Program {
        let program = match &self.processor {
            Some(processor) => {
                run::Program::new("taskset").args(&["--cpu-list", processor]).args(&[&self.path])
            }
            None => run::Program::new(&self.path),
        };
        program.args(&[word])
    }
}

/// Runs the program, and returns the figures in the last line of its output.
fn figures(program: run::Program) -> Outcome<Value> {
    let text = program.output()?;
    let last = text.lines().last().context("the figures of index_bench")?;
    serde_json::from_str(last).context("the figures of index_bench")
}
