//! The fault "slowloris": many connections send a request very slowly. The server must close them in time, and must
//! serve other clients meanwhile.

use super::head;
use crate::{
    corpus::alive,
    exchange::connect,
    run::{Failure, Outcome, now, seconds},
    serving::Served,
};
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    thread,
    time::Duration,
};

/// The number of slow connections that the check opens.
const CONNECTIONS: usize = 300;
/// The interval between two bytes on a connection.
const BYTE_INTERVAL: Duration = Duration::from_millis(500);
/// The time within which the server must close all slow connections.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(45);
/// The maximum time of a request by another client while the slow connections are open.
const MAX_REQUEST_TIME: Duration = Duration::from_secs(1);

/// The part of the request that is sent slowly; the part before it is sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Head,
    Body,
}

/// Opens the slow connections, and sends one byte at a time on each until the server has closed all of them.
pub(super) fn drip(served: &Served, part: Part) -> Outcome<String> {
    let port = served.port();
    let length = "Content-Length: 100000\r\n";
    let (at_once, rest) = match part {
        Part::Head => (String::new(), head(port, "POST", &"X-Filler: drip\r\n".repeat(100))),
        Part::Body => (head(port, "POST", length), " ".repeat(1000)),
    };
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = connect(port)?;
        stream.write_all(at_once.as_bytes())?;
        stream.set_nonblocking(true)?;
        open.push(stream);
    }
    let start = now();
    let mut slowest = Duration::ZERO;
    for byte in rest.as_bytes() {
        open.retain_mut(|stream| send_byte(stream, *byte));
        let asked = now();
        if !alive(port) {
            return Err(Failure::new("others are not served meanwhile"));
        }
        slowest = slowest.max(asked.elapsed());
        if open.is_empty() || start.elapsed() > CLOSE_TIMEOUT {
            break;
        }
        thread::sleep(BYTE_INTERVAL);
    }
    let millis = slowest.as_millis();
    let seen = format!(
        "{} of {CONNECTIONS} cut within {}, others served within {millis} ms",
        CONNECTIONS - open.len(),
        seconds(start.elapsed()),
    );
    if open.is_empty() && slowest <= MAX_REQUEST_TIME { Ok(seen) } else { Err(Failure::new(seen)) }
}

/// Sends a byte; returns false once the server has replied or closed the connection.
fn send_byte(stream: &mut TcpStream, byte: u8) -> bool {
    let waits = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
    let mut answer = [0; 1];
    match stream.read(&mut answer) {
        Err(error) if waits(&error) => {}
        _ => return false,
    }
    let byte = [byte];
    match stream.write(&byte) {
        Ok(written) => written == 1,
        Err(error) => waits(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_closed_connection_is_seen() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut stream = connect(listener.local_addr().unwrap().port()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let (other, _) = listener.accept().unwrap();
        assert!(send_byte(&mut stream, b'x'));
        drop(other);
        let end = now() + Duration::from_secs(10);
        while send_byte(&mut stream, b'x') {
            assert!(now() < end);
        }
    }
}
