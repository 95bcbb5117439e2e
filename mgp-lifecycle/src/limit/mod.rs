//! Limits on tool calls: concurrency, rate, quota and size (MGP §14.3: 3000–3002).
//!
//! If several are on one stack, put the cheapest check outermost: size, then rate, then quota, then concurrency.

mod caller;
mod concurrency;
mod fair_semaphore;
mod quota;
mod rate;
mod size;
mod wait_queue;

pub use concurrency::{ConcurrencyLimit, ConcurrencyLimitLayer, LimitConfig};
pub use quota::{Quota, QuotaExceeded, QuotaLayer, QuotaService, QuotaUse};
pub use rate::{RateKey, RateLayer, RateLimit, RateLimited, RateService};
pub use size::{SizeConfig, SizeLayer, SizeService, TooLarge};
