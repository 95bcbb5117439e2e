//! `mgp serve --stdio`: passes bytes on between a host and the kernel that all hosts share.
//!
//! Two threads and no runtime; nobody looks at the bytes.
//!
//! Applies to: inbound.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mgp_discovery::Sources;

use crate::cli::{Global, Serve};
use crate::exit::{Ended, Failure};
use crate::launch::{self, Launched};
use crate::lock::{self, Locked};
use crate::preface::{self, Greeting, NAMELESS, Preface};
use crate::ready::{Line, ReadyFile};
use crate::signals::Signals;
use crate::{socket, state};

/// How long a kernel may take until it serves.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long is waited between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a kernel that is there may take to greet.
const GREETS: Duration = Duration::from_secs(10);

/// How much is passed on at once.
const PIECE: usize = 64 * 1024;

/// The longest greeting.
const GREETING_BYTES: usize = 1 << 20;

/// Connects to the kernel, starting it if there is none, and passes bytes on until either side ends.
pub(crate) fn run(global: &Global, serve: &Serve) -> Ended {
    let agent = serve.agent.as_deref().unwrap_or(NAMELESS);
    let agent = preface::named(agent).map_err(Failure::usage)?;
    let folder = state::made(global)?;
    let socket = socket::place(&folder);
    let (stream, greeting) = reach(&folder, &socket, serve, agent)?;
    compare(serve.config.as_deref(), &greeting);
    let shown = std::path::absolute(&socket).unwrap_or(socket);
    let ready = Line {
        pid: greeting.pid,
        http: greeting.http.as_deref(),
        socket: Some(&shown),
        servers: &greeting.servers,
    };
    let ready =
        serve.ready_file.as_deref().map(|file| ReadyFile::write(file, &ready)).transpose()?;
    let is_ready = ready.is_some();
    let ready = Arc::new(Mutex::new(ready));
    if is_ready {
        clear_at_a_signal(Arc::clone(&ready))?;
    }
    launch::hint();
    let ended = pump(&stream);
    drop(ready.lock().unwrap_or_else(PoisonError::into_inner).take());
    ended
}

/// The connection to the kernel, which is started if need be.
fn reach(
    folder: &Path,
    socket: &Path,
    serve: &Serve,
    agent: &str,
) -> Ended<(UnixStream, Greeting)> {
    let preface = Preface::agent(agent).line();
    let mut waited = Duration::ZERO;
    loop {
        if let Some(greeted) = greet(socket, &preface)? {
            return Ok(greeted);
        }
        if waited >= PATIENCE {
            return Err(Failure::failed(format!(
                "the kernel of `{}` neither serves nor leaves; stop it with `mgp stop`, or end its process",
                folder.display()
            )));
        }
        // Who starts one holds the lock until it serves, so that two hosts end with one kernel.
        if let Locked::Ours(_turn) = lock::start(folder)? {
            if let Some(greeted) = greet(socket, &preface)? {
                return Ok(greeted);
            }
            match launch::detached(folder, serve.config.as_deref(), serve.linger, PATIENCE)? {
                Launched::Serves => {
                    // One that serves and is gone at once is not started for ever.
                    waited += PATIENCE / 4;
                    continue;
                }
                Launched::Taken => {}
            }
        }
        thread::sleep(PAUSE);
        waited += PAUSE;
    }
}

/// Connects and says who comes; none where nobody takes it.
fn greet(socket: &Path, preface: &[u8]) -> Ended<Option<(UnixStream, Greeting)>> {
    let Ok(mut stream) = UnixStream::connect(socket) else { return Ok(None) };
    stream.set_read_timeout(Some(GREETS))?;
    // Whoever is turned away at the door can say nothing any more, and hears why.
    let _ = stream.write_all(preface);
    let mut line = Vec::new();
    // Byte by byte: what comes behind the line belongs to the host.
    while line.last() != Some(&b'\n') && line.len() < GREETING_BYTES {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => line.push(byte[0]),
            // It left at this very moment.
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(_) => {
                let socket = socket.display();
                return Err(Failure::failed(format!(
                    "the kernel at `{socket}` does not answer; look at it, or end it"
                )));
            }
        }
    }
    stream.set_read_timeout(None)?;
    let greeting = Greeting::read(&line).map_err(|_| preface::stranger(socket))?;
    if greeting.ok {
        return Ok(Some((stream, greeting)));
    }
    Err(Failure::failed(greeting.error.unwrap_or_else(|| "the kernel let nobody in".to_owned())))
}

/// Says so where the kernel runs with another configuration than this host would have.
fn compare(config: Option<&Path>, greeting: &Greeting) {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let sources = config.map_or_else(Sources::of_process, Sources::given);
    let ours: Vec<PathBuf> = sources.files().map(real).collect();
    let has: Vec<PathBuf> = greeting.config.iter().map(|path| real(path)).collect();
    let named = |files: &[&PathBuf]| match files {
        [] => "no file".to_owned(),
        files => {
            let files: Vec<_> = files.iter().map(|path| format!("`{}`", path.display())).collect();
            files.join(" and ")
        }
    };
    // What stands last may have been made since then, and counts all the same, if nothing else was named.
    let made_since = |file: &PathBuf| config.is_none() && ours.last() == Some(file);
    let there: Vec<&PathBuf> = ours.iter().filter(|file| file.exists()).collect();
    if has.iter().all(|file| ours.contains(file))
        && there.iter().all(|file| has.contains(file) || made_since(file))
    {
        return;
    }
    tracing::warn!(
        "the kernel that runs here was started with {}, not {}: that one counts; \
         give this host a folder of its own with --state DIR, or --standalone",
        named(&has.iter().collect::<Vec<_>>()),
        named(&there)
    );
}

/// Takes the ready file away when a signal ends this process: nothing else hears one.
fn clear_at_a_signal(file: Arc<Mutex<Option<ReadyFile>>>) -> Ended {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let signals = {
        let _within = runtime.enter();
        Signals::new()?
    };
    thread::Builder::new().name("mgp-signals".to_owned()).spawn(move || {
        let mut signals = signals;
        let number = runtime.block_on(signals.next());
        drop(file.lock().unwrap_or_else(PoisonError::into_inner).take());
        // As a shell reports a process that the signal ended.
        std::process::exit(128 + number);
    })?;
    Ok(())
}

/// Moves bytes both ways until the kernel has said all.
fn pump(stream: &UnixStream) -> Ended {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let upward = stream.try_clone()?;
    let has_left = Arc::new(AtomicBool::new(false));
    let left = Arc::clone(&has_left);
    thread::Builder::new().name("mgp-host".to_owned()).stack_size(64 * 1024).spawn(move || {
        let (mut input, mut upward) = (input, upward);
        // Whatever ends it, the host has nothing more to say; the kernel answers what it was asked.
        let passed = pass(&mut input, &mut upward);
        // Where the kernel takes nothing more, that is no word of the host.
        left.store(!passed.is_err_and(|error| is_gone(&error)), Ordering::Release);
        let _ = upward.shutdown(Shutdown::Write);
    })?;
    let (mut downward, mut output) = (stream, output);
    match pass(&mut downward, &mut output) {
        _ if has_left.load(Ordering::Acquire) => Ok(()),
        // The host reads no more.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Failure::failed(
            "the kernel has ended; the host starts another one when it connects again",
        )),
    }
}

/// Whether the other side of a pipe or socket is not there any more.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Copies until there is no more, each piece as it comes.
///
/// Not by `io::copy`, which lets the system splice: Linux holds the lock of a pipe while it waits for the socket, and
/// whoever reads the pipe then waits for the *next* message before it sees this one.
fn pass(from: &mut impl io::Read, to: &mut impl io::Write) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
