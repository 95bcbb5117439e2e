//! Reads tool definitions from the texts in which they are usually stored.

use serde_json::Value;

use crate::contract::Contract;
use crate::lock::LockFile;
use crate::spec::read_spec;

/// The maximum number of tool definitions in one text.
const MAX_TOOLS: usize = 10_000;

/// The reason why no tool definitions can be read from a text.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The text is neither JSON nor a specification in Markdown.
    #[error("the text is neither JSON nor a tool specification in Markdown: {0}")]
    Syntax(String),
    /// The text is JSON, but has no tools.
    #[error(
        "the text has no tools; expected a result of `tools/list`, a list of tools, one tool, or `mgp.lock`"
    )]
    NoTools,
    /// An entry is not a tool.
    #[error(
        "the entry {0} of the list is not a tool: a tool has `name` and an object `inputSchema`"
    )]
    NotATool(usize),
    /// The specification has a tool without a name or an input schema that can be read, at this line.
    #[error(
        "line {0}: this tool has no name or no input schema that can be read; `mgp contract lint` shows why"
    )]
    Unread(usize),
    /// The text has more tools than may be read.
    #[error("the text has more than {MAX_TOOLS} tools")]
    TooMany,
}

/// Reads tools from JSON or Markdown. JSON may be a result of `tools/list`, a reply that contains it, a catalogue, a
/// list of tools, a single tool, or a lock file. Markdown must be a specification.
///
/// # Errors
/// Returns [`ReadError`] if the text has none of these forms, has too many tools, or has a tool that cannot be read.
pub fn read_contracts(text: &str) -> Result<Vec<Contract>, ReadError> {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => {
            let document = read_spec(text);
            // Do not simply leave out a tool that cannot be read: a comparison would report it as removed.
            return match document.unread {
                _ if document.contracts.is_empty() => Err(ReadError::Syntax(error.to_string())),
                Some(line) => Err(ReadError::Unread(line)),
                None => Ok(document.contracts),
            };
        }
    };
    if let Some(lock) = LockFile::from_value(&value) {
        return Ok(lock.contracts());
    }
    let value = value.get("result").unwrap_or(&value);
    let one = [value.clone()];
    let tools = match (value.get("tools"), value) {
        (Some(Value::Array(tools)), _) | (None, Value::Array(tools)) => tools.as_slice(),
        (None, Value::Object(tool)) if tool.contains_key("inputSchema") => &one,
        _ => return Err(ReadError::NoTools),
    };
    if tools.len() > MAX_TOOLS {
        return Err(ReadError::TooMany);
    }
    let read = |(at, tool): (usize, &Value)| {
        Contract::from_definition(tool.clone()).ok_or(ReadError::NotATool(at + 1))
    };
    tools.iter().enumerate().map(read).collect()
}
