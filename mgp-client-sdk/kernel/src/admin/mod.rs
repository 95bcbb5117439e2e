//! What an operator does with a running kernel: `mgp/kernel/*`, this kernel's own methods (no section of MGP).
//!
//! Who may not ask is refused before anything is looked at, on the record; so is what is changed.
//! As tools they are called by operators, and listed to nobody.
//!
//! Applies to: inbound.

mod approvals;
mod audit;
mod lacking;
mod permissions;
mod process;
mod servers;
mod tools;
mod unserved;

use std::future::Future;
use std::sync::Arc;

use mgp_security::{Administration, Event};
use mgp_types::method::Request;
use mgp_types::service::{Context, Reply, Router, ServerId, Stack};
use mgp_types::{ErrorCode, RpcError};

use super::fleet::Node;
use super::handle::Kernel;

/// The methods.
pub(super) fn router(kernel: &Kernel) -> Router {
    let desk = Desk { kernel: kernel.clone(), router: Router::new() };
    let desk = process::on(desk);
    let desk = servers::on(desk);
    let desk = tools::on(desk);
    let desk = permissions::on(desk);
    let desk = approvals::on(desk);
    let desk = unserved::on(desk);
    audit::on(desk).router
}

/// Where the methods are put in.
struct Desk {
    kernel: Kernel,
    router: Router,
}

impl Desk {
    /// Answers a method that tells something.
    fn reads<R, F, Fut>(self, answer: F) -> Self
    where
        R: Request,
        F: Fn(Kernel, Context, R::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R::Result, RpcError>> + Send + 'static,
    {
        self.on::<R, F, Fut>(Administration::Reads, answer)
    }

    /// Answers a method that changes something.
    fn changes<R, F, Fut>(self, answer: F) -> Self
    where
        R: Request,
        F: Fn(Kernel, Context, R::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R::Result, RpcError>> + Send + 'static,
    {
        self.on::<R, F, Fut>(Administration::Changes, answer)
    }

    fn on<R, F, Fut>(mut self, does: Administration, answer: F) -> Self
    where
        R: Request,
        F: Fn(Kernel, Context, R::Params) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R::Result, RpcError>> + Send + 'static,
    {
        let (kernel, answer) = (self.kernel.clone(), Arc::new(answer));
        let stack = Stack::from_fn(move |call| {
            let (kernel, answer) = (kernel.clone(), Arc::clone(&answer));
            async move {
                kernel.governance().operators_only(&call, does, R::METHOD).await?;
                let (_, params, cx) = call.into_parts();
                Reply::of(&answer(kernel, cx, params.get()?).await?)
            }
        });
        self.router = self.router.route(R::METHOD, stack);
        self
    }
}

impl Kernel {
    /// The server that an operator means.
    fn meant(&self, id: &str) -> Result<Arc<Node>, RpcError> {
        self.0.fleet.get(id).ok_or_else(|| {
            let message = format!("there is no server `{id}`; `mgp servers ls` names them");
            RpcError::new(ErrorCode::INVALID_PARAMS, message)
        })
    }

    /// Records that an operator did something of which no other event tells who did it.
    async fn record(
        &self,
        cx: &Context,
        server: Option<&ServerId>,
        method: &'static str,
    ) -> Result<(), RpcError> {
        let event = Event::administered(&cx.principal, server, method).of_call(cx);
        let kept = self.governance().audit().record(event.build()).await;
        kept.map_err(|error| mgp_security::Refusal::Unaudited(error).into())
    }
}
