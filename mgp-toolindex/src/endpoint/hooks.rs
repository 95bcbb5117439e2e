//! Hooks of the kernel: whether a tool can be called now, and how tools are created (MGP §16.6).

use async_trait::async_trait;
use mgp_types::mgp::{Permission, RiskLevel};
use mgp_types::service::Context;

use crate::catalog::IndexedTool;

/// The availability of a tool to a caller.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Availability {
    /// The tool can be called.
    Callable,
    /// The tool can be called once these permissions are approved.
    NeedsApproval {
        /// The permissions.
        permissions: Vec<Permission>,
        /// The way to approve them, e.g. a command to run.
        how: Option<String>,
    },
    /// The tool cannot be called, and is neither found nor loaded.
    Refused,
}

/// Decides whether a caller can call a tool now.
///
/// The hook is called for tools that the caller sees; it must read a snapshot and never wait.
///
/// ```
/// use mgp_toolindex::{IndexedTool, Availability, AvailabilityCheck};
/// use mgp_types::service::Context;
///
/// let none_of_files = |_: &Context, tool: &IndexedTool| match tool.server_id() {
///     "files" => Availability::Refused,
///     _ => Availability::Callable,
/// };
/// fn takes(_: impl AvailabilityCheck) {}
/// takes(none_of_files);
/// ```
pub trait AvailabilityCheck: Send + Sync {
    /// Decides about one tool.
    fn standing(&self, cx: &Context, tool: &IndexedTool) -> Availability;
}

impl<F> AvailabilityCheck for F
where
    F: Fn(&Context, &IndexedTool) -> Availability + Send + Sync,
{
    fn standing(&self, cx: &Context, tool: &IndexedTool) -> Availability {
        self(cx, tool)
    }
}

/// A tool to create.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CreationRequest {
    /// The capabilities of the tool.
    pub capabilities: Vec<String>,
    /// The types that it takes.
    pub input_types: Vec<String>,
    /// The types that it returns.
    pub output_types: Vec<String>,
    /// The preferred greatest risk.
    pub preferred_risk_level: Option<RiskLevel>,
    /// The task for which it is needed.
    pub context: Option<String>,
    /// The trace of the task.
    pub task_trace_id: Option<String>,
}

/// The result of a request to create a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreationOutcome {
    /// The tool is being created; the text describes what to expect.
    Started(String),
    /// The tool is not created, for this reason.
    Refused(String),
}

/// Creates missing tools. There is no default implementation.
///
/// A created tool is registered like any other at run time: `sandboxed`, its code validated, and approved by an
/// operator. A policy that approves permissions automatically does not replace that approval. The caller learns of the
/// tool by `notifications/tools/list_changed` and its session.
///
/// Implement it with `#[async_trait]` of the crate of that name.
#[async_trait]
pub trait ToolCreator: Send + Sync {
    /// Starts to create a tool. Dropping the future must leave nothing behind.
    async fn create(&self, cx: Context, wanted: CreationRequest) -> CreationOutcome;
}
