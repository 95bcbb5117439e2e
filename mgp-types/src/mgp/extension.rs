//! Extensions of MGP and sets of them (MGP §2.2, §2.4).

use std::fmt;
use std::ops::{BitAnd, BitOr};

use crate::record::string_enum;

string_enum! {
    /// An extension of MGP: one of the nine of §2.2, an extension that later revisions split off or added, or a
    /// proposal. A proposal is off unless a program enables it.
    pub enum Extension {
        /// Permission declarations and tool security metadata (§3, §4).
        Security = "security",
        /// Access of agents to tools (§5).
        AccessControl = "access_control",
        /// Audit events (§6).
        Audit = "audit",
        /// Code safety (§7).
        CodeSafety = "code_safety",
        /// Health, shutdown, states (§11).
        Lifecycle = "lifecycle",
        /// Chunks, progress, cancellation (§12).
        Streaming = "streaming",
        /// Events and callbacks (§13).
        Bidirectional = "bidirectional",
        /// Advertisement and registration of servers (§15).
        Discovery = "discovery",
        /// Search for tools (§16).
        ToolDiscovery = "tool_discovery",
        /// In later revisions: the permission half of `security`.
        Permissions = "permissions",
        /// In later revisions: the tool metadata half of `security`.
        ToolSecurity = "tool_security",
        /// In later revisions: the event half of `bidirectional`.
        Events = "events",
        /// In later revisions: the callback half of `bidirectional`.
        Callbacks = "callbacks",
        /// In later revisions: the progress part of `streaming`.
        Progress = "progress",
        /// In later revisions: structured errors (§14), which this implementation always uses.
        ErrorHandling = "error_handling",
        /// In later revisions: calls on behalf of another agent.
        Delegation = "delegation",
        /// Proposal 1: a description of the whole server.
        Manifest = "manifest",
        /// Proposal 2: the purpose of a call, and suggestions of better tools.
        IntentHints = "intent_hints",
        /// Proposal 3: the cost and latency of tools.
        CostHints = "cost_hints",
        /// Proposal 4: scopes of tools, and checks before a call.
        Scopes = "scopes",
        /// Proposal 5: a call with a key runs once, even if it is sent several times.
        Idempotency = "idempotency",
        /// Proposal 5: steps that are undone together.
        Transactions = "transactions",
        /// Proposal 6: confirmation of single calls.
        HumanInTheLoop = "human_in_the_loop",
        /// Proposal 7: the sources of a result.
        Provenance = "provenance",
        /// Proposal 8: streams that a caller can resume after a disconnect.
        Checkpoint = "checkpoint",
        /// Proposal 9: data that moves between servers without passing through the client.
        DataReferences = "data_references",
        /// Proposal 10: the media types and sizes that tools accept.
        MultimodalSignatures = "multimodal_signatures",
        /// Proposal 11: errors with a category and advice.
        StructuredErrors = "structured_errors",
        /// Proposal 13: servers that could meet a need.
        ServerRecommendations = "server_recommendations",
        /// Proposal 14: state that the client keeps for the server.
        SessionState = "session_state",
    }
}

impl Extension {
    /// The nine extensions of §2.2.
    pub const STANDARD: &'static [Self] = &[
        Self::Security,
        Self::AccessControl,
        Self::Audit,
        Self::CodeSafety,
        Self::Lifecycle,
        Self::Streaming,
        Self::Bidirectional,
        Self::Discovery,
        Self::ToolDiscovery,
    ];

    /// Returns the extension of §2.2 of which this extension is a part; any other extension is returned unchanged.
    #[must_use]
    pub const fn whole(self) -> Self {
        match self {
            Self::Permissions | Self::ToolSecurity => Self::Security,
            Self::Events | Self::Callbacks => Self::Bidirectional,
            Self::Progress => Self::Streaming,
            other => other,
        }
    }

    /// Returns whether the extension is `security` or `bidirectional`, each of which later revisions split into two
    /// halves.
    const fn is_split(self) -> bool {
        matches!(self, Self::Security | Self::Bidirectional)
    }

    /// Returns the bits that represent the extension in a set; an extension that has parts has the bits of all its
    /// parts.
    const fn bits(self) -> u64 {
        match self {
            Self::Permissions => 1,
            Self::ToolSecurity => 1 << 1,
            Self::Security => 0b11,
            Self::AccessControl => 1 << 2,
            Self::Audit => 1 << 3,
            Self::CodeSafety => 1 << 4,
            Self::Lifecycle => 1 << 5,
            Self::Progress => 1 << 6,
            // Bit 7 means chunks and cancellation, and bit 6 means progress. Streaming has both, because it always
            // includes progress (§12).
            Self::Streaming => 0b11 << 6,
            Self::Events => 1 << 8,
            Self::Callbacks => 1 << 9,
            Self::Bidirectional => 0b11 << 8,
            Self::Discovery => 1 << 10,
            Self::ToolDiscovery => 1 << 11,
            Self::ErrorHandling => 1 << 12,
            Self::Delegation => 1 << 13,
            Self::Manifest => 1 << 16,
            Self::IntentHints => 1 << 17,
            Self::CostHints => 1 << 18,
            Self::Scopes => 1 << 19,
            Self::Idempotency => 1 << 20,
            Self::Transactions => 1 << 21,
            Self::HumanInTheLoop => 1 << 22,
            Self::Provenance => 1 << 23,
            Self::Checkpoint => 1 << 24,
            Self::DataReferences => 1 << 25,
            Self::MultimodalSignatures => 1 << 26,
            Self::StructuredErrors => 1 << 27,
            Self::ServerRecommendations => 1 << 28,
            Self::SessionState => 1 << 29,
        }
    }
}

/// A set of extensions, one bit or several bits per extension. An extension shares its bits with its parts, so a set
/// can contain only a part of an extension.
///
/// ```
/// use mgp_types::mgp::{Extension, ExtensionSet};
///
/// let ours: ExtensionSet = [Extension::Security, Extension::Audit].into_iter().collect();
/// let theirs = ExtensionSet::from_names(["permissions", "audit", "observability"]);
/// let active = ours & theirs;
/// assert!(active.contains(Extension::Permissions) && !active.contains(Extension::Security));
/// assert_eq!(active.to_string(), "audit, permissions");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ExtensionSet(u64);

impl ExtensionSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// The set of the nine extensions of §2.2.
    pub const STANDARD: Self = {
        let mut set = Self::EMPTY;
        let mut index = 0;
        while index < Extension::STANDARD.len() {
            set = set.with(Extension::STANDARD[index]);
            index += 1;
        }
        set
    };

    /// The set of the proposals, i.e. of the extensions beyond MGP. A program enables each of them separately.
    pub const PROPOSALS: Self = Self(0x3fff << 16);

    /// Creates a set from names; unknown names are ignored.
    #[must_use]
    pub fn from_names<I: IntoIterator<Item: AsRef<str>>>(names: I) -> Self {
        names.into_iter().filter_map(|name| Extension::from_word(name.as_ref())).collect()
    }

    /// Creates the set of the extensions that a peer names in its offer or answer; unknown names are ignored.
    ///
    /// If the names include an extension and one of its halves, only the half counts. The reason: a peer that supports
    /// only the half `tool_security` must also send `security`, for peers that know only the names of §2.2.
    ///
    /// ```
    /// use mgp_types::mgp::{Extension, ExtensionSet};
    ///
    /// let half = ExtensionSet::from_offer(["security", "tool_security"]);
    /// assert_eq!(half, ExtensionSet::EMPTY.with(Extension::ToolSecurity));
    /// assert_eq!(ExtensionSet::from_offer(half.offered_names()), half);
    /// ```
    #[must_use]
    pub fn from_offer<I: IntoIterator<Item: AsRef<str>>>(names: I) -> Self {
        let mut named: Vec<Extension> = Vec::new();
        for extension in names.into_iter().filter_map(|name| Extension::from_word(name.as_ref())) {
            // Keep each name once: a peer may repeat it a million times, and the names are compared with each other.
            if !named.contains(&extension) {
                named.push(extension);
            }
        }
        let is_restricted = |whole: &Extension| {
            whole.is_split() && named.iter().any(|half| half.whole() == *whole && half != whole)
        };
        named.iter().filter(|extension| !is_restricted(extension)).copied().collect()
    }

    /// Returns the set with an extension added.
    #[must_use]
    pub const fn with(self, extension: Extension) -> Self {
        Self(self.0 | extension.bits())
    }

    /// Returns the set with an extension removed.
    #[must_use]
    pub const fn without(self, extension: Extension) -> Self {
        Self(self.0 & !extension.bits())
    }

    /// Returns whether the set contains the extension with all its parts.
    #[must_use]
    pub const fn contains(self, extension: Extension) -> bool {
        self.0 & extension.bits() == extension.bits()
    }

    /// Returns the extensions that are in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the extensions of this set that are not in the other set.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the extensions in the set, those of §2.2 first; the parts of an extension are left out if the set
    /// contains the whole extension.
    pub fn iter(self) -> impl Iterator<Item = Extension> {
        let mut rest = self.0;
        Extension::ALL.iter().copied().filter(move |extension| {
            let bits = extension.bits();
            let found = self.contains(*extension) && rest & bits != 0;
            if found {
                rest &= !bits;
            }
            found
        })
    }

    /// Returns the names to send in an offer: each extension in the set and, if the set contains only one half of
    /// `security` or `bidirectional`, also the name of the whole extension.
    pub fn offered_names(self) -> impl Iterator<Item = &'static str> {
        Extension::ALL.iter().filter(move |one| self.is_named(**one)).map(|one| one.as_str())
    }

    /// Returns the names to send in an answer. Only names from the peer's offer are returned, because the peer might
    /// not know other names.
    #[must_use]
    pub fn names_for<S: AsRef<str>>(self, offered: &[S]) -> Vec<&'static str> {
        let mut names = Vec::new();
        for extension in offered.iter().filter_map(|name| Extension::from_word(name.as_ref())) {
            if self.is_named(extension) && !names.contains(&extension.as_str()) {
                names.push(extension.as_str());
            }
        }
        names
    }

    /// Returns whether a message to a peer should name the extension: the set contains the extension or, if it is
    /// split, at least one of its halves.
    const fn is_named(self, extension: Extension) -> bool {
        if extension.is_split() { self.0 & extension.bits() != 0 } else { self.contains(extension) }
    }
}

impl BitAnd for ExtensionSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.intersection(other)
    }
}

impl BitOr for ExtensionSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<Extension> for ExtensionSet {
    fn from_iter<I: IntoIterator<Item = Extension>>(extensions: I) -> Self {
        extensions.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Display for ExtensionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, extension) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{extension}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ExtensionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ours: &[&str], theirs: &[&str], active: &str, reported: &[&str]) {
        let set = ExtensionSet::from_names(ours) & ExtensionSet::from_offer(theirs);
        assert_eq!(set.to_string(), active);
        assert_eq!(set.names_for(theirs), reported);
    }

    #[test]
    fn an_intersection_uses_the_names_of_the_peer() {
        check(
            &["security", "audit"],
            &["audit", "security"],
            "security, audit",
            &["audit", "security"],
        );
        check(
            &["security"],
            &["permissions", "tool_security"],
            "security",
            &["permissions", "tool_security"],
        );
        check(&["bidirectional"], &["events"], "events", &["events"]);
        check(&["streaming"], &["streaming", "progress"], "streaming", &["streaming", "progress"]);
        check(&["audit"], &["observability", "audit", "audit"], "audit", &["audit"]);
        check(&["audit"], &["lifecycle"], "", &[]);
    }

    #[test]
    fn a_peer_of_the_first_specification_is_answered_in_the_nine_names_it_knows() {
        check(&["permissions"], &["security"], "permissions", &["security"]);
        check(&["tool_security"], &["security"], "tool_security", &["security"]);
        check(&["events"], &["bidirectional"], "events", &["bidirectional"]);
        // `progress` alone does not count as `streaming`, which also includes chunks, so the answer does not name
        // `streaming`.
        check(&["progress"], &["streaming"], "progress", &[]);
    }

    #[test]
    fn an_offer_of_a_half_names_the_whole_and_stays_a_half() {
        #[track_caller]
        fn check(set: &[&str], names: &str) {
            let set = ExtensionSet::from_names(set);
            let offered: Vec<_> = set.offered_names().collect();
            assert_eq!(offered.join(" "), names);
            assert_eq!(ExtensionSet::from_offer(&offered), set);
        }
        check(&["tool_security"], "security tool_security");
        check(&["security"], "security permissions tool_security");
        check(&["callbacks", "audit"], "audit bidirectional callbacks");
        check(&["streaming"], "streaming progress");
        check(&["progress", "delegation"], "progress delegation");
        // The offer names a whole extension and the half that this side does not support, so nothing is negotiated.
        let offer = ExtensionSet::from_offer(["security", "permissions"]);
        assert!((offer & ExtensionSet::from_names(["tool_security"])).is_empty());
    }

    /// Regression test: the time was quadratic, and a peer chooses the number of names.
    #[test]
    fn an_offer_of_many_names_is_read_in_linear_time() {
        let set = ExtensionSet::from_offer(std::iter::repeat_n("security", 200_000));
        assert_eq!(set, ExtensionSet::EMPTY.with(Extension::Security));
    }

    #[test]
    fn proposals_are_the_fourteen_that_are_not_part_of_mgp() {
        let later: ExtensionSet = ["error_handling", "delegation"]
            .iter()
            .filter_map(|name| Extension::from_word(name))
            .collect();
        let rest = Extension::ALL.iter().copied().collect::<ExtensionSet>();
        assert_eq!(
            rest.difference(ExtensionSet::STANDARD).difference(later),
            ExtensionSet::PROPOSALS
        );
        assert_eq!(ExtensionSet::PROPOSALS.iter().count(), 14);
    }

    #[test]
    fn there_are_nine_standard_extensions() {
        assert_eq!(ExtensionSet::STANDARD.iter().count(), 9);
        assert!(ExtensionSet::STANDARD.iter().eq(Extension::STANDARD.iter().copied()));
        assert!(
            Extension::ALL
                .iter()
                .all(|part| ExtensionSet::EMPTY.with(part.whole()).contains(*part))
        );
        assert!(ExtensionSet::STANDARD.without(Extension::Events).contains(Extension::Callbacks));
    }
}
