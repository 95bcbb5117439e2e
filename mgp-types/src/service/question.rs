//! Questions to the caller, and the result that asks them (MCP multi round-trip).

use std::borrow::Cow;

use serde::Serialize;

use crate::wire::Payload;

/// A question to the caller: a method and its params.
#[derive(Clone, Debug, PartialEq)]
pub struct CallerRequest {
    method: Cow<'static, str>,
    params: Payload,
}

impl CallerRequest {
    /// Creates a question.
    #[must_use]
    pub fn new(method: impl Into<Cow<'static, str>>, params: Payload) -> Self {
        Self { method: method.into(), params }
    }

    /// Returns the method: `elicitation/create`, `sampling/createMessage` or `roots/list`.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Returns the params.
    #[must_use]
    pub fn params(&self) -> &Payload {
        &self.params
    }
}

/// Questions that must be answered before the call can complete.
#[derive(Clone, Debug)]
pub struct InputRequired {
    /// The questions, each with the key under which the caller returns the answer.
    pub asks: Vec<(String, CallerRequest)>,
    /// Opaque state that the caller returns unchanged; sealed by the layer that creates it.
    pub state: Option<String>,
}

impl InputRequired {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        struct Question<'a> {
            method: &'a str,
            params: &'a Payload,
        }
        out.extend_from_slice(br#"{"resultType":"input_required","inputRequests":{"#);
        for (index, (key, ask)) in self.asks.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(serde_json::to_string(key).unwrap_or_default().as_bytes());
            out.push(b':');
            let question = Question { method: ask.method(), params: ask.params() };
            out.extend_from_slice(serde_json::to_string(&question).unwrap_or_default().as_bytes());
        }
        out.push(b'}');
        if let Some(state) = &self.state {
            out.extend_from_slice(br#","requestState":"#);
            out.extend_from_slice(serde_json::to_string(state).unwrap_or_default().as_bytes());
        }
        out.push(b'}');
    }

    /// Reads a result that asks for input; returns `None` for other kinds of results.
    #[must_use]
    pub fn read(result: &Payload) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Question {
            method: String,
            #[serde(default)]
            params: Option<Payload>,
        }
        #[derive(serde::Deserialize)]
        struct Result {
            #[serde(rename = "inputRequests", default)]
            requests: std::collections::BTreeMap<String, Question>,
            #[serde(rename = "requestState", default)]
            state: Option<String>,
        }
        if result_type(result)? != "input_required" {
            return None;
        }
        let read: Result = serde_json::from_str(result.as_str()).ok()?;
        let asks = read
            .requests
            .into_iter()
            .map(|(key, question)| {
                (
                    key,
                    CallerRequest::new(
                        question.method,
                        question.params.unwrap_or_else(Payload::empty_object),
                    ),
                )
            })
            .collect();
        Some(Self { asks, state: read.state })
    }
}

#[derive(serde::Deserialize)]
struct ResultKind {
    #[serde(rename = "resultType")]
    kind: Option<String>,
}

/// Returns the `resultType` of a result, if it has one.
#[must_use]
pub fn result_type(result: &Payload) -> Option<String> {
    if let Some(kind) = leading_result_type(result.as_str()) {
        return Some(kind.to_owned());
    }
    serde_json::from_str::<ResultKind>(result.as_str()).ok()?.kind
}

/// Returns the `resultType` of a result if it is the first member and has no escapes, which is the
/// usual form; needs no parse.
#[must_use]
pub fn leading_result_type(result: &str) -> Option<&str> {
    let rest = result.strip_prefix(r#"{"resultType":""#)?;
    // The kind of almost all results, which needs no search.
    if rest.starts_with("complete\"") {
        return Some("complete");
    }
    let (kind, _) = rest.split_once('"')?;
    (!kind.contains('\\')).then_some(kind)
}
