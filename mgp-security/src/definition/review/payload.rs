//! Signs that are no words: markup that is hidden or speaks for the system, and text that must be decoded first.
//!
//! Applies to: both.

use super::text::{ENOUGH, Sign, said};
use super::token::Place;

const ROLES: &str = "marks itself as a message of the system";
const MARKUP: &str = "hides text in markup";
const CODED: &str = "holds encoded text";
const SCHEMES: &str = "holds an address that runs code";

/// Words that only stand in the templates of chats.
const TEMPLATES: &[&str] = &[
    "<|",
    "|>",
    "[inst]",
    "[/inst]",
    "<<sys>>",
    "<</sys>>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<function_calls>",
    "<function_results>",
    "<tool_call>",
    "</tool_call>",
    "<tool_result",
    "<system-reminder",
    "<antml",
    "\n\nhuman:",
    "\n\nassistant:",
    "<s>[",
    "### instruction",
    "### system",
    "### response",
    "## system prompt",
    "begin system prompt",
    "</tool",
    "</description",
    "<tool_description",
    "</function",
    "[system]",
    "[assistant]",
    "[system:",
    "(system:",
    "{system}",
    "end of tool description",
    "end of description",
];

/// Tags that claim an author or a weight; most hosts show them as text, and models obey them.
const TAGS: &[&str] = &[
    "important",
    "critical",
    "secret",
    "hidden",
    "instructions",
    "instruction",
    "system",
    "assistant",
    "admin",
    "system_prompt",
    "systemprompt",
    "sys",
    "override",
    "urgent",
    "mandatory",
    "confidential",
    "user",
    "developer",
    "policy",
    "rules",
    "prompt",
    "internal",
    "directive",
    "ai",
    "llm",
    "agent",
    "system_instruction",
    "priority",
];

/// Titles that claim authority, in capitals as they come.
const SHOUTED: &[&str] = &[
    "SYSTEM OVERRIDE",
    "ADMIN OVERRIDE",
    "SYSTEM NOTICE",
    "SYSTEM MESSAGE",
    "SYSTEM ALERT",
    "SECURITY NOTICE",
    "SYSTEM INSTRUCTION",
    "SYSTEM PROMPT:",
    "NEW INSTRUCTIONS",
    "ADMIN NOTICE",
    "DEVELOPER MESSAGE",
    "SYSTEM:",
];

/// Ways to keep markup out of sight.
const UNSEEN: &[&str] = &[
    "display:none",
    "display: none",
    "visibility:hidden",
    "visibility: hidden",
    "font-size:0",
    "font-size: 0",
    "opacity:0",
    "opacity: 0",
    "color:white",
    "color: white",
    "color:#fff",
    "color: #fff",
    "color:transparent",
    "</script>",
    "<iframe",
    "<object",
    "<embed",
    "onerror=",
    "onload=",
    "[//]: #",
    "[comment]:",
    "[//]: <>",
    "<!doctype",
];

/// The signs of a text.
pub(super) fn signs(text: &str) -> Vec<Sign> {
    let small = super::token::plain_text(text);
    let mut signs = Vec::new();
    let mut add = |what, weight, evidence: &str| {
        signs.push(Sign { what, weight, evidence: evidence.to_owned() });
    };
    if let Some(found) = TEMPLATES.iter().find(|word| small.contains(**word)) {
        add(ROLES, ENOUGH, found);
    }
    if let Some(found) = SHOUTED.iter().find(|word| text.contains(**word)) {
        add(ROLES, ENOUGH, found);
    }
    if let Some(line) = small.lines().skip(1).chain(small.lines().next()).find(|line| is_role(line))
    {
        add(ROLES, 60, line);
    }
    if let Some(tag) = TAGS.iter().find(|tag| has_tag(&small, tag)) {
        add(ROLES, ENOUGH, tag);
    }
    if let Some(found) = UNSEEN.iter().find(|word| small.contains(**word)) {
        add(MARKUP, ENOUGH, found);
    }
    if let Some(comment) = comment(&small) {
        add(MARKUP, ENOUGH, comment);
    }
    if let Some(image) = image(&small) {
        add(SCHEMES, ENOUGH, image);
    }
    if let Some(address) = running(&small) {
        add(SCHEMES, ENOUGH, address);
    }
    for decoded in decoded(text) {
        let weight = if said(&decoded, Place::Elsewhere).iter().any(|sign| sign.weight >= ENOUGH) {
            ENOUGH
        } else {
            70
        };
        add(CODED, weight, &decoded);
    }
    for turned in [rot13(text), text.chars().rev().collect(), unescaped(text)] {
        if said(&turned, Place::Elsewhere).iter().any(|sign| sign.weight >= ENOUGH) {
            add(CODED, ENOUGH, &turned);
        }
    }
    signs
}

/// Whether a line begins as a message of somebody in a chat.
fn is_role(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '#', '*', '-', '>', '[']);
    [
        "system:",
        "assistant:",
        "system prompt:",
        "developer:",
        "human:",
        "system message:",
        "ai:",
        "system note:",
    ]
    .iter()
    .any(|role| line.starts_with(role))
}

fn has_tag(text: &str, tag: &str) -> bool {
    ["<", "</", "[", "{{", "[[", "<!"]
        .iter()
        .zip([">", ">", "]!", "}}", "]]", ">"])
        .any(|(open, close)| text.contains(&format!("{open}{tag}{close}")))
        || text.contains(&format!("<{tag} "))
}

/// A comment of HTML that says something.
fn comment(text: &str) -> Option<&str> {
    let start = text.find("<!--")? + 4;
    let end = text[start..].find("-->").map_or(text.len(), |end| start + end);
    let inside = text[start..end].trim();
    (inside.split_whitespace().count() >= 3).then_some(inside)
}

/// A picture that is loaded from an address with something to fill in.
fn image(text: &str) -> Option<&str> {
    let start = text.find("![")?;
    let rest = &text[start..];
    let address = &rest[rest.find("](")?..];
    let address = &address[..address.find(')').unwrap_or(address.len())];
    (address.contains("://") && address.contains('?')).then_some(address)
}

/// An address that is code or a page of its own.
fn running(text: &str) -> Option<&str> {
    let code = |scheme: &str| {
        let at = text.find(scheme)?;
        let rest = &text[at + scheme.len()..];
        rest.starts_with(|c: char| c.is_alphanumeric() || c == '/' || c == '(').then(|| &text[at..])
    };
    ["javascript:", "vbscript:"].into_iter().find_map(code).or_else(|| {
        ["data:text/", "data:application/"].iter().find_map(|scheme| {
            let at = text.find(scheme)?;
            text[at..].contains(',').then(|| &text[at..])
        })
    })
}

/// What the encoded parts of a text say.
fn decoded(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || "\"'`<>()[]{},;".contains(c)) {
        let word = word.trim_end_matches(['.', ':']);
        let bytes = match word.len() {
            ..20 => continue,
            length if length % 2 == 0 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                hex(word)
            }
            _ => base64(word.trim_start_matches(|c: char| !c.is_ascii_alphanumeric())),
        };
        if let Some(said) = bytes.and_then(prose) {
            found.push(said);
        }
    }
    found
}

/// Bytes that are a sentence: letters and blanks, three words at least.
fn prose(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    let letters = text.chars().filter(|c| c.is_alphabetic() || *c == ' ').count();
    let total = text.chars().count();
    (letters * 10 >= total * 8 && text.split_whitespace().count() >= 3).then_some(text)
}

fn hex(word: &str) -> Option<Vec<u8>> {
    (0..word.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(word.get(at..at + 2)?, 16).ok())
        .collect()
}

/// A text with what is written as `%69` or `\x69` or `\u0069` put back; empty where there are few of them.
fn unescaped(text: &str) -> String {
    const FEW: usize = 4;
    let mut out = String::new();
    let mut rest = text;
    let mut count = 0;
    while let Some(at) = rest.find(['%', '\\']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let digits = match rest.as_bytes() {
            [b'%', ..] => 1..3,
            [b'\\', b'x', ..] => 2..4,
            [b'\\', b'u', ..] => 2..6,
            _ => 0..0,
        };
        let code = rest.get(digits.clone()).and_then(|code| u32::from_str_radix(code, 16).ok());
        match code.and_then(char::from_u32) {
            Some(c) => {
                out.push(c);
                rest = &rest[digits.end..];
                count += 1;
            }
            None => {
                out.push_str(&rest[..1]);
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    if count < FEW { String::new() } else { out }
}

fn base64(word: &str) -> Option<Vec<u8>> {
    let word = word.trim_end_matches('=');
    let mut out = Vec::with_capacity(word.len());
    let (mut held, mut bits) = (0_u32, 0);
    for byte in word.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        held = held << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from(held >> bits & 0xFF).ok()?);
        }
    }
    Some(out)
}

fn rot13(text: &str) -> String {
    let turn = |c: char, first: u8| {
        let at = u8::try_from(c).unwrap_or(first) - first;
        char::from(first + (at + 13) % 26)
    };
    text.chars()
        .map(|c| match c {
            'a'..='z' => turn(c, b'a'),
            'A'..='Z' => turn(c, b'A'),
            c => c,
        })
        .collect()
}
