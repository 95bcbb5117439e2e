//! Functions that can stand behind a prompt, resource or completion.
//!
//! Applies to: inbound.

use std::fmt;
use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::mcp::PromptArgument;
use mgp_types::service::BoxFuture;

use super::answer::IntoAnswer;
use super::extract::{FromRequest, TextRequest};

/// An async function of up to six extractors that answers with a `T`; `M` tells the arities apart and is inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function that answers with `{T}`",
    note = "it is an async function whose arguments implement `FromRequest` and whose result implements `IntoAnswer`"
)]
pub trait RequestHandler<T, M>: Send + Sync + 'static {
    /// Calls it.
    fn call(&self, request: TextRequest) -> BoxFuture<'static, Result<T, RpcError>>;

    /// The arguments it reads.
    fn arguments() -> Vec<PromptArgument>;
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

/// What a [`Function`] holds.
type Run<T> = dyn Fn(TextRequest) -> BoxFuture<'static, Result<T, RpcError>> + Send + Sync;

/// A handler, its type erased.
pub(crate) struct Function<T>(Arc<Run<T>>);

impl<T: 'static> Function<T> {
    pub(crate) fn new<H: RequestHandler<T, M>, M>(handler: H) -> Self {
        Self(Arc::new(move |request| handler.call(request)))
    }

    pub(crate) async fn run(self, request: TextRequest) -> Result<T, RpcError> {
        (self.0)(request).await
    }
}

impl<T> Clone for Function<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Function<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Function")
    }
}
