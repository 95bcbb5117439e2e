//! The return types of functions that implement prompts, resources and completions.

use mgp_types::RpcError;
use mgp_types::mcp::{Completion, ContentBlock, GetPromptResult, PromptMessage, Role};

/// A return type of a function that implements a prompt, a resource or a completion. It is converted to `T`: the
/// prompt, the contents or the proposals.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned where `{T}` is expected",
    note = "a prompt is text, a `PromptMessage`, a list of them or a `GetPromptResult`",
    note = "contents are text, bytes, `Json<T>`, `Contents`, a `ReadResourceResult`, or an `Option` of one of these",
    note = "proposals are a list of texts or a `Completion`; each may be in a `Result<_, RpcError>`"
)]
pub trait IntoAnswer<T>: Send + 'static {
    /// Converts the value to the answer.
    ///
    /// # Errors
    /// Returns the error that the caller receives instead of an answer.
    fn into_answer(self) -> Result<T, RpcError>;
}

impl<T, A: IntoAnswer<T>> IntoAnswer<T> for Result<A, RpcError> {
    fn into_answer(self) -> Result<T, RpcError> {
        self.and_then(IntoAnswer::into_answer)
    }
}

// === Prompts ===

impl IntoAnswer<Self> for GetPromptResult {
    fn into_answer(self) -> Result<Self, RpcError> {
        Ok(self)
    }
}

impl IntoAnswer<GetPromptResult> for Vec<PromptMessage> {
    fn into_answer(self) -> Result<GetPromptResult, RpcError> {
        Ok(GetPromptResult::new(self))
    }
}

impl IntoAnswer<GetPromptResult> for PromptMessage {
    fn into_answer(self) -> Result<GetPromptResult, RpcError> {
        vec![self].into_answer()
    }
}

impl IntoAnswer<GetPromptResult> for String {
    fn into_answer(self) -> Result<GetPromptResult, RpcError> {
        PromptMessage::new(Role::User, ContentBlock::text(self)).into_answer()
    }
}

impl IntoAnswer<GetPromptResult> for &'static str {
    fn into_answer(self) -> Result<GetPromptResult, RpcError> {
        self.to_owned().into_answer()
    }
}

// === Completions ===

impl IntoAnswer<Self> for Completion {
    fn into_answer(self) -> Result<Self, RpcError> {
        Ok(self)
    }
}

impl IntoAnswer<Completion> for Vec<String> {
    fn into_answer(self) -> Result<Completion, RpcError> {
        Ok(Completion::new(self))
    }
}

impl IntoAnswer<Completion> for Vec<&'static str> {
    fn into_answer(self) -> Result<Completion, RpcError> {
        Ok(Completion::new(self.into_iter().map(str::to_owned).collect::<Vec<_>>()))
    }
}

impl<const N: usize> IntoAnswer<Completion> for [&'static str; N] {
    fn into_answer(self) -> Result<Completion, RpcError> {
        Vec::from(self).into_answer()
    }
}
