//! Who sees which tool: one decision for calls and for lists (MGP §5; DESIGN §3).

use super::{Context, Rule, ServerId};

/// Decides whether a caller sees a tool, and so whether it may call it.
///
/// The same function filters lists and guards calls, so that the two never disagree.
/// It reads a snapshot and never waits.
///
/// ```
/// use mgp_types::service::{Everyone, Hidden, Visibility, mock, visibility, Router, Stack};
///
/// let no_shell = visibility(|_, _, tool| match tool {
///     "shell" => Err(Hidden::by("`shell` is for nobody")),
///     _ => Ok(()),
/// });
/// let cx = mock::client(Stack::new(Router::new())).cx;
/// assert!(Everyone.sees(&cx, None, "shell").is_ok());
/// assert_eq!(no_shell.sees(&cx, None, "shell").unwrap_err().rule().as_str(), "`shell` is for nobody");
/// ```
pub trait Visibility: Send + Sync {
    /// Decides about one tool; `server` is none where the tool is our own.
    ///
    /// # Errors
    /// [`Hidden`] with the rule that hides it.
    fn sees(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Result<(), Hidden>;
}

/// A tool that a caller does not see, and the rule that says so.
///
/// Kept as the source of a refusal it brings its [`Rule`] into the audit log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hidden")]
pub struct Hidden {
    #[source]
    rule: Rule,
}

impl Hidden {
    /// Hides a tool by a rule.
    #[must_use]
    pub fn by(rule: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        Self { rule: Rule::new(rule) }
    }

    /// The rule.
    #[must_use]
    pub fn rule(&self) -> &Rule {
        &self.rule
    }
}

/// Shows every tool to everyone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everyone;

impl Visibility for Everyone {
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

/// A [`Visibility`] from a closure; it only helps the compiler to see the closure's type.
pub fn visibility<F>(decide: F) -> F
where
    F: Fn(&Context, Option<&ServerId>, &str) -> Result<(), Hidden> + Send + Sync,
{
    decide
}
