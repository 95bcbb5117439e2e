//! Dispatches each call of a client to the server that it is meant for.

mod creation;
mod dispatcher;
mod header_params;
mod meta_tools;
mod names;
mod page;
mod server_features;
mod subscribe;
mod tasks;
mod tool_list;
mod tools;

use std::sync::Arc;

use futures_util::future::Either;
use mgp_discovery::list_router;
use mgp_security::KernelToolsLayer;
use mgp_types::method::{Request as _, ToolsCall, ToolsDiscover, ToolsList, ToolsRequest};
use mgp_types::service::{Call, Router, Stack};
use tower_layer::Layer as _;

use crate::results::is_read_more;
pub(super) use dispatcher::Dispatcher;
pub(super) use meta_tools::MetaToolConfig;
pub(super) use tasks::support as task_support;
pub(super) use tool_list::context_level;

/// Returns the router of all methods of the kernel.
///
/// `admin` has the methods for operators. `system` has the methods that outer layers answer; here they can only
/// be called as tools.
pub(super) fn router(dispatcher: &Dispatcher, admin: Router, system: Router) -> Router {
    let parts = dispatcher.parts();
    let governance = &parts.fleet.context().governance;
    let methods = governance
        .router()
        .merge(list_router(parts.registrations.fleet(), Arc::new(parts.view.clone())))
        .merge(parts.registrations.router())
        .merge(search_router(dispatcher))
        .merge(parts.fleet.context().events.hub().router())
        .merge(admin);
    let (calls, lists) = (dispatcher.clone(), dispatcher.clone());
    let more = parts.results.reader(governance);
    let calls = tools::UnwrapLayer
        // A kernel method that is called as a tool is subject to the same access rules as the method itself.
        .layer(KernelToolsLayer::new(methods.clone().merge(system)).layer(Stack::from_fn(
            move |call| {
                if is_read_more(&call) {
                    return Either::Left(more.send(call));
                }
                Either::Right(tools::call(calls.clone(), call))
            },
        )));
    methods
        .route(ToolsCall::METHOD, Stack::new(calls))
        .route(ToolsList::METHOD, Stack::from_fn(move |call| tool_list::list(lists.clone(), call)))
        .merge(server_features::router(dispatcher))
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
                let servers = dispatcher.parts().fleet.all();
                dispatcher.wait_for_new(call.cx(), servers.values()).await;
                search.send(call).await
            }
        });
        router.route(method, search)
    })
}
