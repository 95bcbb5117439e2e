//! The configuration tables that set limits, as an operator writes them.

/// A configuration table that sets limits, e.g. `agents.ann.limits`, or `servers.limits` of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LimitTable {
    path: String,
    server: Option<String>,
}

impl LimitTable {
    pub(super) fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), server: None }
    }

    pub(super) fn of_server(id: &str) -> Self {
        Self { path: "servers.limits".to_owned(), server: Some(id.to_owned()) }
    }

    /// Returns a key of the table and the name of its server, as plain text.
    pub(super) fn key(&self, name: &str) -> String {
        match &self.server {
            None => format!("{}.{name}", self.path),
            Some(server) => format!("{}.{name} of server {server}", self.path),
        }
    }

    /// Returns a key of the table and the name of its server, each between backticks.
    pub(super) fn quote(&self, name: &str) -> String {
        match &self.server {
            None => format!("`{}.{name}`", self.path),
            Some(server) => format!("`{}.{name}` of server `{server}`", self.path),
        }
    }
}
