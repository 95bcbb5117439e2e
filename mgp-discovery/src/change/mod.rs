//! Changes of a configuration, and hot reload (MGP §15.2).

mod diff;
mod reload;
pub(crate) mod stamp;
#[cfg(test)]
mod tests;

pub use diff::{ChangeEffect, ChangedServer, ConfigChange};
pub use reload::{Reload, Reloaded};
