//! Translates the map `gen` of a test case (row) into changes of its request and a plan for sending the request.
//!
//! | Words | Meaning |
//! |---|---|
//! | `declared` | this `Content-Length`, whatever the length of the body |
//! | `raw`, `raw_b64` | these bytes instead of the request |
//! | `raw_body`, `raw_body_b64` | these bytes instead of the body |
//! | `body_bytes`; `repeat`, `n`, `prefix`, `suffix`; `depth` | a large body |
//! | `header_count`, `header_bytes`, `path_bytes` | a large head |
//! | `chunk_bytes` or `chunk_size`, `chunks` | the body in chunks of this size; this number of blank chunks |
//! | `slow_body_bytes_per_s`, `slow_header_bytes_per_s` | the body, or the whole request, sent at this rate |
//! | `truncate` | only this many bytes of the request, then the end of the stream |
//! | `idle_connections`, `idle_sessions`, `get_streams`, `half_requests` | this many, open beside one new request |
//! | `pipeline`, `concurrent` or `parallel`, `repeat_request` | this many requests, on one connection or on several |
//! | `h2_rapid_reset` | this many HTTP/2 streams, opened and reset |
//! | `limit_s` | the time limit of the reaction, in seconds |

use super::{super::input::Input, wire::Wire};
use serde_json::{Map, Value};
use std::time::Duration;

/// The time limit of an ordinary row of the corpus.
const LIMIT: Duration = Duration::from_secs(15);
/// The time limit of a row that makes the server wait. The server must end its wait before, by its own limits.
const STALLED: Duration = Duration::from_secs(35);
/// The time that is added to a row's own limit (`limit_s`), because the machine might be busy.
const GRACE: Duration = Duration::from_secs(3);
/// The time limit of a new request while many other connections are open.
const FRESH: Duration = Duration::from_secs(1);

/// The way to send the request of a row.
#[derive(Debug, PartialEq)]
pub(super) enum Act {
    /// Sends the request once.
    Send,
    /// Sends these bytes instead of the request.
    Raw(Vec<u8>),
    /// Sends the request with a pause after each byte: the whole request if `head` is set, else only the body.
    Slow { pause: Duration, head: bool },
    /// Sends only the first bytes of the request, then closes the sending side.
    Cut(usize),
    /// Sends the request repeatedly on one connection, without waiting for replies; the value is the number of times.
    Pipeline(usize),
    /// Sends the request on several connections at the same time; the value is their number.
    Concurrent(usize),
    /// Sends the request once while other connections are open: their kind and their number.
    Beside(Beside, usize),
    /// Opens and resets HTTP/2 streams; the value is their number.
    Reset(usize),
}

/// The kind of connections that are open during the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    /// Connections on which nothing is sent.
    Connections,
    /// Connections on which half a request is sent.
    Halves,
    /// Sessions that are not used.
    Sessions,
    /// Connections with an open event stream.
    Streams,
}

/// The way in which the request is sent, and the time limit of the reaction.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) act: Act,
    pub(super) limit: Duration,
}

/// Builds the plan from the words of the map, and changes the request as the words require.
pub(super) fn plan(words: &Value, wire: &mut Wire) -> Result<Plan, String> {
    let mut plan = Plan { act: Act::Send, limit: LIMIT };
    let none = Map::new();
    let words = match words {
        Value::Null => &none,
        Value::Object(words) => words,
        other => return Err(format!("unknown generator {other}")),
    };
    for (word, value) in words {
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
        let count = || number.ok_or_else(|| format!("`{word}` wants a number"));
        let text = || value.as_str().ok_or_else(|| format!("`{word}` wants a text"));
        let bytes = || text().and_then(|text| Input::base64(text).ok_or("not base 64".to_owned()));
        let beside = |kind| Ok::<_, String>(Act::Beside(kind, count()?));
        match word.as_str() {
            "declared" | "content_length" => {
                wire.set("Content-Length", value.to_string().trim_matches('"'));
                plan.limit = STALLED;
            }
            "raw" => plan = stalled(Act::Raw(text()?.as_bytes().to_vec())),
            "raw_b64" => plan = stalled(Act::Raw(bytes()?)),
            "raw_body" => wire.body = Input::Bytes(text()?.as_bytes().to_vec()),
            "raw_body_b64" => wire.body = Input::Bytes(bytes()?),
            "body_bytes" => wire.body = repeated(&wire.body, "A", count()?),
            "depth" | "nesting" => wire.body = repeated(&wire.body, "[", count()?),
            "repeat" => {
                let all = Value::Object(words.clone());
                wire.body = Input::generated(&all).ok_or("a repetition without `n`")?;
            }
            "header_count" | "headers" => wire.lines.extend(fillers(count()?)),
            "header_bytes" => wire.lines.push(format!("X-Filler: {}", "a".repeat(count()?))),
            "path_bytes" | "uri_bytes" | "url_bytes" => {
                wire.path = format!("{}?{}", wire.path, "a".repeat(count()?));
            }
            "slow_body_bytes_per_s" => {
                plan = stalled(Act::Slow { pause: pace(value), head: false });
            }
            "slow_header_bytes_per_s" | "slow_headers_bytes_per_s" | "slow_bytes_per_s" => {
                plan = stalled(Act::Slow { pause: pace(value), head: true });
            }
            "truncate" | "truncate_at" | "close_after" => plan = stalled(Act::Cut(count()?)),
            "idle_connections" | "connections" => plan.act = beside(Beside::Connections)?,
            "half_requests" | "half_open" => plan.act = beside(Beside::Halves)?,
            "idle_sessions" | "sessions" => plan.act = beside(Beside::Sessions)?,
            "get_streams" | "streams" | "sse_streams" => plan.act = beside(Beside::Streams)?,
            "pipeline" | "repeat_request" => plan = stalled(Act::Pipeline(count()?)),
            "concurrent" | "parallel" => plan = stalled(Act::Concurrent(count()?)),
            "h2_rapid_reset" => plan = stalled(Act::Reset(count()?)),
            // These words are parameters of other words, or are read by `adjust`.
            "limit_s" | "n" | "prefix" | "suffix" | "chunk_bytes" | "chunk_size" | "chunks" => {}
            unknown => return Err(format!("unknown generator `{unknown}`")),
        }
    }
    Ok(adjust(plan, words, wire))
}

/// Applies the words that affect the whole plan: chunked framing and the time limit.
fn adjust(mut plan: Plan, words: &Map<String, Value>, wire: &mut Wire) -> Plan {
    if let Act::Beside(..) = plan.act {
        plan.limit = FRESH;
    }
    if let Some(size) =
        ["chunk_bytes", "chunk_size", "chunks"].iter().find_map(|key| words.get(*key))
    {
        let size =
            words.get("chunks").map_or(size, |_| words.get("chunk_bytes").unwrap_or(&Value::Null));
        chunked(wire, size.as_u64(), words.get("chunks").and_then(Value::as_u64));
    }
    if let Some(limit) = words.get("limit_s").and_then(Value::as_f64) {
        plan.limit = Duration::try_from_secs_f64(limit).unwrap_or(STALLED).min(STALLED) + GRACE;
    }
    plan
}

fn fillers(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("X-Filler-{number}: {number}"))
}

fn stalled(act: Act) -> Plan {
    Plan { act, limit: STALLED }
}

/// Returns the pause between two bytes for a rate in bytes per second.
fn pace(per_second: &Value) -> Duration {
    Duration::from_secs_f64(1.0 / per_second.as_f64().unwrap_or(1.0).max(0.1))
}

/// Returns a body of `times` bytes that begins with the given body and repeats `unit`.
fn repeated(body: &Input, unit: &str, times: usize) -> Input {
    let Input::Bytes(prefix) = body else { return Input::Bytes(Vec::new()) };
    Input::Repeat {
        prefix: prefix.clone(),
        unit: unit.into(),
        times: times.saturating_sub(prefix.len()),
        suffix: Vec::new(),
    }
}

/// Frames the body in chunks of `size` bytes. With `times`, instead frames that many equal chunks of blanks.
fn chunked(wire: &mut Wire, size: Option<u64>, times: Option<u64>) {
    let size = size.and_then(|size| usize::try_from(size).ok()).unwrap_or(1).max(1);
    wire.set("Transfer-Encoding", "chunked");
    let chunk =
        |bytes: &[u8]| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    let end = b"0\r\n\r\n";
    let times = times.and_then(|times| usize::try_from(times).ok());
    wire.body = if let Some(times) = times {
        let unit = chunk(&vec![b' '; size]);
        Input::Repeat { prefix: Vec::new(), unit, times, suffix: end.to_vec() }
    } else {
        let body: Vec<u8> = wire.body.pieces().flat_map(|(bytes, _)| bytes).collect();
        let mut chunks: Vec<u8> = body.chunks(size).flat_map(chunk).collect();
        chunks.extend_from_slice(end);
        Input::Bytes(chunks)
    };
}
