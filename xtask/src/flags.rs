//! Parses the command line of `cargo xtask`: a table lists the commands with their flags.

use crate::run::{Context, Failure, Outcome};
use std::{collections::BTreeMap, fmt::Write};

#[derive(Debug)]
pub(crate) struct Command {
    /// The name of the command on the command line.
    pub(crate) name: &'static str,
    /// The arguments of the command, as its help shows them.
    pub(crate) usage: &'static str,
    /// One line of help about the command.
    pub(crate) help: &'static str,
    /// The flags of the command without a value.
    pub(crate) switches: &'static [&'static str],
    /// The flags of the command with a value.
    pub(crate) options: &'static [&'static str],
    /// The function that runs the command.
    pub(crate) run: fn(&Flags) -> Outcome,
}

/// The parsed arguments of a command.
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
            match argument.as_str() {
                switch if command.switches.contains(&switch) => {
                    flags.given.insert(argument, String::new());
                }
                option if command.options.contains(&option) => {
                    let value = arguments.next().context(format!("the value of {argument}"))?;
                    flags.given.insert(argument, value);
                }
                unknown if unknown.starts_with('-') => {
                    return Err(Failure::new(format!("{} does not know {unknown}", command.name)));
                }
                _ => flags.words.push(argument),
            }
        }
        Ok(flags)
    }

    /// Creates flags, so that one command can call another.
    pub(crate) fn of(switches: &[&str]) -> Self {
        let given = switches.iter().map(|switch| ((*switch).to_owned(), String::new()));
        Self { given: given.collect(), ..Self::default() }
    }

    /// Returns the positional arguments.
    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns the arguments after `--`.
    pub(crate) fn rest(&self) -> &[String] {
        &self.rest
    }

    /// Returns whether a switch was given.
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
        usage: "",
        help: "bakes",
        switches: &["--hot"],
        options: &["--for"],
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
        assert!(parse(&["--cold"]).is_err());
        assert!(parse(&["--for"]).is_err());
    }

    #[test]
    fn the_help_names_each_command() {
        assert!(help(&[COMMAND]).contains("bake"));
    }
}
