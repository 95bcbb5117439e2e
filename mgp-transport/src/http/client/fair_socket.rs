//! A socket whose reads use up tokio's task budget in proportion to the bytes read. So a server that sends without end
//! does not delay other tasks.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop::poll_proceed;

/// The number of received bytes that use up one unit of tokio's task budget.
///
/// Hyper skips interim responses (1xx) in a loop that ends only when the task has used up its budget of 128 units.
/// Tokio counts each read as one unit, however many bytes it returns. So without this type, a server could keep the
/// loop busy with 128 full buffers.
const BYTES_PER_UNIT: usize = 1024;

/// A socket of a client.
pub(in crate::http) struct FairSocket<T>(T);

impl<T> FairSocket<T> {
    pub(super) fn new(socket: T) -> Self {
        Self(socket)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for FairSocket<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.0).poll_read(task, buf);
        for _ in 0..(buf.filled().len() - before) / BYTES_PER_UNIT {
            // If the budget is used up, the next read has to wait until other tasks had their turn.
            let Poll::Ready(unit) = poll_proceed(task) else { break };
            unit.made_progress();
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for FairSocket<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(task, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(task, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(task)
    }
}

impl<T: Connection> Connection for FairSocket<T> {
    fn connected(&self) -> Connected {
        self.0.connected()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn a_server_that_sends_without_end_leaves_other_tasks_their_turn() {
        let mut socket = FairSocket::new(tokio::io::repeat(b'x'));
        let mut received = 0;
        poll_fn(|task| {
            let mut bytes = [0; 8 * 1024];
            loop {
                let mut buffer = ReadBuf::new(&mut bytes);
                if Pin::new(&mut socket).poll_read(task, &mut buffer).is_pending() {
                    return Poll::Ready(());
                }
                received += buffer.filled().len();
            }
        })
        .await;
        assert!((1..=256 << 10).contains(&received), "{received} bytes in one turn");
    }
}
