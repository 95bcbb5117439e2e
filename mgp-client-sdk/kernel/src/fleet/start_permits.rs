//! The permits that limit how many servers are being started at the same time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::first_start_permits::FirstStartPermits;

/// The maximum number of servers that start at the same time. Starts by calls have a separate limit of this size.
const MAX_STARTS: usize = 8;

/// The maximum number of sessions with subscriptions that start again at the same time.
const MAX_RESUMES: usize = 4;

/// The maximum time that a start occupies one of the limited permits for starts, so that a server that hangs does not
/// prevent others from starting.
pub(super) const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The permits that limit how many servers start at the same time, separately for each reason to start one.
#[derive(Clone, Debug)]
pub(crate) struct StartPermits {
    /// The permits for all starts but those below.
    pub(super) other: Arc<Semaphore>,
    /// The permits for starts by calls. They are separate, so that calls do not wait for servers that hang when the
    /// kernel starts them.
    pub(super) calls: Arc<Semaphore>,
    /// The permits for servers that are started to read their lists. Calls do not wait for them.
    pub(super) first_starts: FirstStartPermits,
    /// The permits for sessions with subscriptions that are started again. They are separate, so that calls and the
    /// first start of a server do not wait for them.
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
