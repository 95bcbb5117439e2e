//! Operators' entries that name a tool, and the confirmations they spare (MGP §4.4).

use bytestring::ByteString;
use mgp_types::mgp::RiskLevel;
use mgp_types::service::{Context, ServerId};

use crate::policy::{ConfirmFrom, ServerPolicy};
use crate::tool::assessment::Assessment;

/// Finds the tools that the operator named for a caller: by grants of tools, by permissions for single tools.
///
/// Implementations read a snapshot and never wait.
pub trait NamedTools: Send + Sync {
    /// Returns the unexpired entry in this caller's favour that names this tool.
    ///
    /// An entry for the whole server names no tool.
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

/// An operator's entry that names a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTool {
    entry: ByteString,
    never: bool,
}

impl NamedTool {
    /// Creates an entry, with its description for the audit log.
    #[must_use]
    pub fn by(entry: impl Into<ByteString>) -> Self {
        Self { entry: entry.into(), never: false }
    }

    /// Sets `confirm = "never"`: calls are not even confirmed if the server wants it.
    #[must_use]
    pub fn never_confirm(mut self) -> Self {
        self.never = true;
        self
    }

    /// Returns the description of the entry.
    #[must_use]
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// Returns the entry that spares more.
    pub(crate) fn stronger(self, other: Self) -> Self {
        if other.never && !self.never { other } else { self }
    }
}

impl Assessment {
    /// Returns whether a call must be confirmed before it runs (§4.4).
    #[must_use]
    pub fn needs_confirmation(&self, policy: &ServerPolicy, named: Option<&NamedTool>) -> bool {
        let risky = match self.effective_risk {
            RiskLevel::Safe => false,
            RiskLevel::Moderate => policy.confirm == ConfirmFrom::Moderate,
            _ => true,
        };
        match named {
            Some(naming) => self.confirmation_required && !naming.never,
            None => self.confirmation_required || risky,
        }
    }

    /// Returns whether calls need no confirmation under any policy.
    pub(crate) fn is_harmless(&self) -> bool {
        self.effective_risk == RiskLevel::Safe && !self.confirmation_required
    }
}
