//! Servers that are registered while the kernel runs (MGP §15.4, §15.5).
//!
//! The steps of a registration: an agent or operator requests it (`params.rs`, `program.rs`, `published.rs`,
//! `remote.rs`), a judge checks its code (`judge.rs`), and an operator decides (`register.rs`, `review.rs`,
//! `rejections.rs`). It is stored (`record.rs`, `registrations.rs`), and its server runs exactly as approved
//! (`launch.rs`) until it is removed (`deregister.rs`). `work.rs` runs the slow steps.

mod admission;
mod closed_paths;
mod config;
mod confinement;
mod creation;
mod deregister;
mod event;
mod judge;
mod launch;
mod origin;
mod params;
mod program;
mod published;
mod rate;
mod record;
mod refusal;
mod register;
mod registrations;
mod rejections;
mod remote;
mod review;
mod router;
mod servers;
mod source;
#[cfg(test)]
mod tests;
mod work;

pub use config::RegistrationConfig;
pub use origin::RegistryOrigin;
pub use params::changes_code;
pub use program::code_arguments;
pub(crate) use program::{bind as bind_file, is_code_file, runs_arguments};
pub use published::PublishedEntry;
pub use refusal::{IdHolder, RegistrationError};
pub use registrations::{Registrations, RegistrationsBuilder};
pub use review::PendingRegistration;
pub use servers::{ApprovedRegistration, CodeJudge, CodeVerdict, JudgedScript, ServerRunner};
