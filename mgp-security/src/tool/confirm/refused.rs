//! Refusals of calls that were not confirmed (MGP §4.4, §14.5).

use mgp_types::mgp::{Permission, RiskLevel};
use mgp_types::service::{Rule, ServerId};
use mgp_types::{Object, Timestamp};

use crate::permission::MissingPermission;
use crate::tool::assessment::Assessment;

/// The error for a call that needed a confirmation and did not get one.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{tool}` did not run: {why}{}; it {}{lacks}; {remedy}", said(.reason.as_deref()), .need.as_str())]
pub struct ConfirmRefused {
    tool: String,
    server: Option<ServerId>,
    risk: RiskLevel,
    need: Need,
    /// The missing permissions that the confirmation question also asked for, as text for the message; empty if there
    /// were none.
    lacks: String,
    why: Unconfirmed,
    /// The reason that the person gave for the decision.
    reason: Option<String>,
    /// The action that would allow the call to run.
    remedy: String,
    /// Further details for the caller: the approver's details, and the missing permissions.
    more: Object,
    #[source]
    rule: Rule,
}

/// The reason why a confirmation is needed.
#[derive(Clone, Copy, Debug)]
enum Need {
    Risk(&'static str),
    Server,
}

/// Returns the rule that requires the confirmation of a call.
pub(super) fn rule_of(assessment: &Assessment) -> Rule {
    Rule::new(Need::of(assessment).rule(&assessment.effective_risk))
}

impl Need {
    fn of(assessment: &Assessment) -> Self {
        match (assessment.confirmation_required, &assessment.effective_risk) {
            (true, _) => Self::Server,
            (_, RiskLevel::Moderate) => Self::Risk("is moderate"),
            _ => Self::Risk("is dangerous"),
        }
    }

    fn rule(self, risk: &RiskLevel) -> String {
        match self {
            Self::Server => "confirmation_required".to_owned(),
            Self::Risk(_) => format!("confirmation of {risk} calls"),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Risk(words) => words,
            Self::Server => "wants every call confirmed",
        }
    }
}

/// The reason why a call was not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unconfirmed {
    /// No approver is available to confirm the call.
    #[error("no person can be asked")]
    NobodyToAsk,
    /// The approver denied the call.
    #[error("a person denied it")]
    Denied,
    /// The approver has not decided yet; the call can be repeated after a person has decided.
    #[error("it was not confirmed in time")]
    Deferred,
    /// The person closed the question without an answer.
    #[error("the question was closed without an answer")]
    Closed,
    /// The approver was asked about the call, but did not answer in time.
    #[error("it was not confirmed in time")]
    Unanswered,
    /// The confirmation of the call has expired.
    #[error("the confirmation has expired, or the clock was changed")]
    Expired,
    /// The definition of the tool changed while the confirmation was requested.
    #[error("the tool changed while it was confirmed")]
    Changed,
    /// The call needed no confirmation when it began to wait for its turn, and needs one now, e.g. because an approval
    /// was revoked.
    #[error("it began to need a confirmation while it waited")]
    NewlyNeeded,
    /// The confirmation was already used by an earlier run.
    #[error("the confirmation was used")]
    Used,
    /// The arguments are too long for an approver to read.
    #[error("its arguments are too long to be shown to an approver")]
    TooLong,
    /// The arguments cannot be parsed, so they cannot be shown to an approver.
    #[error("its arguments cannot be read")]
    Unreadable,
    /// The caller, or all callers together, have too many open questions.
    #[error("too many questions are open")]
    TooMany,
    /// The maximum number of used confirmations is remembered, so no further confirmation can be used.
    #[error("too many confirmations were used")]
    Full,
}

impl Unconfirmed {
    /// Returns the name of this reason, as it appears in the details of a refusal.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NobodyToAsk => "nobody_to_ask",
            Self::Denied => "denied",
            Self::Deferred => "deferred",
            Self::Closed => "closed",
            Self::Unanswered => "unanswered",
            Self::Expired => "expired",
            Self::Changed => "changed",
            Self::NewlyNeeded => "newly_needed",
            Self::Used => "used",
            Self::TooLong => "too_long",
            Self::Unreadable => "unreadable",
            Self::TooMany => "too_many_open",
            Self::Full => "no_room",
        }
    }

    /// Returns what the caller can do to get the call confirmed.
    fn remedy(self) -> &'static str {
        match self {
            Self::NobodyToAsk => "ask an operator to allow it",
            Self::Denied => "ask the person how to go on",
            Self::Deferred => "call again once a person has decided it",
            Self::Closed | Self::Unanswered => "call again to be asked again",
            Self::Expired | Self::Changed | Self::Used => {
                "the confirmation no longer counts: call again to be asked again"
            }
            Self::NewlyNeeded => "call again to be asked",
            Self::TooLong => "pass shorter arguments, or ask an operator to allow it",
            Self::Unreadable => "name each member of the arguments once",
            Self::TooMany | Self::Full => "call again later",
        }
    }
}

impl ConfirmRefused {
    /// Creates a refusal, with further details from the approver.
    pub(super) fn new(
        server: Option<&ServerId>,
        tool: &str,
        assessment: &Assessment,
        missing: &[Permission],
        (why, mut more): (Unconfirmed, Object),
    ) -> Self {
        let risk = assessment.effective_risk.clone();
        let need = Need::of(assessment);
        let rule = format!("{}: {}", need.rule(&risk), why.as_str());
        let names: Vec<&str> = missing.iter().map(Permission::as_str).collect();
        let mut lacks = String::new();
        if !names.is_empty() {
            lacks = format!(" and lacks the permission `{}`", names.join("`, `"));
            let undecided = missing.iter().map(MissingPermission::undecided);
            // Encoding strings cannot fail.
            let _ = more.encode("missing", &undecided.collect::<Vec<_>>());
        }
        // The approver's own remedy takes precedence, because it is more precise.
        let remedy = more.decode("remedy").ok().flatten();
        Self {
            tool: tool.to_owned(),
            server: server.cloned(),
            risk,
            need,
            lacks,
            why,
            reason: more.decode("justification").ok().flatten(),
            remedy: remedy.unwrap_or_else(|| why.remedy().to_owned()),
            more,
            rule: Rule::new(rule),
        }
    }

    /// Creates the refusal of a call that began to need a confirmation while it waited for its turn.
    pub(crate) fn newly_needed(
        server: Option<&ServerId>,
        tool: &str,
        assessment: &Assessment,
    ) -> Self {
        let why = (Unconfirmed::NewlyNeeded, Object::new());
        Self::new(server, tool, assessment, &[], why)
    }

    /// Creates the refusal of a call whose tool changed after the call was confirmed.
    pub(crate) fn changed(server: Option<&ServerId>, tool: &str, assessment: &Assessment) -> Self {
        Self::new(server, tool, assessment, &[], (Unconfirmed::Changed, Object::new()))
    }

    /// Returns the reason why the call was not confirmed.
    #[must_use]
    pub fn why(&self) -> Unconfirmed {
        self.why
    }

    /// Returns the reason that the person gave.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Returns the error's structured details for the caller (§14.5).
    pub(crate) fn details(&self) -> Object {
        let mut details = Object::new()
            .with("tool", &self.tool)
            .with_optional("server_id", self.server.as_ref().map(ServerId::as_str))
            .with("effective_risk_level", self.risk.as_str())
            .with("status", self.why.as_str())
            .with("remedy", &self.remedy);
        for (name, value) in self.more.iter() {
            details.insert(name, value.clone());
        }
        details
    }
}

/// Formats the reason that a person gave, as the end of a clause.
fn said(reason: Option<&str>) -> String {
    reason.map(|reason| format!(" (“{reason}”)")).unwrap_or_default()
}

/// Returns whether a time has passed. An unreadable time counts as passed; `None` never passes.
pub(super) fn is_past(end: Option<&Timestamp>) -> bool {
    end.is_some_and(|end| end.is_before(std::time::SystemTime::now()).unwrap_or(true))
}
