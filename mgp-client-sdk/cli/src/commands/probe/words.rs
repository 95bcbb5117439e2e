//! What a server that fails wrote about it itself.
//!
//! Applies to: outbound.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgp_discovery::ExpandedServer;

use crate::output::brief;

/// How many of its last lines are looked through.
const LINES: usize = 50;

/// How many characters of a line are quoted.
const SAID: usize = 200;

/// From how many bytes on a line is not kept: a secret that was cut would not be known in it.
const LONG: usize = 4096;

/// From how many bytes on a secret is known again.
const SECRET: usize = 6;

/// The last lines that a server wrote to its standard error, without its secrets.
#[derive(Clone, Debug, Default)]
pub(super) struct Words(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    /// The longest first: one may be the beginning of another.
    secrets: Vec<String>,
    lines: VecDeque<String>,
}

impl Words {
    /// Keeps what may not be shown, wherever it is repeated: each line and word of it.
    pub(super) fn keep_secret(&self, server: &ExpandedServer) {
        let lines = server.secrets().flat_map(|secret| secret.split(char::is_control));
        let parts =
            lines.flat_map(|line| std::iter::once(line.trim()).chain(line.split_whitespace()));
        let mut secrets: Vec<_> =
            parts.filter(|part| part.len() >= SECRET).map(str::to_owned).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        self.heard().secrets = secrets;
    }

    /// A text that may be shown.
    pub(super) fn veiled(&self, text: &str) -> String {
        let veil = |text: String, secret: &String| text.replace(secret, "…");
        self.heard().secrets.iter().fold(text.to_owned(), veil)
    }

    /// Hears a line, in which control characters were escaped.
    pub(super) fn hear(&self, line: &str) {
        let is_ours = line.starts_with('(') && line.ends_with(" lines were dropped)");
        if line.len() > LONG || is_ours {
            return;
        }
        // Quoted it may not end its own quotation.
        let line = self.veiled(&uncoloured(line)).replace(['“', '”'], "\"");
        let mut heard = self.heard();
        if heard.lines.len() == LINES {
            heard.lines.pop_front();
        }
        heard.lines.push_back(brief(&line, SAID));
    }

    /// What says what went wrong, as far as one can tell: the last line that speaks of an error, else the last.
    pub(super) fn telling(&self) -> Option<String> {
        let heard = self.heard();
        let lines = &heard.lines;
        // Of many lines npm's first sentence says it.
        let npm = |line: &String| {
            ["npm error", "npm ERR!"].iter().any(|begin| line.starts_with(begin))
                && !line.contains(" code ")
        };
        let speaks = |line: &String| {
            let line = line.to_lowercase();
            let is_place = line.starts_with("at ") || line.starts_with("note: ");
            let words = ["error", "panic", "exception", "fatal"];
            !is_place && words.iter().any(|word| line.contains(word))
        };
        let at = lines
            .iter()
            .position(npm)
            .or_else(|| lines.iter().rposition(speaks))
            .or_else(|| lines.iter().rposition(|line| !line.is_empty()))?;
        let line = lines[at].as_str();
        // What went wrong stands behind where.
        let rest = lines.get(at + 1).filter(|_| line.ends_with(':'));
        Some(match rest {
            Some(rest) => brief(&format!("{line} {rest}"), SAID),
            None => line.to_owned(),
        })
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line without its colours.
fn uncoloured(line: &str) -> Cow<'_, str> {
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
        let words = Words::default();
        for line in lines {
            words.hear(line);
        }
        assert_eq!(words.telling().as_deref(), Some(expected));
    }

    #[test]
    fn the_line_is_told_that_says_what_went_wrong() {
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
            &["\\u{1b}[2m09:15\\u{1b}[0m \\u{1b}[31mERROR\\u{1b}[0m no “x”"],
            "09:15 ERROR no \"x\"",
        );
        assert_eq!(Words::default().telling(), None);
    }

    #[test]
    fn little_is_kept() {
        let words = Words::default();
        for n in 0..999 {
            words.hear(&format!("error {n} {}", "x".repeat(999)));
        }
        words.hear(&format!("error {}", "x".repeat(LONG)));
        let said = words.telling().unwrap();
        assert!(said.starts_with("error 998") && said.chars().count() <= SAID, "{said}");
        assert_eq!(words.heard().lines.len(), LINES);
    }

    /// What is left of a line of a server with this entry; `$T` is `s3cret-s3cret`.
    #[track_caller]
    fn veil(entry: &str, line: &str, expected: &str) {
        let text = format!("servers = [{{ id = 'a', {entry} }}]");
        let config = Config::parse("mgp.toml", &text).unwrap().config;
        let expander = Expander::new(|_| Some("s3cret-s3cret".into()));
        let words = Words::default();
        words.keep_secret(&expander.server(&config.servers[0]).unwrap());
        assert_eq!(words.veiled(line), expected);
    }

    #[test]
    fn secrets_are_not_quoted() {
        let line = "no s3cret-s3cret here";
        veil("command = 'x', env = { A = 'Bearer ${T}' }", line, "no … here");
        veil("command = 'x', args = ['--token=${T}']", line, "no … here");
        veil("command = 'x', args = ['--api-key', 'abcdefgh']", "bad abcdefgh", "bad …");
        veil("command = 'x', args = ['--token=abcdefgh']", "--token=abcdefgh", "--token=…");
        veil("command = 'x', env = { DB_PASSWORD = 'hunter2' }", "not hunter2", "not …");
        veil("command = 'x', env = { KEY = 'Bearer abcdefgh' }", "not abcdefgh", "not …");
        veil("command = 'x', env = { PEM_KEY = \"abcdefgh\\nijklmnop \" }", "ijklmnop.", "….");
        veil("command = 'x', env = { A_KEY = 'abcdef', B_KEY = 'abcdefgh' }", "abcdefgh", "…");
        veil("url = 'https://me:abcdefgh@h/?key=ijklmnop'", "abcdefgh ijklmnop", "… …");
        veil("url = 'https://h', headers = { Authorization = 'Bearer ${T}' }", line, "no … here");
        veil("command = '${T}/x', args = ['plain', '1']", "s3cret-s3cret/x plain 1", "…/x plain 1");
    }
}
