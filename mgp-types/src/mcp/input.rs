//! Results that need input from the caller (MCP multi round-trip, modern era).

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{CreateMessageParams, CreateTaskResult, ElicitParams, EmptyParams, Meta, ResultType};
use crate::Payload;
use crate::record::{decode, peek, record, tagged};

/// The server's requests, by keys that it chose.
pub type InputRequests = BTreeMap<String, InputRequest>;

record! {
    /// An elicitation.
    pub struct InputElicitation tagged "method" = "elicitation/create" {
        /// The question.
        req params: ElicitParams,
    }

    /// A sampling request.
    pub struct InputSampling tagged "method" = "sampling/createMessage" {
        /// The question.
        req params: CreateMessageParams,
    }

    /// A request for the roots.
    pub struct InputRoots tagged "method" = "roots/list" {
        /// The parameters; they are empty.
        opt params: Option<EmptyParams>,
    }

    /// A result that is not final: the caller supplies input and repeats the request.
    pub struct InputRequiredResult tagged "resultType" = "input_required" {
        /// The server's requests.
        opt input_requests as "inputRequests": Option<InputRequests>,
        /// State of the server, to be returned unchanged.
        opt request_state as "requestState": Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}

tagged! {
    /// A request of a server to the client.
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
    /// The final result; also what a missing `resultType` means.
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
