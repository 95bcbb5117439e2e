//! The validator `sandbox`: checks shell commands and argument vectors (MGP §4.5).

mod argv;
mod braces;
mod builds;
mod changes;
mod connections;
mod devices;
mod environment;
mod files;
mod filters;
mod find;
mod folder;
mod forwards;
mod frame;
mod git;
mod interpreters;
mod judge;
mod lex;
mod paths;
mod powershell;
mod programs;
mod reading;
mod runners;
mod script;
mod settings;
mod stdin;
mod stores;
mod tables;
mod targets;
mod variables;

use crate::{
    argument_values::{Leaf, key_words, leaves},
    declared,
    hidden::hidden,
    network::NetworkRules,
    words::Words,
};
pub(crate) use connections::check as check_connections;
use frame::{Frame, Stdin};
use lex::{Grammar, MAX_COMMAND, Word, read};
use serde_json::{Map, Value};
use std::cell::Cell;
use variables::Variables;

/// Keys of arguments whose text is passed to a shell.
static COMMANDS: Words = Words::new(
    "\
    command cmd commandline cmdline shellcommand script bash sh exec execute run commands cmds \
    steps line statement powershell terminal",
);
/// Items of an argument vector that a server might treat as shell operators. `;` is not listed, because it ends a
/// command of `find`.
const OPERATORS: [&str; 12] =
    ["|", "||", "|&", "&", "&&", "<", "<<", ">", ">>", "2>", "&>", "2>&1"];

/// Keys of arguments that contain an argument vector.
static VECTORS: Words = Words::new("argv args arguments params arg cmdargs commandargs");
/// Keys of arguments that contain the name of a program.
static PROGRAMS: Words = Words::new("program executable binary exe file path");

/// The maximum number of arguments that the checks of an object's commands read in total. Each command of an object is
/// checked together with all arguments in the same object, so the total is the product of both numbers.
const MAX_WORDS: usize = 100_000;
/// The maximum length in bytes of all commands of a call together, with their arguments.
const MAX_JUDGED: usize = 4 * MAX_COMMAND;

/// Checks the commands in the arguments of a call, which it recognises by the names of the arguments. Refuses a call in
/// which it finds no command, unless the definition allows that, hidden characters in any text, and dangerous
/// environment variables. `network` has the rules for the targets of commands.
pub(crate) fn check(
    (tool, definition): (&str, &Value),
    arguments: &Value,
    network: NetworkRules<'_>,
) -> Result<(), String> {
    let leaves = leaves(arguments)?;
    for leaf in &leaves {
        if let Some(text) = leaf.value.as_str()
            && let Some(c) = hidden(text, true)
        {
            return Err(format!("`{}` has the hidden character U+{:04X}", leaf.path, u32::from(c)));
        }
    }
    environment::check_all(arguments)?;
    environment::visit_all(arguments, &mut |name, value| settings::variable(name, value, network))?;
    let texts = leaves.iter().filter_map(|leaf| leaf.value.as_str());
    let used = texts.flat_map(used_variables).collect();
    let variables = Variables::of_environment(environment::values(arguments, &used))?;
    let length = Cell::new(0);
    let place = Place {
        frame: Frame::new(network),
        variables: Some(&variables),
        length: Some(&length),
        ..Place::default()
    };
    if objects(tool, arguments, place)? > 0
        || declared::can_lack_command(tool, definition, |key| is_command(key, &Value::Null))
    {
        return Ok(());
    }
    // None of the keys is known, so the command might be under a key that only this tool uses.
    let mut texts = leaves.iter().filter(|leaf| leaf.value.is_string());
    match (texts.next(), texts.next()) {
        (Some(Leaf { value: Value::String(text), .. }), None) => framed(text, place),
        _ => Err("no argument is known to be the command".to_owned()),
    }
}

/// The context of the commands in an object: their standard input, their possible working folders, and their variables.
#[derive(Debug, Clone, Copy, Default)]
struct Place<'a> {
    frame: Frame<'a>,
    folders: &'a [String],
    /// The variables that the call sets for its commands.
    variables: Option<&'a Variables>,
    /// The length in bytes of the call's commands that have been checked so far.
    length: Option<&'a Cell<usize>>,
}

impl Place<'_> {
    /// Checks an argument vector in each working folder, also with the values of the variables in it.
    fn judge(self, words: &[Word]) -> Result<(), String> {
        if let Some(length) = self.length {
            length.set(length.get() + words.iter().map(|word| word.text.len() + 1).sum::<usize>());
            if length.get() > MAX_JUDGED {
                return Err(format!("the commands together are longer than {MAX_JUDGED} bytes"));
            }
        }
        self.judge_form(words)?;
        let Some(variables) = self.variables else { return Ok(()) };
        let forms = variables.clone().forms(words)?;
        forms.iter().try_for_each(|form| self.judge_form(form))
    }

    fn judge_form(self, words: &[Word]) -> Result<(), String> {
        if self.folders.is_empty() {
            return judge::judge(words, self.frame);
        }
        let mut frames = self.folders.iter().map(|folder| self.frame.within(Some(folder.as_str())));
        frames.try_for_each(|frame| judge::judge(words, frame))
    }
}

/// Returns the names of variables that follow a `$` or `${` in a text.
fn used_variables(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).map(|behind| {
        let name = behind.strip_prefix('{').unwrap_or(behind);
        let end = name.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
        &name[..end.unwrap_or(name.len())]
    })
}

/// Checks the commands in an object and in the objects below it; returns the number of commands. `above` has the
/// working folders of the objects above it.
fn objects(tool: &str, value: &Value, above: Place<'_>) -> Result<usize, String> {
    let members = match value {
        Value::Array(items) => return items.iter().map(|item| objects(tool, item, above)).sum(),
        Value::Object(members) => members,
        _ => return Ok(0),
    };
    let folders = folder::folders_of(above.folders, members)?;
    folder::check_outputs(&folders, members)?;
    let mut judged = 0;
    let (mut vector, mut more) = (Vec::new(), Vec::new());
    for (key, value) in members.iter().filter(|(_, value)| !value.is_object()) {
        if is_vector(key) && !value.is_null() {
            vector.extend(words(key, value)?);
        } else if adds_arguments(key, value) {
            more.extend(words(key, value)?);
        }
    }
    let frame = above.frame.with_input(input(members));
    let place = Place { frame, folders: &folders, ..above };
    let all: Vec<Word> = vector.iter().chain(&more).cloned().collect();
    let in_shell = members.get("shell") == Some(&Value::Bool(true)) && !all.is_empty();
    let (mut named, mut length) = (false, 0_usize);
    for (key, value) in members {
        let program = PROGRAMS.has(&key_words(key).concat());
        if is_command(key, value) || program && !vector.is_empty() && value.is_string() {
            named |= !is_absent(value);
            let count = value.as_array().map_or(1, Vec::len) * folders.len().max(1);
            length = length.saturating_add(all.len().saturating_mul(count));
            if length > (all.len() * folders.len().max(1)).max(MAX_WORDS) {
                return Err("too many commands with arguments".to_owned());
            }
            judged += texts(key, value, &all, place)?;
            with_program(tool, value, &all, place)?;
            if let Value::String(text) = value
                && in_shell
            {
                joined(text, &all, place)?;
            }
        } else if !is_vector(key) || value.is_object() {
            judged += objects(tool, value, place)?;
        }
    }
    if !named && !vector.is_empty() {
        place.judge(&vector)?;
        // The tool might have the name of the program to which the server passes the vector, so also check the vector
        // after that name.
        let mut own = vec![Word::literal(tool)];
        own.extend(vector);
        place.judge(&own)?;
        judged += 1;
    }
    Ok(judged)
}

/// Checks the line that a shell would execute if the server joined a command and its arguments without quotes.
fn joined(command: &str, arguments: &[Word], place: Place<'_>) -> Result<(), String> {
    let arguments = arguments.iter().map(|word| word.text.as_str());
    let line: Vec<&str> = [command].into_iter().chain(arguments).collect();
    framed(&line.join(" "), place)
}

fn is_vector(key: &str) -> bool {
    VECTORS.has(&key_words(key).concat())
}

/// Returns whether a value adds arguments to the command in the same object, e.g. `extra_args` and `flags`.
fn adds_arguments(key: &str, value: &Value) -> bool {
    let key = key_words(key);
    let is_argument = |item: &Value| item.is_string() || item.is_number();
    let (last, is_list) = match value {
        Value::Array(items) => (key.last(), items.iter().all(is_argument)),
        Value::String(text) if text.trim_start().starts_with('-') => (key.last(), true),
        Value::String(_) => (key.last().filter(|word| word.starts_with("arg")), true),
        _ => (None, false),
    };
    let names = ["args", "argv", "arguments", "flags", "options", "opts", "switches"];
    is_list && last.is_some_and(|word| names.contains(&word.as_str()))
}

/// Returns whether a key such as `command` or `pre_command` indicates that its value is a command.
fn is_command(key: &str, value: &Value) -> bool {
    let words = key_words(key);
    let joined = words.concat();
    let ends = ["command", "commands", "cmd", "cmds", "cmdline", "commandline"];
    let by_last = words.len() > 1 && words.last().is_some_and(|last| ends.contains(&last.as_str()));
    let is_shell =
        joined == "shell" && value.as_str().is_some_and(|text| text.contains(char::is_whitespace));
    COMMANDS.has(&joined) || is_shell || by_last && (value.is_string() || value.is_array())
}

/// Returns whether a value is not a command: models also send `null`, `false` or an empty text for an optional command.
fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(_) => false,
    }
}

/// Programs whose names occur in the names of tools, e.g. `run_kubectl`. The commands of such a tool often begin with
/// the subcommand.
static TOOL_PROGRAMS: Words =
    Words::new("git kubectl docker podman helm terraform aws gcloud gh npm cargo curl wget ffmpeg");

/// Checks a command as if the program that the tool's name contains preceded it.
fn with_program(
    tool: &str,
    value: &Value,
    vector: &[Word],
    place: Place<'_>,
) -> Result<(), String> {
    let own = key_words(tool);
    let Some(program) = own.iter().find(|word| TOOL_PROGRAMS.has(word)) else {
        return Ok(());
    };
    let Value::String(text) = value else { return Ok(()) };
    let words = simple(text)?;
    let first = words.iter().find(|word| lex::assignment(word).is_none());
    let Some(first) = first.map(|word| word.text.rsplit('/').next().unwrap_or_default()) else {
        return Ok(());
    };
    if first == program {
        return Ok(());
    }
    let program = Word::literal(program);
    let all: Vec<Word> = [program].into_iter().chain(words).chain(vector.to_vec()).collect();
    place.judge(&all)
}

/// Returns the standard input of a command; `members` are the members of the object that contains the command.
fn input(members: &Map<String, Value>) -> Stdin<'_> {
    let is_input = |key: &str| stdin::KEYS.has(&key_words(key).concat());
    let given = members.iter().filter(|(key, value)| is_input(key) && !value.is_null());
    given.fold(Stdin::Unnamed, |before, (_, value)| match (before, value) {
        (Stdin::Unnamed, Value::String(text)) => Stdin::Text(text),
        (before, Value::Bool(_)) => before,
        _ => Stdin::Unreadable,
    })
}

/// Checks the value of a key that contains commands; returns the number of commands.
fn texts(key: &str, value: &Value, vector: &[Word], place: Place<'_>) -> Result<usize, String> {
    match value {
        value if is_absent(value) => Ok(0),
        Value::String(text) if vector.is_empty() => framed(text, place).map(|()| 1),
        Value::String(text) => {
            let mut all = simple(text)?;
            all.extend_from_slice(vector);
            place.judge(&all).map(|()| 1)
        }
        // Each item is a command itself if the key is a plural, if it is the only item, or if any item is not text.
        Value::Array(items)
            if key.ends_with('s')
                || items.len() == 1
                || items.iter().any(|item| !item.is_string()) =>
        {
            for item in items {
                match item {
                    item if is_absent(item) => {
                        return Err(format!("`{key}` has an item that is not a command"));
                    }
                    Value::Object(_) => drop(objects("", item, place)?),
                    _ => drop(texts(key, item, vector, place)?),
                }
            }
            // A server might also treat the list as a single argument vector, or join its items to one line. If the
            // first item has a blank, it is not the name of a program.
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            match texts {
                Some(texts) if texts[0].trim().contains(char::is_whitespace) => {
                    framed(&texts.join(" "), place)?;
                }
                Some(_) => place.judge(&words(key, value)?)?,
                None => {}
            }
            Ok(1)
        }
        Value::Array(_) => {
            let mut all = words(key, value)?;
            all.extend_from_slice(vector);
            place.judge(&all).map(|()| 1)
        }
        Value::Object(_) => match objects("", value, place)? {
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
                // Some servers join the vector to one command line, or interpret operators in it. So an item that is an
                // operator is refused.
                Value::String(text) if OPERATORS.contains(&text.trim()) => {
                    Err(format!("`{key}` has the operator `{}`", text.trim()))
                }
                // A shell does not parse the items of a list of arguments, so a newline or an operator such as `&&` in
                // an item is data.
                Value::String(text) if text.len() <= MAX_COMMAND => match hidden(text, true) {
                    Some(c) => {
                        Err(format!("`{key}` has the control character U+{:04X}", u32::from(c)))
                    }
                    None => Ok(Word::literal(text)),
                },
                Value::String(_) => {
                    Err(format!("`{key}` has an item that is longer than {MAX_COMMAND} bytes"))
                }
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
    // A newline at the end runs no other command, so remove it.
    let text = text.strip_suffix("\r\n").unwrap_or(text).trim_matches('\n');
    Ok(read(text, Grammar::Command)?.pop().unwrap_or_default().words)
}

/// Returns the words of a single command in the syntax of a shell. Refuses a word that a shell could turn into an
/// option or into several words, e.g. `$X--output=x` and `{--output=x,HEAD}`.
pub(crate) fn split(text: &str) -> Result<Vec<String>, String> {
    let words = simple(text)?;
    let is_made = |word: &&Word| {
        let mut depth = 0_usize;
        let has_choice = word.text.chars().any(|c| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            // Count any comma in a word that has quotes as a choice, because the text does not show which of its
            // braces are quoted.
            c == ',' && (depth > 0 || word.quoted)
        });
        word.unset.is_some() || word.expands && word.text.contains('{') && has_choice
    };
    if let Some(word) = words.iter().find(is_made) {
        return Err(format!("a shell turns `{}` into other words", word.text));
    }
    Ok(words.into_iter().map(|word| word.text).collect())
}

/// Checks the arguments of a program that is run without a shell.
pub(crate) fn vector(program: &str, arguments: &[String]) -> Result<(), String> {
    let words = [program].into_iter().chain(arguments.iter().map(String::as_str));
    let words: Vec<Word> = words.map(Word::literal).collect();
    judge::judge(&words, Frame::default())
}

/// Checks each command of a script. `network` has the rules for the targets of commands.
pub(crate) fn script(text: &str, network: NetworkRules<'_>) -> Result<(), String> {
    script::script(text, Frame::new(network), judge::judge)
}

/// Checks a single command in the syntax of a shell.
pub(crate) fn command(text: &str) -> Result<(), String> {
    framed(text, Place::default())
}

fn framed(text: &str, place: Place<'_>) -> Result<(), String> {
    let words = simple(text)?;
    if words.is_empty() {
        return Err("the command is empty".to_owned());
    }
    place.judge(&words)
}
