//! The methods of tool search: finding, asking, and looking at a session (MGP §16.5–§16.7).
//!
//! They are a [`Router`](mgp_types::service::Router) over the index. That they are called as tools too is a matter of
//! whoever serves them: results are the same.
//!
//! Applies to: inbound.

mod bounds;
mod caller;
mod counting;
mod discover;
mod endpoints;
mod hooks;
mod present;
mod request;
#[cfg(test)]
mod tests;

pub use self::caller::Caller;
pub use self::endpoints::Endpoints;
pub use self::hooks::{Create, Creating, Standing, StandingOf, Wanted};
pub use self::present::present;
