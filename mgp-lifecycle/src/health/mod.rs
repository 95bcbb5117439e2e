//! Health of servers (MGP §11.3): what a server says of itself, and what its client makes of it.
//!
//! - [`Health`] is the registry of a server's checks and figures; its layer or router answers with them.
//! - [`HealthMonitor`] decides from pings, other answers and the life of the process whether a server is well.
//! - [`spawn_watched`] runs what may block its thread so that pings are answered meanwhile.
//!
//! Applies to: both.

mod config;
mod found;
mod layer;
mod memory;
mod monitor;
mod probe;
mod registry;
#[cfg(test)]
mod tests;
mod watch;

pub use config::HealthConfig;
pub use found::{Found, IntoFound};
pub use layer::{HealthLayer, HealthService};
pub use monitor::{HealthChange, HealthMonitor, HealthReason, MonitorConfig, Sign, Turn};
pub use registry::Health;
pub use watch::{Watched, spawn_watched};
