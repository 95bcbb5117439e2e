//! Results of tools as text, as data, or as an error.

use mgp_types::mcp::CallToolResult;
use mgp_types::proposal::Member;
use mgp_types::{Payload, RpcError};
use serde::de::DeserializeOwned;

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
        serde_json::from_str(json).map_err(|error| {
            RpcError::internal(format!("unexpected result: {error}")).because(error).into()
        })
    }

    fn member<M: Member>(&self) -> Result<Option<M>, Error> {
        Ok(M::read(self.meta.as_ref())?)
    }

    fn to_text(&self) -> String {
        let texts: Vec<_> = self.content.iter().filter_map(|block| block.as_text()).collect();
        texts.join("\n")
    }
}
