//! The local socket on systems without Unix sockets: a loopback address, and a file that only this user can read.
//!
//! The file has the address and a random key. At the start of a connection, both sides prove that they know the key,
//! without sending it. So a process of another user can neither connect nor take the place of a kernel that has ended.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mgp_types::{Sha256Hash, random_name};
use subtle::ConstantTimeEq as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::unusable;
use crate::exit::CliResult;
use crate::replace_file::replace_file;
use crate::socket_hello::HELLO_TIMEOUT;

/// A connection to the local socket, for code without an async runtime.
pub(crate) type Stream = std::net::TcpStream;

/// A connection to the local socket, for code in an async runtime.
pub(crate) type AsyncStream = tokio::net::TcpStream;

/// The length, in bytes, of the random value that each side sends for the proof of the other side.
const NONCE_BYTES: usize = 32;

/// The length, in bytes, of the proof that a side knows the key.
const PROOF_BYTES: usize = 64;

/// The time within which a kernel accepts a connection; the system does so even if the kernel is busy.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// The maximum size of the file with the address and the key, in bytes.
const MAX_FILE_BYTES: u64 = 1024;

/// Connects to the kernel whose address is in the file at this path.
pub(crate) fn connect(path: &Path) -> io::Result<Stream> {
    let Place { address, key } = Place::read(path)?;
    // If no program listens at the port, Windows tries to connect for seconds, so limit the time.
    let connected = Stream::connect_timeout(&address, CONNECT_TIMEOUT);
    let mut stream = connected.map_err(|_| io::Error::from(ErrorKind::ConnectionRefused))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HELLO_TIMEOUT))?;
    let own = nonce()?;
    stream.write_all(own.as_bytes())?;
    let mut reply = [0; NONCE_BYTES + PROOF_BYTES];
    stream.read_exact(&mut reply)?;
    let (other, proof) = reply.split_at(NONCE_BYTES);
    if !is_same(key.proof("kernel", own.as_bytes(), other).as_bytes(), proof) {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    stream.write_all(key.proof("client", own.as_bytes(), other).as_bytes())?;
    stream.set_read_timeout(None)?;
    Ok(stream)
}

/// Connects like [`connect`], in an async runtime.
pub(crate) async fn connect_async(path: &Path) -> io::Result<AsyncStream> {
    let path = path.to_owned();
    let connected = tokio::task::spawn_blocking(move || connect(&path)).await;
    let stream = connected.map_err(io::Error::other)??;
    stream.set_nonblocking(true)?;
    AsyncStream::from_std(stream)
}

/// Connects like [`connect_async`]. Never returns `None`, because `connect_async` fails unless the program knows the
/// key of the same user.
#[cfg(not(unix))]
pub(crate) async fn connect_to_own(path: &Path) -> io::Result<Option<AsyncStream>> {
    connect_async(path).await.map(Some)
}

/// Returns `None`: the process at the other end of a connection is not known.
#[cfg(not(target_os = "linux"))]
pub(crate) fn process_id(_: &AsyncStream) -> Option<u32> {
    None
}

/// The kernel's listening socket, with its key.
#[derive(Debug)]
pub(super) struct Listener {
    listener: TcpListener,
    key: Arc<Key>,
}

/// The check that a connection belongs to the same user.
#[derive(Clone, Debug)]
pub(super) struct UserCheck(Arc<Key>);

impl Listener {
    /// Listens at a free port, and writes the file; replaces the file of a kernel that no longer runs. The caller holds
    /// the lock of the folder, so no other kernel uses it.
    pub(super) fn bind(path: &Path) -> CliResult<Self> {
        let bind = || {
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            let key = Key(format!("{}{}", nonce()?, nonce()?));
            replace_file(path, &format!("{} {}\n", listener.local_addr()?, key.0))?;
            Ok(Self { listener: TcpListener::from_std(listener)?, key: Arc::new(key) })
        };
        bind().map_err(|error| unusable(path, &error))
    }

    pub(super) async fn accept(&self) -> io::Result<AsyncStream> {
        let (stream, _) = self.listener.accept().await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    pub(super) fn user_check(&self) -> UserCheck {
        UserCheck(Arc::clone(&self.key))
    }
}

impl UserCheck {
    /// Proves to the client that this process knows the key, and fails if the client does not know it.
    pub(super) async fn check(&self, stream: &mut AsyncStream) -> io::Result<()> {
        let Self(key) = self;
        let checked = async {
            let mut other = [0; NONCE_BYTES];
            stream.read_exact(&mut other).await?;
            let own = nonce()?;
            let proof = key.proof("kernel", &other, own.as_bytes());
            stream.write_all(format!("{own}{proof}").as_bytes()).await?;
            let mut proof = [0; PROOF_BYTES];
            stream.read_exact(&mut proof).await?;
            Ok(is_same(key.proof("client", &other, own.as_bytes()).as_bytes(), &proof))
        };
        match timeout(HELLO_TIMEOUT, checked).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(ErrorKind::PermissionDenied.into()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ErrorKind::TimedOut.into()),
        }
    }
}

/// The random key of one listening socket, which only processes of the same user can read.
struct Key(String);

mgp_types::opaque_debug!(Key);

impl Key {
    /// Returns the proof of one side: only a process that knows the key can compute it for these nonces.
    fn proof(&self, side: &str, client: &[u8], kernel: &[u8]) -> String {
        let text = [self.0.as_bytes(), side.as_bytes(), client, kernel].concat();
        Sha256Hash::digest(&text).to_string()
    }
}

/// The content of the file: a kernel's address, and its key.
struct Place {
    address: SocketAddr,
    key: Key,
}

impl Place {
    fn read(path: &Path) -> io::Result<Self> {
        let mut text = String::new();
        fs::File::open(PathBuf::from(path))?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
        let read = || {
            let (address, key) = text.trim_end().split_once(' ')?;
            let address: SocketAddr = address.parse().ok()?;
            let is_valid = address.ip().is_loopback() && key.len() == 2 * NONCE_BYTES;
            is_valid.then(|| Self { address, key: Key(key.to_owned()) })
        };
        read().ok_or_else(|| ErrorKind::InvalidData.into())
    }
}

fn nonce() -> io::Result<String> {
    random_name().map_err(|error| io::Error::other(error.to_string()))
}

fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn accepted(listener: &Listener) -> io::Result<AsyncStream> {
        let mut stream = listener.accept().await?;
        listener.user_check().check(&mut stream).await?;
        Ok(stream)
    }

    #[tokio::test]
    async fn a_process_that_can_read_the_file_is_connected() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("mgp.sock");
        let listener = Listener::bind(&path).unwrap();
        let (client, kernel) = tokio::join!(connect_async(&path), accepted(&listener));
        let (mut client, mut kernel) = (client.unwrap(), kernel.unwrap());
        client.write_all(b"ping").await.unwrap();
        let mut received = [0; 4];
        kernel.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"ping");
    }

    #[tokio::test]
    async fn a_process_that_does_not_know_the_key_is_refused() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("mgp.sock");
        let listener = Listener::bind(&path).unwrap();
        let address = Place::read(&path).unwrap().address;
        let guessed = folder.path().join("guessed");
        fs::write(&guessed, format!("{address} {}\n", "0".repeat(2 * NONCE_BYTES))).unwrap();
        let (client, kernel) = tokio::join!(connect_async(&guessed), accepted(&listener));
        // The client notices first that the kernel does not know its key, and disconnects.
        assert_eq!(client.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        kernel.unwrap_err();
        let intruder = async {
            let mut stream = AsyncStream::connect(address).await.unwrap();
            stream.write_all(&[b'0'; NONCE_BYTES]).await.unwrap();
            let mut reply = [0; NONCE_BYTES + PROOF_BYTES];
            stream.read_exact(&mut reply).await.unwrap();
            // Send the kernel's own proof back, which the kernel must not accept as the proof of a client.
            stream.write_all(&reply[NONCE_BYTES..]).await.unwrap();
            stream
        };
        let (_intruder, kernel) = tokio::join!(intruder, accepted(&listener));
        assert_eq!(kernel.unwrap_err().kind(), ErrorKind::PermissionDenied);
    }

    #[tokio::test]
    async fn a_file_of_a_kernel_that_has_ended_is_replaced() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("mgp.sock");
        drop(Listener::bind(&path).unwrap());
        let first = fs::read_to_string(&path).unwrap();
        assert_eq!(connect_async(&path).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let listener = Listener::bind(&path).unwrap();
        assert_ne!(fs::read_to_string(&path).unwrap(), first);
        let (client, kernel) = tokio::join!(connect_async(&path), accepted(&listener));
        client.and(kernel).unwrap();
    }
}
