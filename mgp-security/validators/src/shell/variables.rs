//! The variables of a shell script: their possible values, and the commands that result from these values.

use super::lex::{MAX_COMMAND, Word, assignment, is_name};
use crate::words::Words;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Words that can precede a builtin command, as in `command export A=b`. The shell still runs the command itself, so
/// the command can set variables.
const PREFIXES: &[&str] = &["time", "command", "builtin", "-p", "--"];

/// Commands of the shell after which variables can keep the values that an assignment before the command gives them.
static SPECIAL: Words = Words::new(
    ": . break continue eval exec exit export readonly return set shift source times trap unset",
);

/// Commands that declare variables. Their arguments of the form `NAME=value` are assignments.
static DECLARING: Words = Words::new("export readonly declare typeset local");

/// The maximum number of values that a variable can have at one position in a script, e.g. because of `true || X=a`. A
/// script with more is refused.
const MAX_VALUES: usize = 8;

/// The maximum number of combinations of the values of a command's variables. A script with more combinations is
/// refused.
const MAX_COMBINATIONS: usize = 1024;

/// The maximum total length, in bytes, of all values of variables and all commands with values in place of variables.
const MAX_FORMS: usize = 128 * 1024;

/// The values that are assumed for a variable whose value is only known when the script runs. They are options with
/// which many commands are dangerous.
const UNKNOWN: &[&str] = &["-rf", "-delete", "-c", "-e"];

/// The values that variables can have after the commands so far. An empty value means that the variable may be unset.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables {
    values: HashMap<String, Vec<String>>,
    /// The variables that may keep their values although a later command assigns them.
    fixed: HashSet<String>,
    /// The total length so far, in bytes, of all values and all commands with values in place of variables.
    length: usize,
}

impl Variables {
    /// Creates the variables that a call sets for its commands. Each can also be unset, because a server may ignore
    /// what the call sets.
    ///
    /// # Errors
    /// A description of the problem if a variable has too many values, or if the values are too long.
    pub(super) fn of_environment(set: Vec<(String, String)>) -> Result<Self, String> {
        let mut variables = Self::default();
        variables.set(set, false)?;
        Ok(variables)
    }

    /// Returns a command once with each combination of the values that its variables can have. Returns an empty list if
    /// no variable has a known value.
    ///
    /// # Errors
    /// A description of the problem if there are too many commands, or if the commands become too long.
    pub(super) fn forms(&mut self, words: &[Word]) -> Result<Vec<Vec<Word>>, String> {
        let names: BTreeSet<&str> = words.iter().flat_map(Word::variables).collect();
        let known: Vec<(&str, &Vec<String>)> =
            names.into_iter().filter_map(|name| Some((name, self.values.get(name)?))).collect();
        if known.is_empty() {
            return Ok(Vec::new());
        }
        let count = known.iter().fold(1, |count: usize, (_, all)| count.saturating_mul(all.len()));
        if count > MAX_COMBINATIONS {
            return Err(format!("variables have more than {MAX_COMBINATIONS} values together"));
        }
        let own = leading(words);
        let declares = words.get(own).is_some_and(|word| DECLARING.has(&word.text));
        let mut forms = Vec::with_capacity(count);
        for mut at in 0..count {
            let chosen: HashMap<&str, &str> = known
                .iter()
                .filter_map(|(name, all)| {
                    let value = all.get(at % all.len().max(1))?;
                    at /= all.len().max(1);
                    Some((*name, value.as_str()))
                })
                .collect();
            let value = |name: &str| chosen.get(name).copied();
            let length_of = |word: &Word| {
                let values = word.variables().filter_map(value).map(str::len);
                word.text.len() + 1 + values.sum::<usize>()
            };
            // The lengths are checked before the words are created, because the words can need much memory.
            let length: usize = words.iter().map(length_of).sum();
            self.length = self.length.saturating_add(length);
            if length > MAX_COMMAND || self.length > MAX_FORMS {
                return Err("variables make the commands too long".to_owned());
            }
            let mut form = Vec::with_capacity(words.len());
            for (index, word) in words.iter().enumerate() {
                let splits = index >= own && !declares || assignment(word).is_none();
                match word.with_values(value, splits) {
                    Some(made) => form.extend(made),
                    None => form.push(word.clone()),
                }
            }
            forms.push(form);
        }
        Ok(forms)
    }

    /// Stores the variables that a command sets; `is_sure` is `true` if the command runs in any case.
    pub(super) fn keep_set(&mut self, words: &[Word], is_sure: bool) -> Result<(), String> {
        let replaces = is_sure && replaces(words);
        parts(words).into_iter().try_for_each(|part| self.run(part, replaces))
    }

    /// Stores the variables that a part of a command sets.
    fn run(&mut self, part: &[Word], replaces: bool) -> Result<(), String> {
        let forms = self.forms(part)?;
        let forms = if forms.is_empty() { vec![part.to_vec()] } else { forms };
        let mut set = Vec::new();
        for words in &forms {
            let command = words.first().map_or("", |word| word.text.as_str());
            let mut options = words.iter().skip(1).filter_map(|word| word.text.strip_prefix('-'));
            if DECLARING.has(command)
                && command != "export"
                && options.any(|letters| letters.contains(['n', 'i', 'l', 'u', 'c']))
            {
                return Err(format!("an option of `{command}` changes what variables mean"));
            }
            if DECLARING.has(command) && command != "export" {
                let names = words.iter().filter_map(|word| word.text.split(['=', '+']).next());
                self.fixed.extend(names.map(str::to_owned));
            }
            set.extend(self.set_by(words));
        }
        self.set(set, replaces)
    }

    /// Returns the variables that a command sets for the commands after it, each with a value.
    fn set_by(&self, words: &[Word]) -> Vec<(String, String)> {
        let Some((first, arguments)) = words.split_first() else { return Vec::new() };
        let texts = || arguments.iter().flat_map(|word| ends(&word.text));
        match first.text.as_str() {
            _ if assignment(first).is_some() => self.assigned(words),
            command if DECLARING.has(command) => self.assigned(arguments),
            "unset" => texts().map(|name| (name.to_owned(), String::new())).collect(),
            "printf" if arguments.first().is_none_or(|word| !word.text.starts_with("-v")) => {
                Vec::new()
            }
            "read" | "mapfile" | "readarray" | "printf" | "getopts" | "wait" => {
                unknown(texts().chain(["REPLY", "MAPFILE", "OPTARG"]))
            }
            _ => Vec::new(),
        }
    }

    /// Returns the names and values that the assignments among some words set. A value after `+=` is appended to each
    /// value that the variable can have.
    fn assigned(&self, words: &[Word]) -> Vec<(String, String)> {
        let mut set: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for word in words {
            let Some((name, value)) = assignment(word) else { continue };
            let is_added = word.text[name.len()..].starts_with("+=");
            // Unknown variables in the value may also be unset, so both values are possible.
            let unset = word.unset.as_deref().and_then(|unset| unset.split_once('='));
            let made = [value].into_iter().chain(unset.map(|(_, value)| value));
            let before = set.get(name).or_else(|| self.values.get(name)).filter(|_| is_added);
            let before = before.cloned().unwrap_or_else(|| vec![String::new()]);
            let added = |value| before.iter().map(move |before| format!("{before}{value}"));
            let all: Vec<String> = made.flat_map(added).take(MAX_VALUES + 1).collect();
            set.insert(name, all);
        }
        let pairs = |(name, all): (&str, Vec<String>)| {
            let name = name.to_owned();
            all.into_iter().map(move |value| (name.clone(), value))
        };
        set.into_iter().flat_map(pairs).collect()
    }

    /// Stores values of variables. If `replaces` is set, they replace the previous values.
    fn set(&mut self, set: Vec<(String, String)>, replaces: bool) -> Result<(), String> {
        for (name, _) in &set {
            if replaces && !self.fixed.contains(name) {
                self.values.remove(name);
            } else if !replaces && !self.values.contains_key(name) {
                // The variable may also be unset, so add the empty value.
                self.values.insert(name.clone(), vec![String::new()]);
            }
        }
        for (name, value) in set {
            self.length = self.length.saturating_add(value.len());
            let values = self.values.entry(name).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
            if values.len() > MAX_VALUES {
                return Err(format!("a variable can have more than {MAX_VALUES} values"));
            }
        }
        if self.length > MAX_FORMS {
            return Err(format!("the values of variables are longer than {MAX_FORMS} bytes"));
        }
        Ok(())
    }

    /// Stores the last argument of a command, which is the value of `$_` in the next command.
    pub(super) fn keep_last(&mut self, forms: &[Vec<Word>], is_sure: bool) {
        let runs = |words: &&Vec<Word>| words.iter().any(|word| assignment(word).is_none());
        let last = forms.iter().filter(runs).filter_map(|words| words.last());
        let last: BTreeSet<String> = last.map(|word| word.text.clone()).collect();
        if last.is_empty() {
            return;
        }
        let values = self.values.entry("_".to_owned()).or_default();
        if is_sure {
            values.clear();
        }
        values.extend(last);
    }
}

/// Returns each of the variables with all values in [`UNKNOWN`].
fn unknown<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(String, String)> {
    let all =
        |name: &'a str| UNKNOWN.iter().map(move |value| (name.to_owned(), (*value).to_owned()));
    names.flat_map(all).collect()
}

/// Returns the names of variables that an argument can contain: the argument itself, and each ending of an argument
/// such as `-vNAME`, because a name can follow the letters of options.
fn ends(argument: &str) -> impl Iterator<Item = &str> {
    const MAX_LETTERS: usize = 8;
    let options = argument.strip_prefix('-').unwrap_or_default();
    let at = options.char_indices().skip(1).take(MAX_LETTERS).map(move |(at, _)| &options[at..]);
    [argument].into_iter().chain(at).filter(|name| is_name(name))
}

/// Returns the parts of a command that set variables one after the other: each assignment before the command, and the
/// command itself.
fn parts(words: &[Word]) -> Vec<&[Word]> {
    let (before, command) = words.split_at(leading(words));
    match command.first() {
        Some(first) if !SPECIAL.has(&first.text) => vec![command],
        _ => before.chunks(1).chain([command]).collect(),
    }
}

/// Returns the number of words before the command itself: assignments, and words such as `command` and `time`.
fn leading(words: &[Word]) -> usize {
    let is_before =
        |word: &&Word| assignment(word).is_some() || PREFIXES.contains(&word.text.as_str());
    words.iter().take_while(is_before).count()
}

/// Returns whether the values that a command sets certainly replace the previous values. This is certain only for
/// assignments, `export` and `readonly`. A shell may lack the other commands that set variables, and they do not set
/// all variables among their arguments.
fn replaces(words: &[Word]) -> bool {
    let sets = |word: &Word| assignment(word).is_some();
    match words.split_first() {
        Some((first, rest)) if matches!(first.text.as_str(), "export" | "readonly") => {
            rest.iter().all(|word| sets(word) || is_name(&word.text))
        }
        _ => words.iter().all(sets),
    }
}
