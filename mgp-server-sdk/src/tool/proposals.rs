//! The members that extensions beyond MGP add to the definition of a tool.

use mgp_types::RpcError;
use mgp_types::mcp::CallToolResult;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{ConfirmationRisk, LatencyClass, StructuredError, ToolCost, ToolQuota};
use mgp_types::service::Reply;
use serde::Serialize;

use super::{IntoToolResult, Tool};

/// The name of the member with the message for the user, in `_meta` and in `security`.
const MESSAGE: &str = "confirmation_message";

impl Tool {
    /// Declares the cost of a call, for callers that negotiated `cost_hints`.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::types::mgp::Extension;
    /// use mgp_server_sdk::types::proposal::{CostCategory, LatencyClass, ToolCost};
    ///
    /// let mut cost = ToolCost::new();
    /// (cost.category, cost.estimated_units) = (Some(CostCategory::Metered), Some(5_u64.into()));
    /// let export = Tool::new("export", "Exports all", || async { "done" }).cost(&cost).latency(&LatencyClass::Minutes);
    /// # drop(Server::new("shop", "1.0").extension(Extension::CostHints).tool(export));
    /// ```
    pub fn cost(self, cost: &ToolCost) -> Self {
        self.propose(Extension::CostHints, "cost", cost)
    }

    /// Declares the expected duration of a call.
    pub fn latency(self, latency: &LatencyClass) -> Self {
        self.propose(Extension::CostHints, "latency", latency)
    }

    /// Declares how much of the tool's quota is left.
    pub fn quota(self, quota: &ToolQuota) -> Self {
        self.propose(Extension::CostHints, "quota", quota)
    }

    /// Declares the scopes that a call requires, for callers that negotiated `scopes`.
    pub fn required_scopes<S: Into<String>>(self, scopes: impl IntoIterator<Item = S>) -> Self {
        let scopes: Vec<String> = scopes.into_iter().map(Into::into).collect();
        self.propose(Extension::Scopes, "required_scopes", &scopes)
    }

    /// Requires that a person confirm each call; `{parameter}` in the message is replaced by the value of the argument.
    ///
    /// The server itself enforces this only if it is [governed](crate::Server::governed); the operator can exempt
    /// calls. A caller that negotiated `human_in_the_loop` also sees the message in the list of tools.
    pub fn confirm_each_call(self, message: &str, risk: &ConfirmationRisk) -> Self {
        let (level, reversible) = risk.to_risk();
        let secured = self.secure(|security| {
            security.confirmation_required = Some(true);
            security.reversible = reversible.or(security.reversible);
            security.risk_level = level;
            // Also put the message here, for gateways, which ask their own callers. The encoding cannot fail, because
            // the message is a text.
            let _ = security.extra.encode(MESSAGE, message);
        });
        secured
            .propose(Extension::HumanInTheLoop, "requires_confirmation", &true)
            .propose(Extension::HumanInTheLoop, MESSAGE, message)
            .propose(Extension::HumanInTheLoop, "risk_level", risk)
    }

    /// Sets a member of `_meta` that only callers with an extension receive.
    fn propose<T: Serialize + ?Sized>(
        mut self,
        extension: Extension,
        name: &str,
        value: &T,
    ) -> Self {
        self.proposed = self.proposed.with(extension);
        self.set_meta(name, value)
    }
}

impl IntoToolResult for StructuredError {
    fn into_tool_result(self) -> Result<Reply, RpcError> {
        let text = match &self.suggestion {
            Some(suggestion) => format!("{}\n{suggestion}", self.message),
            None => self.message.clone(),
        };
        let mut result = CallToolResult::error(text);
        result.structured_content = self.in_content(None);
        Reply::of(&result)
    }
}
