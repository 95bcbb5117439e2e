//! The graceful shutdown of a server: on request, after all running calls have been answered (MGP §11.4).

use mgp_lifecycle::Drain;
use mgp_transport::CloseHandle;
use tokio::task::JoinHandle;

/// The configuration of the server's shutdown.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    pub(crate) drain: Drain,
    /// If set, the program itself handles SIGTERM and SIGINT.
    pub(crate) leaves_signals: bool,
    /// If set, the peer of [`Server::serve`](crate::Server::serve) owns the server and may shut it down.
    pub(crate) is_owned: bool,
}

/// A task that closes a connection when the server has drained; it stops when this value is dropped.
#[derive(Debug)]
pub(crate) struct CloseWhenDrained(JoinHandle<()>);

impl CloseWhenDrained {
    pub(crate) fn when_drained(drain: Drain, ending: CloseHandle) -> Self {
        // Use a separate task, so that the connection need not check with each message whether the server has drained.
        Self(tokio::spawn(async move {
            drain.wait_begun().await;
            // Announce the end first. Otherwise, finished calls whose answers are held back because the peer does not
            // read would still count as running, and the drain would wait for them.
            ending.announce();
            drain.wait_ended().await;
            ending.drain();
        }))
    }
}

impl Drop for CloseWhenDrained {
    fn drop(&mut self) {
        self.0.abort();
    }
}
