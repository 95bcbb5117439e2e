//! Whether a call may become a task: what its caller negotiated, and what the tool supports.
//!
//! Applies to: inbound.

use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::mcp::{ClientCapabilities, Era, Revision, TaskAugmentation, TaskSupport, key};
use mgp_types::service::{Call, Facts};
use serde::Deserialize;

use super::layer::TasksConfig;
use crate::error::Refusal;

/// How a call may become a task.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// In whose words the task is told.
    pub(super) era: Era,
    /// How long the task is kept.
    pub(super) ttl: Duration,
    /// How long the call stays in its request first; none means one poll.
    pub(super) grace: Option<Duration>,
    /// Whether only a task will do, so that a full table refuses before anything runs.
    pub(super) must: bool,
}

impl Plan {
    /// Makes the plan of a tool call; none when the call stays a request.
    pub(super) fn of(
        call: &Call,
        tool: &str,
        support: &TaskSupport,
        config: &TasksConfig,
    ) -> Result<Option<Self>, RpcError> {
        let caller = &call.cx().caller;
        match caller.era {
            Era::Modern => Self::modern(caller, support, config),
            Era::Legacy => Self::legacy(call, tool, support, config),
        }
    }

    fn modern(
        caller: &Facts,
        support: &TaskSupport,
        config: &TasksConfig,
    ) -> Result<Option<Self>, RpcError> {
        let must = *support == TaskSupport::Required;
        if !may(support) {
            return Ok(None);
        }
        if !offers_tasks(caller) {
            return if must { Err(Refusal::TasksNotOffered.into()) } else { Ok(None) };
        }
        let grace = (!config.grace.is_zero()).then_some(config.grace);
        Ok(Some(Self { era: Era::Modern, ttl: config.ttl.min(config.ttl_max), grace, must }))
    }

    fn legacy(
        call: &Call,
        tool: &str,
        support: &TaskSupport,
        config: &TasksConfig,
    ) -> Result<Option<Self>, RpcError> {
        #[derive(Deserialize)]
        struct Augmented {
            task: Option<TaskAugmentation>,
        }
        // Older revisions have no tasks, whatever a caller sends.
        let asked = if call.cx().caller.revision < Revision::V2025_11_25
            || !call.params().mentions("\"task\"")
        {
            None
        } else {
            call.params().get::<Augmented>()?.task
        };
        match asked {
            Some(_) if !may(support) => Err(Refusal::TaskForbidden(tool.to_owned()).into()),
            Some(asked) => {
                // A task that is gone before it can be asked for is of no use to anybody.
                let ttl = asked
                    .ttl
                    .map_or(config.ttl, Duration::from_millis)
                    .max(TTL_MIN)
                    .min(config.ttl_max);
                Ok(Some(Self { era: Era::Legacy, ttl, grace: None, must: true }))
            }
            None if *support == TaskSupport::Required => {
                Err(Refusal::TaskRequired(tool.to_owned()).into())
            }
            None => Ok(None),
        }
    }
}

/// The shortest time to live a caller can ask for.
const TTL_MIN: Duration = Duration::from_secs(1);

/// Whether a tool ever becomes a task; a word of a later revision is no leave.
fn may(support: &TaskSupport) -> bool {
    matches!(support, TaskSupport::Optional | TaskSupport::Required)
}

/// Whether the caller of a call can wait for a task.
pub(super) fn asks(call: &Call) -> bool {
    match call.cx().caller.era {
        Era::Modern => offers_tasks(&call.cx().caller),
        Era::Legacy => call.params().mentions("\"task\""),
    }
}

/// Whether a modern caller offers the tasks extension.
pub(super) fn offers_tasks(caller: &Facts) -> bool {
    let Some(capabilities) = &caller.capabilities else { return false };
    // Most callers do not; the look is cheaper than the parse.
    capabilities.as_str().contains(key::TASKS_EXTENSION)
        && capabilities.get::<ClientCapabilities>().is_ok_and(|offered| {
            offered.extensions.is_some_and(|all| all.get(key::TASKS_EXTENSION).is_some())
        })
}
