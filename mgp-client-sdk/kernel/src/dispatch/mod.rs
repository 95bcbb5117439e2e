//! Dispatches each call of a client to the server that it is meant for.

mod apps;
mod batch;
mod creation;
mod delegation;
mod dispatcher;
mod header_params;
mod manifest;
mod meta_tools;
mod names;
mod page;
mod permission_check;
mod result_members;
mod saved_context;
mod server_features;
mod skills;
mod subscribe;
mod surface;
mod tasks;
mod tool_list;
mod tools;
mod validate;

use std::sync::Arc;

use futures_util::future::Either;
use mgp_discovery::list_router;
use mgp_lifecycle::Transactions;
use mgp_security::KernelToolsLayer;
use mgp_types::RpcError;
use mgp_types::method::{
    Request as _, ToolsCall, ToolsDiscover, ToolsList, ToolsRequest, ToolsValidate,
};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::{BoxFuture, Call, Reply, Router, Stack};
use tower_layer::Layer as _;

use crate::results::is_read_more;
pub(super) use dispatcher::Dispatcher;
pub(super) use meta_tools::MetaToolConfig;
pub(super) use skills::capability as skills_capability;
pub(super) use tasks::support as task_support;
pub(super) use tool_list::{context_of_agent, list_costs};
pub(super) use tools::{call as call_tool, unwrap_kernel_tool};

/// Returns the router of all methods of the kernel.
///
/// `admin` has the methods for operators. `system` has the methods that outer layers answer; here they can only
/// be called as tools. `offered` are the extensions that callers may negotiate.
pub(super) fn router(
    dispatcher: &Dispatcher,
    offered: ExtensionSet,
    admin: Router,
    system: Router,
) -> Router {
    let parts = dispatcher.parts();
    let governance = &parts.fleet.context().governance;
    let methods = governance
        .router()
        .merge(list_router(parts.registrations.fleet(), Arc::new(parts.view.clone())))
        .merge(parts.registrations.router())
        .merge(search_router(dispatcher))
        .merge(parts.fleet.context().proposals.recommender.router())
        .merge(manifest::router(dispatcher, offered))
        .merge(parts.fleet.context().events.hub().router())
        .merge(permission_check::router(dispatcher))
        .merge(admin);
    let (calls, lists, checks) = (dispatcher.clone(), dispatcher.clone(), dispatcher.clone());
    let transactions = parts.fleet.context().calls.transactions.clone();
    let methods = match &transactions {
        Some(transactions) => methods.merge(transactions.router()),
        None => methods,
    };
    let more = parts.results.reader(governance);
    // A kernel method that is called as a tool is subject to the same access rules as the method itself.
    let calls =
        KernelToolsLayer::new(methods.clone().merge(system)).layer(Stack::from_fn(move |call| {
            if let Some(answer) = transaction_tool(transactions.as_ref(), &call) {
                return Either::Left(answer);
            }
            if is_read_more(&call) {
                return Either::Left(more.send(call));
            }
            if batch::is_batch(&call) {
                return Either::Left(Box::pin(batch::run(calls.clone(), call)));
            }
            Either::Right(tools::call(calls.clone(), call))
        }));
    methods
        .route(ToolsCall::METHOD, Stack::new(calls))
        .route(ToolsList::METHOD, Stack::from_fn(move |call| tool_list::list(lists.clone(), call)))
        .on::<ToolsValidate, _, _>(move |cx, params| {
            std::future::ready(validate::validate(&checks, &cx, &params))
        })
        .merge(server_features::router(dispatcher))
}

/// Returns the answer to a call of a tool for transactions; `None` for other calls, and for callers that did not
/// negotiate transactions.
fn transaction_tool(
    transactions: Option<&Transactions>,
    call: &Call,
) -> Option<BoxFuture<'static, Result<Reply, RpcError>>> {
    let transactions = transactions?;
    if !call.cx().caller.mgp?.contains(Extension::Transactions) {
        return None;
    }
    let method = Transactions::method_of_tool(call.tool()?.name)?;
    let (transactions, call) = (transactions.clone(), call.clone());
    Some(Box::pin(async move { transactions.call_tool(method, call).await }))
}

/// Returns the router of searches. A search waits until the tools of new servers are known.
fn search_router(dispatcher: &Dispatcher) -> Router {
    let router = dispatcher.parts().search.router();
    let search = Stack::new(router.clone());
    [ToolsDiscover::METHOD, ToolsRequest::METHOD].into_iter().fold(router, |router, method| {
        let (dispatcher, search) = (dispatcher.clone(), search.clone());
        let search = Stack::from_fn(move |call: Call| {
            let (dispatcher, search) = (dispatcher.clone(), search.clone());
            async move {
                let fleet = &dispatcher.parts().fleet;
                dispatcher.wait_for_new(call.cx(), fleet.all().values()).await;
                let cx = call.cx().clone();
                let reply = search.send(call).await?;
                if method == ToolsRequest::METHOD {
                    fleet.context().proposals.recommender.attach(&cx, reply).await
                } else {
                    let caller = dispatcher.parts().search.caller(&cx);
                    apps::without_app_tools(&fleet.context().index, &caller, reply)
                }
            }
        });
        router.route(method, search)
    })
}
