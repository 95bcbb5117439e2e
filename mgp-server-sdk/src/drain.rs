//! The graceful shutdown (*drain*) of a server, which still answers the running calls in a limited time (MGP §11.4).

use mgp_lifecycle::Drain;
use mgp_transport::CloseHandle;
use tokio::task::JoinHandle;

/// The configuration of the server's shutdown.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    pub(crate) drain: Drain,
    /// `true` if the program handles SIGTERM and SIGINT itself, so the server does not.
    pub(crate) leaves_signals: bool,
    /// `true` if the peer of [`Server::serve`](crate::Server::serve) owns the server, and may shut it down.
    pub(crate) is_owned: bool,
}

/// A task that closes one connection once the server has drained; the task stops when this value is dropped.
#[derive(Debug)]
pub(crate) struct CloseWhenDrained(JoinHandle<()>);

impl CloseWhenDrained {
    pub(crate) fn when_drained(drain: Drain, ending: CloseHandle) -> Self {
        // A separate task waits for the drain. Otherwise the connection would have to check with each message whether
        // the drain is over.
        Self(tokio::spawn(async move {
            drain.wait_begun().await;
            // First announce to the connection that it will end. Otherwise, while the peer does not read, finished
            // calls whose answers are not sent yet would count as running, and the drain would wait for them in vain.
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
