//! Supervision of servers, which decides when each of them is started, stopped and restarted (MGP §11.5).
//!
//! [`Supervisor`] decides; [`supervise`] executes its decisions.
//!
//! The transitions of the supervisor, by the phase that an event finds. An event has no effect where the table has `–`:
//!
//! ```text
//! event                     Resting   Waiting   Starting     Running      Stopping
//! Start                     Starting  Starting  –            –            afterwards Starting
//! Restart                   Starting  Starting  stop, start  stop, start  afterwards Starting
//! Stop, for good            Resting   Resting   stop, rest   stop, rest   afterwards Resting
//! Stop, with a restart      –         Starting  stop, start  stop, start  afterwards Starting (a)
//! Stop for ResourceLimit    –         –         stop, decide stop, decide –
//! Ready                     –         –         Running      –            –
//! StartFailed               –         –         stop, decide –            –
//! StartContinues            –         –         stop, start  –            –
//! Exited                    –         –         stop, decide stop, decide –
//! (Reported)Unhealthy       –         –         –            stop, decide –
//! Stopped                   –         –         –            –            the decided phase
//! Tick, after the deadline  –         Starting  stop, decide –            Kill, then the decided phase
//! ```
//!
//! `stop` is the phase `Stopping`, which is followed by `Starting` (start), by `Resting` (rest), or by what the restart
//! policy and the restart limit decide (decide): `Resting`, or `Waiting` until the back-off is over and then
//! `Starting`.
//!
//! (a) Only if a start would follow anyway.

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
