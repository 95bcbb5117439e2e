//! Questions to the caller, and the result that asks them (MCP multi round-trip).

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::write::write_text;
use crate::record::{Key, Object, text_of};
use crate::wire::Payload;

/// A question to the caller: a method and its params.
#[derive(Clone, Debug, PartialEq)]
pub struct CallerRequest {
    method: Cow<'static, str>,
    params: Payload,
}

impl CallerRequest {
    /// Creates a question from the method with which it is asked, and the method's params.
    #[must_use]
    pub fn new(method: impl Into<Cow<'static, str>>, params: Payload) -> Self {
        Self { method: method.into(), params }
    }

    /// Returns the method: `elicitation/create`, `sampling/createMessage` or `roots/list`.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Returns the params with which the question is asked.
    #[must_use]
    pub fn params(&self) -> &Payload {
        &self.params
    }
}

/// The result of a call that can only complete after the caller has answered questions.
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
            write_text(out, key);
            out.push(b':');
            let question = Question { method: ask.method(), params: ask.params() };
            out.extend_from_slice(serde_json::to_string(&question).unwrap_or_default().as_bytes());
        }
        out.push(b'}');
        if let Some(state) = &self.state {
            out.extend_from_slice(br#","requestState":"#);
            write_text(out, state);
        }
        out.push(b'}');
    }

    /// Reads a result that asks for input; returns `None` for other kinds of results, and if there are more than 64
    /// questions. The questions keep their order, because a person is asked in this order.
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
            requests: Object,
            #[serde(rename = "requestState", default)]
            state: Option<String>,
        }
        if result_type(result)? != "input_required" {
            return None;
        }
        let read: Result = serde_json::from_str(result.as_str()).ok()?;
        if read.requests.len() > MAX_QUESTIONS {
            return None;
        }
        let asks = read.requests.iter().map(|(key, question)| {
            let Question { method, params } = question.get().ok()?;
            let params = params.unwrap_or_else(Payload::empty_object);
            Some((key.to_owned(), CallerRequest::new(method, params)))
        });
        Some(Self { asks: asks.collect::<Option<_>>()?, state: read.state })
    }
}

/// The maximum number of questions in one result.
const MAX_QUESTIONS: usize = 64;

/// The beginning of the text of almost all results.
const LEADING: &str = r#"{"resultType":""#;

/// Returns the `resultType` of a result, if it has one.
///
/// Parsers differ in which of two equal members they use. So the different values of a repeated `resultType` are
/// returned together, as a kind that no peer knows. A result whose members cannot be read also has a kind that no peer
/// knows.
#[must_use]
pub fn result_type(result: &Payload) -> Option<String> {
    let text = result.as_str();
    let leading = leading_result_type(text);
    let rest = leading.map_or(text, |kind| &text[LEADING.len() + kind.len()..]);
    if !may_name_result_type(rest) {
        return leading.map(str::to_owned);
    }
    match serde_json::from_str::<ResultTypes>(text) {
        Ok(ResultTypes(kinds)) if kinds.is_empty() => None,
        Ok(ResultTypes(kinds)) => Some(kinds.join(", ")),
        Err(_) => text.trim_start().starts_with('{').then(|| "unreadable".to_owned()),
    }
}

/// Returns whether a text search already shows that a result is complete, so that it need not be parsed. Returns
/// `false` if only parsing can decide it.
#[must_use]
pub fn is_clearly_complete(result: &str) -> bool {
    let rest = result.strip_prefix(r#"{"resultType":"complete""#).unwrap_or(result);
    !may_name_result_type(rest)
}

/// Returns whether a text might contain the member `resultType`, whose name can also be written with escapes.
fn may_name_result_type(text: &str) -> bool {
    // An escape of a letter of the name begins with one of these texts. Most escapes in results, those of control
    // characters and of HTML, do not, so such results need not be parsed.
    static ESCAPE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(r"\u00"));
    let may_be_escape = |part: &str| text.contains(part);
    contains_result_type(text)
        || ESCAPE.find(text.as_bytes()).is_some()
            && [r"\u005", r"\u006", r"\u007"].into_iter().any(may_be_escape)
}

/// Returns whether a text contains the member name `resultType`, written without escapes.
///
/// Uses a prepared search, because lists of tools have hundreds of kilobytes, in which [`str::contains`] takes longer
/// than all else that an answer needs.
#[must_use]
pub fn contains_result_type(text: &str) -> bool {
    static NAME: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\"resultType\""));
    NAME.find(text.as_bytes()).is_some()
}

/// The different values of all members `resultType` of a result; at most the first two are kept.
struct ResultTypes(Vec<String>);

impl<'de> Deserialize<'de> for ResultTypes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = ResultTypes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a result")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ResultTypes, A::Error> {
                let mut kinds: Vec<String> = Vec::new();
                while let Some(Key(name)) = map.next_key()? {
                    if name != "resultType" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let value: &RawValue = map.next_value()?;
                    let kind = text_of(value.get()).unwrap_or(Cow::Borrowed(value.get()));
                    if kind != "null"
                        && kinds.len() < 2
                        && !kinds.iter().any(|known| *known == kind)
                    {
                        kinds.push(kind.into_owned());
                    }
                }
                Ok(ResultTypes(kinds))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// Returns the `resultType` of a result if it is the first member and its value has no escapes, which is the usual
/// form. Does not parse the result.
#[must_use]
pub fn leading_result_type(result: &str) -> Option<&str> {
    let rest = result.strip_prefix(LEADING)?;
    // Almost all results have this type, so check it first, without a search for the closing quote.
    if rest.starts_with("complete\"") {
        return Some("complete");
    }
    let (kind, _) = rest.split_once('"')?;
    (!kind.contains('\\')).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_keep_the_order_in_which_a_server_asks_them() {
        let text = r#"{"resultType":"input_required","inputRequests":{"user":{"method":"elicitation/create","params":{"message":"u"}},"city":{"method":"roots/list"}}}"#;
        let read = InputRequired::read(&Payload::parse(text).unwrap()).unwrap();
        let keys: Vec<_> = read.asks.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["user", "city"]);
        assert_eq!(read.asks[1].1.params().as_str(), "{}");
    }

    /// Regression test: a server could ask its caller a million questions in one round.
    #[test]
    fn the_number_of_questions_is_limited() {
        for (count, is_read) in [(MAX_QUESTIONS, true), (MAX_QUESTIONS + 1, false)] {
            let asks: Vec<_> = (0..count).map(|at| format!(r#""{at}":{{"method":"m"}}"#)).collect();
            let text = format!(
                r#"{{"resultType":"input_required","inputRequests":{{{}}}}}"#,
                asks.join(",")
            );
            let read = InputRequired::read(&Payload::from_trusted(text));
            assert_eq!(read.is_some(), is_read, "{count}");
        }
    }
}
