//! The local socket on Unix: a socket file in the state folder.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use tokio::net::UnixListener;

use super::unusable;
use crate::exit::{CliResult, Failure};
use crate::socket_hello::HelloReply;

/// A connection to the local socket, for code without an async runtime.
pub(crate) type Stream = std::os::unix::net::UnixStream;

/// A connection to the local socket, for code in an async runtime.
pub(crate) type AsyncStream = tokio::net::UnixStream;

pub(crate) fn connect(path: &Path) -> io::Result<Stream> {
    Stream::connect(path)
}

/// Connects like [`connect`], in an async runtime.
pub(crate) async fn connect_async(path: &Path) -> io::Result<AsyncStream> {
    AsyncStream::connect(path).await
}

/// Connects like [`connect_async`]; returns `None` if the socket, or the program that listens there, belongs to another
/// user, who must not receive the passphrase.
pub(crate) async fn connect_to_own(path: &Path) -> io::Result<Option<AsyncStream>> {
    connect_to_user(path, rustix::process::geteuid().as_raw()).await
}

async fn connect_to_user(path: &Path, user: u32) -> io::Result<Option<AsyncStream>> {
    // Do not connect to a socket of another user at all, because the attempt could block or fail if the socket has a
    // full queue. Do not follow another user's link either, because it can lead to any socket of this user.
    if fs::symlink_metadata(path).is_ok_and(|file| file.uid() != user) {
        return Ok(None);
    }
    let stream = connect_async(path).await?;
    Ok((stream.peer_cred()?.uid() == user).then_some(stream))
}

/// Returns the id of the process at the other end of a connection, if it is known.
#[cfg(not(target_os = "linux"))]
pub(crate) fn process_id(stream: &AsyncStream) -> Option<u32> {
    u32::try_from(stream.peer_cred().ok()?.pid()?).ok()
}

/// The kernel's listening socket.
#[derive(Debug)]
pub(super) struct Listener(UnixListener);

/// The check that a connection belongs to the same user.
#[derive(Clone, Debug)]
pub(super) struct UserCheck(());

impl Listener {
    /// Listens at a path; replaces the socket file of a kernel that no longer runs.
    pub(super) fn bind(path: &Path) -> CliResult<Self> {
        remove_stale(path)?;
        let listener = UnixListener::bind(path).map_err(|error| unusable(path, &error))?;
        fs::set_permissions(path, Permissions::from_mode(0o600))
            .map_err(|error| unusable(path, &error))?;
        Ok(Self(listener))
    }

    pub(super) async fn accept(&self) -> io::Result<AsyncStream> {
        self.0.accept().await.map(|(stream, _)| stream)
    }

    #[expect(clippy::unused_self, reason = "on other systems, the check needs the key")]
    pub(super) fn user_check(&self) -> UserCheck {
        UserCheck(())
    }
}

impl UserCheck {
    /// Fails if the process at the other end belongs to another user. The mode of the folder already keeps other users
    /// out, unless a person has changed it.
    #[expect(clippy::unused_async, reason = "on other systems, the check exchanges messages")]
    pub(super) async fn check(&self, stream: &mut AsyncStream) -> io::Result<()> {
        if stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        let refusal = HelloReply::refused("this kernel belongs to another user");
        Err(super::send_refusal(stream, refusal))
    }
}

/// Removes the socket file of a kernel that no longer runs; fails if a kernel answers there.
fn remove_stale(path: &Path) -> CliResult {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unusable(path, &error)),
        Ok(metadata) => metadata,
    };
    if !metadata.file_type().is_socket() {
        let path = path.display();
        return Err(Failure::failed(format!("`{path}` is not a socket; move it away")));
    }
    match connect(path) {
        Ok(_) => Err(already_served(path)),
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

fn already_served(path: &Path) -> Failure {
    Failure::failed(format!(
        "a kernel already answers at `{}`; stop it, or name another folder with --state DIR",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, lchown, symlink};

    use super::*;

    #[tokio::test]
    async fn a_program_of_another_user_is_not_connected() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("mgp.sock");
        let _listener = Listener::bind(&path).unwrap();
        let own = rustix::process::geteuid().as_raw();
        let other = own + 1;
        assert!(connect_to_own(&path).await.unwrap().is_some());
        assert!(connect_to_user(&path, other).await.unwrap().is_none());
        // Give the link, and later the socket of its program, to another user, if this test runs as root. Only root can
        // do so.
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(connect_to_own(&link).await.unwrap().is_some());
        if lchown(&link, Some(other), None).is_ok() {
            assert!(connect_to_own(&link).await.unwrap().is_none());
        }
        if chown(&path, Some(other), None).is_ok() {
            assert!(connect_to_user(&path, own).await.unwrap().is_none());
            assert!(connect_to_user(&path, other).await.unwrap().is_none());
        }
    }
}
