//! Changes of a configuration, and hot reload (MGP §15.2).

mod diff;
pub(crate) mod stamp;
#[cfg(test)]
mod tests;
mod watcher;

pub use diff::{ChangeEffect, ChangedServer, ConfigChange};
pub use watcher::{ConfigWatcher, Reloaded};
