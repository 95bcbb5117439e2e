//! The manifest of the kernel as a caller sees it (extension `manifest`).

use std::collections::BTreeMap;

use mgp_discovery::CallLimits;
use mgp_toolindex::name_for;
use mgp_types::mcp::Revision;
use mgp_types::method::ManifestGet;
use mgp_types::mgp::ExtensionSet;
use mgp_types::proposal::{
    ManifestAuth, ManifestRateLimit, ManifestScope, ManifestServer, ManifestTool, ServiceManifest,
    hide_tool_members, required_scopes,
};
use mgp_types::service::{Context, Router};

use super::dispatcher::Dispatcher;
use crate::fleet::FIRST_LIST_TIMEOUT;
use crate::kernel_hops;
use crate::proposals::{OF_TOOLS, media};

const MANIFEST_VERSION: &str = "0.1.0";

/// Returns the router of `mgp/manifest/get`; `offered` are the extensions of the kernel.
pub(super) fn router(dispatcher: &Dispatcher, offered: ExtensionSet) -> Router {
    let dispatcher = dispatcher.clone();
    Router::new().on::<ManifestGet, _, _>(move |cx, _| {
        let dispatcher = dispatcher.clone();
        async move {
            dispatcher.wait_for_first_tools(&cx, FIRST_LIST_TIMEOUT).await;
            dispatcher.parts().fleet.context().changed_lists.note_list(&cx);
            Ok(manifest(&dispatcher, &cx, offered))
        }
    })
}

/// Returns the manifest of the kernel as a caller sees it, with the tools of servers to which the caller has access,
/// the scopes that these require, and the limits of the caller's calls.
fn manifest(dispatcher: &Dispatcher, cx: &Context, offered: ExtensionSet) -> ServiceManifest {
    let parts = dispatcher.parts();
    let (context, caller) = (parts.fleet.context(), parts.search.caller(cx));
    let index = &context.index;
    let hidden = OF_TOOLS.difference(cx.caller.mgp.unwrap_or_default());
    let mut scopes = BTreeMap::<String, Vec<String>>::new();
    let tools = index.listed(&caller).into_iter().filter_map(|indexed| {
        let mut tool = indexed.tool().ok()?;
        tool.name = name_for(&indexed, index, &caller);
        media::fit(cx, &mut tool);
        hide_tool_members(&mut tool, hidden);
        for scope in required_scopes(&tool) {
            scopes.entry(scope).or_default().push(tool.name.clone());
        }
        Some(ManifestTool::of(&tool))
    });
    let mut server = ManifestServer::new(kernel_hops::KERNEL_NAME, env!("CARGO_PKG_VERSION"));
    server.mcp_spec_version = Some(Revision::MODERN.to_string());
    let mut manifest = ServiceManifest::new(MANIFEST_VERSION, server, tools.collect::<Vec<_>>());
    manifest.supported_extensions = offered.iter().map(|one| one.to_string()).collect();
    manifest.auth = auth(scopes);
    let limits = context.bounds.limits_of(&cx.principal).unwrap_or_default();
    manifest.rate_limits = rate_limits(&limits).collect();
    manifest
}

/// Describes the scopes that tools require, each with the names of the tools that require it. Returns `None` if no tool
/// requires a scope.
fn auth(scopes: BTreeMap<String, Vec<String>>) -> Option<ManifestAuth> {
    if scopes.is_empty() {
        return None;
    }
    let mut auth = ManifestAuth::new();
    let scopes = scopes.into_iter().map(|(name, tools)| {
        let mut scope = ManifestScope::new(name);
        scope.grants = tools.into();
        scope
    });
    auth.scopes = scopes.collect();
    Some(auth)
}

fn rate_limits(limits: &CallLimits) -> impl Iterator<Item = ManifestRateLimit> {
    let periods: [(Option<u64>, u64); 3] = [
        (limits.calls_per_minute, 60),
        (limits.calls_per_hour, 3_600),
        (limits.calls_per_day, 86_400),
    ];
    periods.into_iter().filter_map(|(calls, seconds)| {
        let mut limit = ManifestRateLimit::new();
        limit.max_requests = Some(calls?.into());
        limit.window_seconds = Some(seconds.into());
        Some(limit)
    })
}
