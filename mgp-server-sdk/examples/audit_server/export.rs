//! Export of events as text.

use std::fmt::Write;
use std::sync::Arc;

use mgp_server_sdk::prelude::*;
use mgp_types::mgp::AuditEvent;

use crate::filter::Filter;
use crate::journal::{Journal, number};

/// The format of an export.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// One event per line.
    #[default]
    Jsonl,
    /// One array.
    Json,
    /// A table; the first page has a header row.
    Csv,
}

/// The arguments of an export.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExportArgs {
    /// The format: `jsonl` by default.
    format: Format,
    /// The exported events: all by default.
    filter: Filter,
}

/// A page of text.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Exported {
    /// The number of events on the page.
    count: usize,
    /// The events.
    text: String,
    /// The cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Exports audit events as text, in pages.
#[tool(name = "export_audit", read_only, security(risk = "safe", validator = "none", reversible))]
pub(crate) fn export(
    Args(arguments): Args<ExportArgs>,
    State(journal): State<Arc<Journal>>,
) -> Result<Json<Exported>, ToolError> {
    let page = arguments.filter.page(&journal)?;
    let unwritten = |error: serde_json::Error| ToolError(error.to_string());
    let text = match arguments.format {
        Format::Json => serde_json::to_string(&page.events).map_err(unwritten)?,
        Format::Jsonl => {
            let lines = page.events.iter().map(serde_json::to_string);
            let lines = lines.collect::<Result<Vec<_>, _>>().map_err(unwritten)?;
            lines.into_iter().flat_map(|line| [line, "\n".to_owned()]).collect()
        }
        Format::Csv => {
            let head = if arguments.filter.is_first() { HEAD } else { "" };
            head.to_owned() + &page.events.iter().map(row).collect::<String>()
        }
    };
    Ok(Json(Exported { count: page.events.len(), text, next_cursor: page.next_cursor }))
}

const HEAD: &str =
    "seq,timestamp,event_type,result,actor_type,actor_id,server_id,tool_name,trace_id,details\r\n";

fn row(event: &AuditEvent) -> String {
    let target = event.target.as_ref();
    let details = event.details.as_ref().and_then(|all| serde_json::to_string(all).ok());
    let cells = [
        &number(event).map(|seq| seq.to_string()).unwrap_or_default(),
        event.timestamp.as_str(),
        event.event_type.as_str(),
        event.result.as_str(),
        &event.actor.kind,
        &event.actor.id,
        target.and_then(|target| target.server_id.as_deref()).unwrap_or_default(),
        target.and_then(|target| target.tool_name.as_deref()).unwrap_or_default(),
        event.trace_id.as_deref().unwrap_or_default(),
        details.as_deref().unwrap_or_default(),
    ];
    let mut row = String::new();
    for (index, cell) in cells.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // A spreadsheet runs a cell that begins with one of these characters as a formula, and callers choose the
        // names. So write an apostrophe before such a cell.
        let guard = if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(row, "{comma}\"{guard}{}\"", cell.replace('"', "\"\""));
    }
    row + "\r\n"
}
