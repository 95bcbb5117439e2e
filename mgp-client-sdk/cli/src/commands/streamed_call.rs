//! `mgp tools call --stream`: prints the result of a call while it arrives.

use futures_util::StreamExt as _;
use mgp_client_sdk::{Error, StreamItem, ToolStream};
use mgp_types::mcp::{CallToolResult, ContentBlock};
use serde::Serialize;

use crate::args::Global;
use crate::escape::escape_lines;
use crate::exit::CliResult;
use crate::output::{print_json_line, print_note, print_stderr, write_stdout};

/// A line of `mgp tools call --stream --json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) enum StreamLine<'a> {
    /// A piece of the result.
    Chunk(&'a ContentBlock),
    /// The result; the last line.
    Result(&'a CallToolResult),
}

/// Prints the chunks of a call as they arrive, and then the part of its result that no chunk contained; returns the
/// result.
pub(super) async fn print_stream(
    global: &Global,
    mut stream: ToolStream,
) -> CliResult<Result<CallToolResult, Error>> {
    let mut printed = String::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(StreamItem::Chunk(block)) if global.json => {
                print_json_line(&StreamLine::Chunk(&block))?;
            }
            Ok(StreamItem::Chunk(block)) => {
                if let Some(text) = block.as_text() {
                    write_stdout(&escape_lines(text))?;
                    printed += text;
                }
            }
            Ok(StreamItem::Progress(step)) => {
                if let Some(message) = step.message.filter(|_| !global.json) {
                    print_stderr(&message);
                }
            }
            Ok(StreamItem::Result(result)) => {
                if global.json {
                    print_json_line(&StreamLine::Result(&result))?;
                } else if result.is_error == Some(true) {
                    end_line(&printed)?;
                } else {
                    print_rest(global, &printed, &result)?;
                }
                return Ok(Ok(result));
            }
            Ok(_) => {}
            Err(error) => {
                end_line(&printed)?;
                return Ok(Err(error));
            }
        }
    }
    Ok(Err(Error::from(mgp_types::RpcError::internal("the call ended without a result"))))
}

/// The maximum number of notes that a kernel puts before a result that it cut.
const MAX_NOTES: usize = 3;

/// Prints the part of a result that no chunk contained, and then the notes of a kernel that cut the result.
fn print_rest(global: &Global, printed: &str, result: &CallToolResult) -> CliResult {
    let texts: Vec<&str> = result.content.iter().filter_map(ContentBlock::as_text).collect();
    let whole = || (join_lines(&texts), String::new());
    let found = if printed.is_empty() {
        Some(whole())
    } else {
        (0..=texts.len().min(MAX_NOTES)).find_map(|notes| {
            let rest = texts[notes..].concat().strip_prefix(printed)?.to_owned();
            Some((rest, join_lines(&texts[..notes])))
        })
    };
    if found.is_none() {
        end_line(printed)?;
        print_note(global, "mgp: the result differs from what was streamed; this is the result:");
    }
    let (rest, notes) = found.unwrap_or_else(whole);
    write_stdout(&escape_lines(&rest))?;
    end_line(if rest.is_empty() { printed } else { &rest })?;
    write_stdout(&escape_lines(&notes))?;
    end_line(&notes)?;
    if result.content.iter().any(|block| block.as_text().is_none()) {
        print_note(global, "mgp: the result has parts that are not text; use --json");
    } else if let (true, Some(content)) = (texts.concat().is_empty(), &result.structured_content) {
        write_stdout(&(escape_lines(content.as_str()) + "\n"))?;
    }
    Ok(())
}

/// Joins texts; each begins on a new line.
fn join_lines(texts: &[&str]) -> String {
    texts.iter().fold(String::new(), |mut joined, text| {
        if !joined.is_empty() && !joined.ends_with('\n') {
            joined.push('\n');
        }
        joined.push_str(text);
        joined
    })
}

fn end_line(printed: &str) -> CliResult {
    if printed.is_empty() || printed.ends_with('\n') { Ok(()) } else { write_stdout("\n") }
}
