//! The workspace's own commands: `cargo xtask COMMAND`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program prints")]

mod flags;
mod run;
mod tidy;

use flags::{Command, Flags};
use std::process::ExitCode;

/// Every command, in the order of the help.
const COMMANDS: &[Command] = &[Command {
    name: "tidy",
    usage: "",
    help: "check the rules of the house",
    switches: &[],
    options: &[],
    run: tidy::tidy,
}];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    if matches!(&*name, "help" | "--help" | "-h") {
        print!("{}", flags::help(COMMANDS));
        return ExitCode::SUCCESS;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprint!("unknown command `{name}`\n\n{}", flags::help(COMMANDS));
        return ExitCode::from(2);
    };
    let flags = match Flags::parse(command, arguments) {
        Ok(flags) => flags,
        Err(failure) => {
            eprintln!("{failure}\nusage: cargo xtask {} {}", command.name, command.usage);
            return ExitCode::from(2);
        }
    };
    match (command.run)(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{} failed: {failure}", command.name);
            ExitCode::FAILURE
        }
    }
}
