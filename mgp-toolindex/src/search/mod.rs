//! Searching: what is asked, what is found, and how it is ranked (MGP §16.4, §16.5).
//!
//! Applies to: both.

mod filter;
mod found;
mod query;
mod rank;
mod view;

pub use filter::Filter;
pub use found::{Fallback, FallbackReason, Found, Hit, Reason};
pub use query::{Explain, Query};
pub(crate) use rank::{Ranked, Ranking, rank};
pub(crate) use view::View;
