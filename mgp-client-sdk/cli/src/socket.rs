//! The kernel's local socket, `mgp.sock` in the state folder, over which shims and commands connect.
//!
//! Only processes of the same user are accepted. The first line of a client names its role, which `operator/gate.rs`
//! checks.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::exit::{CliResult, Failure};
use crate::operator::Admission;
use crate::peer::Peer;
use crate::served_kernel::{ServedClient, ServedKernel};
use crate::socket_hello::{self, HELLO_TIMEOUT, Hello, HelloReply, MAX_LINE_BYTES};

/// Maximum number of open connections; further ones are refused.
const MAX_CONNECTIONS: usize = 256;

/// The pause after a failed `accept`, e.g. because the process has no free file descriptor.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

pub(crate) fn path_in(folder: &Path) -> PathBuf {
    folder.join("mgp.sock")
}

/// A listening socket; dropping this value removes the socket file.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl LocalSocket {
    /// Listens at the socket path in a private folder; replaces the socket file of a kernel that no longer runs.
    pub(crate) fn open(folder: &Path) -> CliResult<Self> {
        let path = path_in(folder);
        remove_stale(&path)?;
        let listener = UnixListener::bind(&path).map_err(|error| unusable(&path, &error))?;
        let this = Self { listener, path };
        fs::set_permissions(&this.path, Permissions::from_mode(0o600))
            .map_err(|error| unusable(&this.path, &error))?;
        Ok(this)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts and serves connections until this future is dropped; open connections continue in `connections`.
    pub(crate) async fn serve(
        &self,
        served: &ServedKernel,
        reply: &HelloReply,
        connections: &mut JoinSet<()>,
    ) {
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let reply = Arc::new(reply.clone());
        loop {
            let stream = tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "accept failed");
                        sleep(ACCEPT_RETRY_DELAY).await;
                        continue;
                    }
                },
                // Remove each finished connection from the set.
                Some(_) = connections.join_next() => continue,
            };
            let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
                refuse(&stream, "the kernel has reached its limit of connections; close some");
                continue;
            };
            let (served, reply) = (served.clone(), Arc::clone(&reply));
            connections.spawn(async move {
                let _permit = permit;
                if let Err(error) = serve_connection(stream, &served, &reply).await {
                    tracing::debug!(%error, "connection refused");
                }
            });
        }
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // If the file cannot be removed now, the next kernel replaces it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the socket file of a kernel that no longer runs; fails if a kernel answers there.
fn remove_stale(path: &Path) -> CliResult {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unusable(path, &error)),
        Ok(metadata) => metadata,
    };
    let shown = path.display();
    if !metadata.file_type().is_socket() {
        return Err(Failure::failed(format!("`{shown}` is not a socket; move it away")));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(Failure::failed(format!(
            "a kernel already answers at `{shown}`; stop it, or name another folder with --state DIR"
        ))),
        Err(error)
            if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) =>
        {
            match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(unusable(path, &error)),
                _ => Ok(()),
            }
        }
        Err(error) => Err(unusable(path, &error)),
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

/// Sends the reason of a refusal, unless sending would block.
fn refuse(stream: &UnixStream, reason: &str) {
    let _ = stream.try_write(&HelloReply::refused(reason).line());
}

async fn serve_connection(
    mut stream: UnixStream,
    served: &ServedKernel,
    reply: &HelloReply,
) -> io::Result<()> {
    // The mode of the folder already keeps other users out, unless a person has changed it.
    if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
        refuse(&stream, "this kernel belongs to another user");
        return Err(ErrorKind::PermissionDenied.into());
    }
    // Identify the peer at once, while the connecting process most likely still runs.
    let peer = Peer::of(&stream);
    let line = socket_hello::read_line(&mut stream, MAX_LINE_BYTES);
    let line = match timeout(HELLO_TIMEOUT, line).await {
        Ok(Ok(line)) => Ok(line),
        Ok(Err(error)) if error.kind() == ErrorKind::InvalidData => Err(error.to_string()),
        Ok(Err(error)) => return Err(error),
        Err(_) => Err("timed out waiting for the first line".to_owned()),
    };
    let mut client = ServedClient::Program;
    let admitted = match &line {
        Ok((line, _)) => match Hello::read(line) {
            Ok(hello) => {
                let admitted = served.gate.admit(&served.kernel, &peer, &hello).await;
                if admitted.is_ok() && served.is_shared && hello.is_newer() {
                    tracing::info!("a host has a newer version of this program; giving way to it");
                    served.kernel.request_stop(None);
                    // Closing without a reply makes the shim start the next kernel.
                    return Err(ErrorKind::ConnectionAborted.into());
                }
                if hello.is_shim() {
                    client = ServedClient::Shim;
                }
                admitted
            }
            Err(reason) => Err(HelloReply::refused(reason)),
        },
        Err(reason) => Err(HelloReply::refused(reason.as_str())),
    };
    let (Admission { principal, pass }, rest) = match (admitted, line) {
        (Ok(admission), Ok((_, rest))) => (admission, rest),
        (Err(refused), _) => {
            let _ = stream.try_write(&refused.line());
            return Err(io::Error::other(refused.error.unwrap_or_default()));
        }
        (Ok(_), Err(reason)) => return Err(io::Error::other(reason)),
    };
    if served.drain.is_draining() {
        // Closing without a reply makes a shim start the next kernel instead of waiting for this one.
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
