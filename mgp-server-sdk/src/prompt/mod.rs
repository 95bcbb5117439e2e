//! Prompts that are created from functions (MCP prompts).

mod registry;

use mgp_types::mcp::{self, Completion, GetPromptResult, Icon, PromptArgument};
use mgp_types::service::Extensions;

pub use registry::Prompts;

use crate::completers::Completers;
use crate::error::BuildError;
use crate::request::{Function, RequestHandler};

/// A prompt: its definition and its function.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::{Prompt, PartialArgument};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Review {
///     /// The language of the code.
///     language: String,
///     /// The maximum number of findings.
///     findings: Option<u8>,
/// }
///
/// let review = Prompt::new("review", "Reviews code", |Args(review): Args<Review>| async move {
///     format!("Review this {} code; name {} findings.", review.language, review.findings.unwrap_or(3))
/// })
/// .complete("language", |typed: PartialArgument| async move { typed.matching(["python", "rust"]) });
/// assert_eq!(review.definition().arguments[0].name, "language");
/// assert_eq!(review.definition().arguments[1].required, Some(false));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Prompt {
    definition: mcp::Prompt,
    function: Function<GetPromptResult>,
    completers: Completers,
}

impl Prompt {
    /// Creates a prompt from an async function whose parameters are extracted from the call: [`Args`](crate::Args),
    /// `Context` and so on.
    ///
    /// The fields of the type in `Args` become the arguments of the prompt. They are strings in messages, and are
    /// parsed as numbers, booleans or enum variants for fields of such types.
    pub fn new<H, M>(name: impl Into<String>, description: impl Into<String>, handler: H) -> Self
    where
        H: RequestHandler<GetPromptResult, M>,
    {
        let mut definition = mcp::Prompt::new(name);
        definition.description = Some(description.into());
        definition.arguments = H::arguments().into();
        Self { definition, function: Function::new(handler), completers: Completers::default() }
    }

    /// Adds an argument that the function's types do not declare, or replaces the argument with the same name.
    pub fn argument(mut self, argument: PromptArgument) -> Self {
        let arguments = &mut self.definition.arguments;
        match arguments.iter_mut().find(|known| known.name == argument.name) {
            Some(known) => *known = argument,
            None => arguments.push(argument),
        }
        self
    }

    /// Sets the display name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Adds an icon.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.definition.icons.push(icon);
        self
    }

    /// Changes any member of the definition, e.g. `_meta`.
    pub fn define(mut self, change: impl FnOnce(&mut mcp::Prompt)) -> Self {
        change(&mut self.definition);
        self
    }

    /// Sets the function that proposes values for an argument.
    pub fn complete<H, M>(mut self, argument: impl Into<String>, handler: H) -> Self
    where
        H: RequestHandler<Completion, M>,
    {
        self.completers.add(argument.into(), Function::new(handler));
        self
    }

    /// Returns the errors that prevent a server with this prompt from being built.
    fn errors(&self, state: &Extensions) -> Vec<BuildError> {
        let what = format!("the prompt `{}`", self.definition.name);
        let arguments = self.definition.arguments.iter();
        let arguments: Vec<_> = arguments.map(|argument| argument.name.as_str()).collect();
        let mut errors = self.completers.errors(&what, &arguments, state);
        errors.extend(self.function.missing_state(&what, state));
        errors
    }

    /// Returns the definition in the form in which it is listed.
    #[must_use]
    pub fn definition(&self) -> &mcp::Prompt {
        &self.definition
    }
}
