//! Recommends servers from a registry file for needs that no connected server meets (extension
//! `server_recommendations`).
//!
//! The kernel searches only this file. It makes no request to another machine, so the caller's need does not leave this
//! machine.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use mgp_discovery::{RegistryServer, read_registry};
use mgp_toolindex::{AllTools, Explain, Query, ServerEntry, ToolIndex};
use mgp_types::mcp::Tool;
use mgp_types::method::ServersRecommend;
use mgp_types::mgp::{Extension, RequestStatus, RequestToolsResult, UnavailableTool};
use mgp_types::proposal::{
    MatchLevel, RecommendServersParams, RecommendServersResult, ServerRecommendation,
};
use mgp_types::service::{Context, Reply, Router};
use mgp_types::{Payload, RawObject, RpcError};

/// The default number of recommended servers for a need.
const DEFAULT_RESULTS: usize = 3;
/// The maximum number of recommended servers for a need.
const MAX_RESULTS: usize = 20;

/// The maximum number of needs in one reply for which the kernel recommends servers.
const MAX_NEEDS: usize = 8;

/// The maximum length of the need in a request for recommendations, in bytes.
const MAX_NEED_BYTES: usize = 2000;

/// A server whose entry contains at least this share of the words of the need is recommended even if its score is low.
const MIN_COVERAGE: f32 = 0.3;
/// A server with at least this search score is recommended even if its entry contains few words of the need.
const MIN_SCORE: f32 = 0.68;

/// The servers of a registry, with a separate search index. This handle is cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Recommender(Option<Arc<Registry>>);

struct Registry {
    /// The search index, in which each server of the registry is an entry with one tool. The id of the entry is the key
    /// in `servers`.
    index: ToolIndex,
    servers: HashMap<String, RegistryServer>,
}

mgp_types::opaque_debug!(Recommender);

impl Recommender {
    /// Reads the registry file, if one is configured; logs an error if it cannot be read.
    pub(crate) async fn load(file: Option<&Path>) -> Self {
        let Some(file) = file.map(Path::to_owned) else { return Self::default() };
        let read = tokio::task::spawn_blocking(move || {
            let servers = read_registry(&file).map_err(|error| error.to_string())?;
            Registry::new(servers).map_err(|error| error.to_string())
        });
        match read.await.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(registry) => Self(Some(Arc::new(registry))),
            Err(error) => {
                tracing::error!(error, "registry not read; no servers are recommended");
                Self::default()
            }
        }
    }

    /// Returns the servers that could meet a need, best first.
    async fn recommend(&self, need: &str, most: usize) -> Vec<ServerRecommendation> {
        let Some(registry) = self.0.clone() else { return Vec::new() };
        let need = mgp_types::clip(need, MAX_NEED_BYTES);
        // Search on a thread for blocking work, because a search can take some milliseconds.
        let found = tokio::task::spawn_blocking(move || registry.find(&need, most)).await;
        found.unwrap_or_default()
    }

    /// Adds recommended servers to a reply that reports unmet needs, if the caller negotiated recommendations.
    pub(crate) async fn attach(&self, cx: &Context, mut reply: Reply) -> Result<Reply, RpcError> {
        if self.0.is_none() || !cx.caller.has(Extension::ServerRecommendations) {
            return Ok(reply);
        }
        let result: RequestToolsResult = reply.get()?;
        if result.status != RequestStatus::Unavailable {
            return Ok(reply);
        }
        let unmet = result.tools_unavailable.iter().take(MAX_NEEDS);
        let needs = unmet.filter_map(|tool| tool.get::<UnavailableTool>().ok()?.capability);
        let mut all: Vec<ServerRecommendation> = Vec::new();
        for need in needs {
            for found in self.recommend(&need, DEFAULT_RESULTS).await {
                if !all.iter().any(|known| known.server == found.server) {
                    all.push(found);
                }
            }
        }
        if let Some(body) = reply.as_body_mut().filter(|_| !all.is_empty()) {
            body.insert("recommendations", Payload::of(&all)?);
        }
        Ok(reply)
    }

    pub(crate) fn router(&self) -> Router {
        let recommender = self.clone();
        Router::new().on::<ServersRecommend, _, _>(move |_, params: RecommendServersParams| {
            let recommender = recommender.clone();
            async move {
                let most = params.max_results.and_then(|most| usize::try_from(most).ok());
                let most = most.unwrap_or(DEFAULT_RESULTS).min(MAX_RESULTS);
                let need = params.capability_needed;
                if need.trim().is_empty() {
                    return Err(RpcError::invalid_params("`capability_needed` is empty"));
                }
                let found = recommender.recommend(&need, most).await;
                let mut result = RecommendServersResult::new(need);
                result.recommendations = found;
                Ok(result)
            }
        })
    }
}

impl Registry {
    fn new(servers: Vec<RegistryServer>) -> Result<Self, mgp_toolindex::IndexError> {
        let index = ToolIndex::new();
        let keyed = servers.into_iter().enumerate().map(|(at, server)| (at.to_string(), server));
        let servers: HashMap<_, _> = keyed.collect();
        index.put_all(servers.iter().map(|(id, server)| entry(id, server)))?;
        Ok(Self { index, servers })
    }

    fn find(&self, need: &str, most: usize) -> Vec<ServerRecommendation> {
        let query = Query::new(need).limit(most).explain(Explain::Yes);
        let hits = match self.index.search(&query, &AllTools) {
            Ok(found) => found.hits,
            Err(error) => {
                tracing::warn!(%error, "search for recommendations failed");
                return Vec::new();
            }
        };
        let found = hits.iter().filter_map(|hit| {
            let covered = hit.reason.as_ref().map_or(0.0, |reason| reason.coverage);
            let level = (covered >= MIN_COVERAGE || hit.score >= MIN_SCORE)
                .then(|| MatchLevel::of_share(covered.into()))?;
            let mut found = self.servers.get(hit.tool.server_id())?.recommendation();
            found.match_confidence = Some(level);
            Some(found)
        });
        found.collect()
    }
}

/// Returns a server of the registry as an entry of the index, with one tool. The last part of the server's name is the
/// name of this tool.
fn entry(id: &str, server: &RegistryServer) -> ServerEntry {
    let name = server.name.rsplit('/').next().unwrap_or(&server.name);
    let mut tool = Tool::new(name, RawObject::empty());
    tool.title.clone_from(&server.title);
    tool.description = Some(format!("{} {}", server.description, server.keywords.join(" ")));
    ServerEntry::new(id).tool(tool)
}
