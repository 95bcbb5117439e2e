//! The command `mgp __complete`: prints names of servers, tools and agents for the completion scripts of shells.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args, Command};

use super::known_names::KnownNames;
use crate::args::Global;
use crate::exit::CliResult;
use crate::output::write_stdout;
use crate::{prompt, state};

/// The maximum time that `mgp __complete` takes for one key press; if it needs longer, it prints no names.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum number of names that `mgp __complete` prints.
const MAX_NAMES: usize = 1000;

/// `mgp __complete`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Complete {
    /// Words of the command line after `mgp`; the last one is completed
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// The kind of name that is expected at a position of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NameKind {
    Server,
    /// Names of tools, each with the id of its server.
    Tool,
    /// Names of the tools of the server with this id.
    ToolOf(String),
    Agent,
}

/// Prints the names that can follow on the command line, one a line. Prints nothing if none are known.
pub(crate) async fn run(global: &Global, complete: &Complete, program: Command) -> CliResult {
    let words: Vec<&str> = complete.words.iter().map(String::as_str).collect();
    let Some(kind) = kind_of_last(program, &words) else { return Ok(()) };
    let mut global = global.clone();
    if let Some(folder) = state_of(&words) {
        global.state = Some(PathBuf::from(folder));
    }
    // Ask for no passphrase and create no state folder, because this command runs at each key press in the shell.
    prompt::refuse_passphrases();
    if !state::folder(&global)?.exists() {
        return Ok(());
    }
    let known = tokio::time::timeout(TIMEOUT, KnownNames::read_alone(&global)).await;
    let Ok(Ok(known)) = known else { return Ok(()) };
    let begin = words.last().copied().unwrap_or_default();
    let names = names(&known, &kind).into_iter();
    // Leave out a name with a character that has a meaning in a shell, because servers choose these names.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:/".contains(c);
    let names = names.filter(|name| name.starts_with(begin) && name.chars().all(is_plain));
    let lines: String = names.take(MAX_NAMES).map(|name| name + "\n").collect();
    write_stdout(&lines)
}

/// Returns the value of the option `--state` in the words of a command line.
fn state_of<'a>(words: &[&'a str]) -> Option<&'a str> {
    let mut words = words.iter();
    words
        .find_map(|word| match word.strip_prefix("--state")? {
            "" => Some(None),
            rest => rest.strip_prefix('=').map(Some),
        })?
        .or_else(|| words.next().copied())
}

fn names(known: &KnownNames, kind: &NameKind) -> Vec<String> {
    match kind {
        NameKind::Server => known.servers().map(str::to_owned).collect(),
        NameKind::Agent => known.agents().map(str::to_owned).collect(),
        NameKind::ToolOf(server) => known.tools_of(server).map(str::to_owned).collect(),
        NameKind::Tool => {
            let of = |id: &str| {
                known.tools_of(id).map(|tool| format!("{id}.{tool}")).collect::<Vec<_>>()
            };
            known.servers().flat_map(of).collect()
        }
    }
}

/// Returns the kind of name that clap's definition of the command line expects as the last word, if any.
fn kind_of_last(mut program: Command, words: &[&str]) -> Option<NameKind> {
    program.build();
    let (last, before) = words.split_last()?;
    let (mut command, mut positions, mut option) = (&program, Vec::new(), None);
    for word in before {
        if option.take().is_some() {
            continue;
        }
        if *word == "--" {
            return None;
        }
        if word.starts_with('-') {
            option = option_of(command, word);
        } else if let Some(below) = command.find_subcommand(word).filter(|_| positions.is_empty()) {
            command = below;
        } else {
            positions.push(*word);
        }
    }
    if let Some(option) = option {
        return kind_of(option, None);
    }
    if last.starts_with('-') || command.has_subcommands() {
        return None;
    }
    let all: Vec<&Arg> = command.get_positionals().collect();
    let argument = all.get(positions.len()).or(all.last())?;
    let after = positions.len().checked_sub(1).and_then(|at| Some((all.get(at)?, positions[at])));
    let server = after.filter(|(argument, _)| argument.get_id() == "server");
    kind_of(argument, server.map(|(_, server)| server))
}

/// Returns the option that a word names, if the next word is the value of that option.
fn option_of<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let is_it = |argument: &&Arg| match word.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        None => argument.get_short().is_some_and(|short| word.chars().nth(1) == Some(short)),
    };
    command.get_arguments().find(is_it).filter(|argument| argument.get_action().takes_values())
}

fn kind_of(argument: &Arg, server: Option<&str>) -> Option<NameKind> {
    let is_server = argument.get_value_names().is_some_and(|names| names == ["SERVER"]);
    match argument.get_id().as_str() {
        "server" => Some(NameKind::Server),
        "agent" => Some(NameKind::Agent),
        "tool" | "tools" => Some(match server {
            Some(server) => NameKind::ToolOf(server.to_owned()),
            None => NameKind::Tool,
        }),
        _ if is_server => Some(NameKind::Server),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn the_kind_of_a_word_follows_from_its_command() {
        let check = |line: &str, expected: Option<NameKind>| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(kind_of_last(Cli::command(), &words), expected, "{line}");
        };
        check("servers restart ", Some(NameKind::Server));
        check("server rm fi", Some(NameKind::Server));
        check("--state /x --json doctor a ", Some(NameKind::Server));
        check("why ", Some(NameKind::Agent));
        check("why ada ", Some(NameKind::Tool));
        check("tools call --agent ", Some(NameKind::Agent));
        check("tools call --agent ada ", Some(NameKind::Tool));
        check("tools approve a.b ", Some(NameKind::Tool));
        check("access grant ada ", Some(NameKind::Server));
        check("access grant ada files ", Some(NameKind::ToolOf("files".to_owned())));
        check("connect cursor --grant ", Some(NameKind::Server));
        check("tools pin a.b --agent ", Some(NameKind::Agent));
        for line in ["", "servers ", "servers restart --", "servers add ", "servers add x -- s"] {
            check(line, None);
        }
        check("tools call a.b ", None);
    }

    #[test]
    fn the_state_folder_is_read_in_both_forms_of_its_option() {
        assert_eq!(state_of(&["--json", "--state", "/a b", "why", ""]), Some("/a b"));
        assert_eq!(state_of(&["why", "--state=/a b", ""]), Some("/a b"));
        assert_eq!(state_of(&["why", "--stateful=/a", ""]), None);
    }
}
