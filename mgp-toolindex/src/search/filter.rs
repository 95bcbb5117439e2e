//! Which tools may be found (MGP §16.5).
//!
//! Applies to: inbound.

use mgp_types::mgp::{Permission, RiskLevel, ServerState};

/// Which tools may be found; each word narrows it, an empty filter lets all through.
///
/// - A category matches tools in it and in what lies below it; of several one is enough.
/// - The risk is the effective one; a tool nobody judged is dangerous.
/// - Permissions are what may be needed: a tool that needs another one is not found. A tool that says nothing
///   about permissions needs none.
/// - A type of input matches a tool that has a word of the type in a parameter's name, `format` or content type
///   (`csv` matches `csv_path` and `text/csv`); a type of output the same in its output schema, or, for a tool without
///   one, in its name. Plural and singular are the same. Of several one is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Filter {
    /// In one of these.
    pub categories: Vec<String>,
    /// No more dangerous than this.
    pub risk_level_max: Option<RiskLevel>,
    /// Their server is in this state.
    pub status: Option<ServerState>,
    /// Of one of these servers.
    pub servers: Vec<String>,
    /// They need no permission beside these.
    pub permissions: Option<Vec<Permission>>,
    /// They take one of these.
    pub input_types: Vec<String>,
    /// They give one of these.
    pub output_types: Vec<String>,
}

impl Filter {
    /// Lets everything through.
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

    /// Lets nothing through that is more dangerous.
    #[must_use]
    pub fn risk_level_max(mut self, most: RiskLevel) -> Self {
        self.risk_level_max = Some(most);
        self
    }

    /// Lets only tools through whose server is in this state.
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

    /// Lets only tools through that need no other permissions than these.
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

    /// Whether everything is let through.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
