//! The filter of a search (MGP §16.5).

use mgp_types::mgp::{Permission, RiskLevel, ServerState};
use mgp_types::proposal::LatencyClass;

/// The conditions on the tools that a search can find. A tool must meet all of them; an empty filter matches all tools.
///
/// - Categories: a tool must be in one of them, or in a subcategory of one of them.
/// - Risk: the filter uses the effective risk; a tool without a risk level is treated as dangerous.
/// - Permissions: a tool that needs any other permission than these does not match. A tool that declares no permissions
///   needs none.
/// - Input types: a tool must have a word of one of the types in the name, the `format` or the content type of a
///   parameter (`csv` matches `csv_path` and `text/csv`). Singular and plural are treated as equal.
/// - Output types: a tool must have a word of one of the types in its output schema or, if it has none, in its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Filter {
    /// The categories; the tool must be in at least one of them.
    pub categories: Vec<String>,
    /// The highest risk at which a tool still matches.
    pub risk_level_max: Option<RiskLevel>,
    /// The state that the tool's server must have.
    pub status: Option<ServerState>,
    /// The ids of the servers; the tool must belong to one of them.
    pub servers: Vec<String>,
    /// The available permissions: a tool that needs any other permission does not match. `None` sets no condition.
    pub permissions: Option<Vec<Permission>>,
    /// The input types; the tool must accept at least one of them.
    pub input_types: Vec<String>,
    /// The output types; the tool must return at least one of them.
    pub output_types: Vec<String>,
    /// The maximum cost in units. A tool matches only if it states a cost that is not higher.
    pub max_cost_units: Option<u64>,
    /// The slowest accepted latency. A tool matches only if it states a latency that is not slower.
    pub latency_max: Option<LatencyClass>,
}

impl Filter {
    /// Returns a filter that matches all tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a category; the tool must be in at least one of the added categories.
    #[must_use]
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.categories.push(category.into());
        self
    }

    /// Sets the highest risk at which a tool still matches.
    #[must_use]
    pub fn risk_level_max(mut self, most: RiskLevel) -> Self {
        self.risk_level_max = Some(most);
        self
    }

    /// Sets the state that the tool's server must have.
    #[must_use]
    pub fn status(mut self, state: ServerState) -> Self {
        self.status = Some(state);
        self
    }

    /// Adds a server by its id; the tool must belong to one of the added servers.
    #[must_use]
    pub fn server(mut self, server: impl Into<String>) -> Self {
        self.servers.push(server.into());
        self
    }

    /// Sets the available permissions: a tool that needs any other permission does not match.
    #[must_use]
    pub fn permissions(mut self, permissions: impl IntoIterator<Item = Permission>) -> Self {
        self.permissions = Some(permissions.into_iter().collect());
        self
    }

    /// Adds an input type; the tool must accept at least one of the added types.
    #[must_use]
    pub fn input_type(mut self, kind: impl Into<String>) -> Self {
        self.input_types.push(kind.into());
        self
    }

    /// Adds an output type; the tool must return at least one of the added types.
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
