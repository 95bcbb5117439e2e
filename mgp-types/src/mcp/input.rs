//! Results by which a server asks the caller for input (MCP multi round-trip, modern era).

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{CreateMessageParams, CreateTaskResult, ElicitParams, EmptyParams, Meta, ResultType};
use crate::Payload;
use crate::record::{decode, peek, record, tagged};

/// The requests of a server to the client, each under a key that the server chose.
pub type InputRequests = BTreeMap<String, InputRequest>;

record! {
    /// A question to the user, sent inside a result.
    pub struct InputElicitation tagged "method" = "elicitation/create" {
        /// The params of `elicitation/create`.
        req params: ElicitParams,
    }

    /// A request for a completion by the client's model, sent inside a result.
    pub struct InputSampling tagged "method" = "sampling/createMessage" {
        /// The params of `sampling/createMessage`.
        req params: CreateMessageParams,
    }

    /// A request for the client's roots, sent inside a result.
    pub struct InputRoots tagged "method" = "roots/list" {
        /// The params of `roots/list`; they have no members of their own.
        opt params: Option<EmptyParams>,
    }

    /// A result that is not final: the caller supplies input and repeats the request.
    pub struct InputRequiredResult tagged "resultType" = "input_required" {
        /// The requests that the caller must answer.
        opt input_requests as "inputRequests": Option<InputRequests>,
        /// Opaque state of the server; the caller returns it unchanged with the repeated request.
        opt request_state as "requestState": Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}

tagged! {
    /// A request that a server sends to the client inside a result.
    pub enum InputRequest by "method" {
        /// An elicitation.
        "elicitation/create" => Elicitation(InputElicitation),
        /// A sampling request.
        "sampling/createMessage" => Sampling(InputSampling),
        /// A request for the roots.
        "roots/list" => Roots(InputRoots),
    }
}

/// The outcome of a request: its result, a request for input, or a task.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RequestOutcome<T> {
    /// The final result; a missing `resultType` has the same meaning.
    Complete(T),
    /// A request for input.
    InputRequired(InputRequiredResult),
    /// A task (tasks extension).
    Task(CreateTaskResult),
    /// A kind of result this version does not know.
    Other(Payload),
}

impl<T: Serialize> Serialize for RequestOutcome<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Complete(result) => result.serialize(serializer),
            Self::InputRequired(result) => result.serialize(serializer),
            Self::Task(result) => result.serialize(serializer),
            Self::Other(result) => result.serialize(serializer),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for RequestOutcome<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Payload::deserialize(deserializer)?;
        let kind = peek::<D::Error>(&raw, "resultType")?;
        match kind.as_deref().map(ResultType::from) {
            None | Some(ResultType::Complete) => decode(&raw).map(Self::Complete),
            Some(ResultType::InputRequired) => decode(&raw).map(Self::InputRequired),
            Some(ResultType::Task) => decode(&raw).map(Self::Task),
            Some(ResultType::Other(_)) => Ok(Self::Other(raw)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::CallToolResult;

    #[track_caller]
    fn check(text: &str) -> RequestOutcome<CallToolResult> {
        let outcome = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&outcome).unwrap(), text);
        outcome
    }

    #[test]
    fn the_result_type_decides() {
        assert!(matches!(check(r#"{"content":[]}"#), RequestOutcome::Complete(_)));
        assert!(matches!(
            check(r#"{"resultType":"complete","content":[]}"#),
            RequestOutcome::Complete(_)
        ));
        let RequestOutcome::InputRequired(asked) = check(
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"later/thing"}},"requestState":"s"}"#,
        ) else {
            panic!("no question");
        };
        let requests = asked.input_requests.unwrap();
        assert!(matches!(requests["a"], InputRequest::Roots(_)));
        assert!(matches!(requests["b"], InputRequest::Other(_)));
        assert!(matches!(check(r#"{"resultType":"later","x":1}"#), RequestOutcome::Other(_)));
    }
}
