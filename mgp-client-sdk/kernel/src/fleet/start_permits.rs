//! The permits that limit how many servers are being started at the same time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::first_start_permits::FirstStartPermits;

/// The number of permits for starts. Starts that calls cause have as many permits of their own.
const MAX_STARTS: usize = 8;

/// The maximum number of sessions that are started at the same time to restore subscriptions.
const MAX_RESUMES: usize = 4;

/// The maximum time that a start occupies a permit. Without this limit, a server that hangs would prevent others from
/// starting.
pub(super) const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The permits that limit how many servers are starting at the same time, separately for each reason for a start.
#[derive(Clone, Debug)]
pub(crate) struct StartPermits {
    /// The permits for all starts that the other fields do not cover.
    pub(super) other: Arc<Semaphore>,
    /// The permits for starts that calls cause. They are separate from the permits for other starts, so that calls do
    /// not wait for servers that hang.
    pub(super) calls: Arc<Semaphore>,
    /// The permits for starts whose purpose is to read the lists of a server. Calls do not wait for these permits.
    pub(super) first_starts: FirstStartPermits,
    /// The permits for starting sessions to restore subscriptions. They are separate, so that neither calls nor the
    /// first starts of servers wait for them.
    pub(super) resumes: Arc<Semaphore>,
}

impl StartPermits {
    pub(crate) fn new() -> Self {
        let permits = |number| Arc::new(Semaphore::new(number));
        Self {
            other: permits(MAX_STARTS),
            calls: permits(MAX_STARTS),
            first_starts: FirstStartPermits::new(),
            resumes: permits(MAX_RESUMES),
        }
    }
}
