//! The tools in a caller's context, pinned or used, and their token budget (MGP §16.7, §16.8).
//!
//! Three kinds of tools share the budget, each with its own reserve. *Pinned* tools are always present. *Cached* tools
//! were used or requested; if they exceed their limit, the least recently used tools are evicted. *Found* tools are
//! returned by a search and not stored; they are fitted into the reserve of search results, one tool after the other. A
//! tool that is too large is returned with shorter texts and fewer details, and can still be called.

mod budget;
mod cache;
mod handles;
mod pins;
mod plan;
mod sessions;
#[cfg(test)]
mod tests;
mod trim;

pub use self::budget::{META_TOKENS, check_budget, default_budget};
pub use self::cache::SessionTool;
pub use self::handles::SessionLimits;
pub use self::pins::Pins;
pub use self::plan::ContextPlan;
pub(crate) use self::sessions::one;
pub use self::sessions::{Session, SessionView, Sessions};
pub(crate) use self::trim::{Fitted, fit};
