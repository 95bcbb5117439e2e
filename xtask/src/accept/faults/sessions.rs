//! The fault "10,000 idle sessions": each session must need little memory, and the server must release this memory when
//! the session ends.

use super::{head, mebibytes};
use crate::{
    exchange::{Answer, Status, exchange},
    run::{Context, Failure, Outcome},
    serving::{Served, memory},
};
use std::{collections::HashSet, time::Duration};

const SESSIONS: usize = 10_000;
/// The maximum memory of a session in bytes, so that a hundred thousand sessions fit into 1 GiB.
const MAX_BYTES: u64 = (1 << 30) / 100_000;
/// The time limit of each step, e.g. of opening all sessions.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Opens the sessions, ends them, and opens as many again; checks the server's memory each time all sessions are open.
pub(super) fn idle(served: &Served) -> Outcome<String> {
    let resident = || memory(served.process(), "VmRSS").context("the server's memory");
    // Opens one session before memory is measured, because the first one allocates what all sessions share.
    let warm = open(served, 1)?;
    let start = resident()?;
    let first = open(served, SESSIONS)?;
    let full = resident()?;
    let oldest = [warm[0].clone(), first[0].clone()];
    if !answers(&list(served, &oldest)?, 200) {
        return Err(Failure::new("the oldest sessions do not reply"));
    }
    if !answers(&each(served, "DELETE", &first, "")?, 200) {
        return Err(Failure::new("not every session can be ended"));
    }
    if !answers(&list(served, &first[..1])?, 404) {
        return Err(Failure::new("a session that has ended still replies"));
    }
    open(served, SESSIONS)?;
    let again = resident()?;
    let (once, twice) = (full.saturating_sub(start), again.saturating_sub(start));
    let count = u64::try_from(SESSIONS)?;
    let seen = format!(
        "{SESSIONS} held in {} ({} bytes each), {} after as many again",
        mebibytes(once),
        once / count,
        mebibytes(twice)
    );
    let bound = MAX_BYTES * count;
    if once <= bound && twice <= bound { Ok(seen) } else { Err(Failure::new(seen)) }
}

/// Opens sessions one after the other on one connection.
fn open(served: &Served, count: usize) -> Outcome<Vec<String>> {
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"faults","version":"0"}}}"#;
    let request = request(served, "POST", "", hello);
    let pieces = (0..count).map(|_| (request.clone(), Duration::ZERO));
    let answers = exchange(served.port(), pieces, "POST", count, TIMEOUT);
    let ids = answers.iter().filter_map(|answer| answer.header("mcp-session-id"));
    let ids: Vec<String> = ids.map(str::to_owned).collect();
    if ids.iter().collect::<HashSet<_>>().len() != count {
        let last = answers.last().map_or(Status::Silent, |answer| answer.status);
        let value = last.value();
        return Err(Failure::new(format!("{} of {count} sessions, then {value}", ids.len())));
    }
    each(served, "POST", &ids, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
    Ok(ids)
}

/// Lists the tools in each session.
fn list(served: &Served, sessions: &[String]) -> Outcome<Vec<Answer>> {
    each(served, "POST", sessions, r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#)
}

/// Sends the same request in each session, on one connection.
fn each(served: &Served, method: &str, sessions: &[String], body: &str) -> Outcome<Vec<Answer>> {
    let pieces = sessions.iter().map(|session| {
        let line = format!("Mcp-Session-Id: {session}\r\n");
        (request(served, method, &line, body), Duration::ZERO)
    });
    let answers = exchange(served.port(), pieces, method, sessions.len(), TIMEOUT);
    if answers.len() == sessions.len() {
        Ok(answers)
    } else {
        Err(Failure::new(format!("{} of {} answers", answers.len(), sessions.len())))
    }
}

fn request(served: &Served, method: &str, more: &str, body: &str) -> Vec<u8> {
    let length = format!("{more}Content-Length: {}\r\n", body.len());
    (head(served.port(), method, &length) + body).into_bytes()
}

/// Returns whether all replies have this status; if it is 200, replies without a body (202 and 204) are accepted too.
fn answers(all: &[Answer], status: u16) -> bool {
    let right = |got: u16| got == status || (status == 200 && matches!(got, 202 | 204));
    all.iter().all(|answer| matches!(answer.status, Status::Of(got) if right(got)))
}
