//! The help of `mgp`, which shows the commands in groups, further names of commands, and tips about unknown commands.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::builder::{StyledStr, Styles};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _};

use crate::cli::Cli;

/// All commands by purpose. [clap] has no groups of subcommands.
pub(crate) const GROUPS: [(&str, &[&str]); 7] = [
    (
        "Set up",
        &["demo", "setup", "import", "connect", "disconnect", "undo", "init", "trust", "doctor"],
    ),
    ("Run the kernel", &["serve", "status", "reload", "stop", "service"]),
    (
        "Decide",
        &["approvals", "console", "access", "permissions", "why", "callbacks", "transactions"],
    ),
    ("See what happened", &["audit", "events", "subscriptions", "logs", "sessions", "report"]),
    ("Servers and tools", &["servers", "tools", "openapi", "lock", "index"]),
    ("Keys and messages", &["keys", "tenants", "secrets", "operator", "notify", "webhooks"]),
    (
        "Develop servers and clients",
        &["validate", "contract", "guard", "completions", "man", "help"],
    ),
];

/// Further names of the commands below a command, as people know them from other programs. A name is left out where
/// another command has it.
const ALIASES: [(&str, &[&str]); 13] = [
    ("show", &["get", "describe"]),
    ("ls", &["list"]),
    ("rm", &["remove", "delete"]),
    ("revoke", &["rm", "remove", "delete"]),
    ("add", &["create", "new"]),
    ("set", &["add"]),
    ("grant", &["add", "allow"]),
    ("deny", &["reject"]),
    ("matrix", &["ls", "list"]),
    ("tail", &["ls", "list"]),
    ("query", &["search", "show"]),
    ("search", &["find"]),
    ("call", &["run"]),
];

/// Words that name no command, each with a command that people may mean by it.
const OTHER_WORDS: [(&str, &str); 5] = [
    ("config", "init"),
    ("config", "doctor"),
    ("kill", "stop"),
    ("shutdown", "stop"),
    ("ps", "status"),
];

/// The number of commands that a tip about an unknown command names at most.
const MAX_TIPS: usize = 5;

/// Adds the [`ALIASES`] to the commands below a command.
fn with_aliases(mut command: clap::Command) -> clap::Command {
    for (name, aliases) in ALIASES {
        let is_free = |alias: &&str| command.find_subcommand(*alias).is_none();
        let free: Vec<&str> = aliases.iter().copied().filter(is_free).collect();
        command = command.mut_subcommands(|sub| {
            if sub.get_name() == name { sub.aliases(free.clone()) } else { sub }
        });
    }
    command
}

/// Returns the command line with the grouped help and the [`ALIASES`].
pub(crate) fn command() -> clap::Command {
    let command = Cli::command().mut_subcommands(with_aliases);
    let style = Styles::default();
    let (header, literal) = (style.get_header(), style.get_literal());
    let mut template = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (group, names) in GROUPS {
        let _ = write!(template, "\n{header}{group}:{header:#}\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about =
                about.map_or_else(|| "Show the help of a command".into(), ToString::to_string);
            let _ = writeln!(template, "  {literal}{name:<13}{literal:#}  {about}");
        }
    }
    let _ = write!(template, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    command.help_template(template)
}

/// Parses the command line of this process.
///
/// # Errors
///
/// Returns an error if the arguments are wrong, and also if they ask for the help or the version.
pub(crate) fn parse() -> clap::error::Result<Cli> {
    let matches = command().try_get_matches();
    let mut matches = matches.map_err(|error| with_tips(error, std::env::args_os()))?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command()))
}

/// Adds tips to an error about an unknown command: up to [`MAX_TIPS`] commands that people may mean by its name, or all
/// commands of the group in which it was looked for. Removes the proposals of clap that are hidden commands or aliases.
fn with_tips(mut error: clap::Error, arguments: impl Iterator<Item = OsString>) -> clap::Error {
    let is_argument = error.kind() == ErrorKind::UnknownArgument;
    let kind = if is_argument { ContextKind::InvalidArg } else { ContextKind::InvalidSubcommand };
    let Some(ContextValue::String(unknown)) = error.get(kind).cloned() else { return error };
    let root = command();
    let (mut group, mut path) = (&root, String::from("mgp"));
    let mut arguments = arguments.skip(1);
    while let Some(argument) = arguments.next().filter(|argument| *argument != *unknown) {
        if argument == "--state" {
            // Skip the folder, because it can have the name of a command.
            arguments.next();
        } else if let Some(below) = group.find_subcommand(&argument) {
            group = below;
            let _ = write!(path, " {}", below.get_name());
        }
    }
    let tip = if is_argument {
        let is_list = matches!(&*unknown, "ls" | "list" | "show");
        let is_alone = !group.has_subcommands() && group.get_positionals().next().is_none();
        (is_list && is_alone).then(|| format!("run `{path}` without `{unknown}`"))
    } else if path == "mgp" {
        let others = OTHER_WORDS.iter().filter(|(word, _)| *word == unknown);
        let found = root.get_subcommands().filter_map(|group| {
            let command = group.find_subcommand(&unknown)?;
            Some(format!("`mgp {} {}`", group.get_name(), command.get_name()))
        });
        let found = others.map(|(_, name)| format!("`mgp {name}`")).chain(found);
        let found: Vec<_> = found.take(MAX_TIPS).collect();
        (!found.is_empty()).then(|| format!("did you mean {}?", found.join(" or ")))
    } else {
        let names = visible(group).collect::<Vec<_>>().join(", ");
        Some(format!("the commands of `{path}` are {names}"))
    };
    if let Some(ContextValue::Strings(similar)) = error.remove(ContextKind::SuggestedSubcommand) {
        let is_shown = |name: &String| visible(group).any(|shown| shown == *name);
        let similar: Vec<_> = similar.into_iter().filter(is_shown).collect();
        if !similar.is_empty() && (tip.is_none() || path != "mgp") {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(similar));
        }
    }
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

/// Returns the names of the commands below a command, without those that its help hides.
fn visible(command: &clap::Command) -> impl Iterator<Item = &str> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(clap::Command::get_name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_name_from_another_program_means_the_same_command() {
        command().debug_assert();
        for (typed, group, name) in [
            ("secrets list", "secrets", "ls"),
            ("keys delete x", "keys", "revoke"),
            ("access list", "access", "matrix"),
            ("servers show x", "servers", "ls"),
            ("tools describe x", "tools", "show"),
            ("transactions get x", "transactions", "show"),
        ] {
            let words = ["mgp"].into_iter().chain(typed.split(' '));
            let matches = command().try_get_matches_from(words).unwrap();
            let (found, below) = matches.subcommand().unwrap();
            assert_eq!((found, below.subcommand_name()), (group, Some(name)), "{typed}");
        }
    }

    #[test]
    fn an_error_about_an_unknown_command_names_the_right_ones() {
        let text = |typed: &str| {
            let words: Vec<OsString> =
                ["mgp"].into_iter().chain(typed.split(' ')).map(Into::into).collect();
            let error = command().try_get_matches_from(&words).unwrap_err();
            with_tips(error, words.into_iter()).to_string()
        };
        let approve = text("approve");
        assert!(
            approve.contains("`mgp tools approve`") && approve.contains("`mgp approvals approve`"),
            "{approve}"
        );
        assert!(!approve.contains("similar"), "{approve}");
        assert!(text("restart").contains("did you mean `mgp servers restart`?"));
        assert!(text("kill").contains("did you mean `mgp stop`?"));
        assert!(text("config").contains("did you mean `mgp init` or `mgp doctor`?"));
        for typed in ["webhooks ls", "webhook ls --json"] {
            assert!(text(typed).contains("run `mgp webhooks` without `ls`"), "{typed}");
        }
        assert!(!text("stop files").contains("without"));
        let access = text("access delegate a b");
        let known = "the commands of `mgp access` are grant, revoke, query, matrix";
        assert!(access.contains(known), "{access}");
        assert!(text("--json server lst").contains("commands of `mgp servers` are ls, "));
        for typed in ["--state keys server lst", "--state lst server lst"] {
            assert!(text(typed).contains("commands of `mgp servers` are ls, "), "{typed}");
        }
        for hidden in ["compl", "tenan"] {
            let text = text(hidden);
            assert!(!text.contains("__complete") && !text.contains("'tenant'"), "{text}");
        }
    }

    #[test]
    fn the_help_of_a_command_begins_with_its_own_options() {
        let error = command().try_get_matches_from(["mgp", "access", "grant", "-h"]).unwrap_err();
        let help = error.to_string();
        let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
        assert!(at("\nGlobal options:") < at("--state <DIR>"), "{help}");
        assert!(at("--new-agent") < at("\nGlobal options:"), "{help}");
    }

    #[test]
    fn each_command_is_in_one_group_and_fits_into_a_line() {
        let mut command = command();
        let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let mut names: Vec<_> = visible.map(|sub| sub.get_name().to_owned()).collect();
        names.push("help".to_owned());
        let grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(grouped.len(), names.len());
        assert_eq!(
            grouped.into_iter().collect::<BTreeSet<_>>(),
            names.iter().map(String::as_str).collect()
        );
        let help = command.render_help().to_string();
        for line in help.lines().take_while(|line| !line.starts_with("Options:")) {
            assert!(line.len() <= 100, "{line}");
        }
        for name in names {
            assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
        }
        assert!(help.contains("`${keyring:NAME}`") && help.contains("--state <DIR>"), "{help}");
    }
}
