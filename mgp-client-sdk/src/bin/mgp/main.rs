//! `mgp`: the kernel, and everything that is done with it, from a command line.
//!
//! Applies to: both.

mod ask;
mod books;
mod cli;
mod commands;
mod control;
mod exit;
mod hosts;
mod log;
mod output;
mod own_file;
mod places;
mod record;
mod serve;
mod span;
mod state;

use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Command};
use exit::Ended;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error),
    };
    log::begin(&cli);
    // One thread: a kernel waits for others most of the time, and each thread costs memory and hand-overs.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(run(cli)),
        Err(error) => Err(exit::Failure::failed(format!("no runtime: {error}"))),
    };
    exit::code(ended)
}

async fn run(cli: Cli) -> Ended {
    match cli.command {
        Command::Serve(serve) => serve::run(&cli.global, serve).await,
        command => commands::run(&cli.global, &command).await,
    }
}
