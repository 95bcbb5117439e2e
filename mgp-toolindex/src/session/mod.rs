//! What is in a caller's context: pinned tools, tools it used, and what they may cost (MGP §16.7, §16.8).
//!
//! Three kinds of tools share the budget, each with a reserve.
//! *Pinned* tools are always there.
//! *Cached* ones were used or asked for; when they cost more than their limit, the least recently used go.
//! What a search *finds* is told once and not kept; it is made to fit its reserve tool by tool.
//! A tool too large for its place is told with shorter texts and fewer details, and still callable.
//!
//! Applies to: inbound.

mod budget;
mod cache;
mod handles;
mod pins;
mod plan;
mod sessions;
#[cfg(test)]
mod tests;
mod trim;

pub use self::budget::{check_budget, default_budget};
pub use self::cache::HeldTool;
pub use self::handles::SessionLimits;
pub use self::pins::Pins;
pub use self::plan::ContextPlan;
pub(crate) use self::sessions::one;
pub use self::sessions::{Session, SessionView, Sessions};
pub(crate) use self::trim::{Fitted, fit};
