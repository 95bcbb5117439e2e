//! The policy that decides which tools a caller can find: the tools that the caller is allowed to call (MGP §16.5, §5).

/// A policy that decides which tools a search is allowed to return to a caller.
///
/// Unless [`extent`](Self::extent) is [`Extent::All`], every hit is checked with [`allows`](Self::allows) before it is
/// returned, even if it comes from a cache. [`Endpoints::caller`](crate::Endpoints::caller) creates an implementation
/// from a `Visibility`; [`AllTools`] is for programs with one user.
///
/// ```
/// use mgp_toolindex::{Allowed, Query, ServerEntry, ToolIndex};
/// use mgp_types::RawObject;
/// use mgp_types::mcp::Tool;
///
/// struct NoDelete;
///
/// impl Allowed for NoDelete {
///     fn allows(&self, _server: &str, tool: &str) -> bool {
///         !tool.starts_with("delete")
///     }
/// }
///
/// let index = ToolIndex::new();
/// let tools = ["read_file", "delete_file"].map(|name| Tool::new(name.to_owned(), RawObject::empty()));
/// index.put(ServerEntry::new("files").tools(tools))?;
/// let found = index.search(&Query::new("file"), &NoDelete)?;
/// assert_eq!((found.hits.len(), found.total_available), (1, 1));
/// # Ok::<(), mgp_toolindex::IndexError>(())
/// ```
pub trait Allowed: Send + Sync {
    /// Returns whether the caller is allowed to call the tool.
    fn allows(&self, server: &str, tool: &str) -> bool;

    /// Returns a key under which the index may cache the decisions of [`allows`](Self::allows) about all tools, for a
    /// second.
    ///
    /// If this returns `None`, the index caches no decisions, and each search decides about every tool, which is fast
    /// enough for some thousand tools.
    fn cache_key(&self) -> Option<AllowedKey> {
        None
    }

    /// Returns whether the caller is allowed to find all tools, or only the tools that [`allows`](Self::allows)
    /// permits.
    fn extent(&self) -> Extent {
        Extent::Some
    }
}

/// The tools that a caller is allowed to find: all of them, or only some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extent {
    /// All tools; [`Allowed::allows`] is not called.
    All,
    /// Only the tools for which [`Allowed::allows`] returns `true`.
    Some,
}

/// The key of the cached set of tools that one caller is allowed to call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AllowedKey {
    caller: String,
    version: u64,
}

impl AllowedKey {
    /// Creates a key from a caller and a version number. The number must change whenever the caller might be allowed to
    /// call other tools than before.
    pub fn new(caller: impl Into<String>, version: u64) -> Self {
        Self { caller: caller.into(), version }
    }
}

/// A policy that allows all tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllTools;

impl Allowed for AllTools {
    fn allows(&self, _: &str, _: &str) -> bool {
        true
    }

    fn extent(&self) -> Extent {
        Extent::All
    }
}

impl<A: Allowed + ?Sized> Allowed for &A {
    fn allows(&self, server: &str, tool: &str) -> bool {
        (**self).allows(server, tool)
    }

    fn cache_key(&self) -> Option<AllowedKey> {
        (**self).cache_key()
    }

    fn extent(&self) -> Extent {
        (**self).extent()
    }
}
