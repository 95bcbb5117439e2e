//! Tasks: calls that are answered at once and continue (MCP 2025-11-25 and `io.modelcontextprotocol/tasks`).
//!
//! A call that may become a task is first polled inside its request, so refusals and quick answers are unchanged.
//! If it is still pending after that, the same future moves into a bounded table and is driven there.
//! `notifications/tasks` and `notifications/tasks/status` are optional in MCP and are not sent: callers poll.

mod config;
mod drive;
mod endpoints;
mod entry;
mod future;
mod handover;
mod layer;
mod negotiate;
mod table;

pub use config::TasksConfig;
pub use handover::TaskTicket;
pub use layer::{Tasks, TasksLayer};

#[cfg(test)]
mod tests;
