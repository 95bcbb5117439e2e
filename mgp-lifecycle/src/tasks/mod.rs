//! Tasks: calls that are answered at once and go on (DESIGN §3 F, G; MCP 2025-11-25 and `io.modelcontextprotocol/tasks`).
//!
//! A call that may become a task is polled inside its request first, so refusals and quick answers stay as they are.
//! What is still pending after that moves, as the very same future, into a bounded table and is driven there.
//! `notifications/tasks` and `notifications/tasks/status` are optional in MCP and not sent: callers poll.
//!
//! Applies to: inbound.

mod drive;
mod endpoints;
mod entry;
mod future;
mod layer;
mod negotiate;
mod switch;
mod table;

pub use layer::{Tasks, TasksConfig, TasksLayer};
pub use switch::TaskTicket;

#[cfg(test)]
mod tests;
