//! `mgp`: the kernel and all its commands.

mod args;
mod backend;
mod cli;
mod commands;
mod config_file;
mod control;
mod demo;
mod example;
mod exit;
mod hosts;
mod launch;
mod lock;
mod log;
mod offline_audit;
mod operator;
mod output;
mod peer;
mod probes;
mod prompt;
mod ready_file;
#[cfg(test)]
mod reference;
mod replace_file;
mod serve;
mod served_kernel;
#[cfg(unix)]
mod shim;
mod signals;
#[cfg(unix)]
mod socket;
mod socket_hello;
mod state;
mod time_args;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};
use mgp_transport::Keeper;

use args::{Global, SharedKernel};
use cli::{Cli, Command};
use exit::{CliResult, Failure};

/// Threads for blocking work: reading files, running commands of configurations, starting servers.
const MAX_BLOCKING_THREADS: usize = 16;

const BLOCKING_THREAD_TTL: Duration = Duration::from_secs(1);

/// The argument that makes this program the keeper of a server process.
const KEEPER: &str = "__keeper";

fn main() -> ExitCode {
    // First of all: one keeper runs for each server, so it must stay small.
    if let Some(exit_code) = Keeper::run(KEEPER) {
        return exit_code;
    }
    let Cli { global, command } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::print_usage(&error),
    };
    exit::finish(&global, start(&global, command))
}

fn start(global: &Global, command: Command) -> CliResult {
    match command {
        Command::Serve(serve) if serve.no_auth && serve.http.is_none() => {
            Err(Failure::usage("--no-auth requires --http; a stdio client is always known"))
        }
        Command::Kernel(args) => run_shared_kernel(global, args),
        // A shim needs no runtime.
        #[cfg(unix)]
        Command::Serve(serve) if serve.stdio && !serve.standalone => {
            log::init_stderr(global.verbose);
            shim::run(global, &serve)
        }
        command => {
            log::init_stderr(global.verbose);
            block_on(dispatch(global, command))
        }
    }
}

async fn dispatch(global: &Global, command: Command) -> CliResult {
    use commands::{
        access, approvals, audit, completions, connect, doctor, events, import, index, init,
        kernel, keys, permissions, secrets, servers, tools, trust, webhooks, why,
    };
    match command {
        Command::Kernel(_) => Ok(()),
        Command::Serve(serve) => serve::run(global, serve).await,
        Command::Demo => demo::run(global).await,
        Command::Example { name } => example::run(&name).await,
        Command::Init(init) => init::run(global, &init),
        Command::Import(import) => import::run(global, &import).await,
        Command::Connect(connect) => connect::run(global, &connect).await,
        Command::Disconnect(disconnect) => connect::disconnect::run(global, &disconnect),
        Command::Trust(arguments) => trust::run(global, &arguments).await,
        Command::Doctor(doctor) => doctor::run(global, &doctor).await,
        Command::Status => kernel::status(global).await,
        Command::Stop(stop) => kernel::stop(global, &stop).await,
        Command::Servers(servers) => servers::run(global, &servers).await,
        Command::Tools(tools) => tools::run(global, &tools).await,
        Command::Access(access) => access::run(global, &access).await,
        Command::Permissions(permissions) => permissions::run(global, &permissions).await,
        Command::Keys(keys) => keys::run(global, &keys).await,
        Command::Secrets(secrets) => secrets::run(global, &secrets).await,
        Command::Approvals(approvals) => approvals::run(global, &approvals).await,
        Command::Operator(operator) => commands::operator::run(global, &operator).await,
        Command::Audit(audit) => audit::run(global, &audit).await,
        Command::Events(events) => events::run(global, &events).await,
        Command::Webhooks => webhooks::run(global).await,
        Command::Sessions(sessions) => kernel::sessions(global, &sessions).await,
        Command::Index(index) => index::run(global, &index).await,
        Command::Why(why) => why::run(global, &why).await,
        Command::Completions(completions) => completions::run(&completions, &mut Cli::command()),
    }
}

/// Runs the kernel that hosts share; the process that started it reads one line of report.
fn run_shared_kernel(global: &Global, args: SharedKernel) -> CliResult {
    // Signals to the group of the host or of its terminal must not end the kernel.
    #[cfg(unix)]
    let _ = rustix::process::setsid();
    let result = state::create_folder(global).and_then(|folder| {
        log::init_file(&folder, global.verbose);
        block_on(serve::run_shared(global, args, launch::Reporter::new()))
    });
    let Err(failure) = result else { return Ok(()) };
    launch::report_failure(&failure);
    // Another host has started a kernel first.
    if failure.is_state_in_use() { Ok(()) } else { Err(failure) }
}

fn block_on(work: impl Future<Output = CliResult>) -> CliResult {
    Keeper::this_program(KEEPER).install();
    // One thread: a kernel mostly waits for others, and each thread costs memory and hand-overs.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .thread_keep_alive(BLOCKING_THREAD_TTL)
        .build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("no runtime: {error}")))?;
    let result = runtime.block_on(work);
    // Does not wait for threads that still block, e.g. in a hanging command of a configuration.
    runtime.shutdown_background();
    result
}
