//! Handles SIGTERM, SIGINT and SIGHUP: the first signal drains the kernel, a second one ends the process.
//! Also handles SIGXFSZ: a write beyond the limit of file sizes fails, but does not end the process.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

/// The number of the signal SIGHUP.
const HANGUP: i32 = 1;

/// The time in which further signals count as the first one. GNU `timeout` sends its signal to the process and to the
/// group of the process, and many programs answer Ctrl-C, which reaches the whole group, by SIGTERM to their children.
const REPETITION: Duration = Duration::from_secs(1);

/// A stream of SIGTERM, SIGINT and SIGHUP.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    /// The stream of SIGHUP; `None` if this process ignores this signal.
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let hangup = (!ignores_hangup()).then(|| signal(SignalKind::hangup())).transpose()?;
        // Without this handler, a write beyond the limit of file sizes (`ulimit -f`) would end the process. The handler
        // stays until the process ends.
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup,
        })
    }

    /// Waits for the next signal, and returns its number.
    pub(crate) async fn next(&mut self) -> i32 {
        let Self { terminate, interrupt, hangup } = self;
        let hung_up = async {
            match hangup {
                Some(hangup) => {
                    let _ = hangup.recv().await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => 15,
            _ = interrupt.recv() => 2,
            () = hung_up => HANGUP,
        }
    }
}

/// Returns whether this process ignores SIGHUP, e.g. because `nohup` started it. Returns `true` if that is not known,
/// so that the handling of the signal does not change.
#[cfg(unix)]
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The lowest bit of the mask is that of signal 1, i.e. SIGHUP.
    ignored.is_none_or(|mask| mask & 1 != 0)
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
    /// `received` is the signal that began the stop. If there was none, e.g. because a host disconnected, the next
    /// signal counts as the first: many hosts send a signal right after they close the standard input.
    pub(crate) fn exit_on_second(mut self, received: Option<i32>) {
        tokio::spawn(async move {
            if received.is_none() {
                self.next().await;
            }
            let begun = Instant::now();
            let mut number = self.next().await;
            // Skip further hangups: when a terminal is closed, its shell repeats the signal.
            while number == HANGUP || begun.elapsed() < REPETITION {
                number = self.next().await;
            }
            tracing::warn!(number, "exiting on second signal");
            std::process::exit(exit_code(number));
        });
    }
}
