//! The trait of functions that implement prompts, resources and completions.

use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::mcp::PromptArgument;
use mgp_types::service::{BoxFuture, Extensions};

use super::answer::IntoAnswer;
use super::extract::{FromRequest, TextRequest};
use crate::error::BuildError;
use crate::tool::RequiredState;

/// An async function with up to eight extractors that returns a `T`; the compiler infers `M`, which distinguishes
/// functions with different numbers of parameters.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function that returns `{T}`",
    note = "it is an async function (or a closure that returns an async block) of up to eight parameters; its future is `Send`, so it holds no `Rc` and no `MutexGuard` across an `.await`",
    note = "each parameter is `Args<T>` with `T: Deserialize + JsonSchema`, `Uri` of a resource, `PartialArgument` of a completion, or `State<T>`, `Context` and so on (`FromRequest`)",
    note = "a prompt returns text, a `PromptMessage`, a list of them or a `GetPromptResult` (`IntoAnswer`)",
    note = "a resource returns text, bytes, `Json<T>`, `Contents`, a `ReadResourceResult`, or an `Option` of one of these",
    note = "a completion returns a list of texts or a `Completion`; each may return a `Result` with `RpcError`, but not with `ToolError`"
)]
pub trait RequestHandler<T, M>: Send + Sync + 'static {
    /// Calls the function with the values that it reads from the request.
    fn call(&self, request: TextRequest) -> BoxFuture<'static, Result<T, RpcError>>;

    /// Returns the arguments that the function reads from the request, as a prompt lists them.
    fn arguments() -> Vec<PromptArgument>;

    /// Returns the state that the function's parameters need from the server.
    #[must_use]
    fn needs() -> Vec<RequiredState>;
}

macro_rules! handler {
    ($($argument:ident $value:ident),*) => {
        impl<T, F, Fut, R, $($argument,)*> RequestHandler<T, (Fut, R, $($argument,)*)> for F
        where
            T: Send + 'static,
            F: Fn($($argument),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = R> + Send + 'static,
            R: IntoAnswer<T>,
            $($argument: FromRequest + 'static,)*
        {
            fn call(&self, request: TextRequest) -> BoxFuture<'static, Result<T, RpcError>> {
                $(
                    let $value = match $argument::from_request(&request) {
                        Ok(value) => value,
                        Err(error) => return Box::pin(std::future::ready(Err(error))),
                    };
                )*
                drop(request);
                let running = self($($value),*);
                Box::pin(async move { running.await.into_answer() })
            }

            fn arguments() -> Vec<PromptArgument> {
                let arguments: [Option<Vec<PromptArgument>>; _] = [$($argument::arguments(),)*];
                arguments.into_iter().flatten().next().unwrap_or_default()
            }

            fn needs() -> Vec<RequiredState> {
                let needs: [Vec<RequiredState>; _] = [$($argument::needs(),)*];
                needs.into_iter().flatten().collect()
            }
        }
    };
}

handler!();
handler!(A a);
handler!(A a, B b);
handler!(A a, B b, C c);
handler!(A a, B b, C c, D d);
handler!(A a, B b, C c, D d, E e);
handler!(A a, B b, C c, D d, E e, G g);
handler!(A a, B b, C c, D d, E e, G g, H h);
handler!(A a, B b, C c, D d, E e, G g, H h, I i);

type Run<T> = dyn Fn(TextRequest) -> BoxFuture<'static, Result<T, RpcError>> + Send + Sync;

/// A type-erased function that implements a prompt, a resource or a completion.
pub(crate) struct Function<T> {
    run: Arc<Run<T>>,
    needs: Arc<[RequiredState]>,
}

impl<T: 'static> Function<T> {
    pub(crate) fn new<H: RequestHandler<T, M>, M>(handler: H) -> Self {
        Self { run: Arc::new(move |request| handler.call(request)), needs: H::needs().into() }
    }

    pub(crate) async fn run(self, request: TextRequest) -> Result<T, RpcError> {
        (self.run)(request).await
    }

    /// Returns an error if the server lacks state that the function needs; `what` names the prompt, resource or
    /// completion.
    pub(crate) fn missing_state(&self, what: &str, state: &Extensions) -> Option<BuildError> {
        let missing = self.needs.iter().find(|need| !need.is_met(state))?;
        Some(BuildError::MissingState { what: what.to_owned(), state: missing.name() })
    }
}

impl<T> Clone for Function<T> {
    fn clone(&self) -> Self {
        Self { run: Arc::clone(&self.run), needs: Arc::clone(&self.needs) }
    }
}

mgp_types::opaque_debug!(Function<T>);
