//! What a kernel and the program around it tell each other: where it is reached, and when it is to leave.
//!
//! Applies to: both.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mgp_types::Timestamp;
use tokio::sync::watch;

use super::clients::Clients;
use super::handle::Kernel;

/// Where a kernel is reached, and what it was made from, as far as whoever runs it said so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reachable {
    /// The folder of its state.
    pub state: Option<PathBuf>,
    /// Its local socket.
    pub socket: Option<PathBuf>,
    /// The URL it serves.
    pub http: Option<String>,
    /// The files of its configuration.
    pub config: Vec<PathBuf>,
}

/// The kernel's side of that.
pub(super) struct Host {
    reachable: Mutex<Reachable>,
    leaves: watch::Sender<Option<Leave>>,
    began: Timestamp,
}

/// That it is to leave.
#[derive(Clone, Copy, Debug)]
struct Leave {
    timeout: Option<Duration>,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            reachable: Mutex::default(),
            leaves: watch::Sender::new(None),
            began: Timestamp::now(),
        }
    }
}

impl Kernel {
    /// Who is connected, and who called lately.
    #[must_use]
    pub fn clients(&self) -> &Clients {
        self.0.fleet.ground().callers.clients()
    }

    /// Since when it runs.
    #[must_use]
    pub fn began(&self) -> &Timestamp {
        &self.0.host.began
    }

    /// Where it is reached.
    #[must_use]
    pub fn reachable(&self) -> Reachable {
        self.0.host.reachable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says where it is reached.
    pub fn set_reachable(&self, change: impl FnOnce(&mut Reachable)) {
        change(&mut self.0.host.reachable.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Asks whoever runs it to stop it, within a time if one is given; the first word counts.
    ///
    /// ```
    /// use mgp_kernel::Kernel;
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let kernel = Kernel::builder().build().await.unwrap();
    /// kernel.ask_to_leave(Some(Duration::from_secs(5)));
    /// let within = kernel.asked_to_leave().await;
    /// assert_eq!(within, Some(Duration::from_secs(5)));
    /// # });
    /// ```
    pub fn ask_to_leave(&self, timeout: Option<Duration>) {
        self.0.host.leaves.send_if_modified(|leaves| {
            let is_first = leaves.is_none();
            leaves.get_or_insert(Leave { timeout });
            is_first
        });
    }

    /// Waits until somebody [asks](Self::ask_to_leave), and gives the time.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn asked_to_leave(&self) -> Option<Duration> {
        let mut leaves = self.0.host.leaves.subscribe();
        // It is never closed: this handle holds it.
        let asked = leaves.wait_for(Option::is_some).await;
        asked.ok().and_then(|leave| *leave).and_then(|leave| leave.timeout)
    }
}
