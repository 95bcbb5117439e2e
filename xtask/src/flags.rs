//! Parses the command line of `cargo xtask`: a table lists the commands with their flags.

use crate::run::{Context, Failure, Outcome};
use std::{collections::BTreeMap, fmt::Write};

#[derive(Debug)]
pub(crate) struct Command {
    /// The name of the command on the command line.
    pub(crate) name: &'static str,
    /// The arguments of the command, as its help shows them: `[--FLAG]` is a flag without a value, `[--FLAG VALUE]` a
    /// flag with a value.
    pub(crate) usage: &'static str,
    /// One line of help about the command.
    pub(crate) help: &'static str,
    /// The function that runs the command.
    pub(crate) run: fn(&Flags) -> Outcome,
}

impl Command {
    /// Returns whether a flag takes a value, or `None` if the command does not have this flag.
    fn takes_value(&self, flag: &str) -> Option<bool> {
        let words: Vec<&str> = self.usage.split(' ').collect();
        let at = words.iter().position(|word| {
            let names = word.trim_start_matches('[').trim_end_matches(']');
            names != "--" && names.split('|').any(|name| name == flag)
        })?;
        let is_followed = words.get(at + 1).is_some_and(|next| !next.starts_with('['));
        Some(is_followed && !words[at].ends_with(']'))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Flags {
    words: Vec<String>,
    given: BTreeMap<String, String>,
    rest: Vec<String>,
}

impl Flags {
    /// Parses the arguments of `command`; fails on unknown flags.
    pub(crate) fn parse(
        command: &Command,
        mut arguments: impl Iterator<Item = String>,
    ) -> Outcome<Self> {
        let mut flags = Self::default();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                flags.rest = arguments.collect();
                break;
            }
            if !argument.starts_with('-') {
                flags.words.push(argument);
                continue;
            }
            let value = match command.takes_value(&argument) {
                Some(true) => arguments.next().context(format!("the value of {argument}"))?,
                Some(false) => String::new(),
                None => {
                    return Err(Failure::new(format!("{} does not know {argument}", command.name)));
                }
            };
            flags.given.insert(argument, value);
        }
        Ok(flags)
    }

    /// Creates flags, so that one command can call another.
    pub(crate) fn of(switches: &[&str]) -> Self {
        let given = switches.iter().map(|switch| ((*switch).to_owned(), String::new()));
        Self { given: given.collect(), ..Self::default() }
    }

    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns the arguments after `--`.
    pub(crate) fn rest(&self) -> &[String] {
        &self.rest
    }

    pub(crate) fn has(&self, switch: &str) -> bool {
        self.given.contains_key(switch)
    }

    /// Returns the value of an option, if it was given.
    pub(crate) fn value(&self, option: &str) -> Option<&str> {
        self.given.get(option).map(String::as_str)
    }
}

/// Returns the help text of all commands.
pub(crate) fn help(commands: &[Command]) -> String {
    let mut text = "cargo xtask COMMAND\n\n".to_owned();
    for command in commands {
        // Ignores the results of `write!`, because writing to a string cannot fail.
        let _ = writeln!(text, "  {:11} {}", command.name, command.help);
        if !command.usage.is_empty() {
            let _ = writeln!(text, "              {}", command.usage);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: Command = Command {
        name: "bake",
        usage: "BREAD [--hot|--warm [--for N]] [-- MORE]",
        help: "bakes",
        run: |_| Ok(()),
    };

    fn parse(arguments: &[&str]) -> Outcome<Flags> {
        Flags::parse(&COMMAND, arguments.iter().map(ToString::to_string))
    }

    #[test]
    fn words_switches_options_and_the_rest_are_separated() {
        let flags = parse(&["bread", "--hot", "--for", "3", "--", "--cold"]).unwrap();
        assert_eq!(flags.words(), ["bread"]);
        assert!(flags.has("--hot"));
        assert_eq!(flags.value("--for"), Some("3"));
        assert_eq!(flags.rest(), ["--cold"]);
    }

    #[test]
    fn unknown_flags_and_missing_values_are_refused() {
        for refused in ["--cold", "--for", "-", "[-"] {
            assert_eq!(parse(&[refused]).is_err(), refused.starts_with('-'), "{refused}");
        }
        assert!(parse(&["--warm"]).unwrap().has("--warm"));
    }

    #[test]
    fn the_help_names_each_command() {
        assert!(help(&[COMMAND]).contains("bake"));
    }
}
