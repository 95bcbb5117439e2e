//! Visibility of tools: the same decision for calls and for lists (MGP §5).

use super::{Context, Rule, ServerId};

/// A policy that decides whether a caller sees a tool, and can therefore call it.
///
/// The same implementation filters lists and guards calls, so that the two always agree. The implementation must decide
/// without waiting, e.g. on the basis of a snapshot.
///
/// ```
/// use mgp_types::service::{AllVisible, Hidden, Visibility, mock, visibility, Router, Stack};
///
/// let no_shell = visibility(|_, _, tool| match tool {
///     "shell" => Err(Hidden::new("`shell` is disabled")),
///     _ => Ok(()),
/// });
/// let cx = mock::client(Stack::new(Router::new())).cx;
/// assert!(AllVisible.sees(&cx, None, "shell").is_ok());
/// assert_eq!(no_shell.sees(&cx, None, "shell").unwrap_err().rule().as_str(), "`shell` is disabled");
/// ```
pub trait Visibility: Send + Sync {
    /// Decides whether the caller sees a tool; `server` is `None` for a tool of this server itself.
    ///
    /// # Errors
    /// Returns [`Hidden`] with the rule that hides the tool.
    fn sees(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Result<(), Hidden>;
}

/// The error for a tool that is hidden from the caller, with the rule that hides it.
///
/// If this error is the source of a refusal, the audit log records its [`Rule`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hidden")]
pub struct Hidden {
    #[source]
    rule: Rule,
}

impl Hidden {
    /// Creates the error from a description of the rule that hides the tool.
    #[must_use]
    pub fn new(rule: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        Self { rule: Rule::new(rule) }
    }

    /// Returns the rule that hides the tool.
    #[must_use]
    pub fn rule(&self) -> &Rule {
        &self.rule
    }
}

/// A [`Visibility`] that shows every tool to every caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllVisible;

impl Visibility for AllVisible {
    fn sees(&self, _: &Context, _: Option<&ServerId>, _: &str) -> Result<(), Hidden> {
        Ok(())
    }
}

impl<F> Visibility for F
where
    F: Fn(&Context, Option<&ServerId>, &str) -> Result<(), Hidden> + Send + Sync,
{
    fn sees(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Result<(), Hidden> {
        self(cx, server, tool)
    }
}

/// Returns the closure unchanged. Its only purpose is to let the compiler infer the types of the closure's arguments.
pub fn visibility<F>(decide: F) -> F
where
    F: Fn(&Context, Option<&ServerId>, &str) -> Result<(), Hidden> + Send + Sync,
{
    decide
}
