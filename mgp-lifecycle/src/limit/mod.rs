//! Limits on tool calls: concurrency, rate, quota and size (MGP §14.3: 3000–3002).
//!
//! On one stack the cheap refusals should come first: sizes, then rates, then quotas, then concurrency.

mod caller;
mod concurrency;
mod fair_semaphore;
mod quota;
mod rate;
mod size;
mod wait_queue;

pub use concurrency::{Limit, LimitConfig, LimitLayer};
pub use quota::{Quota, QuotaExceeded, QuotaLayer, QuotaService, QuotaUse};
pub use rate::{Rate, RateKey, RateLayer, RateLimit, RateLimited};
pub use size::{Size, SizeConfig, SizeLayer, TooLarge};
