//! The response body that delivers the data of a data reference.

use std::error::Error;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, SeekFrom};
use tokio::time::timeout;

/// The number of bytes that are read from a file at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The maximum time between two pieces of a received body.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The bytes of a data reference, piece by piece.
pub(super) type ByteStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// A body that contains a part of the data of a reference. It fails if there are fewer bytes than the response
/// announced.
pub(super) struct ReferenceBody {
    pieces: ByteStream,
    /// The number of bytes that remain to be sent; `None` if the body extends to the end of the stream.
    left: Option<u64>,
}

impl ReferenceBody {
    pub(super) fn new(pieces: ByteStream, length: Option<u64>) -> Self {
        Self { pieces, left: length }
    }

    /// Creates the body of a response without content.
    pub(super) fn empty() -> Self {
        Self::new(Box::pin(stream::empty()), Some(0))
    }
}

impl Body for ReferenceBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        let Some(piece) = ready!(self.pieces.poll_next_unpin(task)) else {
            let is_short = self.left.is_some();
            return Poll::Ready(is_short.then(|| Err(io::ErrorKind::UnexpectedEof.into())));
        };
        let mut piece = piece?;
        if let Some(left) = &mut self.left {
            piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= piece.len() as u64;
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Returns the bytes of a file, from a position on.
pub(super) async fn read_file(path: &Path, from: u64) -> io::Result<ByteStream> {
    let mut file = File::open(path).await?;
    file.seek(SeekFrom::Start(from)).await?;
    Ok(Box::pin(stream::try_unfold(file, |mut file| async move {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let read = file.read_buf(&mut piece).await?;
        Ok((read > 0).then(|| (Bytes::from(piece), file)))
    })))
}

/// Returns the size and the SHA-256 checksum of a file.
///
/// # Errors
/// Returns the system's error if the file cannot be read.
///
/// # Cancel safety
/// Dropping the future stops the reading.
pub async fn digest_file(path: &Path) -> io::Result<(u64, [u8; 32])> {
    let (mut pieces, mut size, mut hasher) = (read_file(path, 0).await?, 0, Sha256::new());
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        size += piece.len() as u64;
        hasher.update(&piece);
    }
    Ok((size, hasher.finalize().into()))
}

/// Returns the bytes of a received body; fails if no data arrives for [`STALL_TIMEOUT`].
pub(super) fn received<B>(body: B) -> ByteStream
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    Box::pin(stream::try_unfold(body, |mut body| async move {
        loop {
            let Ok(frame) = timeout(STALL_TIMEOUT, body.frame()).await else {
                let bound = mgp_types::duration_words(STALL_TIMEOUT);
                let why = format!("no data arrived for {bound}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            };
            match frame.transpose().map_err(io::Error::other)?.map(Frame::into_data) {
                Some(Ok(data)) => return Ok(Some((data, body))),
                // Trailers are ignored.
                Some(Err(_)) => {}
                None => return Ok(None),
            }
        }
    }))
}

mgp_types::opaque_debug!(ReferenceBody { left });

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;

    use super::*;

    /// Regression test: a server that stopped sending occupied a connection of each server that passed its data on.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_fails() {
        let first = stream::iter([Ok::<_, io::Error>(Frame::data(Bytes::from("data")))]);
        let mut pieces = received(StreamBody::new(first.chain(stream::pending())));
        assert_eq!(pieces.next().await.unwrap().unwrap(), "data");
        assert_eq!(pieces.next().await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
