//! The command `measure`: builds an index in memory, searches it, and changes it.

use std::hint::black_box;
use std::time::Duration;

use mgp_toolindex::{AllTools, Query, ServerEntry, ToolIndex};
use mgp_types::mgp::SearchStrategy;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::catalogue::{Catalogue, Server, definition};
use super::clock::{Moment, Took};
use super::memory::Memory;
use super::{Failure, Options};

/// The number of servers that are added in one change while the index is built.
const BATCH: usize = 500;

/// The number of tools of the server that each measured change adds.
const ADDED: usize = 20;

/// Builds, searches and changes an index, and returns the measurements.
pub(crate) fn all(options: &Options) -> Result<Value, Failure> {
    let (tools, seed) = (options.number("tools", 3_000)?, options.seed()?);
    let catalogue = Catalogue::new(options.templates(), seed)?;
    let queries = options.queries(options.number("asked", 1_000)?)?;
    let rounds = options.number("rounds", 5)?;

    let index = ToolIndex::new();
    // Searches once before memory is measured, because the first search allocates memory that every index needs.
    black_box(index.search(&Query::new("read a file"), &AllTools)?);
    let model = index.stats().model.ok_or("the index has no embedder")?;
    let empty = Memory::of_this_process();
    let built = build(&index, &catalogue, tools, seed)?;
    let full = Memory::of_this_process();

    let mut figures = json!({
        "tools": index.stats().tools, "servers": index.stats().servers, "build_ms": milliseconds(built.took),
        "text_bytes": built.text, "rss_empty_kb": empty.now, "rss_built_kb": full.now,
        "queries": queries.len(), "rounds": rounds, "embedder": model,
    });
    for (name, strategy) in [
        ("keyword", Some(SearchStrategy::Keyword)),
        ("semantic", Some(SearchStrategy::Semantic)),
        ("hybrid", None),
    ] {
        figures[name] = searches(&index, &queries, strategy.as_ref(), rounds)?;
    }
    figures["add"] = adds(&index, options.number("changes", 50)?)?;
    let now = Memory::of_this_process();
    let beyond = (now.now.saturating_sub(empty.now) * 1024).saturating_sub(built.text);
    figures["rss_kb"] = json!(now.now);
    figures["rss_peak_kb"] = json!(now.most);
    figures["bytes_per_tool"] = json!(beyond / u64::try_from(tools.max(1))?);
    Ok(figures)
}

/// The time and the input size of building an index.
pub(crate) struct Built {
    /// The time spent in the index, without the time for generating the servers.
    pub(crate) took: Duration,
    /// The total length of all tool definitions in bytes.
    pub(crate) text: u64,
}

/// Adds servers with `tools` tools in total to an index, in batches.
pub(crate) fn build(
    index: &ToolIndex,
    catalogue: &Catalogue,
    tools: usize,
    seed: u64,
) -> Result<Built, Failure> {
    let mut built = Built { took: Duration::ZERO, text: 0 };
    let mut servers = catalogue.servers(tools, seed);
    loop {
        let (batch, texts): (Vec<_>, Vec<_>) =
            servers.by_ref().take(BATCH).map(Server::entry).unzip();
        if batch.is_empty() {
            return Ok(built);
        }
        built.text += texts.into_iter().sum::<u64>();
        let begin = Instant::now();
        let put = index.put_all(batch)?;
        built.took += begin.elapsed();
        if let Some(refused) = put.refused.first() {
            return Err(refused.to_string().into());
        }
    }
}

/// Runs all searches in several rounds and returns the percentiles; the first round only warms caches up.
fn searches(
    index: &ToolIndex,
    queries: &[String],
    strategy: Option<&SearchStrategy>,
    rounds: usize,
) -> Result<Value, Failure> {
    let queries: Vec<_> = queries
        .iter()
        .map(|text| match strategy {
            Some(strategy) => Query::new(text).strategy(strategy.clone()),
            None => Query::new(text),
        })
        .collect();
    let (mut all, mut found) = (Vec::new(), 0);
    for round in 0..=rounds {
        let mut times = Vec::with_capacity(queries.len());
        for query in &queries {
            let begin = Moment::now();
            let hits = black_box(index.search(query, &AllTools)?);
            times.push(begin.elapsed());
            found += usize::from(!hits.hits.is_empty());
        }
        if round > 0 {
            all.push(Round::of(&times));
        }
    }
    if found == 0 {
        return Err("nothing was ever found".into());
    }
    // Reports the fastest round, because other processes on the machine can only make a round slower.
    let best = all.iter().min_by_key(|round| round.processor[1]).ok_or("no round")?;
    let wall = all.iter().map(|round| round.wall[1]).min().unwrap_or_default();
    Ok(json!({
        "p50_us": microseconds(best.processor[0]), "p99_us": microseconds(best.processor[1]),
        "wall_p50_us": microseconds(best.wall[0]), "wall_p99_us": microseconds(wall),
    }))
}

/// The 50th and 99th percentile of the times of one round, on both clocks.
struct Round {
    processor: [Duration; 2],
    wall: [Duration; 2],
}

impl Round {
    fn of(times: &[Took]) -> Self {
        let both = |clock: fn(&Took) -> Duration| {
            let mut times: Vec<_> = times.iter().map(clock).collect();
            times.sort_unstable();
            [50, 99].map(|percent| percentile(&times, percent))
        };
        Self { processor: both(|took| took.processor), wall: both(|took| took.wall) }
    }
}

/// Adds servers one by one, and searches for each right after it is added; returns the percentiles of the times.
fn adds(index: &ToolIndex, changes: usize) -> Result<Value, Failure> {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let mut times = Vec::new();
    for change in 0..changes {
        let word = format!("zyx{change}qua");
        let tools = (0..ADDED).map(|number| {
            let name = format!("{word}_part_{number}");
            definition(&name, "Reads what was written a moment ago and sorts it by date", &schema).0
        });
        let server = ServerEntry::new(format!("newcomer-{change}")).name("Newcomer").tools(tools);
        let query = Query::new(&word).strategy(SearchStrategy::Keyword);
        let begin = Moment::now();
        index.put(server)?;
        let found = index.search(&query, &AllTools)?;
        times.push(begin.elapsed());
        let name = format!("newcomer-{change}");
        if found.hits.first().is_none_or(|hit| hit.tool.server_id() != name) {
            return Err(format!("{word} is not found by the next query").into());
        }
    }
    for change in 0..changes {
        index.remove(&format!("newcomer-{change}"))?;
    }
    let all = Round::of(&times);
    Ok(json!({
        "p50_us": microseconds(all.processor[0]), "p99_us": microseconds(all.processor[1]),
        "wall_p50_us": microseconds(all.wall[0]), "wall_p99_us": microseconds(all.wall[1]),
    }))
}

/// Returns a percentile of sorted times.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 100.0
}

fn microseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e7).round() / 10.0
}
