//! Searching: what is asked, what is found, and how it is ranked (MGP §16.4, §16.5).
//!
//! Applies to: both.

mod browse;
mod category;
mod clause;
mod evidence;
mod filter;
mod found;
mod fuse;
mod named;
mod past;
mod query;
mod question;
mod rank;
mod reason;
#[cfg(test)]
mod tests;
mod view;
mod weight;

pub use filter::Filter;
pub use found::{Fallback, FallbackReason, Found, Hit, Reason};
pub use query::{Explain, Query};
pub(crate) use question::LONGEST as READ_MAX;
pub(crate) use rank::{ask_again, rank};
pub(crate) use view::View;
