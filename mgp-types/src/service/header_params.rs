//! Arguments of a tool call that are repeated in headers, so that routers need not read the body (MCP `x-mcp-header`).

use bytestring::ByteString;

/// The `Mcp-Param-*` headers of a call, stored in its [`Extensions`](super::Extensions). For an outgoing call, a layer
/// sets the headers and the HTTP transport writes them. For an incoming call, the HTTP server stores the headers that
/// it received. Other transports have no headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderParams(Vec<(ByteString, ByteString)>);

impl HeaderParams {
    /// Creates an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a header: its name without `Mcp-Param-`, and its encoded value.
    pub fn push(&mut self, name: impl Into<ByteString>, value: impl Into<ByteString>) {
        self.0.push((name.into(), value.into()));
    }

    /// Returns all values of the headers with this name; names are compared without regard to case.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Returns whether there are no headers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all headers: name without `Mcp-Param-`, and value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}
