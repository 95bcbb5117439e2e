//! Who serves a method, how a client calls it, and which test shows it (feature `schema`).
//!
//! A crate that begins to serve a method adds a row; `docs/methods.md` marks the others as open.
//!
//! Applies to: both.

/// A method that is served.
pub(crate) struct Served {
    /// The method on the wire.
    pub(crate) method: &'static str,
    /// The crate that serves it.
    pub(crate) by: &'static str,
    /// The typed call of the client.
    pub(crate) call: &'static str,
    /// The test, as a path in the workspace.
    pub(crate) test: &'static str,
}

static SERVED: &[Served] = &[];

/// Finds who serves a method.
pub(crate) fn served(method: &str) -> Option<&'static Served> {
    SERVED.iter().find(|served| served.method == method)
}
