//! The answer to a callback, and the check that it is a possible answer (MGP §13.4).

use mgp_types::mgp::{CallbackRequestParams, CallbackType};
use mgp_types::{ErrorCode, Payload, RpcError};

/// The options of a confirmation that mean "no". Options are compared with them without regard to upper and lower case.
const NEGATIVE: [&str; 9] =
    ["cancel", "no", "deny", "decline", "reject", "abort", "refuse", "stop", "false"];

/// The answer that a caller gives to a callback, or the reason why there is none.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CallbackAnswer {
    /// The response: one of the options, a text, `true` or `false` for a confirmation, or a JSON object for a
    /// completion by a model.
    Given(Payload),
    /// The user declined to answer the question.
    Declined,
    /// The user closed the question without an answer, or the caller has no user who could answer it.
    Dismissed,
}

impl CallbackAnswer {
    /// Creates an answer that is a text: an option, or what the user wrote.
    #[must_use]
    pub fn text(text: &str) -> Self {
        // Encoding a string cannot fail; the other variant is only a fallback.
        Payload::of(text).map_or(Self::Dismissed, Self::Given)
    }

    /// Returns the answer as the member `response` of `mgp/callback/respond`.
    ///
    /// A declined confirmation becomes its first option that means "no", or `false` if it has no options at all. Any
    /// other answer without a response becomes `null`, and so does a declined confirmation without such an option.
    #[must_use]
    pub fn into_response(self, question: &CallbackRequestParams) -> Payload {
        let null = || Payload::from_trusted("null");
        match self {
            Self::Given(response) => response,
            Self::Dismissed => null(),
            Self::Declined if question.kind != CallbackType::Confirmation => null(),
            Self::Declined if question.options.is_empty() => Payload::from_trusted("false"),
            Self::Declined => {
                let no = question.options.iter().find(|option| is_negative(option));
                no.and_then(|no| Payload::of(no).ok()).unwrap_or_else(null)
            }
        }
    }

    /// Parses a `response`, which must be a possible answer to the question; `null` means that the question was
    /// dismissed.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the response is not one of the options, or has the wrong type.
    pub fn read(question: &CallbackRequestParams, response: &Payload) -> Result<Self, RpcError> {
        if response.as_str().trim() == "null" {
            return Ok(Self::Dismissed);
        }
        let text = response.get::<String>().ok();
        let is_possible = match (&question.kind, &text) {
            _ if !question.options.is_empty() => {
                text.as_ref().is_some_and(|text| question.options.contains(text))
            }
            (CallbackType::Confirmation, None) => response.get::<bool>().is_ok(),
            (CallbackType::Selection, None) => false,
            (CallbackType::LlmCompletion, _) => response.as_str().trim_start().starts_with('{'),
            _ => true,
        };
        if is_possible {
            return Ok(Self::Given(response.clone()));
        }
        let expected = if question.options.is_empty() {
            format!("an answer to a question of type `{}`", question.kind)
        } else {
            let options: Vec<_> = question.options.iter().collect();
            format!("one of the options {options:?}")
        };
        let message = format!(
            "the response is not {expected}; correct it, or dismiss the question (in JSON `null`)"
        );
        Err(RpcError::new(ErrorCode::INVALID_PARAMS, message))
    }

    /// Returns whether the answer confirms the question. `true` confirms, and so does the first option unless it means
    /// "no". If the question has no options, the texts `confirm`, `yes` and `true` confirm too.
    #[must_use]
    pub fn confirms(&self, question: &CallbackRequestParams) -> bool {
        let Self::Given(response) = self else { return false };
        match response.get::<String>() {
            Ok(text) if question.options.is_empty() => {
                matches!(text.as_str(), "confirm" | "yes" | "true")
            }
            Ok(text) => question.options.first() == Some(&text) && !is_negative(&text),
            Err(_) => response.get::<bool>().is_ok_and(|yes| yes),
        }
    }
}

fn is_negative(option: &str) -> bool {
    NEGATIVE.iter().any(|no| option.eq_ignore_ascii_case(no))
}
