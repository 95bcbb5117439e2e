//! `mgp serve --stdio`: relays bytes between a host and the kernel that all hosts share.
//!
//! Two threads and no runtime; the bytes are not parsed.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mgp_discovery::Sources;
use mgp_types::sync::Mutex;

use crate::args::{Global, Serve};
use crate::exit::{CliResult, Failure};
use crate::launch::{self, LaunchOutcome};
use crate::lock::{self, LockAttempt};
use crate::ready_file::{ReadyFile, ReadyLine};
use crate::signals::{self, Signals};
use crate::socket_hello::{self, DEFAULT_AGENT, HELLO_TIMEOUT, Hello, HelloReply, MAX_REPLY_BYTES};
use crate::{socket, state};

/// The time a kernel may take until it serves.
const START_TIMEOUT: Duration = Duration::from_secs(10);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

const BUFFER_BYTES: usize = 64 * 1024;

/// Connects to the kernel, starting it if none runs, and relays bytes until either side closes.
pub(crate) fn run(global: &Global, serve: &Serve) -> CliResult {
    let agent = serve.agent.as_deref().unwrap_or(DEFAULT_AGENT);
    let agent = socket_hello::check_agent_name(agent).map_err(Failure::usage)?;
    let folder = state::create_folder(global)?;
    let socket = socket::path_in(&folder);
    let (stream, reply) = connect_or_start(&folder, &socket, serve, agent)?;
    warn_of_other_config(serve.config.as_deref(), &reply);
    let shown = std::path::absolute(&socket).unwrap_or(socket);
    let line = ReadyLine {
        pid: reply.pid,
        http: reply.http.as_deref(),
        socket: Some(&shown),
        servers: &reply.servers,
    };
    let ready_file = serve.ready_file.as_deref();
    let ready_file = ready_file.map(|file| ReadyFile::write(file, &line)).transpose()?;
    let has_file = ready_file.is_some();
    let ready_file = Arc::new(Mutex::new(ready_file));
    if has_file {
        remove_on_signal(Arc::clone(&ready_file))?;
    }
    launch::print_stdin_hint();
    let result = relay(&stream);
    drop(ready_file.lock().take());
    result
}

fn connect_or_start(
    folder: &Path,
    socket: &Path,
    serve: &Serve,
    agent: &str,
) -> CliResult<(UnixStream, HelloReply)> {
    let hello = Hello::shim(agent).line();
    let mut waited = Duration::ZERO;
    loop {
        if let Some(connection) = try_connect(socket, &hello)? {
            return Ok(connection);
        }
        if waited >= START_TIMEOUT {
            return Err(Failure::failed(format!(
                "the kernel of `{}` neither serves nor exits; stop it with `mgp stop`, or end its process",
                folder.display()
            )));
        }
        // The lock is held until the kernel serves, so that two hosts start one kernel.
        if let LockAttempt::Acquired(_lock) = lock::try_start(folder)? {
            if let Some(connection) = try_connect(socket, &hello)? {
                return Ok(connection);
            }
            let config = serve.config.as_deref();
            match launch::start_detached(folder, config, serve.linger, START_TIMEOUT)? {
                LaunchOutcome::Serving => {
                    // Bounds the attempts if kernels exit right after they started.
                    waited += START_TIMEOUT / 4;
                    continue;
                }
                LaunchOutcome::StateInUse => {}
            }
        }
        thread::sleep(POLL_INTERVAL);
        waited += POLL_INTERVAL;
    }
}

/// Connects and exchanges the first lines; returns `None` if no kernel accepts.
fn try_connect(socket: &Path, hello: &[u8]) -> CliResult<Option<(UnixStream, HelloReply)>> {
    let Ok(mut stream) = UnixStream::connect(socket) else { return Ok(None) };
    stream.set_read_timeout(Some(HELLO_TIMEOUT))?;
    // A kernel that refuses the connection does not read; its reply has the reason.
    let _ = stream.write_all(hello);
    let mut line = Vec::new();
    // Byte by byte: the bytes behind the line belong to the host.
    while line.last() != Some(&b'\n') && line.len() < MAX_REPLY_BYTES {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => line.push(byte[0]),
            // The kernel has just stopped.
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(_) => return Err(socket_hello::no_answer(socket)),
        }
    }
    stream.set_read_timeout(None)?;
    Ok(Some((stream, HelloReply::read(&line, socket)?)))
}

/// Warns if the running kernel uses other configuration files than this host asks for.
fn warn_of_other_config(config: Option<&Path>, reply: &HelloReply) {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
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
    // The user's own file is followed even if it was created after the kernel started.
    let is_own = |file: &PathBuf| config.is_none() && wanted.last() == Some(file);
    let existing: Vec<&PathBuf> = wanted.iter().filter(|file| file.exists()).collect();
    if used.iter().all(|file| wanted.contains(file))
        && existing.iter().all(|file| used.contains(file) || is_own(file))
    {
        return;
    }
    tracing::warn!(
        "configuration ignored: the running kernel was started with {}, not {}; \
         use a folder of its own for this host (--state DIR), or --standalone",
        list(&used.iter().collect::<Vec<_>>()),
        list(&existing)
    );
}

/// Removes the ready file when a signal ends this process.
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

/// Copies bytes both ways until the kernel closes its side.
fn relay(stream: &UnixStream) -> CliResult {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let to_kernel = stream.try_clone()?;
    let host_closed = Arc::new(AtomicBool::new(false));
    let closed = Arc::clone(&host_closed);
    thread::Builder::new().name("mgp-host".to_owned()).stack_size(64 * 1024).spawn(move || {
        let (mut input, mut to_kernel) = (input, to_kernel);
        // The kernel still answers requests after the host has closed its side.
        let copied = copy(&mut input, &mut to_kernel);
        // A failed write means that the kernel is gone, not that the host has closed.
        closed.store(!copied.is_err_and(|error| is_closed_by_peer(&error)), Ordering::Release);
        let _ = to_kernel.shutdown(Shutdown::Write);
    })?;
    let (mut from_kernel, mut output) = (stream, output);
    match copy(&mut from_kernel, &mut output) {
        _ if host_closed.load(Ordering::Acquire) => Ok(()),
        // The host does not read any more.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Failure::failed(
            "the kernel has ended; the host starts another one when it reconnects",
        )),
    }
}

fn is_closed_by_peer(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Copies each piece as soon as it is read, until the end.
///
/// Not by `io::copy`, which uses splice: Linux holds the lock of a pipe while it waits for the socket, so the reader of
/// the pipe would wait for the *next* message before it gets this one.
fn copy(from: &mut impl io::Read, to: &mut impl io::Write) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
