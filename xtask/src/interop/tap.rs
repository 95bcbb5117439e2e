//! A TCP proxy on loopback that records the traffic between a client and a server.

use super::relay::Traffic;
use crate::run::Outcome;
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// The recorded bytes: `up` from the client, `down` from the server.
#[derive(Debug, Default)]
struct Log {
    up: Vec<u8>,
    down: Vec<u8>,
}

/// A recording proxy. It stops accepting connections when it is dropped.
#[derive(Debug)]
pub(super) struct Tap {
    port: u16,
    log: Arc<Mutex<Log>>,
    closed: Arc<AtomicBool>,
}

impl Tap {
    /// Starts a proxy in front of the server on this port.
    pub(super) fn before(server: u16) -> Outcome<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let (log, closed) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let tap = Self { port, log: Arc::clone(&log), closed: Arc::clone(&closed) };
        thread::spawn(move || {
            for stream in listener.incoming() {
                if closed.load(Ordering::SeqCst) {
                    return;
                }
                let to = TcpStream::connect((Ipv4Addr::LOCALHOST, server));
                // If the proxy cannot connect to the server, it closes the client's connection.
                let Ok((from, to)) = stream.and_then(|from| Ok((from, to?))) else { continue };
                connect(&from, &to, &log);
            }
        });
        Ok(tap)
    }

    /// Returns the URL that the client must use.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Returns the traffic recorded so far.
    pub(super) fn traffic(&self) -> Traffic {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = |bytes: &[u8]| -> Vec<String> {
            String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
        };
        let up = lines(&log.up);
        let header = |line: &String| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("mcp-protocol-version").then(|| value.trim().to_owned())
        };
        let announced = up.iter().rev().find_map(header);
        Traffic { announced, up, down: lines(&log.down) }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        // Connects once, so that the listening thread wakes up and exits.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn connect(from: &TcpStream, to: &TcpStream, log: &Arc<Mutex<Log>>) {
    let pairs = from.try_clone().and_then(|one| Ok([(one, to.try_clone()?, true)]));
    let back = to.try_clone().and_then(|one| Ok([(one, from.try_clone()?, false)]));
    let (Ok(pairs), Ok(back)) = (pairs, back) else { return };
    for (from, to, up) in pairs.into_iter().chain(back) {
        let log = Arc::clone(log);
        thread::spawn(move || pass(from, to, up, &log));
    }
}

/// Forwards and records bytes until the connection ends.
fn pass(mut from: TcpStream, mut to: TcpStream, up: bool, log: &Mutex<Log>) {
    let mut buffer = [0; 1 << 14];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        // Records before forwarding, so that the log contains everything that a peer has received.
        {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            let side = if up { &mut log.up } else { &mut log.down };
            side.extend_from_slice(&buffer[..count]);
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // Ignores errors, because the other side may have closed the connection already.
    let _ = to.shutdown(Shutdown::Write);
}
