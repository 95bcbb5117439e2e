//! Results of tools as text, as data, or as an error.

use mgp_types::mcp::CallToolResult;
use mgp_types::proposal::Member;
use mgp_types::{Payload, RpcError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::{Error, ToolFailure};

/// Methods that read the result of a tool.
///
/// ```
/// use mgp_client_sdk::ToolResult;
/// use mgp_client_sdk::types::mcp::CallToolResult;
///
/// let result = CallToolResult::text("[1,2]");
/// assert_eq!(result.to_text(), "[1,2]");
/// assert_eq!(result.get::<Vec<u8>>().unwrap(), [1, 2]);
/// assert!(CallToolResult::error("no").into_result().is_err());
/// ```
pub trait ToolResult: Sized {
    /// Turns a result with `isError` into an error.
    ///
    /// # Errors
    /// [`Error::Tool`] if the tool failed.
    fn into_result(self) -> Result<CallToolResult, Error>;

    /// Decodes the structured content or, if there is none, the text as JSON.
    ///
    /// Before 2026-07-28, structured content had to be an object, so servers on the Python and TypeScript SDKs send any
    /// other data as its member `result`. If the content as a whole is not a `T`, its only member `result` is decoded.
    ///
    /// # Errors
    /// [`Error::Tool`] if the tool failed; code −32603 (internal error) if the data has the wrong type.
    fn get<T: DeserializeOwned>(&self) -> Result<T, Error>;

    /// Returns an extension's member of the result, if the server added this member.
    ///
    /// # Errors
    /// Code −32602 (invalid params) if the member has the wrong form.
    fn member<M: Member>(&self) -> Result<Option<M>, Error>;

    /// Returns the text blocks of the result, one per line.
    fn to_text(&self) -> String;
}

impl ToolResult for CallToolResult {
    fn into_result(self) -> Result<CallToolResult, Error> {
        if self.is_error == Some(true) {
            return Err(Box::new(ToolFailure::new(self)).into());
        }
        Ok(self)
    }

    fn get<T: DeserializeOwned>(&self) -> Result<T, Error> {
        if self.is_error == Some(true) {
            return Err(Box::new(ToolFailure::new(self.clone())).into());
        }
        let text = self.structured_content.is_none().then(|| self.to_text());
        let data = self.structured_content.as_ref().map(Payload::as_str);
        let json = data.or(text.as_deref()).unwrap_or_default();
        let error = match serde_json::from_str(json) {
            Ok(whole) => return Ok(whole),
            Err(error) => error,
        };
        let inner = match data.and_then(unwrapped).map(serde_json::from_str) {
            Some(Ok(inner)) => return Ok(inner),
            Some(Err(error)) => format!("; its member `result` alone: {error}"),
            None => String::new(),
        };
        let message = format!("unexpected result: {error}{inner}");
        Err(RpcError::internal(message).because(error).into())
    }

    fn member<M: Member>(&self) -> Result<Option<M>, Error> {
        Ok(M::read(self.meta.as_ref())?)
    }

    fn to_text(&self) -> String {
        let texts: Vec<_> = self.content.iter().filter_map(|block| block.as_text()).collect();
        texts.join("\n")
    }
}

/// Returns the JSON of the member `result` if an object has only this member.
fn unwrapped(json: &str) -> Option<&str> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wrapped<'a> {
        #[serde(borrow)]
        result: &'a RawValue,
    }
    serde_json::from_str::<Wrapped<'_>>(json).ok().map(|wrapped| wrapped.result.get())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn structured(json: &'static str) -> CallToolResult {
        let mut result = CallToolResult::text("");
        result.structured_content = Some(Payload::from_trusted(json));
        result
    }

    #[test]
    fn data_that_other_sdks_wrap_is_read() {
        assert_eq!(structured(r#"{"result":5}"#).get::<u8>().unwrap(), 5);
        assert_eq!(structured(r#"{"result":["a"]}"#).get::<Vec<String>>().unwrap(), ["a"]);
        assert_eq!(structured(r#"{"result":null}"#).get::<Option<u8>>().unwrap(), None);
        let whole = structured(r#"{"result":5}"#).get::<BTreeMap<String, u8>>().unwrap();
        assert_eq!(whole, BTreeMap::from([("result".to_owned(), 5)]));
        assert!(structured(r#"{"result":5,"more":6}"#).get::<u8>().is_err());
        let error = structured(r#"{"result":"a"}"#).get::<u8>().unwrap_err().to_string();
        assert!(error.contains("`result` alone: invalid type: string \"a\""), "{error}");
    }

    #[test]
    fn a_member_result_that_belongs_to_the_data_is_kept() {
        #[derive(Debug, Deserialize)]
        struct Sum {
            result: u8,
        }
        assert_eq!(structured(r#"{"result":5}"#).get::<Sum>().unwrap().result, 5);
        let error = structured(r#"{"result":"a"}"#).get::<Sum>().unwrap_err().to_string();
        let message = "unexpected result: invalid type: string \"a\", expected u8";
        assert!(error.starts_with(message), "{error}");
    }
}
