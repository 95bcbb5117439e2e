//! The manifest of a server: a description of everything that the server offers, in one document (extension
//! `manifest`).
//!
//! Applies to: inbound.

use std::sync::Arc;

use mgp_lifecycle::ServerOffer;
use mgp_types::mcp::{CallToolResult, ListParams, ListToolsResult, Revision};
use mgp_types::method::{ManifestGet, Request as _, ToolsCall, ToolsList};
use mgp_types::mgp::Extension;
use mgp_types::proposal::{ManifestServer, ManifestTool, ServiceManifest};
use mgp_types::service::{BoxFuture, Call, Either, Method, MgpService, Params, Reply};
use mgp_types::{Payload, RpcError};
use tower_service::Service;

use crate::extension::ServerExtension;
use crate::permission;
use crate::server::Server;

const MANIFEST_VERSION: &str = "0.1.0";

/// The name of the tool with which clients request the manifest if they use the reference implementation of the
/// extension.
const MANIFEST_TOOL: &str = "get_manifest";

/// The extension `manifest` of a server. It answers `mgp/manifest/get`, and the tool `get_manifest`, with the part of
/// the server that the caller may see.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::Manifest;
///
/// let manifest = Manifest::new().change(|manifest| manifest.manifest_ttl = Some(300));
/// let clock = Tool::new("now", "The time", || async { "noon" });
/// let server = Server::new("clock", "1.0").tool(clock).extension(manifest);
/// # drop(server);
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Manifest(Option<Arc<ChangeFn>>);

type ChangeFn = dyn Fn(&mut ServiceManifest) + Send + Sync;

mgp_types::opaque_debug!(Manifest);

impl Manifest {
    /// Creates the extension; its manifest lists the server's name, version, extensions and tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a function that changes each manifest before it is sent. It can add what only the author knows, e.g.
    /// authentication, rate limits and a time to live.
    pub fn change(mut self, change: impl Fn(&mut ServiceManifest) + Send + Sync + 'static) -> Self {
        self.0 = Some(Arc::new(change));
        self
    }

    /// Returns the layer that answers requests for the manifest of a server with this offer.
    pub(crate) fn layer(self, offer: &ServerOffer) -> ManifestLayer {
        let info = &offer.info;
        let mut server = ManifestServer::new(info.name.as_str(), info.version.as_str());
        server.mcp_spec_version = Some(Revision::MODERN.to_string());
        let mut base = ServiceManifest::new(MANIFEST_VERSION, server, Vec::new());
        let names = offer.mgp.iter().flat_map(|mgp| mgp.extensions.iter());
        base.supported_extensions = names.map(|extension| extension.to_string()).collect();
        ManifestLayer { base: Arc::new(base), change: self.0 }
    }
}

impl ServerExtension for Manifest {
    fn extension(&self) -> Extension {
        Extension::Manifest
    }

    fn install(self, server: Server) -> Server {
        server.set_manifest(self)
    }
}

/// A layer that answers requests for the manifest. It requests the list of tools from the inner layers, so that the
/// manifest contains only the tools that the caller may see.
#[derive(Clone)]
pub(crate) struct ManifestLayer {
    base: Arc<ServiceManifest>,
    change: Option<Arc<ChangeFn>>,
}

mgp_types::opaque_debug!(ManifestLayer);

mgp_types::layer_service! {
    /// Service of [`ManifestLayer`].
    pub(crate) ManifestService for ManifestLayer
}

impl ManifestLayer {
    fn manifest(&self, tools: &ListToolsResult) -> ServiceManifest {
        let mut manifest = ServiceManifest::clone(&self.base);
        manifest.tools = tools.tools.iter().map(ManifestTool::of).collect();
        if let Some(change) = &self.change {
            change(&mut manifest);
        }
        manifest
    }
}

impl<S: MgpService> Service<Call> for ManifestService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let is_tool = match call.method().as_str() {
            ManifestGet::METHOD => false,
            ToolsCall::METHOD
                if call.tool().is_some_and(|tool| tool.name == MANIFEST_TOOL)
                    && call.cx().caller.has(Extension::Manifest) =>
            {
                true
            }
            _ => return Either::Left { future: self.inner.call(call) },
        };
        // Apply the grants in this request now, because the list of tools depends on them. The inner request for the
        // list has its own params, which contain no grants.
        permission::apply_grants(&mut call);
        let (_, _, cx) = call.into_parts();
        let layer = self.layer.clone();
        let listed = Params::of(ToolsList::METHOD, &ListParams::new()).map(|params| {
            self.inner.call(Call::request(Method::from_static(ToolsList::METHOD), params, cx))
        });
        Either::Right {
            future: Box::pin(async move {
                let manifest = layer.manifest(&listed?.await?.get()?);
                if is_tool { as_tool_result(&manifest) } else { Reply::of(&manifest) }
            }),
        }
    }
}

fn as_tool_result(manifest: &ServiceManifest) -> Result<Reply, RpcError> {
    let text = Payload::of(manifest)?;
    let mut result = CallToolResult::text(text.as_str());
    result.structured_content = Some(text);
    Reply::of(&result)
}
