//! `mgp index`: how well the index of tools finds what is asked, and what is in it (MGP §16).
//!
//! Applies to: both.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use mgp_toolindex::{Everything, Query, ToolIndex};
use mgp_types::mgp::{IndexEntry, SearchStrategy};
use serde::{Deserialize, Serialize};

use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::output::{Cell, Page, Shown, brief, many, say, show};
use crate::state;

/// The longest file of questions.
const LONGEST: u64 = 64 << 20;

/// `mgp index`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Index {
    /// Ask questions whose answers are known, and count what was found
    #[command(
        after_help = "A question is a line of JSON: {\"query\": \"read a file\", \"relevant\": [\"files.read_file\"]}\n\nExample:\n  mgp index eval questions.jsonl\n  mgp index eval questions.jsonl --strategy keyword -k 10"
    )]
    Eval(Eval),
    /// Write every tool of the index as a line of JSON
    #[command(after_help = "Example:\n  mgp index export > tools.jsonl")]
    Export {
        /// With the numbers that stand for its meaning
        #[arg(long)]
        vectors: bool,
    },
}

/// `mgp index eval`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Eval {
    /// The questions
    file: PathBuf,
    /// How many tools each question may find
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    k: usize,
    /// How: keyword, semantic, category or hybrid; without it, the best of all
    #[arg(long, value_name = "WORD")]
    strategy: Option<String>,
}

/// A question and its answers.
#[derive(Deserialize)]
struct Question {
    query: String,
    relevant: Vec<String>,
}

/// How well the index finds.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Judged {
    /// How many questions were asked.
    questions: usize,
    /// How many tools each could find.
    k: usize,
    /// How many tools there are.
    tools: usize,
    /// How much of what is relevant was found, in the mean, 0 to 1.
    recall: f64,
    /// How often the first tool was relevant, 0 to 1.
    first: f64,
    /// One over the place of the first relevant tool, in the mean.
    mean_reciprocal_rank: f64,
    /// How long a question took in the middle, in microseconds.
    median_us: u64,
    /// The questions that found nothing relevant.
    missed: Vec<Missed>,
}

/// A question that found nothing relevant.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Missed {
    /// The question.
    query: String,
    /// What it should find.
    relevant: Vec<String>,
    /// What it found instead.
    found: Vec<String>,
    /// What it should find and is not in the index at all.
    unknown: Vec<String>,
}

impl Shown for Judged {
    fn show(&self, page: &mut Page) {
        let Self { questions, k, tools, recall, first, mean_reciprocal_rank, median_us, missed } =
            self;
        page.line(format!("{}, {}", many(*questions, "question"), many(*tools, "tool")));
        page.line(format!("  recall@{k}     {recall:.3}"));
        page.line(format!("  first right  {first:.3}"));
        page.line(format!("  MRR          {mean_reciprocal_rank:.3}"));
        page.line(format!("  time         {median_us} µs"));
        let rows = missed.iter().map(|missed| {
            let should = if missed.unknown.is_empty() {
                missed.relevant.join(" ")
            } else {
                format!("{} (not in the index)", missed.unknown.join(" "))
            };
            [
                brief(&missed.query, 50).into(),
                brief(&should, 60).into(),
                Cell::from(brief(&missed.found.join(" "), 60)),
            ]
        });
        if !missed.is_empty() {
            page.table(["MISSED", "SHOULD FIND", "FOUND"], rows);
        }
    }
}

pub(crate) async fn run(global: &Global, index: &Index) -> Ended {
    let tools = open(global).await?;
    match index {
        Index::Export { vectors } => {
            for mut entry in tools.entries() {
                if !vectors {
                    entry.embedding = None;
                }
                let line: &IndexEntry = &entry;
                say(&(serde_json::to_string(line)? + "\n"))?;
            }
            Ok(())
        }
        Index::Eval(eval) => show(global, &judge(&tools, eval)?),
    }
}

/// The index of the state, as it was kept last.
async fn open(global: &Global) -> Ended<ToolIndex> {
    let index = ToolIndex::builder().open(state::db(global).await?).await?;
    if index.entries().is_empty() {
        return Err(Failure::failed(
            "the index is empty: nobody has seen a tool yet; let a kernel run for a moment, then try again",
        ));
    }
    Ok(index)
}

fn judge(index: &ToolIndex, eval: &Eval) -> Ended<Judged> {
    let questions = questions(eval)?;
    let all = index.entries();
    let known: HashSet<String> = all.iter().map(|entry| entry.tool_id.clone()).collect();
    let (mut recall, mut first, mut reciprocal) = (0.0, 0.0, 0.0);
    let (mut times, mut missed) = (Vec::new(), Vec::new());
    for Question { query, relevant } in &questions {
        let mut asked = Query::new(query).most(eval.k);
        if let Some(strategy) = &eval.strategy {
            asked = asked.strategy(SearchStrategy::from(strategy.as_str()));
        }
        let found = index.search(&asked, &Everything)?;
        times.push(found.took);
        let ids: Vec<String> = found.hits.iter().map(|hit| hit.tool.tool_id()).collect();
        let is_right = |id: &String| relevant.contains(id);
        recall += ratio(ids.iter().filter(|id| is_right(id)).count(), relevant.len());
        match ids.iter().position(is_right) {
            Some(place) => {
                first += if place == 0 { 1.0 } else { 0.0 };
                reciprocal += ratio(1, place + 1);
            }
            None => missed.push(Missed {
                query: query.clone(),
                unknown: relevant.iter().filter(|id| !known.contains(*id)).cloned().collect(),
                relevant: relevant.clone(),
                found: ids,
            }),
        }
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or(Duration::ZERO);
    let count = ratio(questions.len(), 1);
    Ok(Judged {
        questions: questions.len(),
        k: eval.k,
        tools: all.len(),
        recall: recall / count,
        first: first / count,
        mean_reciprocal_rank: reciprocal / count,
        median_us: u64::try_from(median.as_micros()).unwrap_or(u64::MAX),
        missed,
    })
}

#[expect(clippy::cast_precision_loss, reason = "nobody has so many tools")]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn questions(eval: &Eval) -> Ended<Vec<Question>> {
    let file = eval.file.display();
    let failed = |error| Failure::failed(format!("`{file}` cannot be read: {error}"));
    if fs::metadata(&eval.file).map_err(failed)?.len() > LONGEST {
        return Err(Failure::failed(format!("`{file}` is longer than {LONGEST} bytes")));
    }
    let text = fs::read_to_string(&eval.file).map_err(failed)?;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let questions = lines.map(|(number, line)| {
        let question: Question = serde_json::from_str(line).map_err(|error| {
            Failure::failed(format!("`{file}`, line {number}: no question: {error}; write {{\"query\": …, \"relevant\": [server.tool]}}"))
        })?;
        if question.relevant.is_empty() {
            return Err(Failure::failed(format!("`{file}`, line {number}: nothing is relevant to it")));
        }
        Ok(question)
    });
    let questions: Vec<Question> = questions.collect::<Ended<_>>()?;
    if questions.is_empty() {
        return Err(Failure::failed(format!("`{file}` has no questions")));
    }
    Ok(questions)
}
