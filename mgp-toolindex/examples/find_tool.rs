//! Finds tools of three small servers: `cargo run -p mgp-toolindex --example find_tool -- "look into a file"`.

use std::io::Write as _;

use mgp_toolindex::{AllTools, Query, ServerEntry, ToolIndex};
use mgp_types::mcp::Tool;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let index = ToolIndex::new();
    for (server, about, tools) in SERVERS {
        let tools = tools.iter().map(|(name, about)| {
            let text = serde_json::json!({ "name": name, "description": about, "inputSchema": { "type": "object" } });
            serde_json::from_value::<Tool>(text)
        });
        index.put(
            ServerEntry::new(*server)
                .description(*about)
                .tools(tools.collect::<Result<Vec<_>, _>>()?),
        )?;
    }

    let query = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let query = if query.is_empty() { "look into a file".to_owned() } else { query };
    let found = index.search(&Query::new(query).limit(3), &AllTools)?;

    let mut out = std::io::stdout().lock();
    for hit in &found.hits {
        writeln!(
            out,
            "{:.2}  {}  {}",
            hit.score,
            hit.tool.tool_id(),
            hit.tool.description().unwrap_or_default()
        )?;
    }
    writeln!(out, "{} tools searched in {:?}", found.total_available, found.took)?;
    Ok(())
}

/// A server's id, its description, and the name and description of each of its tools.
type Server = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const SERVERS: &[Server] = &[
    (
        "files",
        "The files of this machine",
        &[
            ("read_text", "Read the contents of a file at the given path"),
            ("write_text", "Write text to a file"),
            ("grep", "Search file contents by a pattern"),
        ],
    ),
    (
        "mail",
        "The user's mailbox",
        &[("send_message", "Send an e-mail"), ("list_inbox", "List unread e-mail")],
    ),
    (
        "weather",
        "Forecasts for any place",
        &[("forecast", "The weather of the next days"), ("rain_radar", "Where it rains now")],
    ),
];
