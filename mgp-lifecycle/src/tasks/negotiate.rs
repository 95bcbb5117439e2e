//! Decides whether a call can become a task, based on what its caller negotiated and what its tool supports.

use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::mcp::{ClientCapabilities, Era, Revision, TaskAugmentation, TaskSupport, key};
use mgp_types::service::{Call, PeerInfo};
use serde::Deserialize;

use super::config::TasksConfig;
use crate::error::LifecycleError;

/// The conditions under which a call can become a task, and the form of that task.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The era that determines the form of the task on the wire.
    pub(super) era: Era,
    pub(super) ttl: Duration,
    /// The time that the call may take as a normal request before it becomes a task; `None` means one poll.
    pub(super) grace: Option<Duration>,
    /// `true` if the call must become a task. It is then refused before it runs if its caller cannot have another task.
    pub(super) task_only: bool,
}

impl Plan {
    /// Returns the plan for a tool call; `None` if the call cannot become a task.
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
        caller: &PeerInfo,
        support: &TaskSupport,
        config: &TasksConfig,
    ) -> Result<Option<Self>, RpcError> {
        let task_only = *support == TaskSupport::Required;
        if !supports_tasks(support) {
            return Ok(None);
        }
        if !offers_tasks(caller) {
            return if task_only { Err(LifecycleError::TasksNotOffered.into()) } else { Ok(None) };
        }
        let grace = (!config.grace.is_zero()).then_some(config.grace);
        Ok(Some(Self { era: Era::Modern, ttl: config.ttl.min(config.max_ttl), grace, task_only }))
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
        // Revisions before MCP 2025-11-25 have no tasks, even if the caller sends `task`.
        let requested = if call.cx().caller.revision < Revision::V2025_11_25
            || !call.params().may_contain_member("\"task\"")
        {
            None
        } else {
            call.params().get::<Augmented>()?.task
        };
        match requested {
            Some(_) if !supports_tasks(support) => {
                Err(LifecycleError::TaskForbidden(tool.to_owned()).into())
            }
            Some(requested) => {
                // A time to live below the minimum is raised: the task must not expire before the caller can poll it.
                let ttl = requested
                    .ttl
                    .map_or(config.ttl, Duration::from_millis)
                    .max(MIN_TTL)
                    .min(config.max_ttl);
                Ok(Some(Self { era: Era::Legacy, ttl, grace: None, task_only: true }))
            }
            None if *support == TaskSupport::Required => {
                Err(LifecycleError::TaskRequired(tool.to_owned()).into())
            }
            None => Ok(None),
        }
    }
}

/// The minimum time to live of a task; if a caller asks for less, the task gets this time.
const MIN_TTL: Duration = Duration::from_secs(1);

/// Returns whether calls of a tool can become tasks; `false` for unknown values.
fn supports_tasks(support: &TaskSupport) -> bool {
    matches!(support, TaskSupport::Optional | TaskSupport::Required)
}

pub(super) fn can_wait_for_task(call: &Call) -> bool {
    match call.cx().caller.era {
        Era::Modern => offers_tasks(&call.cx().caller),
        Era::Legacy => call.params().may_contain_member("\"task\""),
    }
}

pub(super) fn offers_tasks(caller: &PeerInfo) -> bool {
    let Some(capabilities) = &caller.capabilities else { return false };
    // Search the text before parsing it, because most callers do not offer the extension.
    capabilities.as_str().contains(key::TASKS_EXTENSION)
        && capabilities.get::<ClientCapabilities>().is_ok_and(|offered| {
            offered.extensions.is_some_and(|all| all.get(key::TASKS_EXTENSION).is_some())
        })
}
