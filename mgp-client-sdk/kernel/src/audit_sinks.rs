//! The sinks of `[kernel.audit.sinks]`: files, URLs and syslog receivers that get a copy of each audit event.
//!
//! [`Forwarder`] forwards the events in order, repeats failed attempts and stores each sink's position; a sink here
//! only writes one event.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mgp_discovery::{AuditSinkConfig, Expander, path_in};
use mgp_security::{Delivery, Forwarder, Forwarding, Governance};
use mgp_transport::http::Proxy;
use mgp_types::mgp::KernelFinding;
use mgp_types::service::{Call, Reply, Stack};
use mgp_types::{ErrorCode, RpcError, Timestamp};
use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UdpSocket, lookup_host};
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::error::KernelError;
use super::url_sink::UrlSink;

/// The time within which a receiver must accept one event.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum time that the stop of the kernel waits until the sinks have written their last events.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum size of a datagram; a longer event is sent without its details.
const MAX_DATAGRAM: usize = 60_000;

/// The priority of events for syslog: facility 13 (log audit), severity 6 (informational).
const PRIORITY: u8 = 13 * 8 + 6;

/// The running sinks; dropping them stops the forwarding.
#[derive(Default)]
pub(super) struct AuditSinks(Vec<RunningSink>);

struct RunningSink {
    name: String,
    forwarding: Forwarding,
    error: LastError,
}

/// The error of the last attempt to write an event; `None` if that attempt succeeded.
type LastError = Arc<mgp_types::sync::Mutex<Option<String>>>;

mgp_types::opaque_debug!(AuditSinks);

/// The file, URL or syslog receiver to which a sink writes events.
enum Target {
    File {
        path: PathBuf,
        running: Mutex<Option<Append>>,
    },
    Url(UrlSink),
    Udp(String),
    Tcp {
        address: String,
        stream: Mutex<Option<TcpStream>>,
    },
    #[cfg(unix)]
    Socket(PathBuf),
}

/// A running attempt to append a line to a file. The attempt continues even after its caller has stopped waiting,
/// because a blocked thread cannot be interrupted.
struct Append {
    line: String,
    thread: JoinHandle<io::Result<()>>,
}

impl AuditSinks {
    /// Starts the sinks of a configuration; `folder` is the state folder.
    pub(super) fn start(
        sinks: &BTreeMap<String, AuditSinkConfig>,
        governance: &Governance,
        expander: &Expander,
        proxy: &Proxy,
        folder: &Path,
    ) -> Result<Self, KernelError> {
        let Some(log) = governance.log().filter(|_| !sinks.is_empty()) else {
            return Ok(Self::default());
        };
        let mut forwarder = Forwarder::new(Arc::new(log.clone()), Arc::clone(governance.store()));
        let mut targets = Vec::new();
        for (name, sink) in sinks {
            let target = target(sink, expander, proxy, folder)
                .map_err(|why| KernelError::Sink { sink: name.clone(), why })?;
            forwarder = forwarder.sink(name, Delivery::Sent);
            targets.push((name.clone(), Arc::new(target)));
        }
        let mut running = Vec::new();
        for (name, target) in targets {
            let error = LastError::default();
            let last = Arc::clone(&error);
            let stack = Stack::from_fn(move |call| {
                let (target, last) = (Arc::clone(&target), Arc::clone(&last));
                async move {
                    let written = write(&target, &call).await;
                    *last.lock() = written.as_ref().err().map(|error| error.message().to_owned());
                    written
                }
            });
            // This always succeeds, because each name was added to `forwarder` above.
            if let Ok(forwarding) = forwarder.forward(&name, stack) {
                running.push(RunningSink { name, forwarding, error });
            }
        }
        Ok(Self(running))
    }

    /// Saves the position of each sink in the audit log, so that the next kernel sends no event again, and stops the
    /// sinks. Waits for at most [`STOP_TIMEOUT`].
    pub(super) async fn stop(&self) {
        let stopping = self.0.iter().map(|sink| sink.forwarding.stop());
        if timeout(STOP_TIMEOUT, join_all(stopping)).await.is_err() {
            tracing::warn!("a sink of audit events does not take its last event");
        }
    }

    /// Returns the name of each sink, with the sequence number of the last event that its receiver accepted.
    pub(super) fn delivered(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|sink| (sink.name.as_str(), sink.forwarding.delivered()))
    }

    /// Returns a warning for each sink whose receiver did not accept the last event, with the reason.
    pub(super) fn findings(&self) -> impl Iterator<Item = KernelFinding> {
        self.0.iter().filter_map(|RunningSink { name, error, .. }| {
            let why = error.lock().clone()?;
            let text = format!(
                "`kernel.audit.sinks.{name}` takes no events, which wait in the audit log: {why}; `mgp logs` shows each attempt"
            );
            Some(KernelFinding::new("warning", text))
        })
    }
}

fn target(
    sink: &AuditSinkConfig,
    expander: &Expander,
    proxy: &Proxy,
    folder: &Path,
) -> Result<Target, String> {
    match sink {
        AuditSinkConfig::File(path) => {
            Ok(Target::File { path: path_in(folder, path), running: Mutex::default() })
        }
        AuditSinkConfig::Url { url, headers } => {
            UrlSink::new(url, &headers.0, expander, proxy, folder, SEND_TIMEOUT).map(Target::Url)
        }
        AuditSinkConfig::Syslog(address) => {
            if let Some(address) = address.strip_prefix("udp://") {
                return Ok(Target::Udp(address.to_owned()));
            }
            if let Some(address) = address.strip_prefix("tcp://") {
                let address = address.to_owned();
                return Ok(Target::Tcp { address, stream: Mutex::default() });
            }
            #[cfg(unix)]
            return Ok(Target::Socket(PathBuf::from(address)));
            #[cfg(not(unix))]
            Err("this system has no syslog socket; write `udp://HOST:PORT`".to_owned())
        }
        _ => Err("this version has no such kind of sink".to_owned()),
    }
}

/// Writes the audit event that a call contains to the target.
async fn write(target: &Target, call: &Call) -> Result<Reply, RpcError> {
    let mut event = Vec::new();
    call.params().write(&mut event, call.hop());
    let event = String::from_utf8_lossy(&event).into_owned();
    let failed = |why: String| RpcError::new(ErrorCode::UPSTREAM_UNAVAILABLE, why);
    let written = timeout(SEND_TIMEOUT, target.write(&event)).await;
    written
        .map_err(|_| failed("the sink did not take an event in time".to_owned()))?
        .map_err(failed)?;
    Ok(Reply::None)
}

impl Target {
    async fn write(&self, event: &str) -> Result<(), String> {
        match self {
            Self::File { path, running } => {
                append_once(path, format!("{event}\n"), &mut *running.lock().await).await
            }
            Self::Url(sink) => return sink.post("", event).await,
            Self::Udp(address) => send_datagram(address, event).await,
            Self::Tcp { address, stream } => {
                let message = syslog(event);
                let framed = format!("{} {message}", message.len());
                send_stream(address, &mut *stream.lock().await, framed.as_bytes()).await
            }
            #[cfg(unix)]
            Self::Socket(path) => {
                let socket = tokio::net::UnixDatagram::unbound();
                match socket {
                    Ok(socket) => socket.send_to(datagram(event).as_bytes(), path).await.map(drop),
                    Err(error) => Err(error),
                }
            }
        }
        .map_err(|error| error.to_string())
    }
}

/// Appends a line to a file on a thread for blocking work.
///
/// First waits for an earlier attempt that has not ended, e.g. because no process reads from a pipe. So at most one
/// thread is blocked. If the earlier attempt has appended the same line, does not append it again.
async fn append_once(path: &Path, line: String, running: &mut Option<Append>) -> io::Result<()> {
    if let Some(earlier) = running {
        let appended = matches!((&mut earlier.thread).await, Ok(Ok(())));
        let is_same = earlier.line == line;
        *running = None;
        if appended && is_same {
            return Ok(());
        }
    }
    let (path, text) = (path.to_owned(), line.clone());
    let thread = spawn_blocking(move || append(&path, &text));
    let attempt = running.insert(Append { line, thread });
    let appended = (&mut attempt.thread).await;
    *running = None;
    appended.unwrap_or_else(|ended| Err(io::Error::other(ended)))
}

/// Appends a line to a file. A new file is readable only by its owner.
fn append(path: &Path, line: &str) -> io::Result<()> {
    append_with(path, line, File::write_all)
}

/// Appends a line to a file with the given function, which writes bytes. If the function fails, e.g. because the disk
/// is full, removes the bytes that it has written, so that the next attempt appends a whole line.
fn append_with(
    path: &Path,
    line: &str,
    write: impl FnOnce(&mut File, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let metadata = file.metadata()?;
    // Only a plain file has a length: the path can also name, e.g., a pipe.
    let length = metadata.is_file().then_some(metadata.len());
    let is_torn = length.is_some_and(|length| length > 0 && !ends_line(path, length));
    let begin = if is_torn { "\n" } else { "" };
    let written = write(&mut file, format!("{begin}{line}").as_bytes());
    if let (Err(_), Some(length)) = (&written, length) {
        // Ignore an error: even if a part of the line remains, the next line begins on a line of its own.
        let _ = file.set_len(length);
    }
    written
}

/// Returns whether the last byte of a file ends a line, or cannot be read.
fn ends_line(path: &Path, length: u64) -> bool {
    let mut last = [0];
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(length - 1))?;
        file.read_exact(&mut last)
    });
    read.is_err() || last == *b"\n"
}

async fn send_datagram(address: &str, event: &str) -> io::Result<()> {
    let to = lookup_host(address).await?.next();
    let to = to.ok_or_else(|| io::Error::other("the host has no address"))?;
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.send_to(datagram(event).as_bytes(), to).await.map(drop)
}

/// Sends bytes over a stream, which is kept open for the next event; drops the stream if sending fails.
async fn send_stream(address: &str, kept: &mut Option<TcpStream>, bytes: &[u8]) -> io::Result<()> {
    let mut stream = match kept.take() {
        Some(stream) if !is_closed(&stream) => stream,
        _ => TcpStream::connect(address).await?,
    };
    stream.write_all(bytes).await?;
    *kept = Some(stream);
    Ok(())
}

/// Returns whether the receiver has closed the stream. A syslog receiver sends no data, so a readable stream counts as
/// closed.
fn is_closed(stream: &TcpStream) -> bool {
    let mut byte = [0];
    !matches!(stream.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// Returns the syslog message of an event, shortened if necessary so that it fits into a datagram.
fn datagram(event: &str) -> String {
    if event.len() <= MAX_DATAGRAM {
        return syslog(event);
    }
    let member = |name: &str| {
        let event = serde_json::from_str::<serde_json::Value>(event).ok();
        event.and_then(|event| event.get(name).cloned()).unwrap_or_default()
    };
    let (time, kind, mgp) = (member("timestamp"), member("event_type"), member("_mgp"));
    let short = serde_json::json!({
        "timestamp": time, "event_type": kind, "_mgp": mgp, "truncated": true,
    });
    syslog(&short.to_string())
}

/// Returns a syslog message (RFC 5424) without a host name, because the receiver adds it. The message has the time of
/// the event, which can be much earlier than the time of sending, e.g. if the receiver was not reachable.
fn syslog(event: &str) -> String {
    #[derive(Deserialize)]
    struct Timed {
        timestamp: Timestamp,
    }
    let time = serde_json::from_str::<Timed>(event).ok();
    let time = time.and_then(|timed| timed.timestamp.to_system_time());
    let (time, pid) = (time.map_or_else(Timestamp::now, Timestamp::from), std::process::id());
    format!("<{PRIORITY}>1 {time} - mgp {pid} audit - {event}")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_full_disk_loses_no_event_and_leaves_only_whole_lines() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("events.jsonl");
        append(&path, "{\"a\":1}\n").unwrap();
        let full = append_with(&path, "{\"a\":2}\n", |file, bytes| {
            file.write_all(&bytes[..3])?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":1}\n");
        append(&path, "{\"a\":2}\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":1}\n{\"a\":2}\n");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn an_event_reaches_a_pipe_once_although_its_reader_comes_late() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("events.fifo");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let mut running = None;
        for _ in 0..3 {
            let attempt = append_once(&path, "1\n".to_owned(), &mut running);
            assert!(timeout(Duration::from_millis(20), attempt).await.is_err());
        }
        let read = {
            let path = path.clone();
            spawn_blocking(move || fs::read_to_string(path).unwrap())
        };
        append_once(&path, "1\n".to_owned(), &mut running).await.unwrap();
        assert_eq!(read.await.unwrap(), "1\n");
    }

    #[test]
    fn a_syslog_message_has_the_time_of_its_event() {
        const HEAD: &str = "<110>1 2026-03-04T05:06:07.089Z - mgp ";
        let event = |details: &str| {
            format!(r#"{{"timestamp":"2026-03-04T05:06:07.089Z","details":"{details}"}}"#)
        };
        assert!(syslog(&event("x")).starts_with(HEAD));
        assert!(datagram(&event(&"x".repeat(MAX_DATAGRAM))).starts_with(HEAD));
        assert!(syslog("{}").starts_with("<110>1 20"), "the current time");
    }

    #[test]
    fn an_event_after_a_part_of_a_line_begins_a_new_line() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("events.jsonl");
        fs::write(&path, "{\"a\":").unwrap();
        append(&path, "{\"a\":2}\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":\n{\"a\":2}\n");
    }
}
