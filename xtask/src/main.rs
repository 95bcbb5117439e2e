//! The workspace's own commands, which developers and CI run as `cargo xtask COMMAND`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program prints")]

mod accept;
mod api;
mod bench;
mod child;
mod ci;
mod conformance;
mod corpus;
mod dice;
mod dist;
mod exchange;
mod flags;
mod interop;
mod packages;
mod publish;
mod run;
mod schema;
mod serving;
mod site;
mod spec;
mod tidy;

use flags::{Command, Flags};
use std::process::ExitCode;

/// All commands, in the order in which the help lists them.
const COMMANDS: &[Command] = &[
    Command {
        name: "ci",
        usage: "[--strict] [--only STEP]",
        help: "everything a change must pass",
        run: ci::ci,
    },
    Command { name: "tidy", usage: "", help: "check the rules of the workspace", run: tidy::tidy },
    Command {
        name: "api",
        usage: "[--write]",
        help: "compare the public items of each crate with docs/api, or write them there",
        run: api::api,
    },
    Command {
        name: "schema",
        usage: "[--check]",
        help: "write docs/schema, docs/methods.md and docs/config.md",
        run: schema::schema,
    },
    Command {
        name: "spec",
        usage: "DIR",
        help: "read a folder of example messages",
        run: spec::spec,
    },
    Command {
        name: "corpus",
        usage: "stdio|http FILE [-- SERVER CMD]",
        help: "send labelled broken input, and judge the reaction",
        run: corpus::corpus,
    },
    Command {
        name: "bench",
        usage: "stdio|http|toolindex|kernel [--json] [--quick|--counted] [--bin PROGRAM] [--write-order] [--free] [--strict] [--data DIR] [--markdown FILE] [-- SERVER CMD]",
        help: "measure against rmcp and a bare server, or the index and the kernel against their bounds",
        run: bench::bench,
    },
    Command {
        name: "interop",
        usage: "[--strict] [--json] [CELL…]",
        help: "run conversations with real peers, on stdio and over HTTP, in both directions",
        run: interop::interop,
    },
    Command {
        name: "conformance",
        usage: "[--server|--client|--through-kernel [--peer ours|ts|python]] [--only SCENARIO] [--strict]",
        help: "run the official suite of MCP against our server, our client, or a kernel before a server",
        run: conformance::conformance,
    },
    Command {
        name: "relay",
        usage: "FILE -- CMD",
        help: "pass messages between a client and a server, and write both directions to a file",
        run: interop::relay,
    },
    Command {
        name: "dist",
        usage: "[--pgo] [--bin PROGRAM] [--out DIR] [--url URL]",
        help: "pack the program as archive, wheel, npm and Debian packages, with checksums and a bill of materials",
        run: dist::dist,
    },
    Command {
        name: "site",
        usage: "[--check] [--out DIR]",
        help: "write the documents as a site with navigation and search, or only check their links",
        run: site::site,
    },
    Command {
        name: "accept",
        usage: "[NAME…] [--strict] [--data DIR]",
        help: "run acceptance checks, or list them",
        run: accept::accept,
    },
];

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
