//! A tool in the index, for whoever found it (MGP §16.4).
//!
//! Applies to: outbound.

use std::sync::Arc;

use bytestring::ByteString;
use mgp_types::RpcError;
use mgp_types::mcp::Tool;
use mgp_types::mgp::{RiskLevel, ToolSecurity};

use super::entry::Entry;

/// A tool in the index; cheap to clone, and unchanged by what becomes of the index.
#[derive(Clone, Debug)]
pub struct Listed(pub(crate) Arc<Entry>);

impl Listed {
    /// Names the tool among all: `{server}.{name}`.
    #[must_use]
    pub fn tool_id(&self) -> String {
        format!("{}.{}", self.server_id(), self.name())
    }

    /// Its server.
    #[must_use]
    pub fn server_id(&self) -> &str {
        &self.0.server.id
    }

    /// The name of its server for people.
    #[must_use]
    pub fn server_name(&self) -> Option<&str> {
        self.0.server.name.as_deref()
    }

    /// Its name at its server.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// What it does.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.0.description()
    }

    /// Its compact JSON as its server lists it: name, description, schemas and all.
    #[must_use]
    pub fn definition(&self) -> &ByteString {
        &self.0.definition
    }

    /// Parses the definition.
    ///
    /// # Errors
    /// −32602 when it is no tool; it was one when it came.
    pub fn tool(&self) -> Result<Tool, RpcError> {
        serde_json::from_str(self.definition()).map_err(RpcError::invalid_params)
    }

    /// What it does to the world, as decided by whoever put it into the index, else as its server says.
    #[must_use]
    pub fn security(&self) -> Option<&ToolSecurity> {
        self.0.security.as_deref()
    }

    /// How dangerous it is; what nobody judged is dangerous.
    #[must_use]
    pub fn risk(&self) -> RiskLevel {
        self.0.risk()
    }

    /// Its categories, `a/b` for `b` below `a`.
    pub fn categories(&self) -> impl Iterator<Item = &str> {
        self.0.categories.words.iter().map(|category| &**category)
    }

    /// Words for it beside its definition.
    pub fn keywords(&self) -> impl Iterator<Item = &str> {
        self.0.keywords.words.iter().map(|keyword| &**keyword)
    }

    /// How many tokens its definition costs: exact once counted, before that a bound above.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.0.tokens()
    }

    /// A hash of all that the index keeps of it, texts of its server included.
    #[must_use]
    pub fn hash(&self) -> &[u8; 16] {
        &self.0.hash
    }
}
