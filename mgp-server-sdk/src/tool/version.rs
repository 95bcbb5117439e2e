//! Declarations of a tool in `_meta`: its version (callers may require one), its deprecation, and the effect of
//! repeated calls.

use mgp_security::{Refusal, check_version};
use mgp_types::RpcError;
use mgp_types::mcp::{self, ToolAnnotations, ToolIdempotency};
use mgp_types::service::Params;
use serde::Serialize;

use super::Tool;

/// The announcement that a tool will be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Deprecation {
    /// The version in which the tool was deprecated.
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The version in which the tool will be removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_in: Option<String>,
    /// The tool to use instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
}

impl Deprecation {
    /// Creates a deprecation that begins with this version.
    #[must_use]
    pub fn since(version: impl Into<String>) -> Self {
        Self { since: Some(version.into()), ..Self::default() }
    }

    /// Sets the version in which the tool will be removed.
    #[must_use]
    pub fn remove_in(mut self, version: impl Into<String>) -> Self {
        self.remove_in = Some(version.into());
        self
    }

    /// Sets the tool to use instead.
    #[must_use]
    pub fn replacement(mut self, tool: impl Into<String>) -> Self {
        self.replacement = Some(tool.into());
        self
    }
}

impl Tool {
    /// Sets the version, which is listed as `_meta.version`. Callers can require a range of versions with
    /// `_meta.tool_version`.
    pub fn version(self, version: &str) -> Self {
        self.set_meta("version", version)
    }

    /// Marks the tool as deprecated; the list shows it as `_meta.deprecated`.
    pub fn deprecated(self, deprecation: &Deprecation) -> Self {
        self.set_meta("deprecated", deprecation)
    }

    /// Declares the effect of repeated calls: in `_meta.idempotency`, which a generated specification also shows, and
    /// as the `idempotentHint` of MCP.
    pub fn idempotency(mut self, effect: &ToolIdempotency) -> Self {
        let hints = self.definition.annotations.get_or_insert_with(ToolAnnotations::new);
        hints.idempotent_hint = Some(*effect == ToolIdempotency::Yes);
        self.set_meta("idempotency", effect)
    }

    /// Sets a member of `_meta`.
    pub(super) fn set_meta<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Self {
        // This cannot fail: values of the types that are passed here can always be encoded.
        let _ = self.definition.meta.get_or_insert_default().encode(name, value);
        self
    }
}

/// Checks that the version of the tool is one that the call accepts.
pub(super) fn check(params: &Params, definition: &mcp::Tool) -> Result<(), RpcError> {
    let meta = || definition.meta.clone();
    check_version(params, &definition.name, meta).map_err(|refused| Refusal::from(refused).into())
}
