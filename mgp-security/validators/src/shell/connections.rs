//! The places to which the commands of a call connect, for the validator `network_restricted`.
//!
//! In contrast to `sandbox`, this check accepts every syntax and every program: it looks only for network programs, and
//! for settings that name a proxy, a registry or a daemon.

use super::{
    PROGRAMS, TOOL_PROGRAMS,
    argv::{Args, plain_name},
    environment, is_vector,
    lex::{Word, is_name},
    runners, settings, targets,
};
use crate::argument_values::key_words;
use crate::network::{NetworkRules, port_of};
use crate::words::has;
use serde_json::Value;
use std::cell::Cell;

/// The maximum depth of commands in the arguments of other commands.
const MAX_DEPTH: usize = 4;
/// The maximum number of arguments of network programs that are checked for a call.
const MAX_WORDS: usize = 16_384;
/// Programs and words of a shell after which another command can follow, besides those of [`runners`].
const CARRIERS: &str = "\
    sudo doas su bash sh zsh dash ash fish pwsh powershell cmd docker podman nerdctl kubectl oc ssh \
    autossh rsync adb eval if then elif else while until do ! {";

/// Checks the commands in the arguments of a call. `is_command` decides by a key whether its value is a command, and
/// the value under the key `skipped` of the call itself is not one.
pub(crate) fn check(
    tool: &str,
    arguments: &Value,
    skipped: Option<&str>,
    is_command: fn(&str) -> bool,
    rules: NetworkRules<'_>,
) -> Result<(), String> {
    let words = key_words(tool);
    let program = words.iter().find(|word| TOOL_PROGRAMS.has(word)).map(String::as_str);
    let connections = Connections { program, is_command, rules, words: Cell::new(0) };
    environment::visit_all(arguments, &mut |name, value| connections.variable(name, value))?;
    connections.objects(arguments, skipped)
}

/// The check of the commands of a call.
struct Connections<'a> {
    /// The program in the name of the tool, e.g. in `run_kubectl`, whose arguments a command can consist of.
    program: Option<&'a str>,
    is_command: fn(&str) -> bool,
    rules: NetworkRules<'a>,
    /// The number of arguments of network programs so far.
    words: Cell<usize>,
}

impl Connections<'_> {
    /// Checks the commands in an object and in the objects below it.
    fn objects(&self, value: &Value, skipped: Option<&str>) -> Result<(), String> {
        let members = match value {
            Value::Array(items) => {
                return items.iter().try_for_each(|item| self.objects(item, None));
            }
            Value::Object(members) => members,
            _ => return Ok(()),
        };
        let vectors = members.iter().filter(|(key, _)| is_vector(key));
        let vector: Vec<String> = vectors.flat_map(|(_, value)| items(value)).collect();
        let mut is_named = false;
        for (key, value) in members.iter().filter(|(key, _)| Some(key.as_str()) != skipped) {
            let is_program = || !vector.is_empty() && PROGRAMS.has(&key_words(key).concat());
            match value {
                Value::String(text)
                    if !is_vector(key) && ((self.is_command)(key) || is_program()) =>
                {
                    is_named = true;
                    self.text(text, &vector, 0)?;
                }
                Value::Array(parts) if !is_vector(key) && (self.is_command)(key) => {
                    let texts = || parts.iter().filter_map(Value::as_str);
                    texts().try_for_each(|text| self.text(text, &[], 0))?;
                    self.command(&texts().map(str::to_owned).collect::<Vec<_>>(), 0)?;
                    self.objects(value, None)?;
                }
                value => self.objects(value, None)?,
            }
        }
        if is_named { Ok(()) } else { self.command(&vector, 0) }
    }

    /// Checks the commands in a text. `vector` has further arguments of the command if the text is a single one.
    fn text(&self, text: &str, vector: &[String], depth: usize) -> Result<(), String> {
        let mut commands = split(text);
        if let [only] = commands.as_mut_slice() {
            self.spend(vector.len())?;
            only.extend_from_slice(vector);
        }
        commands.iter().try_for_each(|words| self.command(words, depth))
    }

    fn command(&self, words: &[String], depth: usize) -> Result<(), String> {
        let is_assignment =
            |word: &&String| word.split_once('=').is_some_and(|(name, _)| is_name(name));
        let own = &words[words.iter().take_while(is_assignment).count()..];
        let name = own.first().map(|word| program_name(word)).unwrap_or_default();
        // A setting of `ssh` such as `ProxyCommand`, and a module that Python runs, begin a command, too.
        let runs = runners::runs_commands(&name)
            || has(CARRIERS, &name)
            || name.ends_with("command")
            || name == "python" && own.iter().any(|word| word == "-m");
        for word in words {
            let halves = [word.split_once('='), word.rsplit_once('=')];
            let mut set = halves.into_iter().flatten();
            set.try_for_each(|(name, value)| self.variable(name, value))?;
            if depth < MAX_DEPTH
                && let Some(inner) = nested(word, runs)
            {
                self.text(inner, &[], depth + 1)?;
            }
        }
        let count = if runs { own.len() } else { 1 };
        self.programs(own, count)?;
        match self.program.filter(|program| depth == 0 && *program != name) {
            Some(program) => self.connect(program, own),
            None => Ok(()),
        }
    }

    /// Checks the arguments of each network program among the first `count` words of a command.
    fn programs(&self, words: &[String], count: usize) -> Result<(), String> {
        for (at, word) in words.iter().enumerate().take(count) {
            let name = program_name(word);
            // In a script of another language, `links` is often a variable.
            let is_variable = name == "links" && words.get(at + 1).is_some_and(|next| next == "=");
            if targets::is_client(&name) && !is_variable {
                self.connect(&name, &words[at + 1..])?;
            }
        }
        Ok(())
    }

    /// Checks the places in the arguments of a network program.
    fn connect(&self, program: &str, arguments: &[String]) -> Result<(), String> {
        self.spend(arguments.len())?;
        let arguments: Vec<Word> = arguments.iter().map(|text| Word::literal(text)).collect();
        targets::check(program, Args(&arguments), self.rules)
    }

    /// Checks a variable or a setting.
    fn variable(&self, name: &str, value: &str) -> Result<(), String> {
        // Parameters of a URL are data of its server, and a text with spaces, e.g. `fix: http_proxy`, is not a name.
        if name.contains(['?', '&']) || name.trim().contains(char::is_whitespace) {
            return Ok(());
        }
        settings::variable(name, value, self.rules)?;
        // A name without a dot is one of the local network. Without a port, it can also be a word such as `direct`.
        let place = value.split('/').next().unwrap_or(value);
        let place = place.rsplit('@').next().unwrap_or(place);
        if port_of(place).is_some() && settings::is_place(name) {
            return self.rules.check_host(place);
        }
        Ok(())
    }

    /// Counts arguments that are checked.
    fn spend(&self, count: usize) -> Result<(), String> {
        self.words.set(self.words.get().saturating_add(count));
        if self.words.get() > MAX_WORDS {
            return Err(format!("network programs have more than {MAX_WORDS} arguments together"));
        }
        Ok(())
    }
}

/// Returns the command in an argument of a program; `runs` is `true` if the program runs other commands.
fn nested(word: &str, runs: bool) -> Option<&str> {
    let is_command = |name: &str| {
        let lower = name.to_ascii_lowercase();
        !name.contains(char::is_whitespace)
            && ["command", "rsh", "exec", "split"].iter().any(|part| lower.contains(part))
    };
    match word.split_once('=') {
        _ if !word.contains(char::is_whitespace) => None,
        Some((name, value)) if is_command(name) => Some(value),
        _ if runs => Some(without_letters(word)),
        _ => (word.contains("$(") || word.contains('`')).then_some(word),
    }
}

/// Returns an argument without the letters of options in front of a command, e.g. in `-iScurl a.example` of `env`, and
/// in `-avessh -p 22` of `rsync`.
fn without_letters(word: &str) -> &str {
    let group = word.split_whitespace().next().and_then(|first| first.strip_prefix('-'));
    let letters =
        group.filter(|group| !group.starts_with('-')).and_then(|group| group.find(['S', 'e']));
    letters.and_then(|at| word.trim_start().get(at + 2..)).unwrap_or(word)
}

/// Returns the items of an argument vector.
fn items(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => split(text).into_iter().flatten().collect(),
        Value::Array(items) => items
            .iter()
            .filter_map(|item| match item {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns the name under which the rules list a program.
fn program_name(word: &str) -> String {
    plain_name(word.rsplit(['/', '\\']).next().unwrap_or(word))
}

/// Splits a text into commands, and each of these into words without quotes. Accepts every text.
fn split(text: &str) -> Vec<Vec<String>> {
    let (mut commands, mut command) = (Vec::new(), Vec::new());
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None | Some('"'), '\\') => match chars.next() {
                None | Some('\n') => {}
                Some(next) => word.get_or_insert_default().push(next),
            },
            // In front of a quote, the sign only means another form of it.
            (None, '$') if chars.as_str().starts_with(['\'', '"']) => {}
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ';' | '|' | '&' | '(' | ')' | '<' | '>' | '`' | '\n') => {
                command.extend(word.take());
                commands.push(std::mem::take(&mut command));
            }
            (None, c) if c.is_whitespace() => command.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    command.extend(word);
    commands.push(command);
    commands.retain(|command| !command.is_empty());
    commands
}
