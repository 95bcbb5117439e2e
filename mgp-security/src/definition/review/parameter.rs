//! The review of parameter names: finds parameters that ask a model for data that the tool does not need (MGP §4).
//!
//! A model fills in whatever a parameter name asks for. The same name is legitimate if it fits the purpose of the
//! tool, e.g. `system_prompt` in a tool that calls a model.

use serde_json::Value;

use super::finding::Finding;
use super::rule::Rule;
use super::text;
use super::token::Place;

/// Parameter names that are known from attacks that made models reveal secrets.
const ASKED: &[&[&str]] = &[
    &["system", "prompt"],
    &["conversation", "history"],
    &["chat", "history"],
    &["conversation", "context"],
    &["chat", "transcript"],
    &["previous", "messages"],
    &["all", "messages"],
    &["user", "messages"],
    &["chain", "of", "thought"],
    &["chat", "log"],
    &["conversation", "log"],
    &["session", "transcript"],
    &["last", "user", "message"],
    &["user", "said"],
    &["user", "typed"],
    &["agent", "context"],
    &["system", "instructions"],
    &["hidden", "instructions"],
    &["your", "instructions"],
    &["tool", "call", "history"],
    &["tool", "results"],
    &["previous", "tool"],
    &["prior", "tool"],
    &["prior", "results"],
    &["tools", "list"],
    &["list", "of", "tools"],
    &["available", "tools"],
    &["other", "tool"],
    &["environment", "variables"],
    &["env", "vars"],
    &["env", "dump"],
    &["contents", "of", "env"],
    &["env", "file", "contents"],
    &["sidenote"],
    &["side", "note"],
    &["summary", "of", "conversation"],
    &["conversation", "summary"],
    &["full", "conversation"],
    &["full", "context"],
    &["user", "secrets"],
    &["api", "keys"],
    &["prior", "messages"],
    &["message", "history"],
    &["tool", "outputs"],
    &["previous", "results"],
    &["model", "reasoning"],
    &["internal", "thoughts"],
    &["chat", "turns"],
    &["conversation", "so", "far"],
    &["seen", "in", "chat"],
    &["user", "told"],
    &["user", "wrote"],
    &["users", "ssh"],
    &["key", "of", "user"],
];

/// Words in a tool's name or description that make the parameters of [`ASKED`] legitimate.
const ABOUT: &[&str] = &[
    "prompt",
    "chat",
    "llm",
    "model",
    "conversation",
    "completion",
    "message",
    "agent",
    "environment",
    "env-var",
    "env var",
    "env_var",
    "process",
    "tool",
];

/// Words for files that contain secrets. A parameter asks for a secret if its name has such a word and a word of
/// [`INSIDE`].
const SECRET: &[&str] =
    &["rsa", "ssh", "passwd", "shadow", "netrc", "ed25519", "dotenv", "bashrc", "keychain"];
const INSIDE: &[&str] = &[
    "content", "contents", "reading", "read", "text", "dump", "file", "data", "value", "password",
    "from",
];

pub(super) fn review(shown: &Value, findings: &mut Vec<Finding>) {
    let of = |member: &str| shown.get(member).and_then(Value::as_str).unwrap_or_default();
    // A tool can call itself `this tool`, so these words do not show that it is about tools.
    let purpose =
        format!("{} {}", of("name"), of("description")).to_lowercase().replace("this tool", "this");
    let is_about = ABOUT.iter().any(|word| purpose.contains(word));
    let mut names = Vec::new();
    if let Some(schema) = shown.get("inputSchema") {
        gather(schema, &mut names);
    }
    for name in names {
        let words = words(name);
        let asks = ASKED.iter().any(|asked| words.windows(asked.len()).any(|some| some == *asked));
        let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
        let found = text::findings(
            &words.join(" "),
            "/inputSchema",
            Place::Elsewhere,
            &text::Members::new(),
        );
        let instructs = found.iter().any(Finding::blocks);
        let is_secret = has(SECRET) || words.concat().contains("dotenv");
        if (asks && !is_about) || (is_secret && has(INSIDE)) || instructs {
            findings.push(Finding::new(Rule::Parameter, "/inputSchema", name));
        }
    }
}

pub(super) fn gather<'a>(value: &'a Value, names: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if let ("properties", Value::Object(parameters)) = (name.as_str(), member) {
                    names.extend(parameters.keys().map(String::as_str));
                }
                gather(member, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, names)),
        _ => {}
    }
}

/// Returns the words of a name in snake, kebab or camel case, in lower case.
pub(in crate::definition) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && small) {
            words.push(String::new());
        }
        small = c.is_lowercase() || c.is_ascii_digit();
        if let Some(word) = words.last_mut()
            && c.is_alphanumeric()
        {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
