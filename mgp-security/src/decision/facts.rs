//! The facts of a call on which a decision depends in addition to the rules: the call itself, and the answers that it
//! has received so far.

use mgp_types::Sha256Hash;
use mgp_types::mgp::{Permission, RiskLevel};
use mgp_types::service::{Call, ServerId};

use super::ListingState;
use crate::access::Moment;
use crate::permission::AskOutcomes;

/// A call, with everything on which a decision about it depends in addition to the rules.
pub(super) struct CallFacts<'a> {
    /// The call: its principal, its credentials, and the arguments that validators check.
    pub(super) call: &'a Call,
    pub(super) server: Option<&'a ServerId>,
    pub(super) tool: &'a str,
    pub(super) arguments: Option<&'a str>,
    pub(super) at: &'a Moment<'a>,
    pub(super) preparations: &'a CallPreparations,
}

/// The definition and the risk of a tool for which a call was confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfirmedTool {
    pub(crate) definition: Option<Sha256Hash>,
    pub(crate) risk: RiskLevel,
}

/// The answers that a call has received; kept as an extension of the call for later decisions about it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallAnswers {
    /// The permissions that a person granted for this call only, when confirming it.
    pub(crate) granted: Vec<Permission>,
    /// The confirmations of the call, with the tool as the person saw it; empty for a call that needed no confirmation.
    pub(crate) confirmed: Vec<ConfirmedTool>,
    /// The number of changes that the server had announced when it listed the same tools twice in a row for this call.
    /// The tools count as current as long as this number stays the same.
    pub(crate) settled: Option<u64>,
}

impl CallAnswers {
    /// Returns the answers in the extensions of a call.
    pub(crate) fn of(call: &Call) -> Self {
        call.cx().extensions.get::<Self>().cloned().unwrap_or_default()
    }
}

/// The questions that were already asked for a call, and the preparations that were already made, so that neither is
/// repeated.
#[derive(Debug, Default)]
pub(crate) struct CallPreparations {
    pub(crate) listing: ListingState,
    /// The number of times that the server's tools were listed for this call.
    pub(crate) listings: usize,
    /// `true` if the call does not wait until an event has recorded an override of the tool's risk.
    pub(crate) skips_record: bool,
    /// The answers to the question about permissions, which is asked at most once; `None` before it is asked.
    pub(crate) asked: Option<AskOutcomes>,
    pub(crate) answers: CallAnswers,
    /// `true` for a preview that covers all possible arguments. Then neither the schema nor validators apply, and
    /// limits of approvals apply only if the tool takes no arguments.
    pub(crate) any_arguments: bool,
}

impl CallPreparations {
    /// Returns the preparations of a preview that uses the last list of the server's tools; the server has announced
    /// `announced` changes so far.
    pub(crate) fn of_preview(listing: ListingState, announced: u64) -> Self {
        let answers = CallAnswers { settled: Some(announced), ..CallAnswers::default() };
        Self { listing, skips_record: true, answers, ..Self::default() }
    }

    /// Returns the preparations of a call that must not ask again: the question about permissions counts as asked, the
    /// tools count as listed, and an override of the risk counts as recorded.
    pub(crate) fn finished(answers: CallAnswers) -> Self {
        Self {
            listing: ListingState::Last,
            skips_record: true,
            asked: Some(AskOutcomes::default()),
            answers,
            ..Self::default()
        }
    }
}
