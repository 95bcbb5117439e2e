//! The security metadata of a tool, and the hints for MCP clients that are derived from it (MGP §4, §7.3).

use mgp_types::Lenient;
use mgp_types::mcp;
use mgp_types::mgp::{CodeSafety, Permission, RiskLevel, SideEffect, ToolSecurity, Validator};

use super::Tool;

impl Tool {
    /// Sets all security metadata in one call (MGP §4.3).
    ///
    /// The hints of MCP are derived from the metadata, unless [`Tool::annotations`] sets them.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::types::mgp::{RiskLevel, ToolSecurity};
    ///
    /// let clock = Tool::new("now", "The time", || async { "noon" }).security(ToolSecurity::new(RiskLevel::Safe));
    /// # drop(clock);
    /// ```
    pub fn security(mut self, security: ToolSecurity) -> Self {
        self.definition.security = Some(security.into());
        self
    }

    /// Sets the risk of a call. A tool that has other security metadata but no risk counts as dangerous.
    pub fn risk(self, risk: RiskLevel) -> Self {
        self.secure(|security| security.risk_level = risk)
    }

    /// Sets the permissions that a call needs. A short name such as `shell` is replaced by the standard permissions of
    /// that group.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::types::mgp::{Permission, RiskLevel};
    ///
    /// let fetch = Tool::new("fetch", "Gets a page", || async { "page" })
    ///     .risk(RiskLevel::Moderate)
    ///     .permissions([Permission::NetworkOutbound, Permission::from("com.example.cache")]);
    /// # drop(fetch);
    /// ```
    pub fn permissions<I>(self, permissions: I) -> Self
    where
        I: IntoIterator<Item: Into<Permission>>,
    {
        let permissions: Vec<_> = permissions.into_iter().map(Into::into).collect();
        self.secure(|security| security.permissions_required = permissions.into())
    }

    /// Sets the side effects of a call.
    pub fn side_effects<I>(self, effects: I) -> Self
    where
        I: IntoIterator<Item: Into<SideEffect>>,
    {
        let effects: Vec<_> = effects.into_iter().map(Into::into).collect();
        self.secure(|security| security.side_effects = effects.into())
    }

    /// Declares the check that a client should make before a call (MGP §4.5). A server makes this check itself only if
    /// its governance has a check of that name, set with `GovernanceBuilder::validator`.
    pub fn validator(self, validator: Validator) -> Self {
        self.secure(|security| security.validator = Some(validator))
    }

    /// Sets the rules for code in the arguments (MGP §7.3).
    pub fn code_safety(self, rules: CodeSafety) -> Self {
        self.secure(|security| security.code_safety = Some(rules))
    }

    /// Requests that clients let the user confirm each call.
    pub fn confirmation(self) -> Self {
        self.secure(|security| security.confirmation_required = Some(true))
    }

    /// Declares that the effects of a call can be undone.
    pub fn reversible(self) -> Self {
        self.secure(|security| security.reversible = Some(true))
    }

    /// Declares that the effects of a call cannot be undone.
    pub fn irreversible(self) -> Self {
        self.secure(|security| security.reversible = Some(false))
    }

    pub(super) fn secure(mut self, change: impl FnOnce(&mut ToolSecurity)) -> Self {
        let mut security = declared(&self.definition)
            .cloned()
            .unwrap_or_else(|| ToolSecurity::new(RiskLevel::Dangerous));
        change(&mut security);
        self.definition.security = Some(security.into());
        self
    }
}

pub(super) fn declared(definition: &mcp::Tool) -> Option<&ToolSecurity> {
    definition.security.as_ref().and_then(Lenient::valid)
}
