//! One row against one server: handshake, the row's bytes, the reaction, and a sign of life.

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

/// How long the server may take to answer the handshake.
const START: Duration = Duration::from_secs(10);
/// How long the reaction, or the sign of life, may take.
const REACT: Duration = Duration::from_secs(5);
/// How long a server is watched that should stay silent.
const SILENT: Duration = Duration::from_millis(300);
/// After this long without a line, the reaction is over.
const QUIET: Duration = Duration::from_millis(100);
/// How long all writing, and all reading, of one row may take.
const WHOLE: Duration = Duration::from_mins(1);
/// How long a writer that cannot go on is watched before we begin to read.
const STALLED: Duration = Duration::from_millis(1500);

const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const SIGN: &str = r#"{"jsonrpc":"2.0","id":"sign-of-life","method":"ping"}"#;

/// What the server wrote in reaction to a row.
#[derive(Default)]
struct Heard {
    replies: Vec<Reply>,
    noise: Option<String>,
    sign: bool,
}

/// Runs a row and judges it.
pub(super) fn run(row: &Row, command: &[String]) -> Report {
    let mut report = Report::default();
    report.why = match attempt(row, command, &mut report) {
        Ok(()) => {
            report.ok = true;
            String::new()
        }
        Err(why) => why,
    };
    report
}

fn attempt(row: &Row, command: &[String], report: &mut Report) -> Result<(), String> {
    let input = row.input.as_ref().ok_or("this kind of input is not known")?;
    let mut server = Server::start(command).map_err(|failure| failure.to_string())?;
    if row.after_handshake() {
        handshake(&server, &row.revision)?;
    }
    let memory = server.peak_memory();
    let time = server.processor_time();
    let mut heard = Heard::default();
    let written = send(&server, row, input);
    if written {
        heard.reaction(&server, row);
    }
    let spent =
        server.processor_time().zip(time).map(|(after, before)| after.saturating_sub(before));
    let judged_until = heard.replies.len();

    if row.expect.exits() {
        let code = server.close();
        heard.listen(&server, QUIET, WHOLE, |_| false);
        report.alive = code == Some(0);
        if !report.alive {
            let code = code.map_or("it stayed".to_owned(), |code| format!("exit code {code}"));
            return Err(format!("expected a clean exit at the end of the input: {code}"));
        }
    } else {
        if !input.ends_a_line() {
            server.send(vec![(b"\n".to_vec(), Duration::ZERO)]);
            server.written(REACT);
        }
        report.alive = written && server.say(SIGN) && {
            heard.listen(&server, REACT, WHOLE, |heard| heard.sign);
            heard.sign
        };
        heard.listen(&server, QUIET, REACT, |_| false);
    }
    report.got = heard.replies.iter().take(3).map(show).collect();
    if heard.replies.len() > 3 {
        report.got.push(format!("and {} more", heard.replies.len() - 3));
    }
    if !written {
        return Err("the server did not take the input".to_owned());
    }
    if !report.alive {
        return Err("a following ping was not answered".to_owned());
    }
    if let Some(noise) = heard.noise {
        return Err(format!("not JSON-RPC: {noise}"));
    }
    if let Some((bound, growth)) = row.expect.growth().zip(growth(&server, memory))
        && growth > bound
    {
        return Err(format!("grew by {growth} bytes, at most {bound} expected"));
    }
    if let Input::Idle { silence, .. } = input {
        // The end of the half line is ours, not the row's.
        heard.replies.truncate(judged_until);
        if spent.is_some_and(|spent| spent > *silence / 4) {
            return Err("busy while idle".to_owned());
        }
    }
    let own_id = String::from_utf8(input.first_line()).ok().and_then(|line| id_text(&line));
    judge(&row.expect, own_id.as_deref(), input.messages(), &heard.replies)
}

fn handshake(server: &Server, revision: &str) -> Result<(), String> {
    let hello = json!({
        "jsonrpc": "2.0", "id": "hello", "method": "initialize",
        "params": {
            "protocolVersion": revision, "capabilities": {},
            "clientInfo": {"name": "corpus", "version": "0"},
        },
    });
    server.say(&hello.to_string());
    let end = now() + START;
    while let Some(left) = end.checked_duration_since(now()) {
        let Some(line) = server.line(left) else { break };
        if line.contains(r#""hello""#) {
            server.say(READY);
            return Ok(());
        }
    }
    Err("no reply to initialize".to_owned())
}

/// Writes the input; a row about memory does not read while it writes.
fn send(server: &Server, row: &Row, input: &Input) -> bool {
    let mut pieces: Vec<_> = input.pieces().collect();
    let slow: Duration = pieces.iter().map(|(_, pause)| *pause).sum();
    if matches!(input, Input::Repeat { .. }) && !input.ends_a_line() {
        pieces.push((b"\n".to_vec(), Duration::ZERO));
    }
    server.hold(row.expect.bounded_memory);
    server.send(pieces);
    let done = row.expect.bounded_memory && server.written(STALLED);
    server.hold(false);
    done || server.written(WHOLE + slow)
}

fn growth(server: &Server, before: Option<u64>) -> Option<u64> {
    server.peak_memory().zip(before).map(|(after, before)| after.saturating_sub(before))
}

impl Heard {
    /// Hears the reaction to a row out.
    fn reaction(&mut self, server: &Server, row: &Row) {
        let later = row.expect.then_ok.is_some();
        match &*row.expect.reaction {
            "no_reply" | "error_or_ignore" => self.listen(server, SILENT, SILENT, |_| false),
            _ => self.listen(server, REACT, REACT, |heard| {
                let results = heard.replies.iter().filter(|reply| reply.code.is_none()).count();
                if later { results > 0 } else { !heard.replies.is_empty() }
            }),
        }
        self.listen(server, QUIET, WHOLE, |_| false);
    }

    /// Reads until `enough`, until nothing came for `quiet`, or until `limit`.
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

    /// A server in shell: greets, answers the sign of life, and does `otherwise` with the rest.
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
    fn a_refusal_and_a_sign_of_life_pass() {
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
    fn a_clean_exit_is_told_from_a_crash() {
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
