//! What a newcomer needs to see something: access for the agent, and what the tools need that is not dangerous (DESIGN §5).
//!
//! Every grant is an ordinary one: it is recorded, shown by `mgp access` and `mgp permissions`, and taken back there.
//!
//! Applies to: both.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mgp_discovery::Server;
use mgp_security::{Governance, ServerPolicy};
use mgp_types::mgp::{AccessGrantParams, AccessQueryParams, Permission, RiskLevel};
use mgp_types::service::ServerId;
use serde::Serialize;

use super::probe::{Broken, Probed, Prober};
use crate::books::{Books, Word};
use crate::cli::Global;
use crate::exit::Ended;
use crate::output::{Page, Progress, many};

/// How long a server may take to say what it has; package runners download first.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was granted about a server.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Granted {
    /// The server.
    server: String,
    /// The agent that has access now.
    agent: String,
    /// The permissions that were approved.
    permissions: Vec<String>,
    /// The permissions its tools need that are still asked for.
    asked: Vec<String>,
    /// How many tools it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<usize>,
    /// Why its tools are not known, or nothing was approved; their permissions are asked for then.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Granted {
    /// Writes it down for people.
    pub(super) fn show(&self, page: &mut Page) {
        let Self { server, agent, permissions, asked, tools, error } = self;
        let mut said = vec![format!("access for {agent}")];
        if let Some(tools) = tools {
            said.push(format!("{} pinned", many(*tools, "tool")));
        }
        if !permissions.is_empty() {
            said.push(format!("granted {}", permissions.join(" ")));
        }
        if !asked.is_empty() {
            said.push(format!("still asks for {}", asked.join(" ")));
        }
        if let Some(error) = error {
            said.push(error.clone());
        }
        page.line(format!("{server}: {}", said.join("; ")));
    }
}

/// Grants an agent access to servers, and the servers what their tools need.
///
/// What somebody said before stands: an agent with an entry for a server gets no other.
pub(super) async fn visible(
    global: &Global,
    agent: &str,
    servers: &[&Server],
    because: &str,
) -> Ended<Vec<Granted>> {
    let books = Books::open(global).await?;
    let mut unsaid = Vec::new();
    for server in servers.iter().copied() {
        let said = books.query(AccessQueryParams::new(agent, server.id.as_str())).await?;
        if said.entries.into_iter().all(|entry| entry.agent_id != agent) {
            unsaid.push(server);
        }
    }
    // Servers take their time, and a kernel may want to begin meanwhile.
    books.close().await?;
    let looking = Governance::builder().build();
    for server in &unsaid {
        looking.policies().set(server.id.clone(), policy(server));
    }
    let prober = Prober::new(PATIENCE);
    let mut probes: FuturesUnordered<_> = unsaid
        .iter()
        .map(|server| async { (*server, prober.probe(server, looking.definitions()).await) })
        .collect();
    let mut progress = Progress::new(global, "looking at servers", unsaid.len());
    let mut probed = Vec::new();
    while let Some(one) = probes.next().await {
        progress.step();
        probed.push(one);
    }
    drop(progress);
    probed.sort_by(|(one, _), (other, _)| one.id.cmp(&other.id));
    let books = Books::open(global).await?;
    // What was written a moment ago is known to a kernel that runs before anything is said about it.
    books.reload().await;
    let mut all = Vec::new();
    for (server, probed) in probed {
        all.push(one(&books, &looking, agent, server, probed, because).await?);
    }
    books.close().await?;
    Ok(all)
}

async fn one(
    books: &Books,
    looking: &Governance,
    agent: &str,
    server: &Server,
    probed: Result<Probed, Broken>,
    because: &str,
) -> Ended<Granted> {
    let id = server.id.as_str();
    books.grant(AccessGrantParams::allow(agent, id).because(because)).await?;
    let (needed, tools, mut error) = match probed {
        Ok(probed) => {
            // A kernel that runs pins what it sees itself.
            if let Books::Folder(governance, _) = books {
                governance.definitions().observe(&server.id, &probed.raw).await?;
            }
            (needed(looking, &server.id, &probed), Some(probed.tools.len()), None)
        }
        Err(why) => (Vec::new(), None, Some(format!("not started: {why}"))),
    };
    let (asked, mut granted): (Vec<_>, Vec<_>) =
        needed.into_iter().partition(|permission| permission.risk() == RiskLevel::Dangerous);
    // What somebody decided stands.
    let decided = decided(books, &server.id).await?;
    granted.retain(|permission| !decided.contains(permission));
    if !granted.is_empty() {
        let change = books.decide(Word::Approve, id, granted.clone(), &[], None, Some(because));
        // A kernel that runs with another configuration does not know the server.
        if let Err(failure) = change.await {
            error = Some(format!("its permissions are asked for, {failure}"));
            granted.clear();
        }
    }
    let names = |permissions: &[Permission]| permissions.iter().map(ToString::to_string).collect();
    Ok(Granted {
        server: id.to_owned(),
        agent: agent.to_owned(),
        permissions: names(&granted),
        asked: names(&asked),
        tools,
        error,
    })
}

/// What its tools need, as the kernel will judge them.
fn needed(looking: &Governance, server: &ServerId, probed: &Probed) -> Vec<Permission> {
    let tools = probed.tools.iter();
    let each = tools.map(|tool| looking.definitions().assessment(Some(server), &tool.name));
    let mut needed: Vec<Permission> =
        each.flat_map(|assessment| assessment.permissions.clone()).collect();
    needed.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    needed.dedup();
    needed
}

async fn decided(books: &Books, server: &ServerId) -> Ended<Vec<Permission>> {
    Ok(books
        .permissions(Some(server.as_str()))
        .await?
        .into_iter()
        .map(|one| one.permission)
        .collect())
}

fn policy(server: &Server) -> ServerPolicy {
    let Some(mgp) = &server.mgp else { return ServerPolicy::default() };
    let policy = ServerPolicy::default().trust(mgp.trust_level.clone());
    mgp.risk.iter().fold(policy, |policy, (tool, risk)| policy.risk(tool.as_str(), risk.clone()))
}
