//! The commands beside `serve`: one file for each group, with its options, what it says, and one `run`.
//!
//! Applies to: both.

pub(crate) mod access;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod completions;
pub(crate) mod connect;
pub(crate) mod doctor;
mod doubt;
mod grant;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod init;
pub(crate) mod kernel;
pub(crate) mod keys;
pub(crate) mod permissions;
mod probe;
#[cfg(test)]
mod schemas;
pub(crate) mod servers;
pub(crate) mod tools;
pub(crate) mod trust;

use crate::cli::{Command, Global};
use crate::exit::Ended;
use crate::{demo, example};

/// Runs a command.
pub(crate) async fn run(global: &Global, command: &Command) -> Ended {
    match command {
        // They are started elsewhere: a kernel is no command on one.
        Command::Serve(_) | Command::Kernel(_) => Ok(()),
        Command::Demo => demo::run(global).await,
        Command::Example { name } => example::run(name).await,
        Command::Init(init) => init::run(global, init),
        Command::Import(import) => import::run(global, import).await,
        Command::Connect(connect) => connect::run(global, connect).await,
        Command::Trust(arguments) => trust::run(global, arguments).await,
        Command::Doctor(doctor) => doctor::run(global, doctor).await,
        Command::Status => kernel::status(global).await,
        Command::Stop(stop) => kernel::stop(global, stop).await,
        Command::Servers(servers) => servers::run(global, servers).await,
        Command::Tools(tools) => tools::run(global, tools).await,
        Command::Access(access) => access::run(global, access).await,
        Command::Permissions(permissions) => permissions::run(global, permissions).await,
        Command::Keys(keys) => keys::run(global, keys).await,
        Command::Approvals(approvals) => approvals::run(global, approvals).await,
        Command::Audit(audit) => audit::run(global, audit).await,
        Command::Sessions(sessions) => kernel::sessions(global, sessions).await,
        Command::Index(index) => index::run(global, index).await,
        Command::Completions(completions) => completions::run(completions),
    }
}
