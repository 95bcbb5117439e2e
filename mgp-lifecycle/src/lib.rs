//! Handshake, limits, time-outs and tasks for the Model General Protocol, as tower layers (MGP §2, §11, §14).
//!
//! Applies to: both.

mod error;
mod limit;
mod timeout;

pub use error::Refusal;
pub use limit::{Limit, LimitConfig, LimitLayer};
pub use timeout::{Timeout, TimeoutLayer};
