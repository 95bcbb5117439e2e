//! Resources that are determined at run time, e.g. from a directory, a table or another server.

use mgp_types::RpcError;
use mgp_types::mcp;
use mgp_types::service::{BoxFuture, Context};

use super::contents::Contents;

/// A set of resources that is queried for each request.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::{Contents, Page, ResourceSet};
/// use mgp_server_sdk::types::mcp;
///
/// struct Notes;
///
/// impl ResourceSet for Notes {
///     async fn list(&self, _: &Context, _: Option<&str>) -> Result<Page<mcp::Resource>, RpcError> {
///         Ok(vec![mcp::Resource::new("note://today", "today")].into())
///     }
///
///     async fn read(&self, _: &Context, uri: &str) -> Result<Option<Contents>, RpcError> {
///         Ok((uri == "note://today").then(|| Contents::text("Buy milk.")))
///     }
/// }
///
/// # drop(Server::new("notes", "1").resource_set(Notes));
/// ```
pub trait ResourceSet: Send + Sync + 'static {
    /// Returns a page of the resources: the first one, or the one at a `cursor` that this set returned earlier.
    ///
    /// # Errors
    /// Returns the error that the caller receives; −32602 (invalid params) for an invalid cursor.
    fn list(
        &self,
        cx: &Context,
        cursor: Option<&str>,
    ) -> impl Future<Output = Result<Page<mcp::Resource>, RpcError>> + Send {
        let (_, _) = (cx, cursor);
        std::future::ready(Ok(Page::default()))
    }

    /// Lists the resource templates of the set.
    ///
    /// # Errors
    /// Returns the error that the caller receives.
    fn templates(
        &self,
        cx: &Context,
    ) -> impl Future<Output = Result<Vec<mcp::ResourceTemplate>, RpcError>> + Send {
        let _ = cx;
        std::future::ready(Ok(Vec::new()))
    }

    /// Reads a resource; returns `None` if it does not belong to this set.
    ///
    /// # Errors
    /// Returns the error that the caller receives.
    fn read(
        &self,
        cx: &Context,
        uri: &str,
    ) -> impl Future<Output = Result<Option<Contents>, RpcError>> + Send;

    /// Returns whether a URI can belong to this set. Clients can subscribe only to such URIs.
    fn has(&self, uri: &str) -> bool {
        let _ = uri;
        true
    }
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page<T> {
    /// The entries on this page of the list.
    pub items: Vec<T>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// Sets the cursor of the next page.
    #[must_use]
    pub fn next(mut self, cursor: impl Into<String>) -> Self {
        self.next = Some(cursor.into());
        self
    }
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T> From<Vec<T>> for Page<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}

/// A set of resources with an erased type.
pub(crate) trait AnySet: Send + Sync + 'static {
    fn list<'a>(
        &'a self,
        cx: &'a Context,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Page<mcp::Resource>, RpcError>>;

    fn templates<'a>(
        &'a self,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<Vec<mcp::ResourceTemplate>, RpcError>>;

    fn read<'a>(
        &'a self,
        cx: &'a Context,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<Option<Contents>, RpcError>>;

    fn has(&self, uri: &str) -> bool;
}

impl<S: ResourceSet> AnySet for S {
    fn list<'a>(
        &'a self,
        cx: &'a Context,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Page<mcp::Resource>, RpcError>> {
        Box::pin(ResourceSet::list(self, cx, cursor))
    }

    fn templates<'a>(
        &'a self,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<Vec<mcp::ResourceTemplate>, RpcError>> {
        Box::pin(ResourceSet::templates(self, cx))
    }

    fn read<'a>(
        &'a self,
        cx: &'a Context,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<Option<Contents>, RpcError>> {
        Box::pin(ResourceSet::read(self, cx, uri))
    }

    fn has(&self, uri: &str) -> bool {
        ResourceSet::has(self, uri)
    }
}
