//! Hooks that the kernel sets. One hook checks whether a tool can be called now, and another hook creates tools (MGP
//! §16.6).

use async_trait::async_trait;
use mgp_types::mgp::{Permission, RiskLevel};
use mgp_types::service::Context;

use crate::catalog::IndexedTool;

/// The availability of a tool to a caller.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Availability {
    /// The caller can call the tool.
    Callable,
    /// The tool can be called once these permissions are approved.
    NeedsApproval {
        /// The permissions that must be approved.
        permissions: Vec<Permission>,
        /// The way to get the permissions approved, e.g. a command to run.
        how: Option<String>,
    },
    /// The tool cannot be called. Searches do not return it, and requests for tools do not load it.
    Refused,
}

/// A hook that decides whether a caller can call a tool now.
///
/// The hook is called only for tools that the caller can see. It must read a snapshot and never wait.
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
    /// Returns the availability of a tool to the caller of a request.
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

/// A request for a tool that does not exist yet.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CreationRequest {
    /// The capabilities that the tool must have.
    pub capabilities: Vec<String>,
    /// The types that the tool must accept.
    pub input_types: Vec<String>,
    /// The types that the tool must return.
    pub output_types: Vec<String>,
    /// The highest risk level that the caller prefers.
    pub preferred_risk_level: Option<RiskLevel>,
    /// The task for which the caller needs the tool.
    pub context: Option<String>,
    /// The trace id of the task for which the caller needs the tool.
    pub task_trace_id: Option<String>,
}

/// The result of a request to create a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreationOutcome {
    /// The tool is being created; the text for the caller describes what happens next.
    Started(String),
    /// The tool is not created; the text is the reason.
    Refused(String),
}

/// A hook that creates missing tools; the program that uses this crate must implement it.
///
/// A created tool must be registered like any tool that is added at run time: its trust level is `sandboxed`, its code
/// is validated, and an operator approves it. A policy that approves permissions automatically does not replace that
/// approval. The caller is notified by `notifications/tools/list_changed`, and its session lists the tool.
///
/// Implement this trait with the attribute `#[async_trait]` of the crate `async-trait`.
#[async_trait]
pub trait ToolCreator: Send + Sync {
    /// Starts to create a tool. If the future is dropped, an implementation must undo the attempt completely.
    async fn create(&self, cx: Context, wanted: CreationRequest) -> CreationOutcome;
}
