//! What changed in a configuration, and when to look (MGP §15.2).
//!
//! Applies to: both.

mod diff;
mod reload;
mod stamp;
#[cfg(test)]
mod tests;

pub use diff::{Change, Changed, Effect};
pub use reload::{Reload, Reloaded};
