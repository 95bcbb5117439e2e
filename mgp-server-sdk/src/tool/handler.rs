//! The trait of functions that implement tools.

use mgp_types::service::{BoxFuture, CallRecord, Reply};
use mgp_types::{RawObject, RpcError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::extract::{FromCall, RequiredState, ToolRequest};
use super::result::IntoToolResult;
use super::schema::{SchemaStyle, any_object};

/// An async function with up to eight extractors as parameters; the compiler infers `M`, which distinguishes functions
/// with different numbers of parameters.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool function",
    note = "a tool is an async function (or a closure that returns an async block) of up to eight parameters; its future is `Send`, so it holds no `Rc` and no `MutexGuard` across an `.await`",
    note = "each parameter is `Args<T>` with `T: Deserialize + JsonSchema`, or `State<T>`, `Context`, `Outlet` and so on (`FromCall`)",
    note = "it returns text, `Json<T>`, `CallToolResult`, `()`, or a `Result` of one of these with `ToolError` or `RpcError` (`IntoToolResult`)"
)]
pub trait Handler<M>: Send + Sync + 'static {
    /// Calls the function with the values that it reads from the request.
    fn call(&self, request: ToolRequest) -> BoxFuture<'static, Result<Reply, RpcError>>;

    /// Returns the schema of the arguments that the function reads.
    fn input_schema(style: SchemaStyle) -> RawObject;

    /// Returns the schema of the function's structured content, or `None` if its results need not contain any.
    fn output_schema(style: SchemaStyle) -> Option<RawObject>;

    /// Returns whether the function's results can contain structured content. Default: `true`.
    #[must_use]
    fn can_be_structured() -> bool {
        true
    }

    /// Returns the state that the function needs from the server.
    fn needs() -> Vec<RequiredState>;
}

macro_rules! handler {
    ($($argument:ident $value:ident),*) => {
        impl<F, Fut, R, $($argument,)*> Handler<(Fut, R, $($argument,)*)> for F
        where
            F: Fn($($argument),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = R> + Send + 'static,
            R: IntoToolResult,
            $($argument: FromCall + 'static,)*
        {
            fn call(&self, request: ToolRequest) -> BoxFuture<'static, Result<Reply, RpcError>> {
                $(
                    let $value = match $argument::from_call(&request) {
                        Ok(value) => value,
                        Err(error) => return Box::pin(std::future::ready(Err(error))),
                    };
                )*
                let era = request.cx.caller.era;
                // All parameters were extracted, so from here on the function itself runs, and an error comes from it.
                CallRecord::mark_executed(&request.cx);
                let recorder = request.opened();
                drop(request);
                let running = self($($value),*);
                match recorder {
                    Some(recorder) => Box::pin(recorder.run(running, era)),
                    None => Box::pin(async move { running.await.into_result_for(era) }),
                }
            }

            fn input_schema(_style: SchemaStyle) -> RawObject {
                let schemas: [Option<RawObject>; _] = [$($argument::input_schema(_style),)*];
                schemas.into_iter().flatten().next().unwrap_or_else(any_object)
            }

            fn output_schema(style: SchemaStyle) -> Option<RawObject> {
                R::output_schema(style)
            }

            fn can_be_structured() -> bool {
                R::can_be_structured()
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

/// A type that can be an argument of a function with `#[tool]`. The code that the macro generates requires this trait,
/// because the errors of the derives do not name the remedy.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a tool function",
    label = "not an argument",
    note = "the type of an argument needs `#[derive(Deserialize, JsonSchema)]`",
    note = "a parameter that implements `FromCall` needs the attribute `#[extract]`",
    note = "a value of the server is taken as `State<T>`, and set with `Server::state`"
)]
pub trait ToolArgument {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> ToolArgument for T {}

/// Does nothing; it compiles only for values that can be sent to other threads. The code of `#[tool]` passes the
/// function's future, to check that it is `Send`.
pub fn assert_send<F: Send>(_: F) {}
