//! The process of the kernel as operators see it: its addresses, its start time, and requests to stop it.

use std::path::PathBuf;
use std::time::Duration;

use mgp_types::Timestamp;
use mgp_types::sync::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// The addresses and the files of a kernel, as far as the program that runs the kernel has set them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelEndpoints {
    /// The state folder of the kernel.
    pub state: Option<PathBuf>,
    /// `true` if another program has removed or replaced the database in the state folder.
    pub is_state_lost: bool,
    /// `true` if another program has removed or replaced the write-ahead log of that database.
    pub is_state_log_lost: bool,
    /// The path of the kernel's local socket.
    pub socket: Option<PathBuf>,
    /// The URL of the kernel's HTTP endpoint.
    pub http: Option<String>,
    /// The URL of the operators' web console that this process serves. Links in messages to people begin with this URL,
    /// unless the configuration contains an address of the console.
    pub console: Option<String>,
    /// The option, e.g. `--state /srv/mgp`, that commands of the program need to reach this kernel, if any. The
    /// commands in messages to people contain it.
    pub command_option: Option<String>,
    /// The configuration files of the kernel.
    pub config: Vec<PathBuf>,
}

pub(super) struct ProcessInfo {
    pub(super) endpoints: Mutex<KernelEndpoints>,
    pub(super) started_at: Timestamp,
    stop: watch::Sender<Option<StopRequest>>,
}

#[derive(Clone, Copy, Debug)]
struct StopRequest {
    timeout: Option<Duration>,
    received_at: Instant,
}

impl Default for ProcessInfo {
    fn default() -> Self {
        let (endpoints, stop) = (Mutex::default(), watch::Sender::new(None));
        Self { endpoints, started_at: Timestamp::now(), stop }
    }
}

impl ProcessInfo {
    /// Requests a stop; only the first request has an effect.
    pub(super) fn request_stop(&self, timeout: Option<Duration>) {
        self.stop.send_if_modified(|stop| {
            let is_first = stop.is_none();
            stop.get_or_insert(StopRequest { timeout, received_at: Instant::now() });
            is_first
        });
    }

    /// Waits for a request to stop the kernel, and returns the time limit of the request, if it has one.
    pub(super) async fn stop_requested(&self) -> Option<Duration> {
        // `self` owns the sender, so the channel cannot be closed here.
        let mut stop = self.stop.subscribe();
        let request = stop.wait_for(Option::is_some).await;
        request.ok().and_then(|request| *request).and_then(|request| request.timeout)
    }

    /// Returns the rest of the time limit of the request to stop the kernel, if it has one.
    pub(super) fn left_to_stop(&self) -> Option<Duration> {
        let request = (*self.stop.borrow())?;
        Some(request.timeout?.saturating_sub(request.received_at.elapsed()))
    }
}
