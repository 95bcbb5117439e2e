//! The shim, i.e. `mgp serve --stdio`: relays messages between one host and the kernel that all hosts share.
//!
//! The shim uses two threads and no async runtime. If the kernel exits, the shim continues the session with the next
//! kernel.

mod events;
mod lines;
mod relay;
mod requests;
mod session;

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mgp_discovery::Sources;
use mgp_types::sync::Mutex;
use tokio::time::Instant;

use crate::args::{Global, Serve};
use crate::exit::{CliResult, Failure};
use crate::launch::{self, LaunchOutcome, START_TIMEOUT};
use crate::lock::{self, LockAttempt};
use crate::ready_file::{ReadyFile, ReadyLine};
use crate::signals::{self, Signals};
use crate::socket::{self, Stream};
use crate::socket_hello::{
    self, DEFAULT_AGENT, HELLO_TIMEOUT, Hello, HelloReply, Intent, MAX_REPLY_BYTES,
};
use crate::{refused_host, state, version};

/// The maximum time to wait for the next kernel, which can start only after the previous one has stopped its servers.
const STOP_TIMEOUT: Duration = Duration::from_secs(90);

/// The minimum time to wait for a kernel that is stopping: its calls get 30 s to end, then its servers some seconds.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(40);

/// The time after the end of a kernel in which the shim starts no kernel in the state folder of a service, so that the
/// service can start one. Systemd restarts a failed service after 5 s.
const SERVICE_GRACE: Duration = Duration::from_secs(7);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Connects to the kernel, starts one if none runs, and relays messages until the host disconnects.
pub(crate) fn run(global: &Global, serve: &Serve) -> CliResult {
    let (connector, stream, reply) = set_up(global, serve).inspect_err(refused_host::answer)?;
    warn_of_other_config(serve.config.as_deref(), &reply);
    if version::is_newer(version::own(), &reply.version) {
        tracing::warn!(
            kernel = reply.version,
            "the running kernel is older, but was not started by a host, so it is not replaced; restart it to use the new version"
        );
    }
    let ready_file = Arc::new(Mutex::new(None));
    if serve.ready_file.is_some() {
        // First arrange that a signal removes the file; only then write it.
        remove_on_signal(Arc::clone(&ready_file))?;
        let written =
            connector.write_ready_file(serve, &reply).inspect_err(refused_host::answer)?;
        *ready_file.lock() = written;
    }
    launch::print_stdin_hint();
    let result = relay::run(stream, |is_wanted| {
        let connected = if is_wanted {
            Some(connector.connect_or_start(STOP_TIMEOUT)?)
        } else {
            // Start no kernel here: after a kernel has ended, the next one is started only when the host sends a
            // message.
            try_connect(&connector.socket, &connector.hello)?
        };
        let Some((stream, reply)) = connected else { return Ok(None) };
        let mut written = ready_file.lock();
        // Drop the previous ready file first. After a new connection to the same kernel, both files have the same text,
        // so dropping the previous one later would remove the new one.
        drop(written.take());
        *written = connector.write_ready_file(serve, &reply)?;
        Ok(Some(stream))
    });
    drop(ready_file.lock().take());
    result
}

/// Removes an old ready file, connects to the kernel for a host, and starts a kernel if none runs.
fn set_up<'a>(global: &Global, serve: &'a Serve) -> CliResult<(Connector<'a>, Stream, HelloReply)> {
    let agent = serve.agent.as_deref().unwrap_or(DEFAULT_AGENT);
    let agent = socket_hello::check_agent_name(agent).map_err(Failure::usage)?;
    let folder = state::create_folder(global)?;
    let socket = socket::path_in(&folder);
    let (config, linger) = (serve.config.as_deref(), serve.linger);
    let connector = Connector { folder, socket, config, linger, hello: Hello::shim(agent).line() };
    if let Some(file) = &serve.ready_file {
        ReadyFile::remove_old(file);
    }
    let (stream, reply) = connector.connect_or_start(START_TIMEOUT)?;
    Ok((connector, stream, reply))
}

/// The means to connect to the kernel of a state folder, or to start it.
struct Connector<'a> {
    folder: PathBuf,
    socket: PathBuf,
    config: Option<&'a Path>,
    linger: Option<u64>,
    hello: Vec<u8>,
}

/// Starts a shared kernel, as a host does, unless one runs.
pub(crate) fn start_kernel(global: &Global) -> CliResult {
    let folder = state::create_folder(global)?;
    let (socket, hello) = (socket::path_in(&folder), Hello::operator(Intent::Read).line());
    let connector = Connector { folder, socket, config: None, linger: None, hello };
    connector.connect_or_start(START_TIMEOUT)?;
    Ok(())
}

impl Connector<'_> {
    fn write_ready_file(&self, serve: &Serve, reply: &HelloReply) -> CliResult<Option<ReadyFile>> {
        let shown = std::path::absolute(&self.socket).unwrap_or_else(|_| self.socket.clone());
        let line = ReadyLine {
            pid: reply.pid,
            http: reply.http.as_deref(),
            socket: Some(&shown),
            servers: &reply.servers,
        };
        serve.ready_file.as_deref().map(|file| ReadyFile::write(file, &line)).transpose()
    }

    /// Connects to the kernel; starts one if none runs. Fails if no kernel serves within `limit`; in the folder of a
    /// service, `limit` begins [`SERVICE_GRACE`] after the previous kernel has ended. While another process uses the
    /// folder, `limit` is at least [`DRAIN_TIMEOUT`].
    fn connect_or_start(&self, limit: Duration) -> CliResult<(Stream, HelloReply)> {
        let Self { folder, socket, config, linger, hello } = self;
        // Create the folder again if a person has removed or renamed it since the host started.
        state::create(folder)?;
        let mut waited = Duration::ZERO;
        // The total time for which the processes that this shim started have waited until another process left the
        // folder.
        let mut in_use = Duration::ZERO;
        // `start` keeps the start lock until a kernel serves. So two hosts that start at the same time start only one
        // kernel, and a host with an older program starts none while the previous kernel ends.
        let mut start = None;
        // The value of `waited` at which this process may start a kernel. If an installed service uses the folder, the
        // service should start it: the value is `None` until the previous kernel has ended.
        let mut may_start = (!state::is_of_service(folder)).then_some(Duration::ZERO);
        loop {
            if let Some(connection) = try_connect(socket, hello)? {
                return Ok(connection);
            }
            if waited >= may_start.map_or(STOP_TIMEOUT, |begin| begin + limit)
                || in_use >= limit.max(DRAIN_TIMEOUT)
            {
                return Err(lock::unserved(folder));
            }
            if may_start.is_none() && matches!(lock::try_kernel(folder)?, LockAttempt::Acquired(_))
            {
                may_start = Some(waited + SERVICE_GRACE);
            }
            if start.is_none()
                && may_start.is_some_and(|begin| waited >= begin)
                && let LockAttempt::Acquired(lock) = lock::try_start(folder)?
            {
                start = Some(lock);
            }
            if start.is_some() {
                if let Some(connection) = try_connect(socket, hello)? {
                    return Ok(connection);
                }
                let began = Instant::now();
                match launch::start_detached(folder, *config, *linger)? {
                    LaunchOutcome::Serving => {
                        // Count a quarter of the limit as waited, which limits the number of attempts if each kernel
                        // exits right after its start.
                        waited += limit / 4;
                        continue;
                    }
                    LaunchOutcome::StateInUse => in_use += began.elapsed(),
                }
            }
            thread::sleep(POLL_INTERVAL);
            waited += POLL_INTERVAL;
        }
    }
}

/// Connects to the socket and exchanges the first lines; returns `None` if no kernel accepts the connection.
fn try_connect(path: &Path, hello: &[u8]) -> CliResult<Option<(Stream, HelloReply)>> {
    let Ok(mut stream) = socket::connect(path) else { return Ok(None) };
    stream.set_read_timeout(Some(HELLO_TIMEOUT))?;
    // Ignore an error: a kernel that refuses the connection closes it without reading, and its reply has the reason.
    let _ = stream.write_all(hello);
    let mut line = Vec::new();
    // Reads one byte at a time, because the bytes after the line belong to the host.
    while line.last() != Some(&b'\n') && line.len() < MAX_REPLY_BYTES {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => line.push(byte[0]),
            // Report that no kernel is connected: this kernel has closed the connection, because it is stopping.
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(_) => return Err(socket_hello::no_answer(path)),
        }
    }
    stream.set_read_timeout(None)?;
    Ok(Some((stream, HelloReply::read(&line, path)?)))
}

/// Warns if the running kernel was started with other configuration files than this host requests.
fn warn_of_other_config(config: Option<&Path>, reply: &HelloReply) {
    let real = |path: &Path| {
        socket_hello::lossy(&dunce::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
    };
    let sources = config.map_or_else(Sources::from_env, Sources::single);
    let wanted: Vec<PathBuf> = sources.files().map(real).collect();
    let used: Vec<PathBuf> = reply.config.iter().map(|path| real(path)).collect();
    let list = |files: &[&PathBuf]| match files {
        [] => "no file".to_owned(),
        files => {
            let files: Vec<_> = files.iter().map(|path| format!("`{}`", path.display())).collect();
            files.join(" and ")
        }
    };
    // Do not warn about the user's own file, which the kernel also follows if the file is created after the kernel
    // started.
    let is_own = |file: &PathBuf| config.is_none() && wanted.last() == Some(file);
    let existing: Vec<&PathBuf> = wanted.iter().filter(|file| file.exists()).collect();
    if used.iter().all(|file| wanted.contains(file))
        && existing.iter().all(|file| used.contains(file) || is_own(file))
    {
        return;
    }
    let used = list(&used.iter().collect::<Vec<_>>());
    let reason = match config {
        Some(file) if existing.is_empty() => format!(
            "`{}` does not exist, and the running kernel was started with {used}",
            file.display()
        ),
        None if existing.is_empty() => {
            format!("the running kernel was started with {used}, and this host names no file")
        }
        _ => format!("the running kernel was started with {used}, not {}", list(&existing)),
    };
    tracing::warn!(
        "configuration ignored: {reason}; \
         use a folder of its own for this host (--state DIR)"
    );
}

/// Removes the ready file, then exits, when a signal ends this process.
fn remove_on_signal(file: Arc<Mutex<Option<ReadyFile>>>) -> CliResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let signals = {
        let _context = runtime.enter();
        Signals::new()?
    };
    thread::Builder::new().name("mgp-signals".to_owned()).spawn(move || {
        let mut signals = signals;
        let number = runtime.block_on(signals.next());
        drop(file.lock().take());
        std::process::exit(signals::exit_code(number));
    })?;
    Ok(())
}
