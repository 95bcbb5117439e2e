//! The local socket of the kernel: `mgp.sock` in its state folder.
//!
//! Only processes of the same user are let in; each says in its first line whom it speaks for.
//!
//! Applies to: inbound.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mgp_kernel::Carrier;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::attach::House;
use crate::exit::{Ended, Failure};
use crate::preface::{self, Greeting, LINE_BYTES, Preface};

/// Connections at once; further ones are told so and closed. Each may hold what the limits of a connection say.
const CONNECTIONS: usize = 256;

/// How long the first line may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long accepting pauses when the system has no descriptor left.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// Where the socket of a state folder is.
pub(crate) fn place(folder: &Path) -> PathBuf {
    folder.join("mgp.sock")
}

/// The socket, while somebody listens; its file goes with it.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: UnixListener,
    path: PathBuf,
}

impl Listening {
    /// Listens in a folder that is ours alone; what a dead kernel left there is replaced.
    pub(crate) fn open(folder: &Path) -> Ended<Self> {
        let path = place(folder);
        clear(&path)?;
        let listener = UnixListener::bind(&path).map_err(|error| cannot(&path, &error))?;
        let this = Self { listener, path };
        fs::set_permissions(&this.path, Permissions::from_mode(0o600))
            .map_err(|error| cannot(&this.path, &error))?;
        Ok(this)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Serves whoever connects. Dropping the future takes nobody in any more; connections end with the returned set.
    pub(crate) async fn run(&self, house: &House, greeting: &Greeting, serving: &mut JoinSet<()>) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let welcome: Arc<[u8]> = greeting.line().into();
        loop {
            let stream = tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "no connection can be taken");
                        sleep(EXHAUSTED).await;
                        continue;
                    }
                },
                // Those that ended are let go of at once.
                Some(_) = serving.join_next() => continue,
            };
            let Ok(seat) = Arc::clone(&room).try_acquire_owned() else {
                refuse(&stream, "the kernel has as many connections as it takes; close some");
                continue;
            };
            let (house, welcome) = (house.clone(), Arc::clone(&welcome));
            serving.spawn(async move {
                let _seat = seat;
                if let Err(error) = serve(stream, &house, &welcome).await {
                    tracing::debug!(%error, "a connection was not taken");
                }
            });
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // The next kernel replaces what cannot be removed now.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the socket of a kernel that is gone.
fn clear(path: &Path) -> Ended {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot(path, &error)),
        Ok(found) => found,
    };
    let shown = path.display();
    if !found.file_type().is_socket() {
        return Err(Failure::failed(format!(
            "`{shown}` is in the way and is no socket; move it away"
        )));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(Failure::failed(format!(
            "something answers at `{shown}`: a kernel runs there already; stop it, or name another folder with --state DIR"
        ))),
        Err(error)
            if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) =>
        {
            match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(cannot(path, &error)),
                _ => Ok(()),
            }
        }
        Err(error) => Err(cannot(path, &error)),
    }
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    if error.kind() == ErrorKind::InvalidInput {
        return Failure::failed(format!(
            "the path `{shown}` is too long for a socket; name a shorter folder with --state DIR"
        ));
    }
    Failure::failed(format!("the socket `{shown}` cannot be used: {error}"))
}

/// Says why, if that goes at once.
fn refuse(stream: &UnixStream, why: &str) {
    let _ = stream.try_write(&Greeting::refusal(why).line());
}

async fn serve(mut stream: UnixStream, house: &House, welcome: &[u8]) -> io::Result<()> {
    // The folder keeps others out already; this holds where somebody opened it.
    if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
        refuse(&stream, "this kernel belongs to somebody else");
        return Err(ErrorKind::PermissionDenied.into());
    }
    let read = timeout(PATIENCE, preface::read_line(&mut stream, LINE_BYTES)).await;
    let principal = match read {
        Ok(Ok((line, behind))) => Preface::principal(&line).map(|principal| (principal, behind)),
        Ok(Err(error)) if error.kind() == ErrorKind::InvalidData => Err(error.to_string()),
        Ok(Err(error)) => return Err(error),
        Err(_) => Err("no first line came".to_owned()),
    };
    let (principal, behind) = match principal {
        Ok(known) => known,
        Err(why) => {
            refuse(&stream, &why);
            return Err(io::Error::other(why));
        }
    };
    stream.write_all(welcome).await?;
    let (reader, writer) = stream.into_split();
    let reader = io::Cursor::new(behind).chain(reader);
    let closed = house.attach(reader, writer, principal.clone(), Carrier::Socket).await;
    tracing::debug!(?principal, %closed, "a client has left");
    Ok(())
}
