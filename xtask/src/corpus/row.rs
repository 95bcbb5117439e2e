//! One stdio test case (row) of the labelled corpus: the input and the expected reaction.

use super::input::Input;
use crate::run::{Context, Outcome};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) transport: String,
    pub(super) why: String,
    /// The revision of MCP whose rules apply to the row.
    pub(super) revision: String,
    pub(super) input: Option<Input>,
    pub(super) expect: Expect,
}

/// The expected reaction; absent members are not checked.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Expect {
    pub(super) reaction: String,
    /// The accepted JSON-RPC error code, or a list of them.
    pub(super) code: Value,
    /// The expected id, or a rule such as `null_or_absent`. It is kept as raw JSON, so that large numbers stay exact.
    pub(super) id: Option<Box<RawValue>>,
    /// `true` if the server must stay alive, or `"exit0"` if it must exit successfully.
    pub(super) alive: Value,
    pub(super) max_replies: Option<usize>,
    /// The id of a later message in the same input, which must still get a result.
    pub(super) then_ok: Option<Box<RawValue>>,
    pub(super) max_rss_growth_bytes: Option<u64>,
    pub(super) bounded_memory: bool,
}

/// The maximum growth of the server's memory in rows with `bounded_memory`.
pub(super) const BOUNDED: u64 = 64 << 20;

#[derive(Deserialize)]
struct Written {
    id: String,
    #[serde(default)]
    transport: String,
    #[serde(default)]
    why: String,
    #[serde(default = "current")]
    revision: String,
    text: Option<String>,
    bytes_b64: Option<String>,
    #[serde(rename = "gen")]
    generator: Option<Value>,
    #[serde(default)]
    expect: Expect,
}

/// Returns the revision for rows that do not name a revision.
fn current() -> String {
    "2025-11-25".to_owned()
}

/// The protocol revision that has no handshake.
const WITHOUT_HANDSHAKE: &str = "2026-07-28";

impl Row {
    pub(super) fn read(line: &str) -> Outcome<Self> {
        let written: Written = serde_json::from_str(line).context("a row of the corpus")?;
        let input = match written {
            Written { text: Some(text), .. } => Some(Input::line(text.into_bytes())),
            Written { bytes_b64: Some(text), .. } => {
                let bytes = Input::base64(&text).context(&written.id)?;
                // A truncated message gets no newline, because it must end where the input ends.
                let cut = written.expect.alive == "exit0";
                Some(if cut { Input::Bytes(bytes) } else { Input::line(bytes) })
            }
            Written { generator: Some(generator), .. } => Input::generated(&generator),
            _ => None,
        };
        let Written { id, transport, why, revision, expect, .. } = written;
        Ok(Self { id, transport, why, revision, input, expect })
    }

    /// Returns whether the row tests our client against a faulty child.
    pub(super) fn needs_child(&self) -> bool {
        matches!(self.input, Some(Input::Child { .. }))
    }

    /// Returns whether the check performs the handshake before it sends the row's input.
    pub(super) fn after_handshake(&self) -> bool {
        let about = self.why.to_lowercase();
        if about.contains("before init") || self.revision == WITHOUT_HANDSHAKE {
            return false;
        }
        let again = ["second", "again", "twice", "already", "after"];
        let initializes = match &self.input {
            Some(Input::Bytes(bytes)) => find(bytes, b"\"initialize\""),
            _ => false,
        };
        !initializes || again.iter().any(|word| about.contains(word))
    }
}

impl Expect {
    /// Returns the accepted error codes; empty if any code is accepted.
    pub(super) fn codes(&self) -> Vec<i64> {
        match &self.code {
            Value::Array(codes) => codes.iter().filter_map(Value::as_i64).collect(),
            code => code.as_i64().into_iter().collect(),
        }
    }

    /// Returns the maximum growth of the server's memory, if the row limits it.
    pub(super) fn growth(&self) -> Option<u64> {
        self.max_rss_growth_bytes.or_else(|| self.bounded_memory.then_some(BOUNDED))
    }

    /// Returns whether the server must exit at the end of the input.
    pub(super) fn exits(&self) -> bool {
        self.alive == "exit0"
    }
}

fn find(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}
