//! The manifest of the kernel as a caller sees it (extension `manifest`).

use mgp_toolindex::name_for;
use mgp_types::mcp::Revision;
use mgp_types::method::ManifestGet;
use mgp_types::mgp::ExtensionSet;
use mgp_types::proposal::{ManifestServer, ManifestTool, ServiceManifest};
use mgp_types::service::{Context, Router};

use super::dispatcher::Dispatcher;
use crate::fleet::FIRST_LIST_TIMEOUT;
use crate::kernel_hops;
use crate::proposals::media;

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

/// Returns the manifest of the kernel as a caller sees it, with all tools to which the caller has access.
fn manifest(dispatcher: &Dispatcher, cx: &Context, offered: ExtensionSet) -> ServiceManifest {
    let parts = dispatcher.parts();
    let (index, caller) = (&parts.fleet.context().index, parts.search.caller(cx));
    let tools = index.listed(&caller).into_iter().filter_map(|indexed| {
        let mut tool = indexed.tool().ok()?;
        tool.name = name_for(&indexed, index, &caller);
        media::fit(cx, &mut tool);
        Some(ManifestTool::of(&tool))
    });
    let mut server = ManifestServer::new(kernel_hops::KERNEL_NAME, env!("CARGO_PKG_VERSION"));
    server.mcp_spec_version = Some(Revision::MODERN.to_string());
    let mut manifest = ServiceManifest::new(MANIFEST_VERSION, server, tools.collect::<Vec<_>>());
    manifest.supported_extensions = offered.iter().map(|one| one.to_string()).collect();
    manifest
}
