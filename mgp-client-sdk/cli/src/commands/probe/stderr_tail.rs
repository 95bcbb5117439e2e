//! Keeps the last lines of a server's standard error, and a line of its standard output that is not MCP, to explain why
//! the server failed.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use mgp_discovery::ExpandedServer;
use mgp_types::sync::Mutex;

use super::NO_ANSWER;
use crate::output::first_line;
use crate::redaction::Secrets;

const MAX_LINES: usize = 50;

/// Maximum number of bytes of a line that an error message quotes.
const MAX_QUOTE_BYTES: usize = 200;

/// The maximum length of a line. A longer line is dropped instead of clipped: a clipped secret would not be recognized
/// and hidden.
const MAX_LINE_BYTES: usize = 4096;

/// The remedy for a program that waits for connections instead of reading its standard input.
const HTTP_REMEDY: &str = "; it serves HTTP: add its option for standard input and output to `args`, often `--stdio` or `--transport stdio`, or write its address as `url` in place of `command`";

/// The last lines of a server's standard error, with secrets removed.
#[derive(Clone, Debug, Default)]
pub(super) struct StderrTail(Arc<Mutex<Tail>>);

#[derive(Debug, Default)]
struct Tail {
    secrets: Secrets,
    lines: VecDeque<String>,
    /// The first line of the server's standard output that is not MCP. If a later such line names the server's own
    /// address, it replaces the first one.
    stray: Option<String>,
}

impl StderrTail {
    /// Remembers the secret values of the server's configuration, so that they are hidden in all lines.
    pub(super) fn hide_secrets(&self, server: &ExpandedServer) {
        let mut secrets = Secrets::default();
        secrets.add_server(server);
        self.0.lock().secrets = secrets;
    }

    /// Returns a text with the secrets replaced by `…`.
    pub(super) fn redact(&self, text: &str) -> String {
        self.0.lock().secrets.redact(text)
    }

    /// Adds a line whose control characters are already escaped; colours and secrets are removed from it.
    pub(super) fn push(&self, line: &str) {
        let is_ours = line.starts_with('(') && line.ends_with(" lines were dropped)");
        if line.len() > MAX_LINE_BYTES || is_ours {
            return;
        }
        let line = self.quotable(line);
        let mut tail = self.0.lock();
        if tail.lines.len() == MAX_LINES {
            tail.lines.pop_front();
        }
        tail.lines.push_back(first_line(&line, MAX_QUOTE_BYTES));
    }

    /// Adds a line of standard output that is not MCP; its control characters are already escaped.
    pub(super) fn push_stray(&self, line: &str) {
        let line = first_line(&self.quotable(line), MAX_QUOTE_BYTES);
        let mut tail = self.0.lock();
        if tail.stray.as_deref().is_none_or(|known| names_address(&line) && !names_address(known)) {
            tail.stray = Some(line);
        }
    }

    /// Returns the reason of a failure, with the line that the server wrote to standard output added. If the reason
    /// ends with a remedy, the remedy stays at the end.
    pub(super) fn explain(&self, reason: &str) -> String {
        let tail = self.0.lock();
        let is_silence = reason.starts_with(NO_ANSWER);
        let serves_http =
            is_silence && tail.lines.iter().chain(&tail.stray).any(|line| names_address(line));
        // If the server serves HTTP, leave out the remedy "more time", which helps only a slow server.
        let what = reason.split_once("; ").map(|(what, _)| what).filter(|_| serves_http);
        let mut text = what.unwrap_or(reason).to_owned();
        if let Some(line) = &tail.stray {
            let stray = format!("it wrote lines to standard output that are not MCP: “{line}”");
            text = if is_silence { stray } else { format!("{stray}, and {text}") };
        }
        if serves_http {
            text.push_str(HTTP_REMEDY);
        }
        text
    }

    /// Returns a line without colours and secrets. Quotation marks are replaced, because the error message encloses the
    /// line in them.
    fn quotable(&self, line: &str) -> String {
        self.redact(&without_colors(line)).replace(['“', '”'], "\"")
    }

    pub(super) fn best_line(&self) -> Option<String> {
        let tail = self.0.lock();
        best_of(&tail.lines.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Returns the line of a server's standard error that best explains a failure: the first error of npm, else the last
/// line that mentions an error, else the last non-empty line. A line that only names `--help` explains nothing, so it
/// is returned only if there is no other line.
pub(in crate::commands) fn best_of(lines: &[&str]) -> Option<String> {
    // Prefer the first error line of npm, which explains the failure; npm prints many more after it.
    let npm = |line: &&str| {
        ["npm error", "npm ERR!"].iter().any(|begin| line.starts_with(begin))
            && !line.contains(" code ")
    };
    let names_error = |line: &&str| {
        let line = line.to_lowercase();
        let is_place = line.starts_with("at ") || line.starts_with("note: ");
        let words = ["error", "panic", "exception", "fatal"];
        !is_place && words.iter().any(|word| line.contains(word))
    };
    // Search the lines before the usage first: many programs in Go and Rust print their usage after the error, and its
    // options may also mention errors.
    let usage = lines.iter().position(|line| line.to_lowercase().starts_with("usage:"));
    let before_usage = &lines[..usage.unwrap_or_default()];
    let at = lines
        .iter()
        .position(npm)
        .or_else(|| before_usage.iter().rposition(names_error))
        .or_else(|| lines.iter().rposition(names_error))
        .or_else(|| lines.iter().rposition(|line| !line.is_empty() && !line.contains("--help")))
        .or_else(|| lines.iter().rposition(|line| !line.is_empty()))?;
    // If the line ends with a colon, add the next line, because the line itself only names a location.
    let rest = lines.get(at + 1).filter(|_| lines[at].ends_with(':'));
    let line = rest.map_or_else(|| lines[at].to_owned(), |rest| format!("{} {rest}", lines[at]));
    Some(first_line(&line, MAX_QUOTE_BYTES))
}

/// Returns whether a line announces that a program serves at an address of this machine.
fn names_address(line: &str) -> bool {
    let line = line.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
    has(&["localhost:", "127.0.0.1:", "0.0.0.0:", "[::1]:", "[::]:"])
        && has(&["listen", "running", "serving", "started", "available", "transport"])
        && !has(&["failed", "refused", "error"])
}

fn without_colors(line: &str) -> Cow<'_, str> {
    const BEGIN: &str = "\\u{1b}[";
    if !line.contains(BEGIN) {
        return Cow::Borrowed(line);
    }
    let mut pieces = line.split(BEGIN);
    let first = pieces.next().unwrap_or_default().to_owned();
    Cow::Owned(pieces.fold(first, |text, piece| {
        let piece = piece.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        text + piece.strip_prefix(|c: char| c.is_ascii_alphabetic()).unwrap_or(piece)
    }))
}

#[cfg(test)]
mod tests {
    use mgp_discovery::{Config, Expander};

    use super::*;

    #[track_caller]
    fn check(lines: &[&str], expected: &str) {
        let tail = StderrTail::default();
        for line in lines {
            tail.push(line);
        }
        assert_eq!(tail.best_line().as_deref(), Some(expected));
    }

    #[test]
    fn the_line_that_explains_a_failure_is_quoted() {
        check(
            &["Traceback (most recent call last):", "  raise X", "ImportError: x", ""],
            "ImportError: x",
        );
        check(
            &["Error: no 'x'", "    at f (node:internal/errors:1)", "}", "Node.js v20"],
            "Error: no 'x'",
        );
        check(
            &[
                "npm error code E404",
                "npm error 404 Not Found - GET x",
                "npm error 404 or git folder.",
            ],
            "npm error 404 Not Found - GET x",
        );
        check(
            &[
                "thread 'main' panicked at src/main.rs:3:5:",
                "no key",
                "note: run with `RUST_BACKTRACE=1`",
            ],
            "thread 'main' panicked at src/main.rs:3:5: no key",
        );
        check(&["usage: x FILE", "", "(9 lines were dropped)"], "usage: x FILE");
        check(
            &["Error: no context", "Usage:", "  x [flags]", "  --log FILE  logs errors to FILE"],
            "Error: no context",
        );
        check(&["usage: x [-h] FILE", "x: error: no FILE"], "x: error: no FILE");
        let docker = "docker: Cannot connect to the Docker daemon";
        check(&[docker, "", "Run 'docker run --help' for more information"], docker);
        check(&["see --help"], "see --help");
        check(
            &["\\u{1b}[2m09:15\\u{1b}[0m \\u{1b}[31mERROR\\u{1b}[0m no “x”"],
            "09:15 ERROR no \"x\"",
        );
        assert_eq!(StderrTail::default().best_line(), None);
    }

    #[test]
    fn a_program_that_serves_http_is_explained_with_its_remedy() {
        let tail = StderrTail::default();
        tail.push("cannot reach http://localhost:3000: connection refused");
        let reason = "it did not answer within 3 s; wait";
        assert_eq!(tail.explain(reason), reason);
        tail.push_stray("info: Microsoft.Hosting.Lifetime[14]");
        let stray = "it wrote lines to standard output that are not MCP: “info: Microsoft";
        let explained = tail.explain("the handshake failed; see its log");
        assert!(explained.starts_with(stray), "{explained}");
        assert!(explained.ends_with(", and the handshake failed; see its log"), "{explained}");
        tail.push_stray("Now listening on: http://localhost:5000");
        tail.push_stray("Server running on http://localhost:5001");
        let explained = tail.explain("it did not answer within 3 s; wait");
        let expected = "“Now listening on: http://localhost:5000”; it serves HTTP";
        assert!(explained.contains(expected), "{explained}");
        let tail = StderrTail::default();
        tail.push("Server running on http://localhost:5001");
        let explained = tail.explain("it did not answer within 3 s; wait");
        let expected = "it did not answer within 3 s; it serves HTTP";
        assert!(explained.starts_with(expected), "{explained}");
    }

    #[test]
    fn the_tail_is_bounded() {
        let tail = StderrTail::default();
        for n in 0..999 {
            tail.push(&format!("error {n} {}", "x".repeat(999)));
        }
        tail.push(&format!("error {}", "x".repeat(MAX_LINE_BYTES)));
        let line = tail.best_line().unwrap();
        assert!(
            line.starts_with("error 998") && line.chars().count() <= MAX_QUOTE_BYTES + 1,
            "{line}"
        );
        assert_eq!(tail.0.lock().lines.len(), MAX_LINES);
    }

    /// Checks how a line is redacted for a server with the given entry, whose variable `$T` is `s3cret-s3cret`.
    #[track_caller]
    fn check_redacted(entry: &str, line: &str, expected: &str) {
        let text = format!("servers = [{{ id = 'a', {entry} }}]");
        let config = Config::parse("mgp.toml", &text).unwrap().config;
        let expander = Expander::new(|_| Some("s3cret-s3cret".into()));
        let tail = StderrTail::default();
        tail.hide_secrets(&expander.server(&config.servers[0]).unwrap());
        assert_eq!(tail.redact(line), expected);
    }

    #[test]
    fn secrets_are_not_quoted() {
        let line = "no s3cret-s3cret here";
        check_redacted("command = 'x', env = { A = 'Bearer ${T}' }", line, "no … here");
        check_redacted("command = 'x', args = ['--token=${T}']", line, "no … here");
        check_redacted("command = 'x', args = ['--api-key', 'abcdefgh']", "bad abcdefgh", "bad …");
        check_redacted(
            "command = 'x', args = ['--token=abcdefgh']",
            "--token=abcdefgh",
            "--token=…",
        );
        check_redacted("command = 'x', env = { DB_PASSWORD = 'hunter2' }", "not hunter2", "not …");
        check_redacted("command = 'x', env = { KEY = 'Bearer abcdefgh' }", "not abcdefgh", "not …");
        check_redacted(
            "command = 'x', env = { PEM_KEY = \"abcdefgh\\nijklmnop \" }",
            "ijklmnop.",
            "….",
        );
        check_redacted(
            "command = 'x', env = { A_KEY = 'abcdef', B_KEY = 'abcdefgh' }",
            "abcdefgh",
            "…",
        );
        check_redacted(
            "url = 'https://h/?token=abcdefgh&key=ijklmnop'",
            "abcdefgh ijklmnop",
            "… …",
        );
        check_redacted("command = 'x', args = ['pg://me:abcdefgh@h/x']", "not abcdefgh", "not …");
        check_redacted("command = 'x', env = { A_KEY = 'abc$$defgh' }", "not abc$defgh", "not …");
        check_redacted(
            "url = 'https://h', headers = { Authorization = 'Bearer ${T}' }",
            line,
            "no … here",
        );
        check_redacted(
            "command = '${T}/x', args = ['plain', '1']",
            "s3cret-s3cret/x plain 1",
            "…/x plain 1",
        );
    }
}
