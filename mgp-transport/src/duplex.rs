//! An in-memory connection, for tests and for servers in the same process.

use tokio::io::{DuplexStream, ReadHalf, WriteHalf, split};

/// One end of an in-memory connection.
#[derive(Debug)]
pub struct DuplexEnd {
    /// The reader of the bytes that the other end writes.
    pub reader: ReadHalf<DuplexStream>,
    /// The writer to the other end.
    pub writer: WriteHalf<DuplexStream>,
}

/// Creates the two ends of a connection that buffers 64 KiB in each direction, like a pipe.
#[must_use]
pub fn duplex() -> (DuplexEnd, DuplexEnd) {
    let (a, b) = tokio::io::duplex(64 * 1024);
    (DuplexEnd::new(a), DuplexEnd::new(b))
}

impl DuplexEnd {
    fn new(stream: DuplexStream) -> Self {
        let (reader, writer) = split(stream);
        Self { reader, writer }
    }
}
