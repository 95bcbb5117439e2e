//! Filters (MGP §16.5).

use mgp_types::mgp::{Permission, RiskLevel, ServerState};

/// The tools that a search may find; each member restricts it, an empty filter matches all tools.
///
/// - A category matches its tools and those of its subcategories; one of several is enough.
/// - The risk is the effective one; a tool without a risk is dangerous.
/// - Permissions are the allowed ones: a tool that needs another permission does not match. A tool without permissions
///   needs none.
/// - A type of input matches a tool that has a word of the type in a parameter's name, `format` or content type
///   (`csv` matches `csv_path` and `text/csv`); a type of output the same in its output schema, or, for a tool without
///   one, in its name. Plural and singular are the same. One of several is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Filter {
    /// The tool is in one of these categories.
    pub categories: Vec<String>,
    /// The tool is not more dangerous than this.
    pub risk_level_max: Option<RiskLevel>,
    /// The server of the tool is in this state.
    pub status: Option<ServerState>,
    /// The tool belongs to one of these servers.
    pub servers: Vec<String>,
    /// The tool needs no other permission than these.
    pub permissions: Option<Vec<Permission>>,
    /// The tool takes one of these types.
    pub input_types: Vec<String>,
    /// The tool returns one of these types.
    pub output_types: Vec<String>,
}

impl Filter {
    /// Returns a filter that matches all tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a category.
    #[must_use]
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.categories.push(category.into());
        self
    }

    /// Sets the greatest risk.
    #[must_use]
    pub fn risk_level_max(mut self, most: RiskLevel) -> Self {
        self.risk_level_max = Some(most);
        self
    }

    /// Sets the state of the server.
    #[must_use]
    pub fn status(mut self, state: ServerState) -> Self {
        self.status = Some(state);
        self
    }

    /// Adds a server.
    #[must_use]
    pub fn server(mut self, server: impl Into<String>) -> Self {
        self.servers.push(server.into());
        self
    }

    /// Sets the allowed permissions.
    #[must_use]
    pub fn permissions(mut self, permissions: impl IntoIterator<Item = Permission>) -> Self {
        self.permissions = Some(permissions.into_iter().collect());
        self
    }

    /// Adds a type of input.
    #[must_use]
    pub fn input_type(mut self, kind: impl Into<String>) -> Self {
        self.input_types.push(kind.into());
        self
    }

    /// Adds a type of output.
    #[must_use]
    pub fn output_type(mut self, kind: impl Into<String>) -> Self {
        self.output_types.push(kind.into());
        self
    }

    /// Returns whether the filter matches all tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
