//! Checks whether the commands among a call's arguments are within the limits.

use super::declared;
use super::finding::{Command, Findings};
use super::kinds::About;
use super::{Limits, Outside, Sudo, shown};

/// Characters with a special meaning in the shell of some system; a command with any of these is refused. Quotes are
/// not in the list, because they are interpreted.
const META: &str = "|&;<>()$`\\*?[]{}#~!%^";

/// Commands that run another command as another user.
const SUDO: [&str; 6] = ["sudo", "sudoedit", "doas", "su", "pkexec", "runas"];

/// Directories of well-known programs. A program in one of them is identified by its name without the directory.
const BIN: [&str; 6] =
    ["/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin"];

/// The maximum number of commands in a call, because each is checked together with all other texts.
const COMMANDS_MAX: usize = 32;

/// Checks all commands among the arguments.
pub(super) fn check(limits: &Limits<'_>, sudo: Sudo, found: &Findings) -> Result<(), Outside> {
    if found.any(About::Code) {
        return Err(
            "only some commands are allowed, and those that code runs are not known".to_owned()
        );
    }
    if found.any(About::Environment) {
        return Err(
            "only some commands are allowed, and environment variables can change what they run"
                .to_owned(),
        );
    }
    if !found.declares_command {
        return Err("only some commands are allowed, and no argument names one".to_owned());
    }
    if found.commands.len() > COMMANDS_MAX {
        return Err(format!(
            "only some commands are allowed, and at most {COMMANDS_MAX} of them in one call"
        ));
    }
    for other in &found.others {
        plain(other)?;
    }
    for command in &found.commands {
        let words = match command {
            Command::Line(line) => split(line)?,
            Command::Words(words) => {
                words.iter().try_for_each(|word| plain(word))?;
                words.clone()
            }
        };
        one(limits, sudo, &words, &found.others)?;
    }
    Ok(())
}

/// Checks one command; `others` are other texts among the arguments, which the tool might pass to the command.
fn one(
    limits: &Limits<'_>,
    sudo: Sudo,
    words: &[String],
    others: &[String],
) -> Result<(), Outside> {
    let mut words = words;
    let all: Vec<String> =
        words.iter().chain(others).flat_map(|text| text.split(' ')).map(folded).collect();
    if all.iter().any(|word| SUDO.contains(&word.as_str())) {
        if sudo == Sudo::Refused {
            return Err("running as another user is denied".to_owned());
        }
        // Check the command that `sudo` runs. Options of `sudo` itself are refused, because they could change that
        // command.
        words = match words {
            [_, rest @ ..] if is_allowed("sudo", words) => rest,
            _ => return Err("only a plain `sudo COMMAND` is allowed".to_owned()),
        };
    }
    let Some(first) = words.first().filter(|first| !first.is_empty()) else {
        return Err("only some commands are allowed, and it names none".to_owned());
    };
    if first.starts_with('-') || first.contains('=') {
        return Err(format!("`{}` is not a command", shown(first)));
    }
    if let Some(entry) = limits.denied.iter().find(|entry| is_denied(entry, &all)) {
        return Err(format!("the command `{}` is denied", shown(entry)));
    }
    match limits.allowed {
        Some(allowed) if !allowed.iter().any(|entry| is_allowed(entry, words)) => {
            Err(format!("the command `{}` is not allowed", shown(first)))
        }
        _ => Ok(()),
    }
}

/// Splits a command line into words.
fn split(line: &str) -> Result<Vec<String>, Outside> {
    plain(line)?;
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(begin), letter) if letter == begin => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err("a quote does not end".to_owned());
    }
    words.extend(word);
    Ok(words)
}

/// Refuses a text that a shell would expand or interpret.
fn plain(text: &str) -> Result<(), Outside> {
    match text.chars().find(|&letter| META.contains(letter) || letter.is_control()) {
        Some(letter) => {
            Err(format!("only some commands are allowed, and {letter:?} has a meaning for a shell"))
        }
        None if text.chars().any(|letter| letter.is_whitespace() && letter != ' ') => {
            Err("only some commands are allowed, and it has unusual blanks".to_owned())
        }
        None => Ok(()),
    }
}

/// Returns the name of a program without its directory.
fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns the name of a program in a form that is the same on every system: in lower case, without its directory,
/// quotes and an extension such as `.exe`.
fn folded(word: &str) -> String {
    // Leave out quotes: a tool may pass the words of a list to a shell, which removes them.
    let name = declared::folded(base(word)).filter(|letter| !matches!(letter, '"' | '\''));
    let name: String = name.collect();
    let bare = [".exe", ".cmd", ".bat", ".com"].iter().find_map(|end| name.strip_suffix(end));
    bare.map_or_else(|| name.clone(), str::to_owned)
}

/// Returns whether the command begins with the words of an entry, i.e. the entry allows it.
fn is_allowed(entry: &str, words: &[String]) -> bool {
    let mut entry = entry.split_whitespace();
    let (Some(program), [first, rest @ ..]) = (entry.next(), words) else { return false };
    let in_bin = || {
        first.rsplit_once('/').is_some_and(|(place, name)| BIN.contains(&place) && name == program)
    };
    let same = program == "*" || first == program || !program.contains('/') && in_bin();
    let mut rest = rest.iter();
    same && entry.all(|word| rest.next().is_some_and(|own| own == word))
}

/// Returns whether all words of an entry occur in `all` in the same order, i.e. the entry denies the command.
fn is_denied(entry: &str, all: &[String]) -> bool {
    let mut rest = all.iter();
    let mut entry = entry.split_whitespace().map(folded);
    entry.all(|word| word == "*" || rest.any(|own| *own == word))
}
