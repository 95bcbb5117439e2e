//! A tool that the index returns (MGP §16.4).

use std::sync::Arc;

use bytestring::ByteString;
use mgp_types::RpcError;
use mgp_types::mcp::Tool;
use mgp_types::mgp::{RiskLevel, ToolSecurity};

use super::entry::Entry;
use super::tool_feature::ToolFeature;

/// A tool of an index; cheap to clone, and not affected by later changes of the index.
#[derive(Clone, Debug)]
pub struct IndexedTool(pub(crate) Arc<Entry>);

impl IndexedTool {
    /// Returns the id of the tool: `{server}.{name}`.
    #[must_use]
    pub fn tool_id(&self) -> String {
        self.0.tool_id()
    }

    /// Returns the id of the server that has the tool.
    #[must_use]
    pub fn server_id(&self) -> &str {
        &self.0.server.id
    }

    /// Returns the name of the tool at its server.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Returns whether another value is the same tool, i.e. has the same server and name. The definitions may differ.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.server_id() == other.server_id() && self.name() == other.name()
    }

    /// Returns the description in the tool's definition.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.0.description()
    }

    /// Returns the definition as the server lists it, as compact JSON.
    #[must_use]
    pub fn definition(&self) -> &ByteString {
        &self.0.definition
    }

    /// Parses the definition.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the definition cannot be parsed. This does not happen, because the index
    /// stores only definitions that it has parsed.
    pub fn tool(&self) -> Result<Tool, RpcError> {
        serde_json::from_str(self.definition()).map_err(RpcError::invalid_params)
    }

    /// Returns whether the tool might use a feature; does not parse the definition. The result `false` is certain, the
    /// result `true` is not.
    #[must_use]
    pub fn may_use(&self, feature: ToolFeature) -> bool {
        self.0.features.has(feature)
    }

    /// Returns the security metadata that the kernel decided, or else the metadata that the server claims.
    #[must_use]
    pub fn security(&self) -> Option<&ToolSecurity> {
        self.0.security.as_deref()
    }

    /// Returns the effective risk, which is `dangerous` for a tool without security metadata.
    #[must_use]
    pub fn risk(&self) -> RiskLevel {
        self.0.risk()
    }

    /// Returns the categories; `a/b` is the category `b` within `a`.
    pub fn categories(&self) -> impl Iterator<Item = &str> {
        self.0.categories.words.iter().map(|category| &**category)
    }

    /// Returns the words by which searches find the tool in addition to the words of its definition.
    pub fn keywords(&self) -> impl Iterator<Item = &str> {
        self.0.keywords.words.iter().map(|keyword| &**keyword)
    }

    /// Returns the number of tokens of the definition; an upper bound until the tokens have been counted.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.0.tokens()
    }

    /// Returns a hash of all data that the index stores about the tool, including texts of its server.
    #[must_use]
    pub fn hash(&self) -> &[u8; 16] {
        &self.0.hash
    }
}
