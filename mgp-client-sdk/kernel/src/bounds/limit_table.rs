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

    /// Returns the path of a key of the table. If the table belongs to a server, the name of the server follows.
    pub(super) fn key(&self, name: &str) -> String {
        match &self.server {
            None => format!("{}.{name}", self.path),
            Some(server) => format!("{}.{name} of server {server}", self.path),
        }
    }

    /// Returns the path of a key as [`key`](Self::key) does, but puts the path and the server's name into backticks.
    pub(super) fn quote(&self, name: &str) -> String {
        match &self.server {
            None => format!("`{}.{name}`", self.path),
            Some(server) => format!("`{}.{name}` of server `{server}`", self.path),
        }
    }
}
