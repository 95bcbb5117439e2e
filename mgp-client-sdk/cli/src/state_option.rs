//! The option `--state` in the commands that messages name, so that a pasted command reaches the same state folder.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{self, Path};
use std::sync::OnceLock;

/// The start of a command of `mgp` in a message.
const COMMAND: &str = "`mgp ";

/// The option `--state` with the folder, quoted for a shell; not set if this process was started without the option.
static OPTION: OnceLock<String> = OnceLock::new();

/// Records the state folder, if the command line of this process names it, and a command without the option would use
/// another folder. The variable `MGP_STATE` needs no record, because the next command of the same shell also has it.
/// `usual` is the folder that a command without the option and the variable uses.
pub(crate) fn record(folder: Option<&Path>, usual: Option<&Path>) {
    let mut words = std::env::args_os().take_while(|word| word != "--");
    let is_option =
        |word: OsString| word == "--state" || word.as_encoded_bytes().starts_with(b"--state=");
    let Some(folder) = folder.filter(|_| words.any(is_option)) else { return };
    let Ok(folder) = path::absolute(folder) else { return };
    // Record nothing for the usual folder: a host starts the kernel with the option even for this folder, but commands
    // do not need it there.
    if usual == Some(&*folder) && std::env::var_os("MGP_STATE").is_none() {
        return;
    }
    if let Some(word) = folder.to_str().and_then(shell_word) {
        // Ignore an error: this fails only if a folder was recorded before, but `main` records just one.
        let _ = OPTION.set(format!("--state {word}"));
    }
}

/// Returns the option that commands of `mgp` need to reach the state folder of this process, if they need it.
pub(crate) fn get() -> Option<&'static str> {
    OPTION.get().map(String::as_str)
}

/// Adds the option to each command of `mgp` in backquotes in a message, if this process has the option.
pub(crate) fn add_to(message: &str) -> Cow<'_, str> {
    match OPTION.get() {
        Some(option) if message.contains(COMMAND) => add(message, option).into(),
        _ => message.into(),
    }
}

fn add(message: &str, option: &str) -> String {
    let mut out = String::with_capacity(message.len() + option.len());
    let mut rest = message;
    while let Some(at) = rest.find(COMMAND) {
        let (before, after) = rest.split_at(at + COMMAND.len());
        out.push_str(before);
        rest = after;
        let Some((command, _)) = after.split_once('`') else { break };
        let is_command = command.starts_with(|c: char| c.is_ascii_lowercase());
        if !is_command || command.contains("--state") || command.contains("--help") {
            continue;
        }
        // Add the option before `--`, because the words after it belong to another program.
        let end = command.find(" -- ").unwrap_or(command.len());
        let (own, others) = after.split_at(end);
        out.push_str(own);
        out.push(' ');
        out.push_str(option);
        rest = others;
    }
    out.push_str(rest);
    out
}

/// Quotes a path or a name as one word of a shell command, if necessary; `None` if a message cannot contain it.
fn shell_word(path: &str) -> Option<String> {
    let is_plain = |c: char| c.is_alphanumeric() || "._:/@+,=-".contains(c);
    if path.contains(|c: char| c.is_control() || c == '`') {
        return None;
    }
    if path.chars().all(is_plain) {
        return Some(path.to_owned());
    }
    Some(format!("'{}'", path.replace('\'', r"'\''")))
}

/// Quotes a word like [`shell_word`]; returns the placeholder instead of a word that a message cannot contain.
pub(crate) fn shell_word_or(placeholder: &str, word: &str) -> String {
    shell_word(word).unwrap_or_else(|| placeholder.to_owned())
}

/// Quotes a path like [`shell_word`]; returns the placeholder instead of a path that a message cannot contain.
pub(crate) fn shell_path_or(placeholder: &str, path: &Path) -> String {
    path.to_str().and_then(shell_word).unwrap_or_else(|| placeholder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_in_a_message_gets_the_option_once() {
        for (message, expected) in [
            ("see `mgp servers ls`", "see `mgp servers ls --state /s`"),
            ("`mgp a`, or `mgp b C`.", "`mgp a --state /s`, or `mgp b C --state /s`."),
            ("`mgp servers add ID -- CMD`", "`mgp servers add ID --state /s -- CMD`"),
            ("`mgp setup x --state /t`", "`mgp setup x --state /t`"),
            ("`mgp connect --help`", "`mgp connect --help`"),
            ("the file `mgp.toml`, `mgp 0.1.0`", "the file `mgp.toml`, `mgp 0.1.0`"),
            ("mgp: an open `mgp stop", "mgp: an open `mgp stop"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(add(message, "--state /s"), expected);
        }
    }

    #[test]
    fn a_folder_is_one_word_of_a_shell() {
        assert_eq!(shell_word("/home/ada/größe").as_deref(), Some("/home/ada/größe"));
        assert_eq!(shell_word("/a b/it's").as_deref(), Some(r"'/a b/it'\''s'"));
        assert_eq!(shell_word("/a`b"), None);
    }
}
