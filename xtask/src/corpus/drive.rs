//! Runs one stdio test case (row) against a server: the handshake, the input, the server's reaction, and a ping.

use super::{
    Report,
    input::Input,
    judge::{Line, Reply, id_text, judge, read, show},
    row::Row,
    server::Server,
};
use crate::run::now;
use serde_json::json;
use std::time::Duration;

/// The time limit of the handshake with the server under test.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit of the server's reaction, and that of the reply to the ping.
const REACTION_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for which the check watches a server that must not reply.
const SILENCE_INTERVAL: Duration = Duration::from_millis(300);
/// The time without a line from the server after which its reaction counts as complete.
const QUIET_INTERVAL: Duration = Duration::from_millis(100);
/// The time limit of writing a row's input, and of reading the server's output.
const ROW_TIMEOUT: Duration = Duration::from_mins(1);
/// In a row about memory, the time limit of writing all input while nothing reads the server's output. After this time,
/// the check begins to read.
const STALL_TIMEOUT: Duration = Duration::from_millis(1500);

const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const SIGN: &str = r#"{"jsonrpc":"2.0","id":"sign-of-life","method":"ping"}"#;

/// The lines that the server wrote in reaction to a row, sorted by kind.
#[derive(Default)]
struct Reaction {
    replies: Vec<Reply>,
    noise: Option<String>,
    sign: bool,
}

pub(super) fn run(row: &Row, command: &[String]) -> Report {
    Report::of(|report| attempt(row, command, report))
}

fn attempt(row: &Row, command: &[String], report: &mut Report) -> Result<(), String> {
    let input = row.input.as_ref().ok_or("this kind of input is not known")?;
    let mut server = Server::start(command).map_err(|failure| failure.to_string())?;
    if row.after_handshake() {
        handshake(&server, &row.revision)?;
    }
    let memory = server.peak_memory();
    let time = server.processor_time();
    let mut reaction = Reaction::default();
    let written = send(&server, row, input);
    if written {
        reaction.read_reaction(&server, row);
    }
    let spent =
        server.processor_time().zip(time).map(|(after, before)| after.saturating_sub(before));
    let judged_until = reaction.replies.len();

    if row.expect.exits() {
        exit(&mut server, &mut reaction)?;
        report.alive = true;
    } else {
        report.alive = ping(&server, input, &mut reaction, written);
    }
    report.got = reaction.replies.iter().take(3).map(show).collect();
    if reaction.replies.len() > 3 {
        report.got.push(format!("and {} more", reaction.replies.len() - 3));
    }
    if !written {
        return Err("the server did not take the input".to_owned());
    }
    if !report.alive {
        return Err("a following ping was not answered".to_owned());
    }
    if let Some(noise) = reaction.noise {
        return Err(format!("not JSON-RPC: {noise}"));
    }
    if let Some((bound, growth)) = row.expect.growth().zip(growth(&server, memory))
        && growth > bound
    {
        return Err(format!("grew by {growth} bytes, at most {bound} expected"));
    }
    if let Input::Idle { silence, .. } = input {
        // Judge only the replies before the ping. The ping ended an unfinished line of the row's input, and the server
        // may have replied to that line.
        reaction.replies.truncate(judged_until);
        if spent.is_some_and(|spent| spent > *silence / 4) {
            return Err("busy while idle".to_owned());
        }
    }
    let own_id = String::from_utf8(input.first_line()).ok().and_then(|line| id_text(&line));
    judge(&row.expect, own_id.as_deref(), input.messages(), &reaction.replies)
}

/// Closes the server's input, and checks that the server exits with code 0.
fn exit(server: &mut Server, reaction: &mut Reaction) -> Result<(), String> {
    let code = server.close();
    reaction.listen(server, QUIET_INTERVAL, ROW_TIMEOUT, |_| false);
    match code {
        Some(0) => Ok(()),
        code => {
            let code =
                code.map_or("it did not exit".to_owned(), |code| format!("exit code {code}"));
            Err(format!("expected a clean exit at the end of the input: {code}"))
        }
    }
}

/// Ends the last line of the row's input if it has no newline, then sends a ping; returns whether the server answered
/// the ping.
fn ping(server: &Server, input: &Input, reaction: &mut Reaction, written: bool) -> bool {
    if !input.ends_a_line() {
        server.send(vec![(b"\n".to_vec(), Duration::ZERO)]);
        server.written(REACTION_TIMEOUT);
    }
    let answered = written && server.send_line(SIGN) && {
        reaction.listen(server, REACTION_TIMEOUT, ROW_TIMEOUT, |reaction| reaction.sign);
        reaction.sign
    };
    reaction.listen(server, QUIET_INTERVAL, REACTION_TIMEOUT, |_| false);
    answered
}

fn handshake(server: &Server, revision: &str) -> Result<(), String> {
    let hello = json!({
        "jsonrpc": "2.0", "id": "hello", "method": "initialize",
        "params": {
            "protocolVersion": revision, "capabilities": {},
            "clientInfo": {"name": "corpus", "version": "0"},
        },
    });
    server.send_line(&hello.to_string());
    let end = now() + HANDSHAKE_TIMEOUT;
    while let Some(left) = end.checked_duration_since(now()) {
        let Some(line) = server.line(left) else { break };
        if line.contains(r#""hello""#) {
            server.send_line(READY);
            return Ok(());
        }
    }
    Err("no reply to initialize".to_owned())
}

/// Writes the row's input, and returns whether all of it was written. For a row about memory, nothing reads the
/// server's output meanwhile: a server that buffers its output without limit then uses too much memory.
fn send(server: &Server, row: &Row, input: &Input) -> bool {
    let mut pieces: Vec<_> = input.pieces().collect();
    let slow: Duration = pieces.iter().map(|(_, pause)| *pause).sum();
    if matches!(input, Input::Repeat { .. }) && !input.ends_a_line() {
        pieces.push((b"\n".to_vec(), Duration::ZERO));
    }
    server.hold(row.expect.bounded_memory);
    server.send(pieces);
    let done = row.expect.bounded_memory && server.written(STALL_TIMEOUT);
    server.hold(false);
    done || server.written(ROW_TIMEOUT + slow)
}

fn growth(server: &Server, before: Option<u64>) -> Option<u64> {
    server.peak_memory().zip(before).map(|(after, before)| after.saturating_sub(before))
}

impl Reaction {
    /// Reads the server's reaction to a row.
    fn read_reaction(&mut self, server: &Server, row: &Row) {
        let later = row.expect.then_ok.is_some();
        match &*row.expect.reaction {
            "no_reply" | "error_or_ignore" => {
                self.listen(server, SILENCE_INTERVAL, SILENCE_INTERVAL, |_| false);
            }
            _ => self.listen(server, REACTION_TIMEOUT, REACTION_TIMEOUT, |reaction| {
                let results = reaction.replies.iter().filter(|reply| reply.code.is_none()).count();
                if later { results > 0 } else { !reaction.replies.is_empty() }
            }),
        }
        self.listen(server, QUIET_INTERVAL, ROW_TIMEOUT, |_| false);
    }

    /// Reads lines until `enough` returns true, until no line arrives for `quiet`, or until `limit` is over.
    fn listen(
        &mut self,
        server: &Server,
        quiet: Duration,
        limit: Duration,
        enough: impl Fn(&Self) -> bool,
    ) {
        let end = now() + limit;
        while !enough(self) {
            let Some(left) = end.checked_duration_since(now()) else { return };
            let Some(line) = server.line(quiet.min(left)) else { return };
            match read(&line) {
                Line::Replies(replies) => {
                    for reply in replies {
                        if reply.id.as_deref() == Some(r#""sign-of-life""#) {
                            self.sign = true;
                        } else {
                            self.replies.push(reply);
                        }
                    }
                }
                Line::Own => {}
                Line::Noise => {
                    let start: String = line.chars().take(80).collect();
                    self.noise.get_or_insert(start);
                }
            }
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    /// Returns a shell script that acts as a server: it answers the handshake and the ping, and runs `otherwise` for
    /// other lines.
    fn server(otherwise: &str) -> Vec<String> {
        let answer = |id: &str| format!(r#"echo '{{"jsonrpc":"2.0","id":"{id}","result":{{}}}}'"#);
        let script = format!(
            "while read -r line; do case \"$line\" in *hello*) {};; *sign-of-life*) {};; *initialized*) ;; *) {otherwise};; esac; done",
            answer("hello"),
            answer("sign-of-life"),
        );
        ["sh", "-c", &script].map(str::to_owned).to_vec()
    }

    #[track_caller]
    fn check(row: &str, otherwise: &str, ok: bool, alive: bool) {
        let row = Row::read(row).unwrap();
        let report = run(&row, &server(otherwise));
        assert_eq!((report.ok, report.alive), (ok, alive), "{report:?}");
    }

    const PARSE: &str = r#"{"id":"a","text":"[","expect":
        {"reaction":"error","code":-32700,"id":"null_or_absent","alive":true}}"#;
    const REFUSE: &str = r#"echo '{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}'"#;

    #[test]
    fn a_refusal_and_an_answered_ping_pass() {
        check(PARSE, REFUSE, true, true);
    }

    #[test]
    fn noise_and_death_do_not() {
        let row = r#"{"id":"a","text":"[","expect":{"reaction":"error_or_ignore","alive":true}}"#;
        check(row, "true", true, true);
        check(row, "echo oops", false, true);
        check(PARSE, "exit 1", false, false);
    }

    #[test]
    fn a_clean_exit_differs_from_a_crash() {
        let row = r#"{"id":"a","bytes_b64":"eyI=","expect":
            {"reaction":"error_or_ignore","alive":"exit0"}}"#;
        check(row, "true", true, true);
        check(
            r#"{"id":"a","text":"x","expect":{"reaction":"no_reply","alive":"exit0"}}"#,
            "exit 3",
            false,
            false,
        );
    }
}
