//! The routes of the kernel, which determine the part of the kernel that answers each method.
//!
//! [`call_tool`](mod@call_tool) passes tool calls on to servers, and [`server_features`] passes on the other calls;
//! both find the server with the [`Dispatcher`]. [`open_call`] records the ends of tool calls.

mod apps;
mod batch;
mod builtin_tools;
mod call_tool;
mod called_tool;
mod completion;
mod creation;
mod delegation;
mod dispatcher;
mod entry_lookup;
mod find_tool;
mod header_params;
mod links;
mod list_costs;
mod list_counter;
mod listed_tool;
mod manifest;
mod meta_tools;
mod names;
mod open_call;
mod page;
mod permission_check;
mod portable_names;
mod prompts;
mod resources;
mod result_members;
mod saved_context;
mod search;
mod server_features;
mod skills;
mod structured_result;
mod subscribe;
mod surface;
mod tasks;
mod tool_list;
mod validate_tool;

use std::sync::Arc;

use futures_util::future::Either;
use mgp_discovery::list_router;
use mgp_lifecycle::Transactions;
use mgp_security::{Governance, KernelToolsLayer, Replay};
use mgp_types::method::{Request as _, ToolsCall, ToolsList, ToolsValidate};
use mgp_types::mgp::ExtensionSet;
use mgp_types::service::{Router, Stack};
use tower_layer::Layer as _;

use self::builtin_tools::BuiltinTools;
pub(super) use call_tool::call as call_tool;
pub(super) use dispatcher::Dispatcher;
pub(super) use list_costs::{context_of_agent, list_costs};
pub(super) use meta_tools::{MetaToolConfig, unwrap_kernel_tool};
pub(super) use skills::capability as skills_capability;
pub(super) use tasks::support as task_support;

/// Returns the router of all methods of the kernel.
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
    let transactions = context.calls.transactions.as_ref();
    // `mgp/access/*`
    let methods = context
        .governance
        .router()
        // `mgp/discovery/list`
        .merge_disjoint(list_router(parts.registrations.fleet(), visible))
        // `mgp/discovery/register` and `mgp/discovery/deregister`
        .merge_disjoint(parts.registrations.router())
        // `mgp/tools/discover`, `mgp/tools/request` and `mgp/tools/session*`
        .merge_disjoint(search::router(dispatcher))
        // `mgp/servers/recommend`
        .merge_disjoint(context.proposals.recommender.router())
        // `mgp/manifest/get`
        .merge_disjoint(manifest::router(dispatcher, offered))
        // `mgp/events/*`
        .merge_disjoint(context.events.router())
        // `mgp/permissions/check` and `mgp/scopes/*`
        .merge_disjoint(permission_check::router(dispatcher))
        // `mgp/kernel/*`
        .merge_disjoint(admin)
        // `transaction/*` and `mgp/tx/*`
        .merge_disjoint(transactions.map(Transactions::router).unwrap_or_default());
    let only_tools = system.merge_disjoint(replay_router(&context.governance));
    let tool_calls = tool_call_service(dispatcher, methods.clone().merge_disjoint(only_tools));
    let (for_list, for_validate) = (dispatcher.clone(), dispatcher.clone());
    methods
        .route(ToolsCall::METHOD, tool_calls)
        .route(
            ToolsList::METHOD,
            Stack::from_fn(move |call| tool_list::list(for_list.clone(), call)),
        )
        .on::<ToolsValidate, _, _>(move |cx, params| {
            std::future::ready(validate_tool::validate(&for_validate, &cx, &params))
        })
        // Resources, prompts, skills, completion and roots.
        .merge_disjoint(server_features::router(dispatcher))
}

/// Returns the router of `mgp.audit.replay`, which operators call as a tool; it is empty if the kernel has no log.
fn replay_router(governance: &Governance) -> Router {
    let Some(log) = governance.log() else { return Router::new() };
    Replay::new(Arc::new(log.clone()), Arc::clone(governance.audit())).router()
}

/// Returns the service for `tools/call`. It looks for the tool first among the methods of the kernel, then among the
/// kernel's other tools, and then among the tools of servers.
fn tool_call_service(dispatcher: &Dispatcher, methods: Router) -> Stack {
    let (builtin_tools, dispatcher) = (BuiltinTools::of(dispatcher), dispatcher.clone());
    let others = Stack::from_fn(move |call| match builtin_tools.answer(call) {
        Ok(answer) => Either::Left(answer),
        Err(call) => Either::Right(call_tool::call(dispatcher.clone(), call)),
    });
    // A kernel method that is called as a tool is subject to the same access rules as the method itself.
    Stack::new(KernelToolsLayer::new(methods).layer(others))
}
