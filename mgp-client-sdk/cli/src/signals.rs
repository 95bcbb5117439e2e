//! SIGTERM and SIGINT: the first one ends the kernel in order, a second one at once.
//!
//! Applies to: both.

use std::io;

/// Hears signals.
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

    /// Waits for the next one, and gives its number.
    pub(crate) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => 15,
            _ = self.interrupt.recv() => 2,
        }
    }
}

/// Hears Ctrl-C, which is all there is.
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

impl Signals {
    /// From now on a signal ends the process; children go with it.
    pub(crate) fn hurry(mut self) {
        tokio::spawn(async move {
            let number = self.next().await;
            tracing::warn!(number, "a second signal ends the process at once");
            // As a shell reports a process that the signal ended.
            std::process::exit(128 + number);
        });
    }
}
