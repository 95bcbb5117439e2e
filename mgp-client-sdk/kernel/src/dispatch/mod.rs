//! The routes of the kernel, which determine the part that answers each method.
//!
//! [`tools`] passes tool calls on to servers, and [`server_features`] passes on the other calls; both find the server
//! with the [`Dispatcher`].

mod apps;
mod batch;
mod builtin_tools;
mod call_tool;
mod creation;
mod delegation;
mod dispatcher;
mod find_tool;
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
mod validate_tool;

use std::sync::Arc;

use futures_util::future::Either;
use mgp_discovery::list_router;
use mgp_security::KernelToolsLayer;
use mgp_types::method::{
    Request as _, ToolsCall, ToolsDiscover, ToolsList, ToolsRequest, ToolsValidate,
};
use mgp_types::mgp::ExtensionSet;
use mgp_types::service::{Call, Context, Router, Stack};
use tower_layer::Layer as _;

use self::builtin_tools::BuiltinTools;
pub(super) use call_tool::{call as call_tool, unwrap_kernel_tool};
pub(super) use dispatcher::Dispatcher;
pub(super) use meta_tools::MetaToolConfig;
pub(super) use skills::capability as skills_capability;
pub(super) use tasks::support as task_support;
pub(super) use tool_list::{context_of_agent, list_costs};

/// Returns the router of all methods of the kernel. No two of its parts have a method in common.
///
/// `admin` has the methods for operators. `system` has the methods that outer layers answer; here they can only be
/// called as tools. `offered` are the extensions that callers can negotiate.
pub(super) fn router(
    dispatcher: &Dispatcher,
    offered: ExtensionSet,
    admin: Router,
    system: Router,
) -> Router {
    let parts = dispatcher.parts();
    let context = parts.fleet.context();
    let visible = Arc::new(parts.view.clone());
    let methods = context
        .governance
        .router()
        .merge(list_router(parts.registrations.fleet(), visible))
        .merge(parts.registrations.router())
        .merge(search_router(dispatcher))
        .merge(context.proposals.recommender.router())
        .merge(manifest::router(dispatcher, offered))
        .merge(context.events.hub().router())
        .merge(permission_check::router(dispatcher))
        .merge(admin);
    let methods = match &context.calls.transactions {
        Some(transactions) => methods.merge(transactions.router()),
        None => methods,
    };
    let tool_calls = tool_calls(dispatcher, methods.clone().merge(system));
    let (lists, checks) = (dispatcher.clone(), dispatcher.clone());
    methods
        .route(ToolsCall::METHOD, tool_calls)
        .route(ToolsList::METHOD, Stack::from_fn(move |call| tool_list::list(lists.clone(), call)))
        .on::<ToolsValidate, _, _>(move |cx, params| {
            std::future::ready(validate_tool::validate(&checks, &cx, &params))
        })
        .merge(server_features::router(dispatcher))
}

/// Returns the service for `tools/call`. It looks for the tool first among the methods of the kernel, then among the
/// kernel's other tools, then among the tools of servers.
fn tool_calls(dispatcher: &Dispatcher, methods: Router) -> Stack {
    let (builtin_tools, dispatcher) = (BuiltinTools::of(dispatcher), dispatcher.clone());
    let others = Stack::from_fn(move |call| match builtin_tools.answer(call) {
        Ok(answer) => Either::Left(answer),
        Err(call) => Either::Right(call_tool::call(dispatcher.clone(), call)),
    });
    // A kernel method that is called as a tool is subject to the same access rules as the method itself.
    Stack::new(KernelToolsLayer::new(methods).layer(others))
}

/// Returns the router of the methods that search for tools.
fn search_router(dispatcher: &Dispatcher) -> Router {
    let router = dispatcher.parts().search.router();
    let search = Stack::new(router.clone());
    let (discover, request) = ((dispatcher.clone(), search.clone()), (dispatcher.clone(), search));
    let discover = Stack::from_fn(move |call: Call| {
        let (dispatcher, search) = discover.clone();
        async move {
            wait_for_new_tools(&dispatcher, call.cx()).await;
            let parts = dispatcher.parts();
            let caller = parts.search.caller(call.cx());
            let reply = search.send(call).await?;
            apps::without_app_tools(&parts.fleet.context().index, &caller, reply)
        }
    });
    let request = Stack::from_fn(move |call: Call| {
        let (dispatcher, search) = request.clone();
        async move {
            wait_for_new_tools(&dispatcher, call.cx()).await;
            let cx = call.cx().clone();
            let reply = search.send(call).await?;
            let context = dispatcher.parts().fleet.context();
            context.proposals.recommender.attach(&cx, reply).await
        }
    });
    // These routes replace the search's own ones, which do not wait for servers whose lists are still being read.
    router.route(ToolsDiscover::METHOD, discover).route(ToolsRequest::METHOD, request)
}

/// Waits until the tool lists of new servers have been read.
async fn wait_for_new_tools(dispatcher: &Dispatcher, cx: &Context) {
    dispatcher.wait_for_new(cx, dispatcher.parts().fleet.all().values()).await;
}
