//! The contents of a resource, and the return types of functions that read one.

use mgp_types::mcp::{CacheScope, Era, Meta, ReadResourceResult, ResourceContents, ResultType};
use mgp_types::service::Reply;
use mgp_types::{Payload, RpcError};
use serde::Serialize;

use crate::Json;
use crate::request::IntoAnswer;

/// The contents of a resource.
///
/// ```
/// use mgp_server_sdk::Contents;
///
/// let report = Contents::text("# Report").mime("text/markdown");
/// let picture = Contents::bytes(vec![0x89, b'P', b'N', b'G']).mime("image/png");
/// # drop((report, picture));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Contents {
    body: Body,
    mime: Option<String>,
    meta: Option<Meta>,
}

#[derive(Clone, Debug, PartialEq)]
enum Body {
    Text(String),
    Bytes(Vec<u8>),
    Several(Vec<ResourceContents>),
    Result(ReadResourceResult),
    Missing,
}

impl Contents {
    /// Creates text contents.
    pub fn text(text: impl Into<String>) -> Self {
        Self { body: Body::Text(text.into()), mime: None, meta: None }
    }

    /// Creates binary contents.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self { body: Body::Bytes(bytes.into()), mime: None, meta: None }
    }

    /// Creates the answer for a resource that does not exist.
    pub fn missing() -> Self {
        Self { body: Body::Missing, mime: None, meta: None }
    }

    /// Sets the media type. Default: the media type of the resource.
    pub fn mime(mut self, mime: impl Into<String>) -> Self {
        self.mime = Some(mime.into());
        self
    }

    /// Sets the `_meta` member of text or bytes.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.meta = Some(meta);
        self
    }

    /// Returns the size in bytes, if known.
    pub(crate) fn size(&self) -> Option<u64> {
        let size = match &self.body {
            Body::Text(text) => text.len(),
            Body::Bytes(bytes) => bytes.len(),
            _ => return None,
        };
        u64::try_from(size).ok()
    }

    /// Returns the result of `resources/read`, or `None` if there is no such resource.
    pub(crate) fn reply(self, read: &ReadContext<'_>) -> Result<Option<Reply>, RpcError> {
        let mut one = ResourceContents::new(read.uri);
        one.meta = self.meta;
        one.mime_type = self.mime.or_else(|| read.mime.map(str::to_owned));
        let mut result = match self.body {
            Body::Missing => return Ok(None),
            Body::Text(text) => {
                one.text = Some(text);
                ReadResourceResult::new(vec![one])
            }
            Body::Bytes(bytes) => {
                one.blob = ResourceContents::bytes(read.uri, bytes).blob;
                ReadResourceResult::new(vec![one])
            }
            Body::Several(contents) => ReadResourceResult::new(contents),
            Body::Result(result) => result,
        };
        if read.era == Era::Modern {
            result.result_type.get_or_insert(ResultType::Complete);
            result.ttl_ms.get_or_insert(read.ttl_ms);
            result.cache_scope.get_or_insert(CacheScope::Private);
        }
        Reply::of(&result).map(Some)
    }
}

/// The properties of a `resources/read` request, and of the resource, on which the result depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadContext<'a> {
    pub(crate) uri: &'a str,
    pub(crate) mime: Option<&'a str>,
    pub(crate) ttl_ms: u64,
    pub(crate) era: Era,
}

impl IntoAnswer<Self> for Contents {
    fn into_answer(self) -> Result<Self, RpcError> {
        Ok(self)
    }
}

impl IntoAnswer<Contents> for String {
    fn into_answer(self) -> Result<Contents, RpcError> {
        Ok(Contents::text(self))
    }
}

impl IntoAnswer<Contents> for &'static str {
    fn into_answer(self) -> Result<Contents, RpcError> {
        Ok(Contents::text(self))
    }
}

impl IntoAnswer<Contents> for Vec<u8> {
    fn into_answer(self) -> Result<Contents, RpcError> {
        Ok(Contents::bytes(self))
    }
}

impl<T: Serialize + Send + 'static> IntoAnswer<Contents> for Json<T> {
    fn into_answer(self) -> Result<Contents, RpcError> {
        let text = Payload::of(&self.0)?;
        Ok(Contents::text(text.as_str()).mime("application/json"))
    }
}

impl IntoAnswer<Contents> for ResourceContents {
    fn into_answer(self) -> Result<Contents, RpcError> {
        vec![self].into_answer()
    }
}

impl IntoAnswer<Contents> for Vec<ResourceContents> {
    fn into_answer(self) -> Result<Contents, RpcError> {
        Ok(Contents { body: Body::Several(self), mime: None, meta: None })
    }
}

impl IntoAnswer<Contents> for ReadResourceResult {
    fn into_answer(self) -> Result<Contents, RpcError> {
        Ok(Contents { body: Body::Result(self), mime: None, meta: None })
    }
}

/// `None` means that the resource does not exist.
impl<A: IntoAnswer<Contents>> IntoAnswer<Contents> for Option<A> {
    fn into_answer(self) -> Result<Contents, RpcError> {
        self.map_or_else(|| Ok(Contents::missing()), IntoAnswer::into_answer)
    }
}
