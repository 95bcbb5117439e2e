//! The `mgp` program: runs the kernel, or one of the commands that control it.

mod args;
mod backend;
mod cli;
mod commands;
mod config_file;
mod console;
mod control;
mod demo;
mod escape;
mod example;
mod exit;
#[cfg(target_os = "linux")]
mod first_process;
mod folder_watch;
#[cfg(test)]
mod guides;
mod help;
mod hosts;
mod http_access;
mod launch;
mod lock;
mod log;
mod offline_audit;
mod operator;
mod output;
mod peer;
mod pipe;
mod probes;
mod prompt;
mod ready_file;
mod redaction;
#[cfg(test)]
mod reference;
mod refused_host;
mod replace_file;
mod serve;
mod served_kernel;
mod shim;
mod signals;
mod socket;
mod socket_hello;
mod state;
mod state_option;
mod take_over;
mod this_program;
mod time_args;
mod unread_files;
mod version;

use std::process::ExitCode;
use std::time::Duration;

use mgp_transport::Keeper;

use args::{Global, SharedKernel};
use cli::{Cli, Command};
use exit::{CliResult, Failure};

/// Maximum number of threads for blocking work, e.g. reading files, running commands of configurations, starting
/// servers.
const MAX_BLOCKING_THREADS: usize = 16;

/// The time that an idle thread for blocking work stays alive.
const BLOCKING_THREAD_TTL: Duration = Duration::from_secs(1);

/// First command-line argument of a keeper: a copy of this program that watches over one server process.
const KEEPER: &str = "__keeper";

// On Linux, the crate `mimalloc` replaces `malloc` itself. As Rust's global allocator it would take 4,000 more
// instructions for a call, because Rust passes an alignment with each allocation.
#[cfg(target_os = "linux")]
use mimalloc as _;

#[cfg(not(target_os = "linux"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Let keepers have huge pages again: the servers that they start inherit the setting, which the kernel turns off
    // for itself below.
    allow_huge_pages(true);
    // Check for a keeper before anything else is set up, because a keeper runs for each server process and must use
    // little memory.
    if let Some(exit_code) = Keeper::run(KEEPER) {
        return exit_code;
    }
    allow_huge_pages(false);
    exit::explain_panics();
    let Cli { global, command } = match help::parse() {
        Ok(cli) => cli,
        Err(error) => return exit::print_usage(&error),
    };
    let global = global.without_empty_state();
    let usual = state::folder_from_environment().or_else(state::folder_in_home);
    state_option::record(global.state.as_deref(), usual.as_deref());
    exit::finish(&global, start(&global, command))
}

/// Allows or forbids transparent huge pages in this process and the processes that it starts. The allocator forbids
/// them at the start, because a kernel with huge pages takes 20 MiB more.
fn allow_huge_pages(is_allowed: bool) {
    // Ignore a failure: it costs only a little more memory or time.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(!is_allowed);
    #[cfg(not(target_os = "linux"))]
    let _ = is_allowed;
}

fn start(global: &Global, command: Command) -> CliResult {
    if let Command::Serve(serve) = &command {
        log::set_format(serve.log_format).map_err(Failure::usage)?;
        #[cfg(target_os = "linux")]
        if !serve.stdio || serve.standalone {
            first_process::run();
        }
    }
    match command {
        Command::Serve(serve) if serve.no_auth && serve.http.is_none() => {
            Err(Failure::usage("--no-auth requires --http; a stdio client is always known"))
        }
        Command::Serve(serve) if serve.locked && serve.stdio && !serve.standalone => {
            Err(Failure::usage(
                "--locked requires --http or --standalone; a shared kernel serves hosts without it too",
            ))
        }
        Command::Kernel(args) => run_shared_kernel(global, args),
        // Run the shim without an async runtime: it uses two plain threads, so that it needs little memory.
        Command::Serve(serve) if serve.stdio && !serve.standalone => {
            log::init_stderr(log::level(global.verbose));
            shim::run(global, &serve)
        }
        Command::TryHost(host) => run_async(commands::setup::try_host::run(&host)),
        command => {
            // Log only errors of the demo, which causes refusals and crashes on purpose: the log would contain warnings
            // about them.
            let is_demo = matches!(command, Command::Demo) && global.verbose == 0;
            log::init_stderr(if is_demo { "error" } else { log::level(global.verbose) });
            // Use no keeper for `mgp validate`: it may judge a kernel, and a kernel does not start below a keeper.
            let has_keeper = !matches!(command, Command::Validate(_));
            let work = dispatch(global, command);
            let result = if has_keeper { block_on(work) } else { run_async(work) };
            result.map_err(|failure| control::explain_stop(global, failure))
        }
    }
}

async fn dispatch(global: &Global, command: Command) -> CliResult {
    use commands::{
        access, approvals, audit, callbacks, complete, completions, connect, contract, doctor,
        events, guard, import, index, init, kernel, keys, lock, logs, man, notify, openapi,
        permissions, report, secrets, servers, service, setup, subscriptions, tenants, tools,
        transactions, trust, validate, webhooks, why,
    };
    match command {
        Command::Kernel(_) | Command::TryHost(_) => Ok(()),
        Command::Serve(serve) => serve::run(global, serve).await,
        Command::Demo => demo::run(global).await,
        Command::Example { name } => example::run(&name).await,
        Command::Init(init) => init::run(global, &init).await,
        Command::Import(import) => import::run(global, &import).await,
        Command::Connect(connect) => connect::run(global, &connect).await,
        Command::Disconnect(disconnect) => connect::disconnect::run(global, &disconnect).await,
        Command::Setup(setup) => setup::run(global, &setup).await,
        Command::Undo(undo) => connect::undo::run(global, &undo).await,
        Command::Trust(arguments) => trust::run(global, &arguments).await,
        Command::Doctor(doctor) => doctor::run(global, &doctor).await,
        Command::Status => kernel::status(global).await,
        Command::Reload => kernel::reload(global).await,
        Command::Stop(stop) => kernel::stop(global, &stop).await,
        Command::Logs(logs) => logs::run(global, &logs).await,
        Command::Report(report) => report::run(global, &report).await,
        Command::Service(service) => service::run(global, &service).await,
        Command::Servers(servers) => servers::run(global, &servers).await,
        Command::Tools(tools) => tools::run(global, &tools).await,
        Command::Access(access) => access::run(global, &access).await,
        Command::Permissions(permissions) => permissions::run(global, &permissions).await,
        Command::Keys(keys) => keys::run(global, &keys).await,
        Command::Tenants(tenants) => tenants::run(global, &tenants).await,
        Command::Secrets(secrets) => secrets::run(global, &secrets).await,
        Command::Approvals(approvals) => approvals::run(global, &approvals).await,
        Command::Console(arguments) => console::run(global, &arguments).await,
        Command::Callbacks(callbacks) => callbacks::run(global, &callbacks).await,
        Command::Transactions(transactions) => transactions::run(global, &transactions).await,
        Command::Operator(operator) => commands::operator::run(global, &operator).await,
        Command::Audit(audit) => audit::run(global, &audit).await,
        Command::Events(events) => events::run(global, &events).await,
        Command::Webhooks => webhooks::run(global).await,
        Command::Subscriptions(arguments) => subscriptions::run(global, &arguments).await,
        Command::Notify(notify) => notify::run(global, &notify).await,
        Command::Sessions(sessions) => kernel::sessions(global, &sessions).await,
        Command::Index(index) => index::run(global, &index).await,
        Command::Why(why) => why::run(global, &why).await,
        Command::Contract(contract) => contract::run(global, &contract).await,
        Command::Lock(lock) => lock::run(global, &lock).await,
        Command::OpenApi(arguments) => openapi::run(global, &arguments).await,
        Command::Guard(arguments) => guard::run(&arguments),
        Command::Validate(validate) => validate::run(global, validate).await,
        Command::Version => version::print(global),
        Command::Man(arguments) => man::run(global, &arguments, help::command()),
        Command::Complete(words) => complete::run(global, &words, help::command()).await,
        Command::Completions(completions) => completions::run(&completions, &help::command()),
    }
}

/// Runs the kernel that several hosts share, and reports the start in one line to the process that launched it.
fn run_shared_kernel(global: &Global, args: SharedKernel) -> CliResult {
    // Begin a new session, so that signals to the process group of the host or of its terminal do not end the kernel.
    #[cfg(unix)]
    let _ = rustix::process::setsid();
    let is_service = args.service;
    let result = state::create_folder(global).and_then(|folder| {
        log::init_file(&folder, global.verbose);
        block_on(serve::run_shared(global, args))
    });
    let Err(failure) = result else { return Ok(()) };
    launch::report_failure(&failure);
    // A kernel that another host started holds the state folder; the shim uses that kernel, so this is not an error. A
    // service must fail, so that it is started again when that kernel has ended.
    if failure.is_state_in_use() && !is_service { Ok(()) } else { Err(failure) }
}

fn block_on(work: impl Future<Output = CliResult>) -> CliResult {
    Keeper::this_program(KEEPER).install();
    run_async(work)
}

fn run_async(work: impl Future<Output = CliResult>) -> CliResult {
    // Use a single thread, because a kernel mostly waits for I/O, and each further thread costs memory and context
    // switches.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .thread_keep_alive(BLOCKING_THREAD_TTL)
        .build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("no runtime: {error}")))?;
    let result = runtime.block_on(work);
    // Do not wait for threads with blocking work, because a command in the configuration may hang.
    runtime.shutdown_background();
    // Close the databases only now, after the end of all tasks: dropped tasks may have stored their last changes.
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() {
        runtime.block_on(state::close_databases());
    }
    result
}
