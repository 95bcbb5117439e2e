//! Proposal 6 (`human_in_the_loop`): tools whose calls a person must confirm, and the answer to an unconfirmed call.

use serde::{Deserialize, Serialize};

use super::{Member, ToolMembers};
use crate::mcp::{self, CallToolResult};
use crate::mgp::{Extension, RiskLevel};
use crate::record::{Object, open_enum, record};
use crate::{Payload, clip};

/// The name of the member with the confirmation message, both in a tool and in the tool's `security`.
const MESSAGE: &str = "confirmation_message";

/// The maximum length, in bytes, of an argument's value in a confirmation message; a longer value is shortened.
const MAX_VALUE: usize = 200;

/// The maximum length of a placeholder's name, with its brace, in bytes.
const MAX_NAME: usize = 256;

/// The maximum length of a confirmation message, in bytes; a longer message is shortened.
const MAX_MESSAGE: usize = 2_000;

open_enum! {
    /// The effect of a tool, in the words of this proposal. These words are not the risk levels of MGP, which have
    /// another meaning.
    pub enum ConfirmationRisk {
        /// No side effects.
        Safe = "safe",
        /// The effects can be undone.
        Reversible = "reversible",
        /// The effects cannot be undone.
        Destructive = "destructive",
    }

    /// The reason why a call was not run.
    pub enum ConfirmationStatus {
        /// A person must confirm the call.
        Required = "confirmation_required",
    }
}

impl ConfirmationRisk {
    /// Returns the risk level of MGP that corresponds to this risk, and whether the effects of a call can be undone
    /// (`None` if a call has no effects). An unknown risk counts as destructive.
    #[must_use]
    pub fn to_risk(&self) -> (RiskLevel, Option<bool>) {
        match self {
            Self::Safe => (RiskLevel::Safe, None),
            Self::Reversible => (RiskLevel::Moderate, Some(true)),
            Self::Destructive | Self::Other(_) => (RiskLevel::Dangerous, Some(false)),
        }
    }

    /// Returns the risk of this proposal that corresponds to a risk level of MGP; an unknown level counts as
    /// destructive.
    #[must_use]
    pub fn of_risk(risk: &RiskLevel) -> Self {
        match risk {
            RiskLevel::Safe => Self::Safe,
            RiskLevel::Moderate => Self::Reversible,
            RiskLevel::Dangerous | RiskLevel::Other(_) => Self::Destructive,
        }
    }
}

record! {
    /// The answer to a call that does not run until a person has confirmed it.
    pub struct ConfirmationRequired {
        /// Always `confirmation_required`.
        req status: ConfirmationStatus,
        /// The question for the user.
        req confirmation_message: String,
        /// The effect of the call.
        req risk_level: ConfirmationRisk,
        /// The token to send with the repeated call.
        req confirmation_token: String,
    }
}

/// The token that the server returns for the unconfirmed call; the client sends it with the repeated call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConfirmationToken(pub String);

impl Member for ConfirmationToken {
    const EXTENSION: Extension = Extension::HumanInTheLoop;
    const NAME: &'static str = "confirmation_token";
}

/// The user's decision, sent by the client: `true` if the user confirmed the call, `false` if the user denied it.
///
/// The decision has no effect without a [`ConfirmationToken`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserConfirmed(pub bool);

impl Member for UserConfirmed {
    const EXTENSION: Extension = Extension::HumanInTheLoop;
    const NAME: &'static str = "user_confirmed";
}

impl ConfirmationRequired {
    /// Reads the server's answer to a call that was not confirmed yet; returns `None` if the call ran or failed
    /// instead.
    #[must_use]
    pub fn of(result: &CallToolResult) -> Option<Self> {
        let content = result.structured_content.as_ref()?;
        content.get().ok().filter(|found: &Self| found.status == ConfirmationStatus::Required)
    }

    /// Returns the result that contains this answer: the message as text, and the whole answer as structured content.
    #[must_use]
    pub fn to_result(&self) -> CallToolResult {
        let mut result = CallToolResult::text(self.confirmation_message.clone());
        result.structured_content = Payload::of(self).ok();
        result
    }
}

/// The confirmation that a server requires for calls of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolConfirmation {
    /// `true` if a person must confirm each call of the tool.
    pub is_required: bool,
    /// The message for the person, with `{parameter}` placeholders for arguments.
    pub message: Option<String>,
    /// The risk of a call of the tool.
    pub risk: Option<ConfirmationRisk>,
}

impl ToolConfirmation {
    /// Reads the members of a tool's definition that concern confirmation; a member that cannot be decoded counts as
    /// absent.
    #[must_use]
    pub fn of(tool: &mcp::Tool) -> Self {
        let members = ToolMembers::of(tool);
        let in_security = || {
            let security = tool.find_security()?;
            security.valid()?.extra.decode(MESSAGE).ok()?
        };
        Self {
            is_required: members.read("requires_confirmation").unwrap_or_default(),
            message: members.read(MESSAGE).or_else(in_security),
            risk: members.read("risk_level"),
        }
    }
}

/// Fills the `{parameter}` placeholders of a message with arguments; an unknown placeholder is kept as it is.
///
/// The values are shortened, lose their control characters, and are not searched for placeholders. An argument can
/// therefore not change the rest of the message.
///
/// ```
/// use mgp_types::proposal::fill_message;
///
/// let filled = fill_message("Delete {name} of {owner}?", r#"{"name":"{owner}"}"#);
/// assert_eq!(filled, "Delete {owner} of {owner}?");
/// ```
#[must_use]
pub fn fill_message(template: &str, arguments: &str) -> String {
    let arguments: Object = serde_json::from_str(arguments).unwrap_or_default();
    let (mut filled, mut rest) = (String::new(), template);
    // The template is from a server. So stop when the message is long enough, and search the end of each name in a
    // limited part of the template only.
    while filled.len() <= MAX_MESSAGE
        && let Some(start) = rest.find('{')
    {
        filled.push_str(&rest[..start]);
        rest = &rest[start..];
        let name = rest.bytes().take(MAX_NAME).position(|byte| byte == b'}');
        let name = name.map(|end| &rest[1..end]);
        let value = name.and_then(|name| Some((name.len() + 2, shown(arguments.get(name)?))));
        let (length, value) = value.unwrap_or_else(|| (1, "{".to_owned()));
        filled.push_str(&value);
        rest = &rest[length..];
    }
    filled.push_str(rest);
    clip(&filled, MAX_MESSAGE)
}

fn shown(value: &Payload) -> String {
    let text = value.get::<String>().unwrap_or_else(|_| value.as_str().to_owned());
    clip(&text, MAX_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_map_to_those_of_mgp_and_back() {
        for risk in ConfirmationRisk::KNOWN {
            assert_eq!(ConfirmationRisk::of_risk(&risk.to_risk().0), *risk);
        }
        let unknown = ConfirmationRisk::from("harmless");
        assert_eq!(unknown.to_risk(), (RiskLevel::Dangerous, Some(false)));
    }

    #[test]
    fn a_missing_argument_leaves_the_placeholder() {
        for (template, arguments, expected) in [
            ("Delete '{name}'?", r#"{"name":"x"}"#, "Delete 'x'?"),
            ("Delete {name}?", "{}", "Delete {name}?"),
            ("{n} of {n}", r#"{"n":3}"#, "3 of 3"),
            ("{", "{}", "{"),
            ("}{{a}", r#"{"a":"b"}"#, "}{b"),
            ("{a}", "no object", "{a}"),
            ("{ä}", r#"{"ä":"ö\n"}"#, "ö "),
        ] {
            assert_eq!(fill_message(template, arguments), expected);
        }
    }

    /// Regression test: the time was quadratic, and a server chooses the length of the template.
    #[test]
    fn a_template_of_many_braces_is_filled_in_linear_time() {
        let filled = fill_message(&"{".repeat(2_000_000), "{}");
        assert_eq!(filled.len(), MAX_MESSAGE + "…".len());
    }
}
