//! Checks whether a call's arguments are within the limits of an approval; denials take precedence (MGP §3, later
//! revisions).
//!
//! If there is a limit, the arguments to which it applies must be found and understood; otherwise the call is out of
//! scope. Arguments are found by their names and shapes. The server writes the schema, so the schema can only add
//! arguments that it declares as targets, and show which ones the tool ignores.

mod command;
mod declared;
mod finding;
mod host;
mod kinds;
mod like;
mod path;
mod tree;

#[cfg(test)]
mod tests;

use mgp_types::mcp;
use mgp_types::mgp::PermissionScope;
use serde_json::Value;

use self::declared::Declared;
use self::finding::Findings;
use self::kinds::About;
pub use self::like::scope_words;
pub(crate) use self::like::{is_like, like};

/// A description of the reason why a call is out of scope.
pub(crate) type Outside = String;

/// Returns whether a tool declares arguments. Assumes so if its definition is not known, or if its schema has keywords
/// that are not understood here.
pub(crate) fn takes_arguments(definition: Option<&mcp::Tool>) -> bool {
    let schema = definition.and_then(|tool| tool.input_schema.as_payload().get::<Value>().ok());
    let Some(schema) = schema.as_ref().and_then(Value::as_object) else { return true };
    schema.iter().any(|(word, value)| match word.as_str() {
        "$schema" | "description" | "title" | "type" => false,
        "additionalProperties" => *value != Value::Bool(false),
        "properties" => value.as_object().is_none_or(|members| !members.is_empty()),
        "required" => value.as_array().is_none_or(|names| !names.is_empty()),
        _ => true,
    })
}

/// Checks that the arguments of a call are within the limits of an approval. If the `definition` of the tool is given,
/// only arguments that it declares count as naming what the call accesses.
///
/// # Errors
/// [`Outside`], a description of the first limit that the call exceeds or might exceed.
pub(crate) fn check(
    scope: &PermissionScope,
    arguments: Option<&str>,
    definition: Option<&mcp::Tool>,
) -> Result<(), Outside> {
    let lists = Lists::of(scope)?;
    let found = findings(arguments, definition)?;
    if lists.paths.is_limit() {
        found.nothing_runs("paths")?;
        path::check(&lists.paths, &found)?;
    }
    let ports = lists.ports.then_some(scope.ports.as_slice());
    if lists.hosts.is_limit() || ports.is_some() {
        found.nothing_runs("hosts")?;
        host::check(&lists.hosts, ports, &found)?;
    }
    if lists.commands.is_limit() || scope.allow_sudo.is_some() {
        let sudo = if scope.allow_sudo == Some(true) { Sudo::Allowed } else { Sudo::Refused };
        command::check(&lists.commands, sudo, &found)?;
    }
    if lists.languages {
        languages(&scope.languages, &found)?;
    }
    if let Some(most) = scope.max_execution_time_ms {
        time(most, &found)?;
    }
    Ok(())
}

/// Returns the reason why a call that [`check`] has passed may nevertheless exceed the limits: an argument might be the
/// bare name of another target, e.g. `a.example` or `notes.txt`, but such a text has many other meanings.
pub(crate) fn doubt(
    scope: &PermissionScope,
    arguments: Option<&str>,
    definition: Option<&mcp::Tool>,
) -> Option<String> {
    let lists = Lists::of(scope).ok()?;
    let found = findings(arguments, definition).ok()?;
    let is_limited = |about: &About| match about {
        About::Path => lists.paths.is_limit(),
        _ => lists.hosts.is_limit() || lists.ports,
    };
    let (about, name) = found.doubts.iter().find(|(about, _)| is_limited(about))?;
    let what = if *about == About::Path { "file" } else { "host" };
    Some(format!("the argument `{}` may be the name of another {what}", shown(name)))
}

fn findings(arguments: Option<&str>, definition: Option<&mcp::Tool>) -> Result<Findings, Outside> {
    let schema = definition.and_then(|tool| tool.input_schema.as_payload().get().ok());
    let declared = schema.as_ref().map_or(Declared::Any, Declared::of);
    Findings::of(arguments.unwrap_or("{}"), &declared)
}

/// The permission to run commands as another user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sudo {
    Allowed,
    Refused,
}

/// The allowed and the denied values of one kind.
struct Limits<'a> {
    /// The allowed values; `None` allows everything that is not denied.
    allowed: Option<&'a [String]>,
    denied: &'a [String],
}

impl Limits<'_> {
    fn is_limit(&self) -> bool {
        self.allowed.is_some() || !self.denied.is_empty()
    }
}

/// The lists of a scope. A list that is present but empty allows nothing.
struct Lists<'a> {
    paths: Limits<'a>,
    hosts: Limits<'a>,
    commands: Limits<'a>,
    ports: bool,
    languages: bool,
}

impl<'a> Lists<'a> {
    fn of(scope: &'a PermissionScope) -> Result<Self, Outside> {
        if let Some((unknown, _)) = scope.extra.iter().next() {
            return Err(format!("its limit `{unknown}` is not known here"));
        }
        // Serialize the scope to distinguish a list that was written as empty from a list that is absent.
        let written = serde_json::to_value(scope).map_err(|error| error.to_string())?;
        let has = |name: &str| written.get(name).is_some();
        let limits = |name: &str, allowed: &'a [String], denied: &'a [String]| Limits {
            allowed: has(name).then_some(allowed),
            denied,
        };
        Ok(Self {
            paths: limits("paths", &scope.paths, &scope.deny_paths),
            hosts: limits("hosts", &scope.hosts, &scope.deny_hosts),
            commands: limits("commands", &scope.commands, &scope.deny_commands),
            ports: has("ports"),
            languages: has("languages"),
        })
    }
}

fn languages(allowed: &[String], found: &Findings) -> Result<(), Outside> {
    let used = found.texts(About::Language)?;
    if !found.declares(About::Language) {
        return Err("only some languages are allowed, and no argument names one".to_owned());
    }
    match used
        .iter()
        .find(|used| !allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(used.trim())))
    {
        Some(other) => Err(format!("the language `{}` is not allowed", shown(other))),
        None => Ok(()),
    }
}

fn time(most: u64, found: &Findings) -> Result<(), Outside> {
    if !found.declares_time {
        return Err(format!("it may run for {most} ms, and no argument sets how long it runs"));
    }
    for (name, ms) in &found.times {
        match ms {
            Some(ms) if *ms <= most => {}
            Some(ms) => {
                return Err(format!("`{name}` lets it run for {ms} ms, longer than {most} ms"));
            }
            None => return Err(format!("`{name}` is not a time that can be read")),
        }
    }
    Ok(())
}

/// Returns a part of an argument, shortened for messages and without control characters.
fn shown(text: &str) -> String {
    let mut short: String = text.chars().filter(|other| !other.is_control()).take(80).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
