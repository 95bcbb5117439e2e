//! Measures the tool index: searches in catalogues of any size, changes, opening and memory. The last line of the
//! output is one JSON object, which `cargo xtask bench` reads.
//!
//! For comparable figures, build it with `--release` and pin the process to one processor (`taskset`).
//!
//! ```sh
//! index_bench measure --tools 100000 [--templates TOOLS.jsonl] [--queries Q.jsonl]… [--asked 1000] [--rounds 5]
//! index_bench small [--tools 50]
//! index_bench keep --db FILE --tools 15000 [--templates TOOLS.jsonl]
//! index_bench open --db FILE
//! ```

mod built_in;
mod catalogue;
mod clock;
#[path = "../../../../src/dice.rs"]
mod dice;
mod kept;
mod measure;
mod memory;
mod small;
mod words;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Deserialize;

type Failure = Box<dyn Error + Send + Sync>;

/// The seed of all generated data, to which `--seed` is added.
const SEED: u64 = 20_261_120;

pub(crate) struct Options {
    given: BTreeMap<String, Vec<String>>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let done = match Options::read(words) {
        Ok(options) => match command.as_str() {
            "measure" => measure::all(&options),
            "small" => small::all(&options),
            "keep" => kept::keep(&options).await,
            "open" => kept::open(&options).await,
            _ => Err("usage: index_bench measure|small|keep|open [OPTIONS]".into()),
        },
        Err(failure) => Err(failure),
    };
    match done {
        Ok(figures) => {
            // Ignores errors, because the reader might have closed the pipe.
            let _ = writeln!(io::stdout(), "{figures}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let _ = writeln!(io::stderr(), "index_bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut given: BTreeMap<String, Vec<String>> = BTreeMap::new();
        while let Some(word) = words.next() {
            let name =
                word.strip_prefix("--").ok_or_else(|| format!("unknown argument `{word}`"))?;
            let value = words.next().ok_or_else(|| format!("{word} has no value"))?;
            given.entry(name.to_owned()).or_default().push(value);
        }
        Ok(Self { given })
    }

    /// Returns all values of an option.
    pub(crate) fn all(&self, name: &str) -> &[String] {
        self.given.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the value of an option as a number, or the default.
    pub(crate) fn number(&self, name: &str, default: usize) -> Result<usize, Failure> {
        self.all(name).last().map_or(Ok(default), |text| {
            text.parse().map_err(|_| format!("--{name} `{text}` is not a number").into())
        })
    }

    pub(crate) fn seed(&self) -> Result<u64, Failure> {
        self.number("seed", 0).map(|seed| SEED + seed as u64)
    }

    /// Returns the catalogue file of `--templates`, if given.
    pub(crate) fn templates(&self) -> Option<&Path> {
        self.all("templates").last().map(Path::new)
    }

    /// Returns the path that a required option gives.
    pub(crate) fn file(&self, name: &str) -> Result<PathBuf, Failure> {
        let file = self.all(name).last().ok_or_else(|| format!("--{name} FILE is missing"))?;
        Ok(PathBuf::from(file))
    }

    /// Returns up to `count` queries, taken from all `--queries` files in turn; without files, generates `count`
    /// queries.
    pub(crate) fn queries(&self, count: usize) -> Result<Vec<String>, Failure> {
        #[derive(Deserialize)]
        struct Line {
            query: String,
        }
        let files = self.all("queries");
        if files.is_empty() {
            return Ok(built_in::queries(self.seed()?, count));
        }
        let mut sources = Vec::new();
        for file in files {
            let texts: Result<Vec<_>, Failure> = BufReader::new(File::open(file)?)
                .lines()
                .map(|line| {
                    let line: Line = serde_json::from_str(&line?)?;
                    Ok(line.query)
                })
                .collect();
            let mut texts = texts?;
            // Shuffles the queries, because neighbours in a file are similar.
            dice::Dice::new(self.seed()?).shuffle(&mut texts);
            sources.push(texts.into_iter());
        }
        let mut queries = Vec::new();
        while queries.len() < count {
            let before = queries.len();
            queries.extend(sources.iter_mut().filter_map(Iterator::next));
            if queries.len() == before {
                break;
            }
        }
        queries.truncate(count);
        Ok(queries)
    }
}
