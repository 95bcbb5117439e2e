//! Converts questions to text for a person: short, and with invisible characters escaped (MGP §3.4, §4.4).

use std::fmt::Write;

use mgp_types::Sha256Hash;
use mgp_types::mgp::Permission;
use mgp_types::proposal::fill_message;
use mgp_types::service::ServerId;
use serde_json::Value;

use super::{Question, QuestionSubject, like_words};
use crate::definition::shows;

/// The maximum length of a name in the text of a question, in characters.
const MAX_NAME: usize = 128;

/// The size limit for arguments, in characters. The middle of longer arguments is left out.
const MAX_ARGUMENTS: usize = 2000;

/// The size limit for one string in long arguments and for the text of a server, in characters; the middle of longer
/// strings is left out.
const MAX_TEXT: usize = 240;

/// Returns the text of a question, one fact per line.
pub(super) fn describe(question: &Question) -> String {
    let mut words = String::new();
    let server = question.server.as_ref().map(|server| name(server.as_str()));
    match &question.about {
        QuestionSubject::Call { tool, arguments, risk, permissions } => {
            let of_server = server.map(|server| format!(" of the server `{server}`"));
            let of_server = of_server.unwrap_or_default();
            let _ = writeln!(words, "Run the tool `{}`{of_server}?", name(tool));
            let _ = writeln!(words, "Risk: {}", name(risk.as_str()));
            for permission in permissions {
                words.push_str(&needs_line(permission));
            }
            if let Some(doubt) = &question.doubt {
                let _ = writeln!(words, "To check: {}", visible(doubt, MAX_TEXT));
            }
            if let Some(message) = &question.message {
                // The server wrote this text, so show it in one short line that names its source. Remove repeated
                // spaces: they could fill a line of the screen, so that the text after them would look like a line of
                // the kernel.
                let asks = fill_message(message, arguments);
                let asks = asks.split_whitespace().collect::<Vec<_>>().join(" ");
                let _ = writeln!(words, "The server asks: {}", visible(&asks, MAX_TEXT));
            }
            let _ = write!(words, "Arguments: {}", in_short(arguments));
            if question.keeps_terms {
                let like = visible(&like_words(arguments), MAX_TEXT);
                let _ = write!(words, "\nCalls like this: {like}");
            }
        }
        QuestionSubject::Permissions { permissions, tool } => {
            let server = server.map(|server| format!(" `{server}`")).unwrap_or_default();
            let _ = write!(words, "Which permissions may the server{server} have?");
            if let Some(tool) = tool {
                let tool = name(tool);
                let _ = write!(
                    words,
                    " A call of `{tool}` needs them; a grant is for all tools of the server."
                );
            }
            list(&mut words, permissions);
        }
    }
    words
}

/// Returns the line that names a permission which a call needs.
fn needs_line(permission: &Permission) -> String {
    format!("Needs a permission: {} ({})\n", name(permission.as_str()), permission.risk())
}

/// Returns the text of a question about a call without the lines that name the permissions in `gone`.
pub(super) fn without_permissions(question: &str, gone: &[Permission]) -> String {
    let gone: Vec<String> = gone.iter().map(needs_line).collect();
    // Arguments cannot contain such a line, because their line breaks are escaped.
    question.split_inclusive('\n').filter(|line| !gone.iter().any(|gone| gone == line)).collect()
}

/// Returns the text that a review of a server's permissions has until that server is ready.
pub(super) fn describe_later(server: &ServerId) -> String {
    let server = name(server.as_str());
    format!("The server `{server}` was not ready; its permissions are asked for once it is.")
}

/// Returns the text that a review has once its server is ready: it asks whether the server's tools are allowed to have
/// these permissions.
pub(super) fn describe_review(server: Option<&ServerId>, permissions: &[Permission]) -> String {
    let server = name(server.map_or("", |server| server.as_str()));
    let mut words = format!(
        "The server `{server}` is ready for the first time; may its tools have these permissions?"
    );
    list(&mut words, permissions);
    words
}

fn list(words: &mut String, permissions: &[Permission]) {
    for permission in permissions {
        let _ = write!(words, "\n- {} ({})", name(permission.as_str()), permission.risk());
    }
}

/// Returns a description of the caller: agent or subject, and tenant.
pub(super) fn caller(question: &Question) -> String {
    let principal = &question.principal;
    let (subject, tenant) = (name(principal.subject().as_str()), name(principal.tenant().as_str()));
    match principal.as_agent() {
        Some(agent) => {
            format!("agent `{}` of `{subject}` in `{tenant}`", name(agent.as_str()))
        }
        None => format!("`{subject}` in `{tenant}`"),
    }
}

/// Returns a name for display: invisible characters are escaped, and the middle of a long name is left out.
pub(super) fn name(text: &str) -> String {
    visible(text, MAX_NAME)
}

/// Returns arguments as text for display.
///
/// In long arguments, the long strings are shortened first, so that a short argument between them stays visible. If
/// anything is left out, the hash of the complete arguments is added.
fn in_short(arguments: &str) -> String {
    if arguments.chars().count() <= MAX_ARGUMENTS {
        return visible(arguments, MAX_ARGUMENTS);
    }
    let mut all: Option<Value> = serde_json::from_str(arguments).ok();
    let shorter = all.as_mut().map(|all| {
        shorten(all);
        all.to_string()
    });
    let shown = visible(shorter.as_deref().unwrap_or(arguments), MAX_ARGUMENTS);
    let (length, hash) = (arguments.len(), Sha256Hash::digest(arguments.as_bytes()));
    format!("{shown}\nNot all of the arguments are shown: {length} bytes with the SHA-256 {hash}")
}

/// Shortens all long strings in a JSON value, but not the names of its members.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.chars().count() > MAX_TEXT => {
            let length = text.chars().count();
            let (head, tail) = (MAX_TEXT * 3 / 4, MAX_TEXT / 4);
            let begins: String = text.chars().take(head).collect();
            let ends: String = text.chars().skip(length - tail).collect();
            *text = format!("{begins} … ({} more characters) … {ends}", length - head - tail);
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(members) => members.values_mut().for_each(shorten),
        _ => {}
    }
}

/// Returns a text with invisible characters escaped; the middle of a text that is too long is left out.
pub(super) fn visible(text: &str, most: usize) -> String {
    let length = text.chars().count();
    let (head, tail) = if length > most { (most * 3 / 4, most / 4) } else { (length, 0) };
    let mut shown = String::with_capacity(text.len().min(most * 4));
    for (index, letter) in text.chars().enumerate() {
        if index == head && length > head {
            let _ = write!(shown, " … ({} more characters) … ", length - head - tail);
        }
        if index >= head && index < length - tail {
            continue;
        }
        if shows(letter) {
            shown.push(letter);
        } else {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(letter));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, most: usize, expected: &str) {
        assert_eq!(visible(text, most), expected);
    }

    #[test]
    fn invisible_characters_are_escaped() {
        check("rm -rf ~/Müll", 99, "rm -rf ~/Müll");
        check("a\u{1b}[2Jb\nc\td", 99, "a\\u{1b}[2Jb\\u{a}c\\u{9}d");
        check("a\u{202e}b\u{200b}c\u{feff}", 99, "a\\u{202e}b\\u{200b}c\\u{feff}");
        check("x\u{e0041}\u{a0}y", 99, "x\\u{e0041}\\u{a0}y");
        check("a\u{1bca0}b\u{e001}", 99, "a\\u{1bca0}b\\u{e001}");
    }

    #[test]
    fn a_short_argument_does_not_hide_between_long_ones() {
        let long = "x".repeat(5000);
        let arguments = format!(r#"{{"a":"{long}","path":"/etc/passwd","z":["{long}"]}}"#);
        let shown = in_short(&arguments);
        assert!(shown.contains(r#""path":"/etc/passwd""#), "{shown}");
        assert!(shown.contains("(4760 more characters)"), "{shown}");
        assert!(shown.contains(&Sha256Hash::digest(arguments.as_bytes()).to_string()), "{shown}");
        assert!(shown.len() < 1200, "{}", shown.len());
        // Two different arguments can be shortened to the same text; then the hash still distinguishes them.
        let many = |middle: &str| format!("[{}{middle}{}]", "1,".repeat(3000), ",1".repeat(3000));
        assert_ne!(in_short(&many("1")), in_short(&many("2")));
        assert!(in_short(&many("1")).len() < 2500);
        assert_eq!(in_short(r#"{"a":1}"#), r#"{"a":1}"#);
    }

    #[test]
    fn a_long_text_keeps_its_end() {
        check("0123456789abcdef", 16, "0123456789abcdef");
        check("0123456789abcdefX", 8, "012345 … (9 more characters) … fX");
    }
}
