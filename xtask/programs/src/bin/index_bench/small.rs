//! The command `small`: measures the idle memory of a small index, as in a gateway with a few servers.

use std::hint::black_box;

use mgp_toolindex::{AllTools, Query, ToolIndex};
use serde_json::{Value, json};

use super::built_in;
use super::memory::Memory;
use super::{Failure, Options};

/// The number of generated servers from which the benchmark takes tools. It is small, because this program also
/// measures the memory that the generated servers take.
const SERVERS: usize = 10;

/// Long and short queries, with plain words, names and typing errors.
const QUERIES: [&str; 6] = [
    "list the files of a folder, then send a message to everyone who follows it",
    "create invoice",
    "serach customr",
    "what changed in the calendar between two dates",
    "translate a document and publish it",
    "qwertz",
];

/// Adds a few tools server by server, searches for them, and returns the memory in use afterwards.
pub(crate) fn all(options: &Options) -> Result<Value, Failure> {
    let mut left = options.number("tools", 50)?;
    let empty = Memory::of_this_process();
    let index = ToolIndex::new();
    for mut server in built_in::servers(options.seed()?, SERVERS) {
        server.tools.truncate(left);
        left -= server.tools.len();
        if server.tools.is_empty() {
            break;
        }
        index.put(server.entry().0)?;
    }
    for query in QUERIES {
        black_box(index.search(&Query::new(query), &AllTools)?);
    }
    let now = Memory::of_this_process();
    Ok(json!({
        "tools": index.stats().tools, "servers": index.stats().servers,
        "rss_empty_kb": empty.now, "rss_kb": now.now, "rss_peak_kb": now.most,
        "rss_beyond_kb": now.now.saturating_sub(empty.now),
        "heap_beyond_kb": now.heap.saturating_sub(empty.heap),
    }))
}
