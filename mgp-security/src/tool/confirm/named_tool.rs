//! Operators' entries that name a tool. Such an entry can make confirmations of the tool's calls unnecessary (MGP
//! §4.4).

use bytestring::ByteString;
use mgp_types::service::{Context, ServerId};

/// A source of operators' entries that name a tool, i.e. access grants or permissions for individual tools.
///
/// Implementations must not block; they read a snapshot.
pub trait NamedTools: Send + Sync {
    /// Returns the unexpired entry that names this tool and allows it to this caller.
    ///
    /// An entry for the whole server does not count.
    fn named(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Option<NamedTool>;
}

impl<F> NamedTools for F
where
    F: Fn(&Context, Option<&ServerId>, &str) -> Option<NamedTool> + Send + Sync,
{
    fn named(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Option<NamedTool> {
        self(cx, server, tool)
    }
}

/// An operator's entry that names a tool. It can make confirmations of the tool's calls unnecessary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTool {
    entry: ByteString,
    pub(super) waives_confirmation: bool,
}

impl NamedTool {
    /// Creates a named tool; `entry` describes the operator's entry, and appears in the audit log.
    #[must_use]
    pub fn by(entry: impl Into<ByteString>) -> Self {
        Self { entry: entry.into(), waives_confirmation: false }
    }

    /// Sets `confirm = "never"`: calls need no confirmation even if the server demands one.
    #[must_use]
    pub fn never_confirm(mut self) -> Self {
        self.waives_confirmation = true;
        self
    }

    /// Returns the description of the entry.
    #[must_use]
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// Of two entries, returns the entry that exempts more calls from confirmation.
    pub(crate) fn stronger(self, other: Self) -> Self {
        if other.waives_confirmation && !self.waives_confirmation { other } else { self }
    }
}
