//! What the operator decided about a tool by name, and what that spares (MGP §4.4).

use bytestring::ByteString;
use mgp_types::mgp::RiskLevel;
use mgp_types::service::{Context, ServerId};

use crate::policy::{ConfirmFrom, ServerPolicy};
use crate::tool::assessment::Assessment;

/// Knows which tools the operator named for a caller: grants of tools, permissions for single tools.
///
/// It reads a snapshot and never waits.
pub trait Named: Send + Sync {
    /// What the operator decided in this caller's favour about this tool by its name, unexpired.
    ///
    /// An entry for the whole server names no tool.
    fn named(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Option<Naming>;
}

impl<F> Named for F
where
    F: Fn(&Context, Option<&ServerId>, &str) -> Option<Naming> + Send + Sync,
{
    fn named(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Option<Naming> {
        self(cx, server, tool)
    }
}

/// An operator's entry that names a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    entry: ByteString,
    never: bool,
}

impl Naming {
    /// An entry, by the words the audit log has for it.
    #[must_use]
    pub fn by(entry: impl Into<ByteString>) -> Self {
        Self { entry: entry.into(), never: false }
    }

    /// The entry says `confirm = "never"`: not even where the server wants a confirmation.
    #[must_use]
    pub fn never_confirm(mut self) -> Self {
        self.never = true;
        self
    }

    /// The words for the entry.
    #[must_use]
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// The entry that spares more.
    pub(crate) fn stronger(self, other: Self) -> Self {
        if other.never && !self.never { other } else { self }
    }
}

impl Assessment {
    /// Whether somebody must confirm a call before it runs (§4.4).
    #[must_use]
    pub fn needs_confirmation(&self, policy: &ServerPolicy, named: Option<&Naming>) -> bool {
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

    /// Whether nobody needs to confirm a call, whoever the caller and whatever the policy is.
    pub(crate) fn is_harmless(&self) -> bool {
        self.effective_risk == RiskLevel::Safe && !self.confirmation_required
    }
}
