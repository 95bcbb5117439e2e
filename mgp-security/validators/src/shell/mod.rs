//! `sandbox`: shell commands and argument vectors (MGP §4.5).

mod argv;
mod environment;
mod files;
mod filters;
mod frame;
mod git;
mod interpreters;
mod judge;
mod lex;
mod paths;
mod programs;
mod runners;
mod stdin;
mod tables;
mod targets;

use crate::{
    argument_values::{Leaf, key_words, leaves},
    hidden::hidden,
};
use frame::{Frame, Stdin};
pub(crate) use judge::script;
use lex::{Grammar, MAX_COMMAND, Word, read};
use serde_json::{Map, Value};

/// Keys of arguments whose text is passed to a shell.
const COMMANDS: &[&str] = &[
    "command",
    "cmd",
    "commandline",
    "cmdline",
    "shellcommand",
    "script",
    "bash",
    "sh",
    "exec",
    "execute",
    "run",
    "commands",
    "cmds",
    "steps",
    "line",
    "statement",
    "powershell",
    "terminal",
];
/// Items of an argument vector that a server might treat as shell operators. `;` is not listed, because it ends a
/// command of `find`.
const OPERATORS: [&str; 12] =
    ["|", "||", "|&", "&", "&&", "<", "<<", ">", ">>", "2>", "&>", "2>&1"];

/// Keys of arguments that contain an argument vector.
const VECTORS: &[&str] = &["argv", "args", "arguments", "params", "arg", "cmdargs", "commandargs"];
/// Keys of arguments that contain the name of a program.
const PROGRAMS: &[&str] = &["program", "executable", "binary", "exe", "file", "path"];

/// Checks every command in the arguments of a call.
pub(crate) fn check(tool: &str, arguments: &Value) -> Result<(), String> {
    let leaves = leaves(arguments)?;
    let mut judged = 0;
    for leaf in &leaves {
        if let Some(text) = leaf.value.as_str()
            && let Some(c) = hidden(text, true)
        {
            return Err(format!("`{}` has the hidden character U+{:04X}", leaf.path, u32::from(c)));
        }
        if let Some(name) =
            leaf.parent_is(&["env", "environment", "envvars", "environmentvariables"])
        {
            let value =
                leaf.value.as_str().ok_or_else(|| format!("`{}` is not text", leaf.path))?;
            environment::check(name, value)?;
        }
    }
    judged += objects(tool, arguments)?;
    if judged > 0 {
        return Ok(());
    }
    // No key is known, so the command might be under a key that only this tool uses.
    let mut texts = leaves.iter().filter(|leaf| leaf.value.is_string());
    match (texts.next(), texts.next()) {
        (Some(Leaf { value: Value::String(text), .. }), None) => command(text),
        _ => Err("no argument is known to be the command".to_owned()),
    }
}

/// Checks the commands in an object and in the objects below it; returns how many there were.
fn objects(tool: &str, value: &Value) -> Result<usize, String> {
    match value {
        Value::Array(items) => items.iter().map(|item| objects(tool, item)).sum(),
        Value::Object(members) => {
            let mut judged = 0;
            let mut vector = Vec::new();
            for (key, value) in members {
                if VECTORS.contains(&key_words(key).concat().as_str()) && !value.is_object() {
                    vector.extend(words(key, value)?);
                }
            }
            let frame = Frame::new(input(members));
            let mut named = false;
            for (key, value) in members {
                let word = key_words(key).concat();
                let shell = word == "shell"
                    && value.as_str().is_some_and(|text| text.contains(char::is_whitespace));
                let program =
                    PROGRAMS.contains(&word.as_str()) && !vector.is_empty() && value.is_string();
                if COMMANDS.contains(&word.as_str()) || shell || program {
                    named = true;
                    judged += texts(key, value, &vector, frame)?;
                } else if !VECTORS.contains(&word.as_str()) || value.is_object() {
                    judged += objects(tool, value)?;
                }
            }
            if !named && !vector.is_empty() {
                judge::judge(&vector, frame)?;
                // The tool might be named after the program to which the vector is passed.
                let mut own = vec![Word::literal(tool)];
                own.extend(vector);
                judge::judge(&own, frame)?;
                judged += 1;
            }
            Ok(judged)
        }
        _ => Ok(0),
    }
}

/// Returns the standard input of a command; `members` are the members of the object that contains the command.
fn input(members: &Map<String, Value>) -> Stdin<'_> {
    let is_input = |key: &str| stdin::KEYS.contains(&key_words(key).concat().as_str());
    let given = members.iter().filter(|(key, value)| is_input(key) && !value.is_null());
    given.fold(Stdin::Unnamed, |before, (_, value)| match (before, value) {
        (Stdin::Unnamed, Value::String(text)) => Stdin::Text(text),
        (before, Value::Bool(_)) => before,
        _ => Stdin::Unreadable,
    })
}

/// Checks the value of a key that contains commands.
fn texts(key: &str, value: &Value, vector: &[Word], frame: Frame<'_>) -> Result<usize, String> {
    match value {
        Value::String(text) if vector.is_empty() => framed(text, frame).map(|()| 1),
        Value::String(text) => {
            let mut all = simple(text)?;
            all.extend_from_slice(vector);
            judge::judge(&all, frame).map(|()| 1)
        }
        Value::Array(items) if items.is_empty() => Err(format!("`{key}` is empty")),
        // The value is a list of command lines, or of argument vectors.
        Value::Array(items)
            if key.ends_with('s')
                || items.len() == 1
                || items.iter().any(|item| !item.is_string()) =>
        {
            for item in items {
                match item {
                    Value::Object(_) => drop(objects("", item)?),
                    _ => drop(texts(key, item, vector, frame)?),
                }
            }
            // A server might also treat the list as a single argument vector.
            if items.iter().all(Value::is_string) {
                judge::judge(&words(key, value)?, frame)?;
            }
            Ok(1)
        }
        Value::Array(_) => {
            let mut all = words(key, value)?;
            all.extend_from_slice(vector);
            judge::judge(&all, frame).map(|()| 1)
        }
        Value::Object(_) => match objects("", value)? {
            0 => Err(format!("`{key}` has no command")),
            judged => Ok(judged),
        },
        _ => Err(format!("`{key}` is neither text nor a list")),
    }
}

/// Converts a value to the words of an argument vector.
fn words(key: &str, value: &Value) -> Result<Vec<Word>, String> {
    match value {
        Value::String(text) => simple(text),
        Value::Array(items) => items
            .iter()
            .map(|item| match item {
                // Some servers join the vector to a command line, or interpret operators in it.
                Value::String(text) if OPERATORS.contains(&text.trim()) => {
                    Err(format!("`{key}` has the operator `{}`", text.trim()))
                }
                // A newline in an item is data, like an operator in it.
                Value::String(text) if text.len() <= MAX_COMMAND => match hidden(text, true) {
                    Some(c) => {
                        Err(format!("`{key}` has the control character U+{:04X}", u32::from(c)))
                    }
                    None => Ok(Word::literal(text)),
                },
                Value::Number(number) => Ok(Word::literal(&number.to_string())),
                _ => Err(format!("`{key}` has an item that is not text")),
            })
            .collect(),
        _ => Err(format!("`{key}` is neither text nor a list")),
    }
}

fn simple(text: &str) -> Result<Vec<Word>, String> {
    if let Some(c) = hidden(text, true) {
        return Err(format!("the control character U+{:04X}", u32::from(c)));
    }
    Ok(read(text, Grammar::Command)?.pop().unwrap_or_default().words)
}

/// Checks a single command in the syntax of a shell.
pub(crate) fn command(text: &str) -> Result<(), String> {
    framed(text, Frame::default())
}

fn framed(text: &str, frame: Frame<'_>) -> Result<(), String> {
    let words = simple(text)?;
    if words.is_empty() {
        return Err("the command is empty".to_owned());
    }
    judge::judge(&words, frame)
}
