//! Supervision of servers, which decides when each of them is started, stopped and restarted (MGP §11.5).
//!
//! [`Supervisor`] decides; [`supervise`] executes its decisions.

mod backoff;
mod config;
mod driver;
mod event;
mod handle;
mod incarnation;
mod machine;
mod policy;

pub use config::SuperviseConfig;
pub use driver::{ClientOf, supervise};
pub use event::{RestState, RestartLimitExceeded, SupervisorAction, SupervisorEvent};
pub use handle::{LiveServer, StateReport, Supervised};
pub use machine::Supervisor;
