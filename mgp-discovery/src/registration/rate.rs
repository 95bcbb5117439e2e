//! The rate limit of calls to register and deregister, per principal (MGP §15.4).

use std::collections::HashMap;
use std::time::Duration;

use mgp_types::service::Principal;
use mgp_types::sync::Mutex;
use tokio::time::Instant;

use super::record::Creator;
use super::refusal::RegistrationError as Refused;

const WINDOW: Duration = Duration::from_mins(1);
/// The maximum number of principals whose calls are counted; while the table is full, other principals are refused.
const MAX_PRINCIPALS: usize = 1024;

/// The calls of each principal in its current minute: the start of the minute, and the number of calls since then.
#[derive(Default)]
pub(super) struct CallRate(Mutex<HashMap<Creator, (Instant, u32)>>);

impl CallRate {
    /// Counts a call. Returns an error with the time until the next permitted call, if the principal made too many
    /// calls.
    pub(super) fn take(&self, by: &Principal, most: u32) -> Result<(), Refused> {
        let now = Instant::now();
        let mut counted = self.0.lock();
        counted.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
        let who = Creator::of(by);
        if counted.len() >= MAX_PRINCIPALS && !counted.contains_key(&who) {
            return Err(Refused::RateLimited(WINDOW));
        }
        let (since, calls) = counted.entry(who).or_insert((now, 0));
        if *calls >= most {
            return Err(Refused::RateLimited(WINDOW.saturating_sub(now.duration_since(*since))));
        }
        *calls += 1;
        Ok(())
    }
}
