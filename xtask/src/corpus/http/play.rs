//! Runs one HTTP test case (row) against the server: fills the placeholders, sends the request, judges the reply, and
//! checks that the server still answers.

use super::{
    super::input::Input,
    Report,
    fixture::{self, filled, secret},
    host::{Host, alive, close_session, open_session},
    plan::{Act, Beside, Plan, plan},
    reset::rapid_reset,
    row::{Request, Row},
    secrets::{self, has_word},
    wire::Wire,
};
use crate::{
    exchange::{Answer, Piece, Reader, Status, connect, exchange},
    serving::memory,
};
use serde_json::Value;
use std::{
    io::Write,
    net::{Shutdown, TcpStream},
    sync::Mutex,
    thread,
    time::Duration,
};

/// The number of attempts for a row if the server closes the connection before the reply is read.
const TRIES: usize = 3;

/// The line of `/proc/PID/status` with the peak memory of a process.
const PEAK: &str = "VmHWM";

pub(super) fn run(row: &Row, host: &Mutex<Host>) -> Report {
    let mut report = Report::default();
    report.why = match attempt(row, host, &mut report) {
        Ok(()) => {
            report.ok = true;
            String::new()
        }
        Err(why) => why,
    };
    report
}

fn attempt(row: &Row, host: &Mutex<Host>, report: &mut Report) -> Result<(), String> {
    let (port, process) = {
        let host = host.lock().map_err(|_| "the server is lost")?;
        (host.port(), host.process())
    };
    let before = memory(process, PEAK);
    let mut seen = play(row, port);
    for _ in 1..TRIES {
        // Run the row again, because a TCP reset can destroy the reply. If every attempt ends with a closed connection,
        // closing is the server's reaction.
        let lost = seen.as_ref().is_ok_and(|(status, _)| *status == Status::Closed);
        if !lost || row.expect.judge(Status::Closed, None).is_ok() {
            break;
        }
        seen = play(row, port);
    }
    report.alive = alive(port);
    let revived = host.lock().map_err(|_| "the server is lost")?.revive();
    if revived.map_err(|failure| failure.to_string())? {
        report.alive = false;
    }
    let (status, code) = seen?;
    (report.status, report.code) = (status.value(), code);
    if !report.alive {
        return Err("a following request was not answered".to_owned());
    }
    if let Some((bound, (before, after))) =
        row.expect.growth().zip(before.zip(memory(process, PEAK)))
        && after.saturating_sub(before) > bound
    {
        let growth = after.saturating_sub(before);
        return Err(format!("grew by {growth} bytes, at most {bound} expected"));
    }
    row.expect.judge(status, code)
}

/// Sends the request as the row plans it; returns the status and the JSON-RPC error code of the reply.
fn play(row: &Row, port: u16) -> Result<(Status, Option<i64>), String> {
    let request = request(row, port)?;
    let mut wire = Wire::new(&request)?;
    let words = filled_value(&row.generator, &mut |name| placeholder(name, port, &[]))?;
    let Plan { act, limit } = plan(&words, &mut wire)?;
    let once = |wire: &Wire| exchange(port, wire.pieces(), &wire.method, 1, limit);
    let answers = match act {
        Act::Send => once(&wire),
        Act::Raw(bytes) => {
            let pieces = std::iter::once((bytes, Duration::ZERO));
            exchange(port, pieces, &wire.method, 1, limit)
        }
        Act::Slow { pause, head } => {
            exchange(port, slow(&wire, pause, head), &wire.method, 1, limit)
        }
        Act::Cut(length) => cut(port, &wire, length, limit),
        Act::Pipeline(count) => {
            let bytes = wire.bytes();
            let pieces = (0..count).map(|_| (bytes.clone(), Duration::ZERO));
            exchange(port, pieces, &wire.method, count, limit)
        }
        Act::Concurrent(count) => thread::scope(|scope| {
            let calls: Vec<_> = (0..count).map(|_| scope.spawn(|| once(&wire))).collect();
            calls.into_iter().flat_map(|call| call.join().unwrap_or_default()).collect()
        }),
        Act::Beside(kind, count) => {
            let _beside = beside(kind, count, port, &wire)?;
            once(&wire)
        }
        Act::Reset(count) => return Ok((rapid_reset(port, count, limit), None)),
    };
    // If there are several replies, judge the first reply whose status is not 200.
    let odd = answers.iter().find(|answer| answer.status != Status::Of(200));
    let answer = odd.or(answers.first()).ok_or("no answer was read")?;
    Ok((answer.status, answer.code()))
}

/// Returns the request of the row with its placeholders filled.
fn request(row: &Row, port: u16) -> Result<Request, String> {
    // Open sessions with the caller's own headers, so that the caller owns them.
    let mut own = Vec::new();
    for (name, value) in &row.request.headers {
        let caller = ["authorization", "x-test-mode"];
        if let (true, Some(value)) = (caller.contains(&&*name.to_ascii_lowercase()), value.as_str())
        {
            let value = filled(value, &mut |name| placeholder(name, port, &[]))?;
            own.push(format!("{name}: {value}"));
        }
    }
    if !row.wants_auth() {
        own.clear();
    }
    let fill = |text: &str| filled(text, &mut |name| placeholder(name, port, &own));
    let mut request = row.request.clone();
    request.path = fill(&request.path)?;
    request.body = fill(&request.body)?;
    for line in &mut request.extra_headers_raw {
        *line = fill(line)?;
    }
    for value in request.headers.values_mut() {
        *value = filled_value(value, &mut |name| placeholder(name, port, &own))?;
    }
    Ok(request)
}

/// Returns the value of a placeholder; `own` are the header lines that identify the caller.
fn placeholder(name: &str, port: u16, own: &[String]) -> Result<String, String> {
    if name == "PORT" {
        return Ok(port.to_string());
    }
    if let Some(secret) = secret(name) {
        return secret.map_err(|failure| failure.to_string());
    }
    if has_word(name, &["OTHER", "FOREIGN", "STOLEN", "B"]) {
        let key = secrets::key(fixture::OTHER);
        let other = ["X-Test-Mode: auth".to_owned(), format!("Authorization: Bearer {key}")];
        return open_session(port, &other);
    }
    let session = open_session(port, own)?;
    if has_word(name, &["EXPIRED", "DELETED", "CLOSED", "ENDED", "OLD", "GONE"]) {
        close_session(port, &session, own);
    }
    Ok(if has_word(name, &["UPPER"]) {
        session.to_uppercase()
    } else if has_word(name, &["TRUNCATED", "PREFIX"]) {
        session.chars().take(session.len() / 2).collect()
    } else {
        session
    })
}

fn filled_value(
    value: &Value,
    fill: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => filled(text, fill)?.into(),
        Value::Array(many) => {
            let many = many.iter().map(|value| filled_value(value, fill));
            Value::Array(many.collect::<Result<_, _>>()?)
        }
        Value::Object(map) => {
            let map = map.iter().map(|(key, value)| Ok((key.clone(), filled_value(value, fill)?)));
            Value::Object(map.collect::<Result<_, String>>()?)
        }
        plain => plain.clone(),
    })
}

/// Returns the pieces of a request that is sent slowly. If `head` is set, each byte of the request is a piece.
/// Otherwise, the first piece is the whole head, and each byte of the body is a piece.
fn slow(wire: &Wire, pause: Duration, head: bool) -> impl Iterator<Item = Piece> + Send {
    let (start, rest) = if head {
        (Vec::new(), wire.bytes())
    } else {
        (wire.head(), wire.body.pieces().flat_map(|(bytes, _)| bytes).collect())
    };
    let drops = rest.into_iter().map(move |byte| (vec![byte], pause));
    std::iter::once((start, Duration::ZERO)).chain(drops)
}

/// Sends only the first `length` bytes, closes the sending side, and reads the reply.
fn cut(port: u16, wire: &Wire, length: usize, limit: Duration) -> Vec<Answer> {
    let mut bytes = wire.bytes();
    bytes.truncate(length);
    let Ok(mut stream) = connect(port) else { return Vec::new() };
    // Ignores write errors: if the server has already closed the connection, reading shows it.
    let _ = stream.write_all(&bytes);
    let _ = stream.shutdown(Shutdown::Write);
    vec![Reader::new(&stream, crate::run::now() + limit).answer(&wire.method)]
}

/// Opens the other connections or sessions that must be open while the request of a row is sent. Dropping the result
/// closes the connections.
fn beside(kind: Beside, count: usize, port: u16, wire: &Wire) -> Result<Vec<TcpStream>, String> {
    let failed = |error: std::io::Error| format!("opening the other connections: {error}");
    let mut streams = Vec::new();
    for _ in 0..count {
        let half = match kind {
            Beside::Sessions => {
                open_session(port, &[])?;
                continue;
            }
            Beside::Connections => Vec::new(),
            Beside::Halves => {
                let mut bytes = Input::Bytes(wire.head()).first_line();
                bytes.push(b'\n');
                bytes
            }
            Beside::Streams => {
                let session = open_session(port, &[])?;
                format!(
                    "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n\
                     MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\n\r\n"
                )
                .into_bytes()
            }
        };
        let mut stream = connect(port).map_err(failed)?;
        stream.write_all(&half).map_err(failed)?;
        streams.push(stream);
    }
    Ok(streams)
}
