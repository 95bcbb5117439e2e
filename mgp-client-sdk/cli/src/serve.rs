//! Runs a kernel in this process: over HTTP, over stdio for a single host, or shared by many hosts over the local
//! socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_contract::LockFile;
use mgp_discovery::{Sources, Trust};
use mgp_kernel::Kernel;
use mgp_lifecycle::Drain;
use mgp_server_sdk::{BoundServer, ServeError, Server};
use mgp_transport::take_stdio;
use mgp_types::mgp::ShutdownReason;
use mgp_types::service::Principal;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::args::{ConfigArg, Global, Serve, SharedKernel};
use crate::commands;
use crate::commands::known_names::unknown_limited_agents;
use crate::console::{self, ServedConsole};
use crate::exit::{CliResult, Failure};
use crate::folder_watch::{folder_lost, lost_text};
use crate::http_access;
use crate::launch;
use crate::lock::{self, Lock, LockAttempt};
use crate::operator::OperatorGate;
use crate::output::print_stderr;
use crate::probes;
use crate::ready_file::{ReadyFile, ReadyLine};
use crate::refused_host;
use crate::served_kernel::{Entrance, ServedClient, ServedKernel};
use crate::signals::Signals;
use crate::socket::{self, LocalSocket};
use crate::socket_hello::{self, DEFAULT_AGENT, HOSTS, HelloReply, lossy};
use crate::take_over::take_over;
use crate::{state, state_option};

/// The time that connections get to close after all requests are answered.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The time a shared kernel waits for a first client, normally the shim that started it.
const FIRST_HOST_TIMEOUT: Duration = Duration::from_secs(10);

/// The time a shared kernel waits for the lock of the state folder while the previous kernel stops. It is much shorter
/// than `launch::START_TIMEOUT`: within that time the kernel must also report that it did not get the lock, even on a
/// busy machine.
const KERNEL_LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The time any other kernel waits for a command that holds the lock of the state folder.
const COMMAND_LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// The time for which a killed kernel may still accept connections, until the system has closed its files.
const ENDING_TIME: Duration = Duration::from_millis(200);

/// The clients that a kernel serves in addition to the clients of its local socket.
enum Mode {
    /// Serves one agent over the standard streams.
    Stdio { agent: String },
    /// Serves clients over HTTP.
    Http(HttpOptions),
    /// Serves only the clients of the local socket; the kernel stops when it has had no client for `linger`.
    Shared { linger: Duration, is_service: bool },
}

impl Mode {
    /// Returns the HTTP address of this kernel, and whether its callers need no key.
    fn http(&self) -> Option<(&str, bool)> {
        let Self::Http(HttpOptions { address, access, .. }) = self else { return None };
        Some((address.as_str(), matches!(access, HttpAccess::Anonymous(_))))
    }
}

struct HttpOptions {
    address: String,
    hosts: Vec<String>,
    origins: Vec<String>,
    access: HttpAccess,
    console: Option<ConsoleOptions>,
}

/// The options of the console: the state folder and the configuration whose contents its pages show.
struct ConsoleOptions {
    global: Global,
    config: ConfigArg,
}

enum HttpAccess {
    /// Each caller must send an API key, or an access token if the configuration accepts these.
    Keys,
    /// Callers need no key, and all act as this agent.
    Anonymous(String),
}

struct Options {
    folder: PathBuf,
    sources: Sources,
    mode: Mode,
    ready_file: Option<PathBuf>,
    lock_file: Option<(PathBuf, LockFile)>,
}

/// The event that stops a kernel.
enum StopCause {
    Signal(i32),
    HostDisconnected,
    Idle,
    Requested {
        timeout: Option<Duration>,
    },
    /// The state folder was removed or replaced, so commands and new hosts cannot reach this kernel.
    FolderLost,
}

/// A running kernel, with the socket and the tasks that serve its clients.
struct Running {
    served: ServedKernel,
    socket: LocalSocket,
    connections: JoinSet<()>,
    http: Option<JoinHandle<()>>,
    stdio: Option<JoinHandle<()>>,
    linger: Option<Duration>,
    hello: HelloReply,
    ready_file: Option<ReadyFile>,
}

/// Runs `mgp serve` with a kernel in this process.
pub(crate) async fn run(global: &Global, args: Serve) -> CliResult {
    let is_stdio = args.http.is_none();
    let options = options(global, args).inspect_err(|failure| {
        if is_stdio {
            refused_host::answer(failure);
        }
    });
    serve(options?).await
}

/// Returns the options of a kernel in this process; creates the state folder and reads the lock file.
fn options(global: &Global, args: Serve) -> CliResult<Options> {
    if let Some(address) = &args.http {
        http_access::check_address(address)?;
    }
    let agent = args.agent.unwrap_or_else(|| DEFAULT_AGENT.to_owned());
    let agent = socket_hello::check_agent_name(&agent).map_err(Failure::usage)?.to_owned();
    let config = ConfigArg { config: args.config };
    let console = ConsoleOptions { global: global.clone(), config: config.clone() };
    let mode = match args.http {
        None => Mode::Stdio { agent },
        Some(address) => Mode::Http(HttpOptions {
            address,
            hosts: args.allow_host,
            origins: args.allow_origin,
            access: if args.no_auth { HttpAccess::Anonymous(agent) } else { HttpAccess::Keys },
            console: args.console.then_some(console),
        }),
    };
    Ok(Options {
        folder: state::create_kernel_folder(global)?,
        sources: config.sources(),
        lock_file: args.locked.then(|| commands::lock::read(&config)).transpose()?,
        mode,
        ready_file: args.ready_file,
    })
}

/// Runs the kernel that several hosts share, in a detached process.
pub(crate) async fn run_shared(global: &Global, args: SharedKernel) -> CliResult {
    let folder = state::create_kernel_folder(global)?;
    // The configuration files are found from the folder of the first host. Then the kernel leaves that folder, because
    // it also serves hosts that work in other folders.
    let sources = args.config.map_or_else(Sources::from_env, Sources::single);
    std::env::set_current_dir(&folder).map_err(|error| state::unusable(&folder, &error))?;
    serve(Options {
        folder,
        sources,
        mode: Mode::Shared { linger: Duration::from_secs(args.linger), is_service: args.service },
        ready_file: None,
        lock_file: None,
    })
    .await
}

async fn serve(options: Options) -> CliResult {
    #[cfg(unix)]
    mgp_transport::raise_open_files();
    // Listen for signals first, so that a signal during the start also stops the kernel in an orderly way.
    let mut signals = Signals::new()?;
    let is_stdio = matches!(options.mode, Mode::Stdio { .. });
    let is_shared = matches!(options.mode, Mode::Shared { .. });
    let replaces_hosts_kernel =
        matches!(options.mode, Mode::Http(_) | Mode::Shared { is_service: true, .. });
    let (folder, sources) = (options.folder.clone(), options.sources.clone());
    let no_starts = if replaces_hosts_kernel {
        tokio::select! {
            no_starts = take_over(&folder, &sources, options.mode.http()) => no_starts,
            // Exit immediately at a signal: the other kernel can take a minute to stop, and this one has started
            // nothing yet.
            _ = signals.next() => return Ok(()),
        }
    } else {
        None
    };
    let started = async {
        let lock = lock_folder(&options.folder, is_shared).await?;
        // Remove an old ready file only now: while this process has the lock, no other kernel of this folder has a
        // ready file.
        if let Some(file) = &options.ready_file {
            ReadyFile::remove_old(file);
        }
        Ok((start(options).await?, lock))
    };
    let started: CliResult<_> = started.await;
    drop(no_starts);
    let started = started.inspect_err(|failure| {
        if is_stdio {
            refused_host::answer(failure);
        }
    });
    let (mut running, lock) = started?;
    warn_of_unknown_agents(&running.served.kernel, folder.clone(), &sources).await;
    let cause = running.wait(&mut signals, &lock, &folder).await;
    lock.record_stopping();
    let is_lost = matches!(cause, StopCause::FolderLost);
    let stopped = running.stop(cause, signals).await;
    // Close the databases while this process still holds the lock, because `mgp stop` waits for the release of the
    // lock.
    state::close_databases().await;
    if is_lost {
        return Err(Failure::failed(lost_text(&folder)));
    }
    stopped
}

/// Logs a warning for each agent whose name seems to be mistyped, so that its limits might apply to no call.
async fn warn_of_unknown_agents(kernel: &Kernel, folder: PathBuf, sources: &Sources) {
    let global = Global { state: Some(folder), json: false, verbose: 0 };
    let store = kernel.governance().store();
    let Ok(loaded) = sources.load(&Trust::new(Arc::clone(store))).await else { return };
    let unknown = unknown_limited_agents(&global, &**store, &loaded.config).await;
    for (what, fix) in unknown.unwrap_or_default() {
        tracing::warn!(fix, "{what}");
    }
}

/// Locks the state folder for this process. Fails once a kernel that holds the lock has accepted connections for
/// [`ENDING_TIME`].
///
/// A shared kernel waits up to [`KERNEL_LOCK_TIMEOUT`] for the previous kernel to stop. Any other kernel waits up to
/// [`COMMAND_LOCK_TIMEOUT`], which is long enough for a short command.
async fn lock_folder(folder: &Path, is_shared: bool) -> CliResult<Lock> {
    let timeout = if is_shared { KERNEL_LOCK_TIMEOUT } else { COMMAND_LOCK_TIMEOUT };
    let is_reachable = || socket::connect(&socket::path_in(folder)).is_ok();
    let (mut waited, mut reachable) = (Duration::ZERO, Duration::ZERO);
    let pid = loop {
        match lock::try_kernel(folder)? {
            LockAttempt::Acquired(lock) => return Ok(lock),
            LockAttempt::Held(pid) if reachable > ENDING_TIME => break pid,
            LockAttempt::Held(_) if is_reachable() => reachable += LOCK_INTERVAL,
            LockAttempt::Held(_) if waited >= timeout => return Err(lock::unserved(folder)),
            LockAttempt::Held(_) => {}
        }
        sleep(LOCK_INTERVAL).await;
        waited += LOCK_INTERVAL;
    };
    let pid = pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
    Err(Failure::state_in_use(format!(
        "a kernel{pid} already uses `{}`; stop it with `mgp stop`, or name another folder with --state DIR",
        folder.display()
    )))
}

async fn start(options: Options) -> CliResult<Running> {
    // Record the files first: from them, commands can learn which files this kernel uses even if it does not answer.
    lock::record_files(&options.folder, options.sources.files());
    let socket = LocalSocket::open(&options.folder)?;
    // Pass the sources and not their contents, so that the kernel reloads the files when they change.
    let keys = options.folder.join("keys.json");
    let mut builder = Kernel::builder()
        .sources(options.sources.clone())
        .live_keys(move |id| Box::pin(http_access::is_live_key(keys.clone(), id)));
    if let Some((path, lock)) = options.lock_file.clone() {
        builder = builder.locked(lock).lock_path(path);
    }
    let kernel = builder.in_folder(&options.folder).await?;
    let attached = attach(&kernel, socket, options).await;
    if attached.is_err() {
        kernel.stop().await;
    }
    attached
}

/// Starts to serve clients in every configured way, then writes the ready file and reports that the kernel serves.
async fn attach(kernel: &Kernel, socket: LocalSocket, options: Options) -> CliResult<Running> {
    let Options { folder, sources, mode, ready_file, .. } = options;
    let server = kernel.server().without_signals();
    let drain = server.drain_handle();
    let carriers = carriers(kernel, server, &drain, &folder, mode).await?;
    let Carriers { stack, http, console, stdio_agent, linger, is_shared } = carriers;
    let url = http.as_ref().map(|bound| http_access::url(kernel, bound));
    let console_url =
        console.as_ref().and_then(|_| http_access::console_url(kernel, http.as_ref()?));
    kernel.set_endpoints(|reachable| {
        reachable.socket.replace(absolute(socket.path()));
        reachable.state = Some(absolute(&folder));
        reachable.http.clone_from(&url);
        reachable.console = console_url;
        reachable.command_option = state_option::get().map(str::to_owned);
    });
    let files = sources.files().filter(|file| file.exists());
    let config = files.map(|file| lossy(&absolute(file))).collect();
    let served = ServedKernel {
        kernel: kernel.clone(),
        stack,
        drain,
        is_shared,
        gate: Arc::new(OperatorGate::new(&folder, sources)),
        entrance: Entrance::default(),
    };
    probes::serve_metrics(kernel, &served.drain).await?;
    let http = http.map(|bound| with_console(bound, &served, console)).transpose()?;
    let http = http.map(|bound| tokio::spawn(bound.run()));
    let stdio = stdio_agent.map(|agent| serve_stdio(&served, &agent)).transpose()?;
    let reachable = kernel.endpoints();
    let servers: Vec<String> = kernel.servers().into_iter().map(|server| server.id).collect();
    let (pid, shown) = (std::process::id(), reachable.socket.as_deref());
    let line = ReadyLine { pid, http: url.as_deref(), socket: shown, servers: &servers };
    let ready_file = ready_file.map(|file| ReadyFile::write(&file, &line)).transpose()?;
    if linger.is_some() {
        launch::report_served();
    }
    if let Some(url) = &url {
        print_stderr(&format!("serving at {url}"));
    }
    tracing::info!(http = url, servers = servers.len(), "serving");
    let started_by = is_shared.then_some(HOSTS.into());
    let hello = HelloReply { config, http: url, servers, started_by, ..HelloReply::accepted() };
    Ok(Running {
        served,
        socket,
        connections: JoinSet::new(),
        http,
        stdio,
        linger,
        hello,
        ready_file,
    })
}

/// The transports of a kernel in addition to its local socket, and the time that it keeps running without a client.
struct Carriers {
    stack: mgp_types::service::Stack,
    http: Option<BoundServer>,
    console: Option<ServedConsole>,
    stdio_agent: Option<String>,
    linger: Option<Duration>,
    /// `true` if hosts start this kernel and can replace it by a newer one.
    is_shared: bool,
}

async fn carriers(
    kernel: &Kernel,
    server: Server,
    drain: &Drain,
    folder: &Path,
    mode: Mode,
) -> CliResult<Carriers> {
    let (mut http, mut console, mut stdio_agent, mut linger) = (None, None, None, None);
    let mut is_shared = false;
    let stack = match mode {
        Mode::Stdio { agent } => {
            stdio_agent = Some(agent);
            build_stack(server)?
        }
        Mode::Shared { linger: idle, is_service } => {
            (linger, is_shared) = (Some(idle), !is_service);
            build_stack(server)?
        }
        Mode::Http(options) => {
            // All clients use one stack, so that sessions over HTTP and over the socket share their state.
            let (bound, pages) = bind(server, kernel, drain, folder, options).await?;
            let stack = bound.stack();
            (http, console) = (Some(bound), pages);
            stack
        }
    };
    Ok(Carriers { stack, http, console, stdio_agent, linger, is_shared })
}

fn with_console(
    bound: BoundServer,
    served: &ServedKernel,
    console: Option<ServedConsole>,
) -> CliResult<BoundServer> {
    Ok(match console {
        Some(pages) => bound.mount(console::SERVED_PATH, console::served(served.clone(), pages)?),
        None => bound,
    })
}

fn build_stack(server: Server) -> CliResult<mgp_types::service::Stack> {
    server.into_stack().map_err(|error| Failure::failed(error.message()))
}

async fn bind(
    server: Server,
    kernel: &Kernel,
    drain: &Drain,
    folder: &Path,
    options: HttpOptions,
) -> CliResult<(BoundServer, Option<ServedConsole>)> {
    let HttpOptions { address, hosts, origins, access, console } = options;
    let configured = kernel.http_access();
    let http = server
        .http(address)
        .pages(probes::probes(kernel, drain))
        .tool_paths()
        .without_warnings()
        .connections(|limits| http_access::limit_connections(&configured, limits))
        .config(|config| (config.hosts, config.origins) = (hosts.clone(), origins));
    let (has_tls, allows_hosts) = (configured.tls.is_some(), !hosts.is_empty());
    let mut pages = None;
    let http = match access {
        HttpAccess::Anonymous(agent) => {
            http.no_auth().config(|config| config.anonymous = Some(Principal::local().agent(agent)))
        }
        HttpAccess::Keys => {
            let auth = http_access::auth_layer(&configured, kernel, folder).await?;
            pages = console.map(|ConsoleOptions { global, config }| ServedConsole {
                global,
                config,
                auth: auth.clone(),
                hosts,
                is_tls: has_tls,
            });
            http.auth(auth)
        }
    };
    let http = match http_access::tls(&configured, folder)? {
        Some(tls) => {
            for warning in tls.warnings(SystemTime::now()) {
                tracing::warn!("{warning}");
            }
            http.tls(tls)
        }
        None => http,
    };
    let bound = http.bind().await.map_err(bind_failure)?;
    let local = bound.local_addr();
    for warning in http_access::exposure_warnings(local, has_tls, allows_hosts) {
        tracing::warn!(%local, "{warning}");
    }
    if let Some(pages) = &mut pages {
        // Accept the bound address as a host name too, unless it means all interfaces.
        let ip = local.ip();
        let name = if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
        pages.hosts.extend((!ip.is_unspecified()).then_some(name));
    }
    Ok((bound, pages))
}

pub(crate) fn bind_failure(error: ServeError) -> Failure {
    match error {
        ServeError::Exposed(address) => Failure::usage(format!(
            "`{address}` can be reached from other machines, so --no-auth is refused; omit it and create keys with `mgp keys add AGENT`, or use 127.0.0.1"
        )),
        ServeError::Listen { address, source }
            if source.kind() == std::io::ErrorKind::AddrInUse =>
        {
            Failure::failed(format!(
                "`{address}` is in use by another program; name another port, or port 0 for any free one"
            ))
        }
        error @ ServeError::Listed { .. } => Failure::usage(error),
        error => Failure::failed(error),
    }
}

/// Serves the process that started this one, over the standard streams.
fn serve_stdio(served: &ServedKernel, agent: &str) -> CliResult<JoinHandle<()>> {
    launch::print_stdin_hint();
    served.gate.admit_own_host(agent);
    let (reader, writer) = take_stdio()?;
    let (served, principal) = (served.clone(), Principal::local().agent(agent));
    Ok(tokio::spawn(async move {
        let client = ServedClient::Host;
        let _guard = served.add_client(&principal, client);
        let closed = served.serve_connection(reader, writer, principal, None, client).await;
        tracing::debug!(%closed, "host disconnected");
    }))
}

impl Running {
    /// Serves clients until an event requires the kernel to stop.
    async fn wait(&mut self, signals: &mut Signals, lock: &Lock, folder: &Path) -> StopCause {
        let kernel = &self.served.kernel;
        let is_own = || !lock.is_replaced(folder);
        let sockets = self.socket.serve(&self.served, &self.hello, &mut self.connections, is_own);
        tokio::select! {
            number = signals.next() => StopCause::Signal(number),
            () = disconnected(&mut self.stdio) => StopCause::HostDisconnected,
            () = idle(&self.served, self.linger) => StopCause::Idle,
            timeout = kernel.stop_requested() => StopCause::Requested { timeout },
            // Stop, because an authorized client has started a drain with a protocol request.
            () = self.served.drain.wait_begun() => StopCause::Requested { timeout: None },
            () = sockets => StopCause::Idle,
            () = folder_lost(kernel, lock, folder) => StopCause::FolderLost,
        }
    }

    /// Drains the kernel, closes all connections, stops the servers, and completes the audit log.
    async fn stop(self, cause: StopCause, signals: Signals) -> CliResult {
        let Self { served, mut connections, http, stdio, ready_file, .. } = self;
        // Remove the ready file and the socket first, so that new hosts start another kernel instead of finding this
        // one.
        drop(ready_file);
        drop(self.socket);
        served.kernel.ignore_files();
        let received = if let StopCause::Signal(number) = cause { Some(number) } else { None };
        signals.exit_on_second(received);
        drain(&served, cause).await;
        let closed = timeout(CLOSE_TIMEOUT, async {
            while connections.join_next().await.is_some() {}
            for task in [stdio, http].into_iter().flatten() {
                let _ = task.await;
            }
        });
        if closed.await.is_err() {
            tracing::warn!("dropping connections whose peers do not read");
        }
        served.kernel.stop().await;
        // Ignore a failure: changes of the index that cannot be stored are made again when the servers list their
        // tools.
        let _ = timeout(CLOSE_TIMEOUT, served.kernel.index().flush()).await;
        if let Some(log) = served.kernel.governance().log().cloned() {
            log.close().await.map_err(|error| {
                Failure::failed(format!("the end of the audit log was not written: {error}"))
            })?;
        }
        Ok(())
    }
}

/// Waits until the stdio host has disconnected; waits forever if the kernel has no such host.
async fn disconnected(stdio: &mut Option<JoinHandle<()>>) {
    match stdio {
        Some(task) => {
            let _ = task.await;
            // Forget the finished task, because polling it again would panic.
            *stdio = None;
        }
        None => std::future::pending().await,
    }
}

/// Waits until the kernel has had no client for `linger`, and begins the drain; waits forever without that limit.
/// Before that, gives the first client up to [`FIRST_HOST_TIMEOUT`] to connect.
async fn idle(served: &ServedKernel, linger: Option<Duration>) {
    let Some(linger) = linger else { return std::future::pending().await };
    let clients = served.kernel.clients();
    let _ = timeout(FIRST_HOST_TIMEOUT, clients.connected()).await;
    loop {
        clients.idle_for(linger).await;
        // If a client has connected since the kernel became idle, the drain does not begin; then continue to serve.
        if served.begin_idle_drain(CLOSE_TIMEOUT) {
            return;
        }
    }
}

/// Starts a drain, which refuses new calls, and waits until running calls have finished or the drain's time limit has
/// passed.
async fn drain(served: &ServedKernel, cause: StopCause) {
    let default = served.drain.config().timeout;
    let (reason, timeout) = match cause {
        StopCause::Signal(number) => {
            tracing::info!(number, "draining on signal; a second one exits at once");
            (ShutdownReason::OperatorRequest, default)
        }
        StopCause::Requested { timeout } => {
            (ShutdownReason::OperatorRequest, timeout.unwrap_or(default))
        }
        StopCause::FolderLost => (ShutdownReason::OperatorRequest, default),
        // The host has disconnected, so its calls have been cancelled and the short limit suffices.
        StopCause::HostDisconnected => (ShutdownReason::OperatorRequest, CLOSE_TIMEOUT),
        StopCause::Idle => (ShutdownReason::IdleTimeout, CLOSE_TIMEOUT),
    };
    served.drain.begin(reason, timeout);
    // End the wait of calls that wait for a person: they have not begun, and their questions stay in the inbox for the
    // next kernel.
    if let Some(inbox) = served.kernel.governance().inbox() {
        inbox.end_waits();
    }
    served.drain.wait_ended().await;
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
