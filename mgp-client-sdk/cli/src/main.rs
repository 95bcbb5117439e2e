//! `mgp`: the kernel, and everything that is done with it, from a command line.
//!
//! Applies to: both.

mod ask;
mod attach;
mod books;
mod cli;
mod commands;
mod control;
mod demo;
mod example;
mod exit;
mod hosts;
mod launch;
mod lock;
mod log;
mod output;
mod own_file;
mod places;
mod preface;
mod ready;
mod record;
mod serve;
#[cfg(unix)]
mod shim;
mod signals;
#[cfg(unix)]
mod socket;
mod span;
mod state;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;

use cli::{Cli, Command};
use exit::{Ended, Failure};
use mgp_transport::Keeper;

/// How many threads may block at once: files are read there, commands of configurations run, servers are started.
const BLOCKING: usize = 16;

/// What a process is started with that keeps a server.
const KEEPER: &str = "__keeper";

fn main() -> ExitCode {
    // Before all else: there is one for each server, and it is to stay small.
    if let Some(ended) = Keeper::run(KEEPER) {
        return ended;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error),
    };
    exit::code(start(cli))
}

fn start(cli: Cli) -> Ended {
    match &cli.command {
        Command::Serve(serve) if serve.no_auth && serve.http.is_none() => {
            return Err(Failure::usage("--no-auth is for --http; whoever starts --stdio is known"));
        }
        Command::Kernel(_) => return detached(cli),
        // A shim needs no runtime.
        #[cfg(unix)]
        Command::Serve(serve) if serve.stdio && !serve.standalone => {
            log::begin(&cli);
            return shim::run(&cli.global, serve);
        }
        _ => {}
    }
    log::begin(&cli);
    on_a_runtime(run(cli))
}

async fn run(cli: Cli) -> Ended {
    match cli.command {
        Command::Serve(serve) => serve::run(&cli.global, serve).await,
        // It has a log of its own, and is started elsewhere.
        Command::Kernel(_) => Ok(()),
        command => commands::run(&cli.global, &command).await,
    }
}

/// The kernel that hosts share, on its own: whoever started it hears one line of it.
fn detached(cli: Cli) -> Ended {
    // What ends the host, or the terminal it was started from, is not to end this.
    #[cfg(unix)]
    let _ = rustix::process::setsid();
    let ended = state::made(&cli.global).and_then(|folder| {
        log::begin_in(&folder, &cli);
        let Command::Kernel(kernel) = cli.command else { return Ok(()) };
        on_a_runtime(serve::detached(&cli.global, kernel, launch::Report::new()))
    });
    match ended {
        Err(failure) => {
            launch::failed(&failure);
            // That somebody else was quicker is no news.
            if failure.is_taken() { Ok(()) } else { Err(failure) }
        }
        Ok(()) => Ok(()),
    }
}

fn on_a_runtime(work: impl Future<Output = Ended>) -> Ended {
    Keeper::this_program(KEEPER).install();
    // One thread: a kernel waits for others most of the time, and each thread costs memory and hand-overs.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Files and indices are worked on by others; few of them, and not for longer than there is work.
        .max_blocking_threads(BLOCKING)
        .thread_keep_alive(Duration::from_secs(1))
        .build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("no runtime: {error}")))?;
    let ended = runtime.block_on(work);
    // What still blocks a thread, as a command in a configuration that hangs, keeps nobody waiting.
    runtime.shutdown_background();
    ended
}
