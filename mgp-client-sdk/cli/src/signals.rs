//! Handles SIGTERM and SIGINT: the first signal drains the kernel, a second one ends the process at once.

use std::io;

/// A stream of SIGTERM and SIGINT.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal, and returns its number.
    pub(crate) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => 15,
            _ = self.interrupt.recv() => 2,
        }
    }
}

/// A stream of Ctrl-C events, the only termination signal on this system.
#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) -> i32 {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        2
    }
}

/// Returns the exit code that shells report for a process ended by a signal.
pub(crate) fn exit_code(number: i32) -> i32 {
    128 + number
}

impl Signals {
    /// Makes the kernel's process exit at the second signal; its keepers then end the servers.
    ///
    /// `received` is `true` if the first signal began the stop. If a host disconnected instead, the next signal counts
    /// as the first, because many hosts send a signal right after they close the standard input.
    pub(crate) fn exit_on_second(mut self, received: bool) {
        tokio::spawn(async move {
            if !received {
                self.next().await;
            }
            let number = self.next().await;
            tracing::warn!(number, "exiting on second signal");
            std::process::exit(exit_code(number));
        });
    }
}
