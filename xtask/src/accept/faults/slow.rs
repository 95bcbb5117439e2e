//! Slowloris: many connections that drip a request are cut in time, and others are served meanwhile.

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

/// How many drip at a time.
const DRIPS: usize = 300;
/// A byte of each, this often.
const PAUSE: Duration = Duration::from_millis(500);
/// When the last must be gone.
const LIMIT: Duration = Duration::from_secs(45);
/// How long a request of somebody else may take meanwhile.
const SERVED: Duration = Duration::from_secs(1);

/// What drips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Head,
    Body,
}

/// Opens the connections and drips until all are cut.
pub(super) fn drip(served: &Served, part: Part) -> Outcome<String> {
    let port = served.port();
    let length = "Content-Length: 100000\r\n";
    let (at_once, rest) = match part {
        Part::Head => (String::new(), head(port, "POST", &"X-Filler: drip\r\n".repeat(100))),
        Part::Body => (head(port, "POST", length), " ".repeat(1000)),
    };
    let mut open = Vec::new();
    for _ in 0..DRIPS {
        let mut stream = connect(port)?;
        stream.write_all(at_once.as_bytes())?;
        stream.set_nonblocking(true)?;
        open.push(stream);
    }
    let start = now();
    let mut slowest = Duration::ZERO;
    for byte in rest.as_bytes() {
        open.retain_mut(|stream| goes_on(stream, *byte));
        let asked = now();
        if !alive(port) {
            return Err(Failure::new("others are not served meanwhile"));
        }
        slowest = slowest.max(asked.elapsed());
        if open.is_empty() || start.elapsed() > LIMIT {
            break;
        }
        thread::sleep(PAUSE);
    }
    let millis = slowest.as_millis();
    let seen = format!(
        "{} of {DRIPS} cut within {}, others served within {millis} ms",
        DRIPS - open.len(),
        seconds(start.elapsed()),
    );
    if open.is_empty() && slowest <= SERVED { Ok(seen) } else { Err(Failure::new(seen)) }
}

/// Drips a byte; false once the server has answered or closed.
fn goes_on(stream: &mut TcpStream, byte: u8) -> bool {
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
        assert!(goes_on(&mut stream, b'x'));
        drop(other);
        let end = now() + Duration::from_secs(10);
        while goes_on(&mut stream, b'x') {
            assert!(now() < end);
        }
    }
}
