//! The kernel's local socket, `mgp.sock` in the state folder. Shims and commands connect to it.
//!
//! Only processes of the same user are accepted. The first line of a client names its role, which `operator/gate.rs`
//! checks.

#[cfg(any(not(unix), test))]
mod loopback;
mod silent;
#[cfg(unix)]
mod unix;

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mgp_transport::http::AcceptFailures;
use mgp_types::is_same_file;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

#[cfg(not(unix))]
use self::loopback as transport;
use self::silent::{SilentConnections, SilentPlace};
#[cfg(not(target_os = "linux"))]
pub(crate) use self::transport::process_id;
pub(crate) use self::transport::{AsyncStream, Stream, connect, connect_async, connect_to_own};
use self::transport::{Listener, UserCheck};
#[cfg(unix)]
use self::unix as transport;
use crate::exit::{CliResult, Failure};
use crate::operator::Admission;
use crate::peer::Peer;
use crate::served_kernel::{ServedClient, ServedKernel};
use crate::socket_hello::{self, HELLO_TIMEOUT, Hello, HelloReply, HelloRole, MAX_LINE_BYTES};

/// Maximum number of open connections; further connections are refused.
const MAX_CONNECTIONS: usize = 256;

/// Maximum number of open connections of agents. The remaining connections are for operators, so that an agent that
/// leaves its connections open cannot lock operators out.
const MAX_AGENT_CONNECTIONS: usize = MAX_CONNECTIONS - 16;

/// The reason of a refusal when the limit of connections is reached.
const TOO_MANY: &str = "the kernel has reached its limit of connections; close some";

/// The pause after a failed `accept`, e.g. because the process has no free file descriptor.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The interval at which the kernel checks whether its socket file still exists.
const FILE_INTERVAL: Duration = Duration::from_secs(2);

pub(crate) fn path_in(folder: &Path) -> PathBuf {
    folder.join("mgp.sock")
}

/// A listening socket; dropping this value removes the socket file.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    listener: Listener,
    path: PathBuf,
    /// The socket file that this kernel created, if it could be read.
    file: Option<Metadata>,
}

impl LocalSocket {
    /// Listens at the socket path in a private folder; replaces the socket file of a kernel that no longer runs.
    pub(crate) fn open(folder: &Path) -> CliResult<Self> {
        let path = path_in(folder);
        let listener = Listener::bind(&path)?;
        let file = fs::symlink_metadata(&path).ok();
        Ok(Self { listener, path, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts and serves connections until this future is dropped; open connections continue in `connections`. If the
    /// socket file was removed, listens again if `is_own` returns that the folder still belongs to this kernel.
    pub(crate) async fn serve(
        &mut self,
        served: &ServedKernel,
        reply: &HelloReply,
        connections: &mut JoinSet<()>,
        is_own: impl Fn() -> bool,
    ) {
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let agents = Arc::new(Semaphore::new(MAX_AGENT_CONNECTIONS));
        let silent = SilentConnections::default();
        let reply = Arc::new(reply.clone());
        let mut failures = AcceptFailures::default();
        let mut checks = interval(FILE_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let stream = tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok(stream) => stream,
                    Err(error) => {
                        failures.log(&error);
                        sleep(ACCEPT_RETRY_DELAY).await;
                        continue;
                    }
                },
                // Remove each finished connection from the set.
                Some(_) = connections.join_next() => continue,
                _ = checks.tick() => {
                    if self.is_removed() && is_own() {
                        self.listen_again();
                    }
                    continue;
                }
            };
            let (served, reply) = (served.clone(), Arc::clone(&reply));
            let agents = Arc::clone(&agents);
            let (user, permits) = (self.listener.user_check(), Arc::clone(&permits));
            let place = silent.add();
            connections.spawn(async move {
                let served = async {
                    let greeted = greet(stream, &user, place).await?;
                    let permit = permits.try_acquire_owned();
                    let _permit = permit.map_err(|_| {
                        send_refusal(&greeted.stream, HelloReply::refused(TOO_MANY))
                    })?;
                    serve_connection(greeted, &served, &reply, &agents).await
                };
                if let Err(error) = served.await {
                    tracing::debug!(%error, "connection refused");
                }
            });
        }
    }

    fn is_removed(&self) -> bool {
        let found = fs::symlink_metadata(&self.path);
        found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }

    /// Creates the socket file again, because neither hosts nor commands reach this kernel without it, and none starts
    /// another kernel while this one has locked the folder.
    fn listen_again(&mut self) {
        match Listener::bind(&self.path) {
            Ok(listener) => {
                self.listener = listener;
                self.file = fs::symlink_metadata(&self.path).ok();
                tracing::warn!("`{}` was removed and is created again", self.path.display());
            }
            // The next check tries again.
            Err(failure) => tracing::debug!(%failure, "the removed socket is not created again"),
        }
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // Remove only this kernel's own socket file. If the state folder was removed, another kernel may have started
        // there, and its file must stay.
        let is_own = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| self.file.as_ref().is_none_or(|own| is_same_file(own, &found)));
        if is_own {
            // Ignore an error: if the file cannot be removed now, the next kernel replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn unusable(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    if error.kind() == ErrorKind::InvalidInput {
        return Failure::failed(format!(
            "the path `{shown}` is too long for a socket; name a shorter folder with --state DIR"
        ));
    }
    Failure::failed(format!("the socket `{shown}` cannot be used: {error}"))
}

/// Sends a refusal to the client, unless sending would block; returns the reason of the refusal as an error.
fn send_refusal(stream: &AsyncStream, reply: HelloReply) -> io::Error {
    let _ = stream.try_write(&reply.line());
    io::Error::other(reply.error.unwrap_or_default())
}

/// A connection of the same user whose client has sent its first line.
struct Greeted {
    stream: AsyncStream,
    peer: Peer,
    line: Vec<u8>,
    /// The bytes that were received after the first line.
    rest: Vec<u8>,
}

/// Checks the user of a connection, and reads its first line. Fails if later connections displace this connection
/// before the line arrives.
async fn greet(
    mut stream: AsyncStream,
    user: &UserCheck,
    place: SilentPlace,
) -> io::Result<Greeted> {
    let reading = async {
        user.check(&mut stream).await?;
        // Identify the peer immediately, while the connecting process most likely still runs.
        let peer = Peer::of(&stream);
        let line = socket_hello::read_line(&mut stream, MAX_LINE_BYTES);
        io::Result::Ok((peer, timeout(HELLO_TIMEOUT, line).await))
    };
    let read = tokio::select! {
        // Check for the line first, so that a client that has sent it keeps its connection.
        biased;
        read = reading => Some(read?),
        () = place.displaced() => None,
    };
    let Some((peer, line)) = read else {
        return Err(send_refusal(&stream, HelloReply::refused(TOO_MANY)));
    };
    match line {
        Ok(Ok((line, rest))) => Ok(Greeted { stream, peer, line, rest }),
        Ok(Err(error)) if error.kind() != ErrorKind::InvalidData => Err(error),
        Ok(Err(error)) => Err(send_refusal(&stream, HelloReply::refused(error.to_string()))),
        Err(_) => {
            let reason = "timed out waiting for the first line";
            Err(send_refusal(&stream, HelloReply::refused(reason)))
        }
    }
}

async fn serve_connection(
    greeted: Greeted,
    served: &ServedKernel,
    reply: &HelloReply,
    agents: &Semaphore,
) -> io::Result<()> {
    let Greeted { mut stream, peer, line, rest } = greeted;
    let hello = Hello::read(&line).map_err(HelloReply::refused);
    let hello = hello.map_err(|refused| send_refusal(&stream, refused))?;
    let _permit = match hello.role() {
        HelloRole::Operator { .. } => None,
        HelloRole::Agent { .. } => {
            let permit = agents.try_acquire();
            Some(permit.map_err(|_| send_refusal(&stream, HelloReply::refused(TOO_MANY)))?)
        }
    };
    let admitted = served.gate.admit(&served.kernel, &peer, &hello).await;
    let Admission { principal, pass } =
        admitted.map_err(|refused| send_refusal(&stream, refused))?;
    if served.is_shared && hello.is_newer() {
        tracing::info!("a host has a newer version of this program; giving way to it");
        served.kernel.request_stop(None);
        // Close the connection without a reply, which makes the shim start the next kernel.
        return Err(ErrorKind::ConnectionAborted.into());
    }
    let client = if hello.is_shim() { ServedClient::Shim } else { ServedClient::Program };
    // Add the client before the check for a drain. Otherwise an idle kernel could begin to end after it has accepted
    // the client.
    let _guard = served.add_client(&principal, client);
    if served.drain.is_draining() {
        // Close the connection without a reply, which makes a shim start the next kernel instead of waiting for this
        // one.
        return Err(ErrorKind::ConnectionAborted.into());
    }
    let reply = if pass.is_some() { reply.clone().reading_only() } else { reply.clone() };
    stream.write_all(&reply.line()).await?;
    let (reader, writer) = stream.into_split();
    let reader = io::Cursor::new(rest).chain(reader);
    let closed = served.serve_connection(reader, writer, principal.clone(), pass, client).await;
    tracing::debug!(?principal, %closed, "client disconnected");
    Ok(())
}
