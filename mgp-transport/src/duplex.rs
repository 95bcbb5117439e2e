//! An in-memory connection, for tests and for servers in the same process.
//!
//! Applies to: both.

use tokio::io::{DuplexStream, ReadHalf, WriteHalf, split};

/// One end of an in-memory connection.
#[derive(Debug)]
pub struct End {
    /// Reads what the other end wrote.
    pub reader: ReadHalf<DuplexStream>,
    /// Writes to the other end.
    pub writer: WriteHalf<DuplexStream>,
}

/// Two ends of a connection that holds 64 KiB each way, as a pipe does.
#[must_use]
pub fn duplex() -> (End, End) {
    let (a, b) = tokio::io::duplex(64 * 1024);
    (End::of(a), End::of(b))
}

impl End {
    fn of(stream: DuplexStream) -> Self {
        let (reader, writer) = split(stream);
        Self { reader, writer }
    }
}
