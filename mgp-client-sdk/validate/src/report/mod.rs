//! The result of judging a peer: as JSON, as text, and as a page.

mod conformance;
mod page;
mod text;

use serde::Serialize;

use crate::rule::{RuleInfo, RuleLevel, Tier};
use crate::session::Session;

/// The outcome of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The peer keeps the rule.
    Passed,
    /// The peer breaks the rule.
    Failed,
    /// The rule does not apply, e.g. because the peer does not offer the feature.
    Skipped,
}

impl Status {
    /// Returns the word for the status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// The peer that was judged.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Subject {
    /// The command or URL.
    pub target: String,
    /// The name that the peer gives itself.
    pub name: Option<String>,
    /// The version that the peer gives itself.
    pub version: Option<String>,
    /// The revisions of MCP that were spoken.
    pub revisions: Vec<String>,
    /// The version of MGP, if it is offered.
    pub mgp_version: Option<String>,
    /// The extensions of MGP that the server accepted, or that the client offered.
    pub extensions: Vec<String>,
}

impl Subject {
    /// Records what the peer reports about itself on a connection, e.g. its name.
    pub(crate) fn note(&mut self, session: &Session) {
        let of = |pointer: &str| session.hello.pointer(pointer)?.as_str().map(str::to_owned);
        let modern = "/_meta/io.modelcontextprotocol~1serverInfo";
        let name = of("/serverInfo/name").or_else(|| of(&format!("{modern}/name")));
        let version = of("/serverInfo/version").or_else(|| of(&format!("{modern}/version")));
        self.name = self.name.take().or(name);
        self.version = self.version.take().or(version);
        let revision = of("/protocolVersion");
        let modern = session.setup.is_modern().then(|| crate::session::MODERN.to_owned());
        for revision in revision.into_iter().chain(modern) {
            if !self.revisions.contains(&revision) {
                self.revisions.push(revision);
            }
        }
        if let Some(mgp) = session.mgp() {
            self.mgp_version = mgp["version"].as_str().map(str::to_owned);
            let names = mgp["extensions"].as_array().into_iter().flatten();
            self.extensions = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        }
    }
}

/// The outcome of one rule, with the last messages before a failure as evidence.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RuleResult {
    /// The rule that was checked.
    #[serde(flatten)]
    pub rule: RuleInfo,
    /// The outcome.
    pub status: Status,
    /// The reason why the rule failed or was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The last message that the judge sent before a failure.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sent: String,
    /// The last answer that the judge received before a failure.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub received: String,
    /// The time that the check of the rule took, in milliseconds.
    pub duration_ms: u64,
}

impl RuleResult {
    pub(crate) fn new(
        rule: RuleInfo,
        status: Status,
        message: Option<String>,
        (sent, received): (String, String),
        duration_ms: u64,
    ) -> Self {
        Self { rule, status, message, sent, received, duration_ms }
    }
}

/// Counts of rules by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Rules that are kept.
    pub passed: usize,
    /// Rules of level `must` that are broken.
    pub failed: usize,
    /// Rules of level `should` that are broken.
    pub warned: usize,
    /// Rules that do not apply.
    pub skipped: usize,
}

impl Summary {
    fn of<'a>(results: impl Iterator<Item = &'a RuleResult>) -> Self {
        results.fold(Self::default(), |mut sum, result| {
            match (result.status, result.rule.level) {
                (Status::Passed, _) => sum.passed += 1,
                (Status::Skipped, _) => sum.skipped += 1,
                (Status::Failed, RuleLevel::Must) => sum.failed += 1,
                (Status::Failed, RuleLevel::Should) => sum.warned += 1,
            }
            sum
        })
    }
}

/// Counts of the rules of a tier, by their outcome.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct TierSummary {
    /// The tier whose rules are counted.
    pub tier: Tier,
    /// The counts of the tier's rules.
    #[serde(flatten)]
    pub summary: Summary,
}

/// The result of judging a peer.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The version of the rules, which is the version of this package.
    pub suite_version: &'static str,
    /// The time when the peer was judged.
    pub tested_at: String,
    /// The peer that was judged: the server, if a client and a server were judged together.
    pub subject: Subject,
    /// The client, if a client and a server were judged together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Subject>,
    /// The counts of all rules, by their outcome.
    pub summary: Summary,
    /// The counts of each tier's rules.
    pub tiers: Vec<TierSummary>,
    /// The result of each rule.
    pub results: Vec<RuleResult>,
}

impl Report {
    pub(crate) fn new(subject: Subject, results: Vec<RuleResult>) -> Self {
        let of_tier = |tier| TierSummary {
            tier,
            summary: Summary::of(results.iter().filter(|result| result.rule.tier == tier)),
        };
        Self {
            suite_version: env!("CARGO_PKG_VERSION"),
            tested_at: mgp_types::Timestamp::now().to_string(),
            subject,
            client: None,
            summary: Summary::of(results.iter()),
            tiers: Tier::ALL.into_iter().map(of_tier).collect(),
            results,
        }
    }

    /// Returns whether no rule of level `must` is broken.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.summary.failed == 0
    }

    /// Returns the report as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Returns the report as JSON in the schema of proposal 12 (conformance reports). Each test `CONF-001` to
    /// `CONF-007` of the proposal gets the result of our rules that check the same behaviour.
    #[must_use]
    pub fn to_conformance_json(&self) -> String {
        conformance::write(self)
    }

    /// Returns the report as text for a terminal.
    #[must_use]
    pub fn to_text(&self) -> String {
        text::write(self)
    }

    /// Returns the report as one page of HTML that loads nothing.
    #[must_use]
    pub fn to_html(&self) -> String {
        page::write(self)
    }

    /// Returns a badge as SVG: what was judged, and whether it passed.
    #[must_use]
    pub fn to_badge(&self) -> String {
        page::badge(self)
    }
}
