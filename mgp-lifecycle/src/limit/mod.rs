//! How many tool calls run at once, come in a time, are paid for, and how large they are (MGP §14.3: 3000–3002).
//!
//! Where several of them stand on one stack, the cheap refusals come first:
//! sizes, then rates, then quotas, then the turns to run.
//!
//! Applies to: both.

mod caller;
mod concurrency;
mod line;
mod quota;
mod rate;
mod size;
mod turns;

pub use concurrency::{InTurn, Limit, LimitConfig, LimitLayer};
pub use quota::{Quota, QuotaExceeded, QuotaLayer, QuotaUse, Quotaed};
pub use rate::{Rate, RateKey, RateLayer, RateLimit, RateLimited};
pub use size::{Size, SizeConfig, SizeLayer, TooLarge};
