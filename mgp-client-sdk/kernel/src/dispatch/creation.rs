//! Lets an agent create a tool after no tool met the agent's request (MGP §16.6).

use async_trait::async_trait;
use mgp_discovery::Registrations;
use mgp_toolindex::{CreationOutcome, CreationRequest, ToolCreator};
use mgp_types::service::Context;

use super::meta_tools::MetaToolConfig;

/// The instruction to an agent that is allowed to create a missing tool. The agent can follow it even if its client
/// knows only MCP.
const NEXT: &str = "\
    write an MCP server over stdio as one script, and register it with `mgp_discovery_register`, or mgp_tools_call \
    with this name: `id`, `command` (`python3` or `node`), `source` (the script) and `justification`. Its code is \
    checked at the level `strict`: a rejection names the imports that are allowed. An operator must approve it and \
    grant access to it; it is removed when this session ends";

/// The [`ToolCreator`] of the kernel: lets agents create tools if `[tool_creation]` allows it.
pub(super) struct Creation {
    pub(super) meta_tools: MetaToolConfig,
    pub(super) registrations: Registrations,
}

#[async_trait]
impl ToolCreator for Creation {
    async fn create(&self, cx: Context, wanted: CreationRequest) -> CreationOutcome {
        if !self.meta_tools.allows_creation() {
            return CreationOutcome::Refused("`tool_creation` is not enabled".to_owned());
        }
        match self.registrations.expect_creation(&cx, &wanted.capabilities) {
            Ok(()) => CreationOutcome::Started(NEXT.to_owned()),
            Err(why) => CreationOutcome::Refused(why),
        }
    }
}
