//! Return types of tool functions.

use std::error::Error as StdError;
use std::fmt;

use mgp_types::mcp::{CallToolResult, ContentBlock, Era};
use mgp_types::proposal::StructuredError;
use mgp_types::service::Reply;
use mgp_types::{Payload, RawObject, RpcError};
use schemars::JsonSchema;
use serde::Serialize;

use super::schema::{self, SchemaStyle};

/// A return type of tool functions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a tool function",
    label = "not a tool result",
    note = "return text, `Json<T>`, `CallToolResult`, `()`, or a `Result` of one of these with `ToolError` or `RpcError`",
    note = "any type with `Serialize + JsonSchema` can be returned as `Json(value)`",
    note = "an error of another type becomes a `ToolError` with `?`, or with `.map_err(ToolError::new)?`"
)]
pub trait IntoToolResult: Send + 'static {
    /// Converts the value to a reply.
    ///
    /// # Errors
    /// Returns the error that the caller receives instead of a result.
    fn into_tool_result(self) -> Result<Reply, RpcError>;

    /// Converts the value to a reply for a caller of the given era. Default: the reply of
    /// [`into_tool_result`](Self::into_tool_result) for both eras.
    ///
    /// # Errors
    /// Returns the error that the caller receives instead of a result.
    fn into_result_for(self, _: Era) -> Result<Reply, RpcError>
    where
        Self: Sized,
    {
        self.into_tool_result()
    }

    /// Returns the schema of the structured content, or `None` if the result need not contain any.
    #[must_use]
    fn output_schema(_: SchemaStyle) -> Option<RawObject> {
        None
    }

    /// Returns whether a result can contain structured content, which a tool with an output schema must return.
    /// Default: `true`.
    #[must_use]
    fn can_be_structured() -> bool {
        true
    }
}

/// A structured result: the value becomes the structured content, and its JSON the text of the result.
///
/// The tool's `outputSchema` is generated from the type. Before 2026-07-28, structured content had to be an object.
/// Callers of earlier revisions therefore receive any other value only as text, and the list of
/// tools without its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// A failure that the model should see, returned as a result with `isError`. In contrast, an [`RpcError`] is a failure
/// of the call itself.
///
/// The operator `?` converts any error that implements [`std::error::Error`]. The model then sees the text of the
/// error, but not that of its causes: a cause can be meant for the operator only, as the source of an [`RpcError`] is,
/// which is never sent to a peer. To show the causes too, write `.map_err(ToolError::with_causes)?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError(pub String);

impl ToolError {
    /// Creates a failure from a message, or from an error that `?` does not convert, e.g. `anyhow::Error`, whose causes
    /// become part of the message.
    ///
    /// ```
    /// use mgp_server_sdk::ToolError;
    ///
    /// fn first(words: &[String]) -> Result<&String, ToolError> {
    ///     words.first().ok_or_else(|| ToolError::new("name at least one word"))
    /// }
    /// assert_eq!(first(&[]).unwrap_err().to_string(), "name at least one word");
    /// ```
    #[must_use]
    pub fn new(message: impl fmt::Display) -> Self {
        Self(format!("{message:#}"))
    }

    /// Creates a failure from an error and its causes, e.g. `read the config: permission denied`. Leaves out a cause
    /// whose text is already contained, and everything below an [`RpcError`] among the causes.
    ///
    /// An error that wraps an [`RpcError`] transparently, e.g. `mgp_client_sdk::Error`, has the source of the
    /// [`RpcError`] as its own cause, so this function shows it. Use `?` for such errors.
    ///
    /// ```
    /// use mgp_server_sdk::ToolError;
    ///
    /// #[derive(Debug, thiserror::Error)]
    /// #[error("read the config")]
    /// struct ReadConfig(#[source] std::io::Error);
    ///
    /// fn read() -> Result<(), ReadConfig> {
    ///     Err(ReadConfig(std::io::Error::other("the disk is full")))
    /// }
    /// fn tool() -> Result<(), ToolError> {
    ///     read().map_err(ToolError::with_causes)
    /// }
    /// assert_eq!(tool().unwrap_err().to_string(), "read the config: the disk is full");
    /// ```
    #[must_use]
    pub fn with_causes(error: impl StdError + 'static) -> Self {
        let mut text = error.to_string();
        let mut next: Option<&(dyn StdError + 'static)> = Some(&error);
        while let Some(error) = next {
            let shown = error.to_string();
            if !text.contains(&shown) {
                text.push_str(": ");
                text.push_str(&shown);
            }
            next = error.source().filter(|_| !error.is::<RpcError>());
        }
        Self(text)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: StdError> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Returns a result with one text block. This is the most frequent result, so it is written directly instead of by the
/// general encoder.
fn text_reply(text: &str) -> Result<Reply, RpcError> {
    const START: &str = r#"{"content":[{"type":"text","text":""#;
    const END: &str = r#""}],"isError":false}"#;
    // Check all bytes without a branch: this is several times as fast as a search that stops at the first special byte.
    let is_plain =
        text.bytes().fold(true, |plain, byte| plain & !matches!(byte, 0..=0x1f | b'"' | b'\\'));
    let quoted = if is_plain {
        None
    } else {
        let encoded = serde_json::to_string(text);
        Some(encoded.map_err(|error| RpcError::internal("cannot encode a text").because(error))?)
    };
    let text = quoted.as_ref().map_or(text, |quoted| &quoted[1..quoted.len() - 1]);
    // Reserve exactly the needed length: converting a string with spare room to a shared buffer would need a second
    // allocation.
    let mut out = String::with_capacity(START.len() + text.len() + END.len());
    out.push_str(START);
    out.push_str(text);
    out.push_str(END);
    Ok(Reply::raw(Payload::from_trusted(out)))
}

impl IntoToolResult for String {
    fn into_tool_result(self) -> Result<Reply, RpcError> {
        text_reply(&self)
    }

    fn can_be_structured() -> bool {
        false
    }
}

impl IntoToolResult for &'static str {
    fn into_tool_result(self) -> Result<Reply, RpcError> {
        text_reply(self)
    }

    fn can_be_structured() -> bool {
        false
    }
}

impl IntoToolResult for () {
    fn into_tool_result(self) -> Result<Reply, RpcError> {
        Reply::of(&CallToolResult::new(Vec::new()))
    }

    fn can_be_structured() -> bool {
        false
    }
}

impl IntoToolResult for CallToolResult {
    fn into_tool_result(self) -> Result<Reply, RpcError> {
        Reply::of(&self)
    }
}

/// The result is a single block: an image, audio, a link, or an embedded resource.
impl IntoToolResult for ContentBlock {
    fn into_tool_result(self) -> Result<Reply, RpcError> {
        vec![self].into_tool_result()
    }

    fn can_be_structured() -> bool {
        false
    }
}

impl IntoToolResult for Vec<ContentBlock> {
    fn into_tool_result(self) -> Result<Reply, RpcError> {
        CallToolResult::new(self).into_tool_result()
    }

    fn can_be_structured() -> bool {
        false
    }
}

impl IntoToolResult for Reply {
    fn into_tool_result(self) -> Result<Reply, RpcError> {
        Ok(self)
    }
}

impl<T: Serialize + JsonSchema + Send + 'static> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> Result<Reply, RpcError> {
        self.into_result_for(Era::Legacy)
    }

    fn into_result_for(self, era: Era) -> Result<Reply, RpcError> {
        let value = Payload::of(&self.0)?;
        let mut result = CallToolResult::text(value.as_str());
        let fits = era == Era::Modern || value.as_str().starts_with('{');
        result.structured_content = Some(value).filter(|_| fits);
        Reply::of(&result)
    }

    fn output_schema(style: SchemaStyle) -> Option<RawObject> {
        schema::result_of::<T>(style)
    }
}

impl IntoToolResult for ToolError {
    fn into_tool_result(self) -> Result<Reply, RpcError> {
        Reply::of(&CallToolResult::error(self.0))
    }
}

/// Implements `IntoToolResult` for `Result`s with the given error types; the expression after a type converts such an
/// error to the reply.
macro_rules! fallible {
    ($($error:ty => $failed:expr;)+) => {$(
        impl<T: IntoToolResult> IntoToolResult for Result<T, $error> {
            fn into_tool_result(self) -> Result<Reply, RpcError> {
                self.map_or_else($failed, T::into_tool_result)
            }

            fn into_result_for(self, era: Era) -> Result<Reply, RpcError> {
                self.map_or_else($failed, |value| value.into_result_for(era))
            }

            fn output_schema(style: SchemaStyle) -> Option<RawObject> {
                T::output_schema(style)
            }

            fn can_be_structured() -> bool {
                T::can_be_structured()
            }
        }
    )+};
}

fallible! {
    ToolError => ToolError::into_tool_result;
    StructuredError => StructuredError::into_tool_result;
    String => |message| ToolError(message).into_tool_result();
    Box<dyn StdError + Send + Sync> => |error| ToolError::new(error).into_tool_result();
    RpcError => Err;
}
