//! How often one principal may register and deregister (MGP §15.4).
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mgp_types::service::Principal;
use tokio::time::Instant;

use super::record::Creator;
use super::refused::RegistrationRefused as Refused;

const WINDOW: Duration = Duration::from_mins(1);
/// Principals that are counted; while so many call, no further one may.
const PRINCIPALS: usize = 1024;

/// Calls within a window, by principal.
#[derive(Default)]
pub(super) struct Pace(Mutex<HashMap<Creator, (Instant, u32)>>);

impl Pace {
    /// Counts a call, or says how long until there may be one.
    pub(super) fn take(&self, by: &Principal, most: u32) -> Result<(), Refused> {
        let now = Instant::now();
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
        let who = Creator::of(by);
        if counted.len() >= PRINCIPALS && !counted.contains_key(&who) {
            return Err(Refused::TooFast(WINDOW));
        }
        let (since, calls) = counted.entry(who).or_insert((now, 0));
        if *calls >= most {
            return Err(Refused::TooFast(WINDOW.saturating_sub(now.duration_since(*since))));
        }
        *calls += 1;
        Ok(())
    }
}
