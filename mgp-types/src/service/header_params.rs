//! Arguments of a tool call that stand a second time in headers, so that whoever routes need not read the body (MCP `x-mcp-header`).

use bytestring::ByteString;

/// The `Mcp-Param-*` headers of a call: an outbound layer puts them for the transport to write, an HTTP server finds
/// them as they came. Kept in the call's [`Extensions`](super::Extensions); other carriers have no headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderParams(Vec<(ByteString, ByteString)>);

impl HeaderParams {
    /// No headers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one: the name without `Mcp-Param-`, and the value as it stands in the header.
    pub fn push(&mut self, name: impl Into<ByteString>, value: impl Into<ByteString>) {
        self.0.push((name.into(), value.into()));
    }

    /// The values of a name, whatever its case; a header that came twice has two.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them: name without `Mcp-Param-`, and value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}
