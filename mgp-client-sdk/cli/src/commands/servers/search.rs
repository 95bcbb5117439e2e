//! The command `mgp servers search`: finds published servers by their purpose.

use clap::Args;
use mgp_discovery::import::PublishedServer;
use mgp_toolindex::{AllTools, IndexError, Query, ServerEntry, ToolIndex};
use mgp_types::RawObject;
use mgp_types::mcp::Tool;
use serde::Serialize;
use serde_json::Value;

use super::registry::Registry;
use crate::args::{ConfigArg, Global};
use crate::exit::{CliResult, Failure};
use crate::output::{Cell, Output, Render, first_line, plural, print};

/// `mgp servers search`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The list is copied to the state folder and brought up to date every 12 hours; the search itself runs on this machine.\n\nExample:\n  mgp servers search 'read a postgres database'"
)]
pub(crate) struct Search {
    /// Purpose of the server, in words
    #[arg(required = true)]
    words: Vec<String>,
    /// Maximum number of servers to show, best matches first
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    /// Ask the registry for changes now
    #[arg(long)]
    refresh: bool,
    #[command(flatten)]
    registry: RegistryArg,
    #[command(flatten)]
    config: ConfigArg,
}

/// The registry that a command uses.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RegistryArg {
    /// Registry: a URL, or a file of `server.json` entries; the default is `kernel.registry`
    #[arg(long, value_name = "URL|FILE")]
    pub(super) registry: Option<String>,
}

/// The published servers that fit the query, best first.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FoundServers {
    /// The number of servers that were searched.
    searched: usize,
    /// The servers.
    servers: Vec<FoundServer>,
}

/// A published server.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FoundServer {
    /// The name of the server for `mgp servers add`.
    name: String,
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// The latest version.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// The ways to run the server: the types of its packages, e.g. `npm`, `pypi` or `oci`, and `url` if it is at a URL.
    /// `mgp servers add` cannot add packages of every type.
    runs: Vec<String>,
    /// The description.
    description: String,
    /// The web page or the repository of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// A score from 0 to 1 for how well the server fits the wanted purpose.
    score: f32,
}

impl Render for FoundServers {
    fn render(&self, out: &mut Output) {
        let searched = plural(self.searched, "server");
        if self.servers.is_empty() {
            return out.line(format!("none of {searched} fits; use other words"));
        }
        let rows = self.servers.iter().map(|server| {
            [
                Cell::from(&*server.name),
                server.version.as_deref().into(),
                server.runs.join(" ").into(),
                first_line(&server.description, 100).into(),
            ]
        });
        out.table(["NAME", "VERSION", "RUNS", "DESCRIPTION"], rows);
        let name = &self.servers[0].name;
        out.hint(format!("{searched} searched; add one with `mgp servers add {name}`"));
    }
}

pub(super) async fn run(global: &Global, search: &Search) -> CliResult {
    let registry = Registry::open(global, &search.config, search.registry.registry.as_deref());
    let servers = registry.await?.list(global, search.refresh).await?;
    let (words, limit) = (search.words.join(" "), usize::from(search.limit));
    let searched = servers.len();
    let ranked = tokio::task::spawn_blocking(move || Ranking::new(servers)?.find(&words, limit));
    let ranked = ranked.await?.map_err(Failure::failed)?;
    let servers = ranked.into_iter().map(FoundServer::new).collect();
    print(global, &FoundServers { searched, servers })
}

/// Published servers with a search index.
struct Ranking {
    servers: Vec<PublishedServer>,
    index: ToolIndex,
}

impl Ranking {
    fn new(servers: Vec<PublishedServer>) -> Result<Self, IndexError> {
        let index = ToolIndex::new();
        index.put_all(servers.iter().enumerate().map(|(at, server)| indexed(at, server)))?;
        Ok(Self { servers, index })
    }

    /// Returns the servers that fit the words best, with their scores.
    fn find(&self, words: &str, limit: usize) -> Result<Vec<(PublishedServer, f32)>, IndexError> {
        let found = self.index.search(&Query::new(words).limit(limit), &AllTools)?;
        let place = |id: &str| id.parse().ok().and_then(|at: usize| self.servers.get(at).cloned());
        let hits = found.hits.iter();
        Ok(hits.filter_map(|hit| Some((place(hit.tool.server_id())?, hit.score))).collect())
    }
}

/// Returns a published server as an entry of the tool index: a server with one tool, which has the short name of the
/// published server.
fn indexed(at: usize, server: &PublishedServer) -> ServerEntry {
    let mut tool = Tool::new(short_name(&server.name), RawObject::empty());
    tool.title.clone_from(&server.title);
    let packages = server.document()["packages"].as_array().into_iter().flatten();
    let packages = packages.filter_map(|package| package["identifier"].as_str());
    let words = std::iter::once(server.description.as_str()).chain(packages);
    tool.description = Some(words.collect::<Vec<_>>().join(" "));
    ServerEntry::new(at.to_string()).tool(tool)
}

/// The words that do not distinguish a server from others when they are the last part of its full name.
const GENERAL: &[&str] = &["mcp", "server", "mcp-server", "server-mcp", "mcpserver"];

/// Returns the part of a full name that distinguishes the server: the last part, or the publisher if the last part is
/// general, e.g. `mcp`.
pub(super) fn short_name(name: &str) -> &str {
    let (publisher, last) = name.rsplit_once('/').unwrap_or(("", name));
    let is_general = GENERAL.contains(&&*last.to_ascii_lowercase());
    let publisher = publisher.rsplit('.').next().unwrap_or_default();
    if is_general && !publisher.is_empty() { publisher } else { last }
}

impl FoundServer {
    fn new((server, score): (PublishedServer, f32)) -> Self {
        let list = |name: &str| server.document()[name].as_array().cloned().unwrap_or_default();
        let packages = list("packages").into_iter();
        let mut runs: Vec<String> = packages
            .filter_map(|package| package["registryType"].as_str().map(str::to_owned))
            .chain(list("remotes").iter().map(|_: &Value| "url".to_owned()))
            .collect();
        runs.dedup();
        Self {
            name: server.name,
            title: server.title,
            version: server.version,
            runs,
            description: server.description,
            url: server.url,
            score,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testdata::{kind, published, wishes};
    use super::*;

    #[test]
    fn the_right_server_of_two_thousand_is_found() {
        let servers = published().into_iter().map(|entry| PublishedServer::new(entry).unwrap());
        let ranking = Ranking::new(servers.collect()).unwrap();
        assert!(ranking.servers.len() >= 2000);
        let mut missed = Vec::new();
        for (wish, right) in wishes() {
            let found = ranking.find(wish, 3).unwrap();
            let kinds: Vec<_> = found.iter().map(|(server, _)| kind(&server.name)).collect();
            if !kinds.iter().any(|kind| right.contains(&kind.as_str())) {
                missed.push(format!("{wish}: {kinds:?}"));
            }
        }
        assert!(missed.len() <= 10, "{} of 50 missed: {missed:#?}", missed.len());
    }
}
