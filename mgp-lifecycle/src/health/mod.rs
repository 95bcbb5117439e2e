//! Health of servers (MGP §11.3): what a server reports, and how its client evaluates it.
//!
//! - [`Health`] is the registry of a server's checks and resources; its layer or router answers health requests.
//! - [`HealthMonitor`] evaluates a server's health on the client's side, from answers to pings, other answers, and the
//!   end of the server's process.
//! - [`spawn_watched`] spawns a future that might block its thread, and ensures that pings are answered meanwhile.

mod check_result;
mod config;
mod layer;
mod memory;
mod monitor;
mod probe;
mod registry;
#[cfg(test)]
mod tests;
mod watch;

pub use check_result::{CheckResult, IntoCheckResult};
pub use config::HealthConfig;
pub use layer::{HealthLayer, HealthService};
pub use monitor::{
    HealthChange, HealthMonitor, HealthReason, HealthSignal, MonitorConfig, MonitorStep,
};
pub use registry::Health;
pub use watch::spawn_watched;
