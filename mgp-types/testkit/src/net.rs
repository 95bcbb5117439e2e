//! An HTTP request written as text, and a proxy that cuts a connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
