//! The facts of a call on which a decision depends in addition to the rules: the call itself, and the answers that it
//! has received so far.

use mgp_types::Sha256Hash;
use mgp_types::mgp::{Permission, RiskLevel};
use mgp_types::service::{Call, ServerId};

use crate::access::Moment;
use crate::permission::AskOutcomes;

/// A call, with everything on which a decision about it depends in addition to the rules.
pub(crate) struct CallFacts<'a> {
    /// The call: its principal, its credentials, and the arguments that validators check.
    pub(crate) call: &'a Call,
    pub(crate) server: Option<&'a ServerId>,
    pub(crate) tool: &'a str,
    pub(crate) arguments: Option<&'a str>,
    pub(crate) at: &'a Moment<'a>,
    pub(crate) preparations: &'a CallPreparations,
}

/// The definition and the risk of a tool for which a call was confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfirmedTool {
    /// The hash of the definition, if it is known.
    pub(crate) definition: Option<Sha256Hash>,
    pub(crate) risk: RiskLevel,
}

/// The questions that were already asked for a call, and the preparations that were already made, so that neither is
/// repeated.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent steps of a call")]
pub(crate) struct CallPreparations {
    /// `true` once the server's tools were listed for this call, so that they are not listed again. While a person
    /// decides, the server can announce more changes; then the tools may be listed again.
    pub(crate) listed: bool,
    /// The number of times that the server's tools were listed for this call.
    pub(crate) listings: usize,
    /// The number of changes that the server had announced when it listed the same tools twice in a row for this call.
    /// The tools count as current as long as this number stays the same.
    pub(crate) settled: Option<u64>,
    /// `true` once an override of the tool's risk was recorded for this call, so that none is recorded again.
    pub(crate) recorded: bool,
    /// The answers to the question about permissions, which is asked at most once; `None` before it is asked.
    pub(crate) asked: Option<AskOutcomes>,
    /// The permissions that a person granted for this call only, when confirming it.
    pub(crate) granted: Vec<Permission>,
    /// The confirmations of the call, with the tool as the person saw it.
    pub(crate) confirmed: Vec<ConfirmedTool>,
    /// `true` when a call that has waited is decided about once more, immediately before it runs. If the server had
    /// announced changes but listed the same tools again, its further announcements do not count in this decision.
    pub(crate) is_last_decision: bool,
    /// `true` for a preview that covers all possible arguments. Then neither the schema nor validators apply, and
    /// limits of approvals apply only if the tool takes no arguments.
    pub(crate) any_arguments: bool,
}

impl CallPreparations {
    /// Returns the preparations of a call that must not ask again: the question about permissions counts as asked, the
    /// tools count as listed, and an override of the risk counts as recorded.
    pub(crate) fn finished(
        granted: Vec<Permission>,
        confirmed: Vec<ConfirmedTool>,
        settled: Option<u64>,
    ) -> Self {
        Self {
            listed: true,
            settled,
            recorded: true,
            asked: Some(AskOutcomes::default()),
            granted,
            confirmed,
            is_last_decision: true,
            ..Self::default()
        }
    }
}
