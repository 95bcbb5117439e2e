//! What only the kernel knows: whether a tool may be called right now, and how tools are made (MGP §16.6, C38).
//!
//! Applies to: inbound.

use mgp_types::mgp::{Permission, RiskLevel};
use mgp_types::service::{BoxFuture, Context};

use crate::catalog::Listed;

/// Whether a caller may call a tool right now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Standing {
    /// It may.
    Callable,
    /// It may once these permissions are approved.
    NeedsApproval {
        /// The permissions.
        permissions: Vec<Permission>,
        /// How they are approved: a command to run, or where to decide.
        how: Option<String>,
    },
    /// It may not, and the tool is neither found nor loaded.
    Refused,
}

/// Says whether a caller may call a tool right now.
///
/// It is asked about tools the caller sees; it reads a snapshot and never waits.
///
/// ```
/// use mgp_toolindex::{Listed, Standing, StandingOf};
/// use mgp_types::service::Context;
///
/// let none_of_files = |_: &Context, tool: &Listed| match tool.server_id() {
///     "files" => Standing::Refused,
///     _ => Standing::Callable,
/// };
/// fn takes(_: impl StandingOf) {}
/// takes(none_of_files);
/// ```
pub trait StandingOf: Send + Sync {
    /// Decides about one tool.
    fn standing(&self, cx: &Context, tool: &Listed) -> Standing;
}

impl<F> StandingOf for F
where
    F: Fn(&Context, &Listed) -> Standing + Send + Sync,
{
    fn standing(&self, cx: &Context, tool: &Listed) -> Standing {
        self(cx, tool)
    }
}

/// A tool that nobody has, for whoever can make one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Wanted {
    /// What it must do.
    pub capabilities: Vec<String>,
    /// What it takes.
    pub input_types: Vec<String>,
    /// What it gives.
    pub output_types: Vec<String>,
    /// How dangerous it may be.
    pub preferred_risk_level: Option<RiskLevel>,
    /// What is being done.
    pub context: Option<String>,
    /// The trace of the task.
    pub task_trace_id: Option<String>,
}

/// What became of a wish for a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Creating {
    /// It is being made; what to expect.
    Begun(String),
    /// It is not, and why.
    Refused(String),
}

/// Makes tools that nobody has. There is none by default.
///
/// What it makes is registered like anything at run time: `sandboxed`, its code checked, and approved by an operator.
/// A policy that approves permissions by itself does not stand in for that.
/// A tool that was made reaches the caller by `notifications/tools/list_changed` and the next look at its session.
pub trait Create: Send + Sync {
    /// Begins to make a tool. Dropping the future must leave nothing behind.
    fn create(&self, cx: Context, wanted: Wanted) -> BoxFuture<'static, Creating>;
}
