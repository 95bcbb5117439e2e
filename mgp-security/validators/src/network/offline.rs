//! Commands that make no connection, so that addresses in their arguments are not targets.

use crate::{argument_values::key_words, shell, words::Words};
use serde_json::Value;

/// Words in the names of tools that pass a command to a shell, and mean nothing more. For other tools, e.g. `curl`, the
/// first word of the command need not be the program.
static TOOLS: Words = Words::new(
    "\
    run execute exec call invoke start shell bash zsh sh terminal console command commands cmd line \
    process local system",
);
/// Last words of keys of arguments that can name another program, which gets the command.
static CARRIERS: Words = Words::new("program executable binary exe interpreter shell");
/// Programs that only search, edit or print texts.
static PROGRAMS: Words = Words::new("grep egrep fgrep rg ag jq echo printf sed");
/// Subcommands of git that make no connection.
static OF_GIT: Words = Words::new("commit diff grep log show stash tag");

/// Returns the key of the argument with the command if the call runs a single command of such a program in a shell.
pub(super) fn key(tool: &str, arguments: &Value) -> Option<&'static str> {
    let members = arguments.as_object()?;
    let carries = |key: &String| key_words(key).last().is_some_and(|last| CARRIERS.has(last));
    let words = key_words(tool);
    if words.is_empty() || !words.iter().all(|word| TOOLS.has(word)) || members.keys().any(carries)
    {
        return None;
    }
    let command = |key: &str| members.get(key).and_then(Value::as_str);
    ["command", "cmd"].into_iter().find(|key| command(key).is_some_and(is_one))
}

/// Returns whether a text is a single command of such a program, which the rules of `sandbox` allow. So it runs no
/// other program either.
fn is_one(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    let program = words.next().unwrap_or_default();
    let is_known = PROGRAMS.has(program)
        || program == "git" && words.next().is_some_and(|sub| OF_GIT.has(sub));
    is_known && shell::command(text).is_ok()
}
