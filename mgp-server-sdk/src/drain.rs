//! Shutdown of a server: on request, once running calls are answered (MGP §11.4).

use mgp_lifecycle::{Drain, DrainConfig};
use mgp_transport::CloseHandle;
use tokio::task::JoinHandle;

use crate::server::Server;

/// The ways to shut the server down.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    pub(crate) drain: Drain,
    /// If set, the program handles SIGTERM and SIGINT.
    pub(crate) leaves_signals: bool,
    /// If set, the peer of [`Server::serve`] owns the server.
    pub(crate) is_owned: bool,
}

impl Server {
    /// Returns a handle that ends the server gracefully at any time: running calls finish, new calls fail with code
    /// 2001, and then [`Server::serve`] and the other serving methods return.
    ///
    /// The owner of a server drains it by `mgp/lifecycle/shutdown`, the system by SIGTERM.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::types::mgp::ShutdownReason;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let server = Server::new("clock", "1.0");
    /// let drain = server.drain_handle();
    /// let (_here, there) = tokio::io::duplex(1024);
    /// let (reader, writer) = tokio::io::split(there);
    /// let serving = tokio::spawn(server.serve(reader, writer));
    ///
    /// drain.begin(ShutdownReason::IdleTimeout, Duration::from_secs(30));
    /// serving.await.unwrap().unwrap();
    /// # });
    /// ```
    #[must_use]
    pub fn drain_handle(&self) -> Drain {
        self.shutdown.drain.clone()
    }

    /// Changes how the server drains: the time limit of running calls (30 s) and the longest one a client may request.
    pub fn drain(self, change: impl FnOnce(&mut DrainConfig)) -> Self {
        self.shutdown.drain.configure(change);
        self
    }

    /// Leaves SIGTERM and SIGINT to the program.
    ///
    /// By default both drain a server on stdin and stdout or at an address, and a second one ends the process.
    /// A program that handles signals by itself drains with [`Server::drain_handle`].
    pub fn without_signals(mut self) -> Self {
        self.shutdown.leaves_signals = true;
        self
    }

    /// Lets the peer of [`Server::serve`] shut the server down, as the parent process always may over stdio.
    ///
    /// Over HTTP only callers with operator authority may.
    pub fn owned_by_peer(mut self) -> Self {
        self.shutdown.is_owned = true;
        self
    }
}

/// Closes a connection once the server has drained; stops when it is dropped.
#[derive(Debug)]
pub(crate) struct CloseWhenDrained(JoinHandle<()>);

impl CloseWhenDrained {
    pub(crate) fn when_drained(drain: Drain, ending: CloseHandle) -> Self {
        // A separate task: the connection must not check for a drain with each message.
        Self(tokio::spawn(async move {
            drain.begun().await;
            // A peer that does not read must not be counted as running calls.
            ending.announce();
            drain.ended().await;
            ending.begin();
        }))
    }
}

impl Drop for CloseWhenDrained {
    fn drop(&mut self) {
        self.0.abort();
    }
}
