//! Tasks: calls whose request is answered early, while they continue in the background (MCP 2025-11-25 and
//! `io.modelcontextprotocol/tasks`).
//!
//! A call that can become a task is first polled as a normal request, so refusals and quick answers are the same as
//! without tasks. If the call is still pending after that, its future continues as a task in a table of limited size.
//! `notifications/tasks` and `notifications/tasks/status` are optional in MCP and not sent, so callers must poll.

mod config;
mod drive;
mod endpoints;
mod entry;
mod future;
mod handover;
mod layer;
mod negotiate;
mod table;
mod tables;

pub use config::TasksConfig;
pub use handover::TaskTicket;
pub use layer::{Tasks, TasksLayer};
pub use tables::TaskTables;

#[cfg(test)]
mod tests;
