//! Signs of an attack other than phrases: markup that is hidden or imitates the system, and encoded text.

use super::coded::{decoded, rot13, unescaped};
use super::plain::plain_text;
use super::text::{ENOUGH, Sign, said};
use super::token::Place;

const ROLES: &str = "marks itself as a message of the system";
const MARKUP: &str = "hides text in markup";
const CODED: &str = "holds encoded text";
const SCHEMES: &str = "holds an address that runs code";

/// Markers that occur only in chat templates.
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

/// Tags that claim an author or importance. Most hosts display them as plain text, but models obey them.
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

/// Words of which one must occur in a reversed text before it is searched for phrases, because few texts are
/// reversed.
const TURNED: &[&str] = &[
    "ignor",
    "instruct",
    "prompt",
    "tell",
    "mention",
    "secret",
    "disregard",
    "override",
    "read",
    "send",
    "password",
];

/// Titles that claim authority; matched in capitals only.
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

/// Ways to hide markup from the reader.
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

/// Returns the signs in a text; `small` is the same text after normalization.
pub(super) fn signs(text: &str, small: &str) -> Vec<Sign> {
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
    let sentences = || small.lines().flat_map(|line| line.split(". "));
    if let Some(line) = sentences().find(|line| is_role(line)) {
        add(ROLES, 60, line);
    }
    // A description of a topic may begin like this, but a later sentence of a description does not.
    if let Some(line) = sentences().skip(1).find(|line| is_party(line)) {
        add(ROLES, ENOUGH, line);
    }
    if let Some(tag) = TAGS.iter().find(|tag| has_tag(small, tag)) {
        add(ROLES, ENOUGH, tag);
    }
    if let Some(found) = UNSEEN.iter().find(|word| small.contains(**word)) {
        add(MARKUP, ENOUGH, found);
    }
    if let Some(comment) = comment(small) {
        add(MARKUP, ENOUGH, comment);
    }
    if let Some(image) = image(small) {
        add(SCHEMES, ENOUGH, image);
    }
    if let Some(address) = running(small) {
        add(SCHEMES, ENOUGH, address);
    }
    for decoded in decoded(text) {
        let weight = if said(&plain_text(&decoded), Place::Elsewhere)
            .iter()
            .any(|sign| sign.weight >= ENOUGH)
        {
            ENOUGH
        } else {
            70
        };
        add(CODED, weight, &decoded);
    }
    for turned in [rot13(text), text.chars().rev().collect(), unescaped(text)] {
        let small = turned.to_lowercase();
        if TURNED.iter().any(|word| small.contains(word))
            && said(&plain_text(&turned), Place::Elsewhere).iter().any(|sign| sign.weight >= ENOUGH)
        {
            add(CODED, ENOUGH, &turned);
        }
    }
    signs
}

/// Returns whether a sentence is a turn in a chat transcript.
fn is_party(line: &str) -> bool {
    ["assistant: ", "human: "].iter().any(|party| line.trim_start().starts_with(party))
}

/// Returns whether a line begins like a chat message with a role.
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

/// Returns the first HTML comment that is not empty.
fn comment(text: &str) -> Option<&str> {
    let start = text.find("<!--")? + 4;
    let end = text[start..].find("-->").map_or(text.len(), |end| start + end);
    let inside = text[start..end].trim();
    (inside.split_whitespace().count() >= 3).then_some(inside)
}

/// Returns the first image whose URL contains a placeholder to be filled in, which could leak data.
fn image(text: &str) -> Option<&str> {
    let start = text.find("![")?;
    let rest = &text[start..];
    let address = &rest[rest.find("](")?..];
    let address = &address[..address.find(')').unwrap_or(address.len())];
    (address.contains("://") && address.contains('?')).then_some(address)
}

/// Returns the first URL whose scheme executes code or contains a whole page.
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
