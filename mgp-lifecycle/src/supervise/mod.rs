//! Supervision of servers: when one is started, stopped and started again (MGP §11.5).
//!
//! [`Supervisor`] decides and does nothing; [`supervise`] does what it decides.
//!
//! Applies to: outbound.

mod backoff;
mod config;
mod driver;
mod event;
mod handle;
mod machine;
mod verdict;
mod work;

pub use config::SuperviseConfig;
pub use driver::{ClientOf, supervise};
pub use event::{Action, Event, LimitExceeded, Rest};
pub use handle::{Live, Report, Supervised};
pub use machine::Supervisor;
