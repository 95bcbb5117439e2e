//! An HTTP request written as text, a proxy that cuts a connection, and addresses at which nothing listens.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};

/// Sends a request over a connection of its own, and returns the whole response. `head` contains the request line and
/// further lines, without a line end after the last line; the headers `Host`, `Connection` and `Content-Length` are
/// added.
///
/// # Panics
/// Panics if the connection breaks.
pub async fn http_exchange(to: SocketAddr, head: &str, body: &str) -> String {
    let length = body.len();
    let request = format!(
        "{head}\r\nHost: {to}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(to).await.expect("the server listens");
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("the server answers");
    response
}

/// Starts a proxy that forwards bytes in both directions, and returns its address. The proxy cuts one connection: the
/// first connection on which the server has sent more than `after` bytes. From then on, `cuts` is greater than zero.
///
/// # Panics
/// Panics if no port is free.
pub async fn cutting_proxy(to: SocketAddr, after: usize, cuts: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let cuts = Arc::clone(&cuts);
            tokio::spawn(forward(near, to, after, cuts));
        }
    });
    address
}

/// Returns an address of this machine at which nothing listens. The system gives its port to no other program that
/// requests a free port, and each call returns another one.
///
/// # Panics
/// Panics if no such port is free.
#[must_use]
pub fn unused_address() -> SocketAddr {
    /// The ports below those that systems choose for programs.
    const PORTS: std::ops::Range<u16> = 10_000..30_000;
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let count = u32::from(PORTS.end - PORTS.start);
    // Test processes with neighbouring ids run at the same time, so their first ports are apart.
    let first = std::process::id().wrapping_mul(16) % count;
    let candidates = std::iter::repeat_with(|| {
        let offset = (first + u32::from(CALLS.fetch_add(1, Ordering::SeqCst))) % count;
        let port = PORTS.start + u16::try_from(offset).expect("it is below the number of ports");
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    });
    let mut candidates = candidates.take(PORTS.len());
    let is_free = |address: &SocketAddr| std::net::TcpListener::bind(address).is_ok();
    candidates.find(is_free).expect("a port is free")
}

async fn forward(near: TcpStream, to: SocketAddr, after: usize, cuts: Arc<AtomicUsize>) {
    let (mut from_client, mut to_client) = near.into_split();
    let far = TcpStream::connect(to).await.expect("the server listens");
    let (mut from_server, mut to_server) = far.into_split();
    let requests = tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
    let (mut passed, mut piece) = (0, vec![0; 1000]);
    while let Ok(read @ 1..) = from_server.read(&mut piece).await {
        passed += read;
        if passed > after && cuts.fetch_add(1, Ordering::SeqCst) == 0 {
            break;
        }
        if to_client.write_all(&piece[..read]).await.is_err() {
            break;
        }
    }
    requests.abort();
}
