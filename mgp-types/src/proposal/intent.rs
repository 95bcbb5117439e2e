//! Proposal 2 (`intent_hints`): the purpose of a call, and suggestions of better tools.

use serde::{Deserialize, Serialize};

use super::Member;
use crate::mgp::Extension;
use crate::record::record;

/// The purpose of a call, in the words of its caller.
///
/// A caller can write anything here: use the text for explanations and advice, never for decisions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Intent(pub String);

impl Member for Intent {
    const EXTENSION: Extension = Extension::IntentHints;
    const NAME: &'static str = "intent";
}

record! {
    /// A server's advice to use another tool for the stated purpose. Clients and gateways never follow the advice
    /// automatically.
    pub struct Suggestion {
        /// The name of the better tool.
        req recommended_tool: String,
        /// The reason why the suggested tool is better.
        opt reason: Option<String>,
    }
}

impl Member for Suggestion {
    const EXTENSION: Extension = Extension::IntentHints;
    const NAME: &'static str = "suggestion";
}
