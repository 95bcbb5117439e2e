//! How a server ends: when it is told to, once what runs is answered (MGP §11.4).
//!
//! Applies to: inbound.

use mgp_lifecycle::{Drain, DrainConfig};
use mgp_transport::Ending;
use tokio::task::JoinHandle;

use crate::server::Server;
use crate::signals::Signals;

/// Who may end the server, and how.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    pub(crate) drain: Drain,
    pub(crate) signals: Heed,
    /// Whether the peer of [`Server::serve`] owns the server.
    pub(crate) is_owned: bool,
}

/// What becomes of SIGTERM and SIGINT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Heed {
    /// They drain the server.
    #[default]
    Drains,
    /// The program hears them.
    Program,
}

impl Heed {
    /// Has signals drain the server as long as the answer lives, unless the program does.
    pub(crate) fn heed(self, drain: &Drain) -> Option<Signals> {
        (self == Self::Drains).then(|| Signals::heed(drain))
    }
}

impl Server {
    /// Ends the server gracefully, from anywhere and at any time: what runs is finished, new calls are answered 2001, and
    /// then [`Server::serve`] and its kin return.
    ///
    /// The owner of a server does the same by `mgp/lifecycle/shutdown`, and its process by SIGTERM.
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
        self.stopping.drain.clone()
    }

    /// Changes how the server drains: the time that running calls have (30 s) and the longest time somebody can ask for.
    pub fn drain(self, change: impl FnOnce(&mut DrainConfig)) -> Self {
        self.stopping.drain.configure(change);
        self
    }

    /// Leaves SIGTERM and SIGINT to the program.
    ///
    /// Without it both drain a server on stdin and stdout or at an address, and the second one ends the process.
    /// A program that listens for itself drains with [`Server::drain_handle`].
    pub fn without_signals(mut self) -> Self {
        self.stopping.signals = Heed::Program;
        self
    }

    /// Lets the peer of [`Server::serve`] shut the server down, as the process that started it always may over stdio.
    ///
    /// Over HTTP only callers with operator authority may.
    pub fn owned_by_peer(mut self) -> Self {
        self.stopping.is_owned = true;
        self
    }
}

/// Ends a connection when the server has drained, as long as this lives.
#[derive(Debug)]
pub(crate) struct Leaving(JoinHandle<()>);

impl Leaving {
    pub(crate) fn when_drained(drain: Drain, ending: Ending) -> Self {
        // A task of its own: the connection is not to look at it with each message.
        Self(tokio::spawn(async move {
            drain.begun().await;
            // A peer that does not read must not look like calls that run.
            ending.announce();
            drain.ended().await;
            ending.begin();
        }))
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.abort();
    }
}
