//! Changes of a configuration, and hot reload (MGP §15.2).

mod diff;
mod watcher;
pub(crate) mod stamp;
#[cfg(test)]
mod tests;

pub use diff::{ChangeEffect, ChangedServer, ConfigChange};
pub use watcher::{ConfigWatcher, Reloaded};
