//! Limits on tool calls: the number that run at the same time (`concurrency.rs`), the number per second or minute
//! (`rate/`), the use in a period such as a day (`quota.rs`), and sizes (`size.rs`) (MGP §14.3: 3000–3002).
//!
//! If a stack has several of these layers, put the cheapest check outermost: size, then rate, then quota, then
//! concurrency.

mod caller;
mod concurrency;
mod fair_semaphore;
mod open_calls;
mod quota;
mod rate;
mod size;
mod wait_queue;

use std::time::Duration;

pub(crate) use caller::Caller;
pub use concurrency::{ConcurrencyLimit, ConcurrencyLimitLayer, LimitConfig, RunningPermit};
pub use quota::{Quota, QuotaExceeded, QuotaLayer, QuotaService, QuotaUse, never_ran};
pub use rate::{RateKey, RateLayer, RateLimit, RateLimited, RateService, RateUse};
pub use size::{SizeConfig, SizeLayer, SizeService, TooLarge};

/// Returns a description of a period, such as `a minute`.
fn per(period: Duration) -> String {
    match (period.as_secs(), period.subsec_nanos()) {
        (1, 0) => "a second".to_owned(),
        (60, 0) => "a minute".to_owned(),
        (3_600, 0) => "an hour".to_owned(),
        (86_400, 0) => "a day".to_owned(),
        _ => format!("in {}", mgp_types::duration_words(period)),
    }
}
