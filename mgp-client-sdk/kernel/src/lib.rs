//! The kernel, which offers many servers as one server that speaks MCP and MGP, and checks each call (MGP §8, §15,
//! §16).
//!
//! ```text
//! hosts, agents ─▶ host-facing server ─▶ dispatcher ─▶ one governed, supervised client for each server
//!                                      │
//!                        find and call, registry, health, access
//! ```
//!
//! - `fleet/`: the servers, each with its supervised client and the lists it last returned.
//! - `dispatch/`: passes a client's call to the server that answers it; `caller_view.rs`: decides what a caller sees.
//! - `admin/`: the methods for operators, `mgp/kernel/*`; `reload.rs`: changes of the configuration.
//! - `metrics.rs`: metrics for operators; `audit_sinks.rs`: copies of audit events for other programs.
//! - `telemetry.rs`: spans and metrics for a collector; `search.rs`: the tool index with its history and encoder.
//! - `registration.rs`: servers that are registered at run time; `published.rs`: registries of published servers.
//! - `logins.rs`: logins at servers at a URL.
//! - `clients.rs`, `callers.rs`: the connected clients; `process_info.rs`: the program around the kernel.
//! - `host_server.rs`: the server to which hosts and agents connect; `kernel_hops.rs`: limits for kernels behind
//!   kernels.
//! - `events/`: events of the kernel and of its servers; `operator_questions.rs`: questions of servers that wait for an
//!   operator.
//! - `bounds/`: limits of the calls of agents and servers: rates and quotas.
//! - `proposals.rs`: extensions beyond MGP; `call_proposals.rs`: idempotency keys and transactions of calls;
//!   `transactions.rs`: calls that compensate others.
//! - `handle.rs`, `builder.rs`: the kernel as a value; `active_config.rs`, `policy.rs`: its configuration;
//!   `lock/`, `lock_reload.rs`: the lock file; `script_judge.rs`: scripts of sandboxed servers.
//! - `references/`: data that moves from server to server by reference.
//! - `results/`: long results, of which the kernel sends a model only a part; `server_answer.rs`: answers that hosts
//!   cannot read.
//! - `cli_hints.rs`: the remedies in refusals, written as commands of the program `mgp`.

mod active_config;
mod admin;
mod audit_sinks;
mod bounds;
mod builder;
mod call_proposals;
mod caller_view;
mod callers;
mod cli_hints;
mod clients;
mod coalesced;
mod dispatch;
mod error;
mod events;
mod fleet;
mod handle;
mod host_server;
mod kernel_hops;
mod lock;
mod lock_reload;
mod logins;
mod metrics;
mod operator_questions;
mod policy;
mod process_info;
mod proposals;
mod published;
mod references;
mod refusal;
mod registration;
mod reload;
mod results;
mod script_judge;
mod search;
mod server_answer;
mod telemetry;
mod transactions;
mod url_sink;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use bounds::{QuotaCount, quota_counts};
pub use builder::KernelBuilder;
pub use clients::{ClientGuard, ClientTransport, Clients, ConnectedClient};
pub use error::KernelError;
pub use events::notify_test;
pub use fleet::{
    ProbedLists, confine, forget_stored_lists, offer_callers, offer_extensions, program_path,
    store_probed_lists,
};
pub use handle::Kernel;
pub use lock::{named_package, read_start};
pub use logins::{LoginServer, Logins, proxy};
pub use process_info::KernelEndpoints;
pub use published::{PublishedPlace, PublishedServers};
