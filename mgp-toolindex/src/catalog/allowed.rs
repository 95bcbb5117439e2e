//! What a caller may find: what it may call (MGP §16.5, §5).
//!
//! Applies to: inbound.

/// Which tools a caller may find.
///
/// Every hit is checked with [`allows`](Self::allows) before it is shown, whatever was kept.
/// [`Endpoints::caller`](crate::Endpoints::caller) makes one of a `Visibility`; [`Everything`] is for programs with one
/// user.
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
    /// Whether the caller may call the tool.
    fn allows(&self, server: &str, tool: &str) -> bool;

    /// For whom this decides, so that the decisions about all tools are kept for a second.
    ///
    /// Without it nothing is kept, and each search decides about every tool that passes the filter: fine for some
    /// thousand tools.
    fn standing(&self) -> Option<AllowedKey> {
        None
    }

    /// What is known without looking at a tool.
    fn extent(&self) -> Extent {
        Extent::Some
    }
}

/// How much a caller may find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extent {
    /// Everything; no tool is asked about.
    All,
    /// What [`Allowed::allows`] allows.
    Some,
}

/// Whom decisions are kept for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AllowedKey {
    who: String,
    version: u64,
}

impl AllowedKey {
    /// Names a caller, and a number that changes whenever what it may call may have changed.
    pub fn new(who: impl Into<String>, version: u64) -> Self {
        Self { who: who.into(), version }
    }
}

/// Allows everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everything;

impl Allowed for Everything {
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

    fn standing(&self) -> Option<AllowedKey> {
        (**self).standing()
    }

    fn extent(&self) -> Extent {
        (**self).extent()
    }
}
