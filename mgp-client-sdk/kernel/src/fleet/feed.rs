//! Brings what servers list into the index (MGP §16.4).
//!
//! The list goes through the gate of definitions: what waits for an operator is not in it.
//!
//! Applies to: outbound.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mgp_discovery::Approved;
use mgp_security::DefinitionLayer;
use mgp_toolindex::{IndexError, ServerEntry, ToolEntry, ToolIndex};
use mgp_types::RpcError;
use mgp_types::mcp::{ListParams, ListToolsResult, Tool};
use mgp_types::method::ToolsList;
use mgp_types::mgp::{ServerState, ShutdownReason, ToolSecurity};
use mgp_types::service::{Call, Principal, ServerId, Stack};
use tokio::sync::watch;
use tower_layer::Layer as _;

use super::ear::{Ear, What};
use super::instance::Own;
use super::manifest;
use super::node::Node;
use super::servers::{self, Fleet, Ground, News, is_there};
use super::shelf::Kind;
use crate::hops;
use mgp_client_sdk::{Client, Error, gateway};

/// How many pages of a list are read.
const PAGES: usize = 100;

/// How long changes of what may be seen are gathered.
const ROW: Duration = Duration::from_millis(100);

/// How long a server that is there may take to be ready.
const MOMENT: Duration = Duration::from_secs(1);

/// How long listing may take.
const LISTS: Duration = Duration::from_secs(30);

/// How long is waited until a server that is there is asked again for what it did not say; each time twice as long.
const AGAIN: Duration = Duration::from_secs(1);

/// The longest of these.
const AT_LAST: Duration = Duration::from_mins(5);

/// Asks servers again whenever they have news, until the fleet is gone.
pub(super) async fn run(fleet: servers::Weak, news: News) {
    loop {
        let stale = tokio::select! {
            stale = news.next() => stale,
            // Nobody rings any more once the fleet is gone; it is looked for now and then.
            () = tokio::time::sleep(LISTS) => BTreeSet::default(),
        };
        let Some(fleet) = fleet.upgrade() else { return };
        let all = fleet.all();
        for (id, what) in stale {
            // One that does not answer holds up nobody else.
            if let Some(node) = all.get(&id)
                && node.errands().add(what)
            {
                tokio::spawn(ask(Arc::clone(node), fleet.clone()));
            }
        }
    }
}

/// Asks one server what is to be asked of it, one thing after another.
async fn ask(node: Arc<Node>, fleet: Fleet) {
    while let Some(what) = node.errands().next() {
        let learned = tokio::time::timeout(LISTS, learn(&node, what, fleet.ground())).await;
        match learned.unwrap_or(Err(NotLearned::Silent)) {
            Ok(has_changed) => {
                node.errands().told(what);
                if has_changed {
                    fleet.tell(&node, &[what]);
                }
            }
            Err(why) => {
                tracing::warn!(server = %node.id(), %why, ?what, "what it lists is not known");
                if !matches!(why, NotLearned::Endless) {
                    tokio::spawn(once_more(
                        Arc::downgrade(&node),
                        what,
                        fleet.ground().news.clone(),
                    ));
                }
            }
        }
        // The last of what is asked at first.
        if what == What::Prompts {
            node.first().over();
        }
        // It may have gone while it answered.
        if fleet.is_present(&node) {
            let store = fleet.ground().governance.store();
            manifest::keep(store, node.id(), node.shelf()).await;
        }
    }
}

/// Has a server asked again, a while after it did not say something; one that has gone is asked when it comes back.
async fn once_more(node: Weak<Node>, what: What, news: News) {
    let Some(rest) = node.upgrade().and_then(|node| node.errands().failed(what)) else { return };
    tokio::time::sleep(rest).await;
    let Some(node) = node.upgrade() else { return };
    node.errands().rested(what);
    if is_there(&node.state()) {
        news.stale(node.id(), &[what]);
    }
}

/// What is to be asked of a server, each thing once; whoever adds the first sees to all.
#[derive(Default)]
pub(super) struct Errands(Mutex<Open>);

#[derive(Default)]
struct Open {
    asks: BTreeSet<What>,
    is_seen_to: bool,
    /// How often in a row the server did not say it.
    failures: BTreeMap<What, u32>,
    /// For which of them somebody waits to ask again: one each, however often the server has news meanwhile.
    resting: BTreeSet<What>,
}

impl Errands {
    /// `true` when nobody sees to them yet.
    fn add(&self, what: What) -> bool {
        let mut open = self.open();
        open.asks.insert(what);
        !std::mem::replace(&mut open.is_seen_to, true)
    }

    fn next(&self) -> Option<What> {
        let mut open = self.open();
        let next = open.asks.pop_first();
        open.is_seen_to = next.is_some();
        next
    }

    fn told(&self, what: What) {
        self.open().failures.remove(&what);
    }

    /// How long it is left alone then; none where somebody waits already.
    fn failed(&self, what: What) -> Option<Duration> {
        let mut open = self.open();
        if !open.resting.insert(what) {
            return None;
        }
        let failures = open.failures.entry(what).or_default();
        let rest = AGAIN.saturating_mul(1 << (*failures).min(16)).min(AT_LAST);
        *failures = failures.saturating_add(1);
        Some(rest)
    }

    fn rested(&self, what: What) {
        self.open().resting.remove(&what);
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells those above, whenever somebody may see more or less than before, until the fleet is gone.
pub(super) async fn tell(mut changes: watch::Receiver<u64>, fleet: servers::Weak) {
    while changes.changed().await.is_ok() {
        let Some(fleet) = fleet.upgrade() else { return };
        let herald = &fleet.ground().herald;
        herald.tools_changed(|_| true);
        herald.resources_changed(|_| true);
        herald.prompts_changed(|_| true);
        drop(fleet);
        // Changes come in rows.
        tokio::time::sleep(ROW).await;
    }
}

/// Keeps the state of a server in the index, and has it asked once it is there, until it is gone.
pub(super) async fn follow(node: Weak<Node>, ground: Ground) {
    let Some(mut states) = node.upgrade().map(|node| node.client().state().watch()) else { return };
    loop {
        let state = states.borrow_and_update().clone();
        let Some(id) = node.upgrade().map(|node| {
            let (latest, why) = node.client().state().latest();
            node.diary().entered(&latest, why.as_deref());
            let is_held = node.approved().is_some_and(Approved::is_held);
            if state == ServerState::Restarting && is_held {
                // It is not tried again until an operator has looked at it.
                let node = Arc::clone(&node);
                tokio::spawn(async move { node.stop(ShutdownReason::OperatorRequest).await });
            }
            if matches!(latest, ServerState::Error | ServerState::Restarting) {
                node.first().over();
            }
            node.id().clone()
        }) else {
            return;
        };
        ground.index.set_state(id.as_str(), state.clone());
        if is_there(&state) {
            ground.news.stale(&id, &What::ALL);
            let Some(node) = node.upgrade() else { return };
            tokio::spawn(resume(node, ground.clone()));
        }
        if states.changed().await.is_err() {
            return;
        }
    }
}

/// Asks a server that has come back for what those above asked of the one before.
async fn resume(node: Arc<Node>, ground: Ground) {
    let _ = tokio::time::timeout(MOMENT, node.client().ready()).await;
    node.asks_level(None);
    crate::log::ask(&node, &ground).await;
    let ear = ground.ear(node.id().clone());
    let Ok(client) = node.client().client() else { return };
    for name in ground.watching.again(node.id(), None, &client).await {
        // What happened meanwhile nobody knows.
        ear.updated(&name);
    }
}

/// Asks the instance of a principal for what this one wants, whenever it has come, until it is gone.
pub(super) async fn follow_own(own: Weak<Own>, ear: Ear, of: Principal, ground: Ground) {
    let Some(mut states) = own.upgrade().map(|own| own.client().state().watch()) else { return };
    loop {
        if is_there(&states.borrow_and_update()) {
            let Some(own) = own.upgrade() else { return };
            let ready = tokio::time::timeout(MOMENT, own.client().ready()).await;
            if let Ok(Ok(client)) = ready {
                crate::log::ask_own(&client, &ear, &of, &ground).await;
                for name in ground.watching.again(ear.id(), Some(&of), &client).await {
                    ear.updated(&name);
                }
            }
        }
        if states.changed().await.is_err() {
            return;
        }
    }
}

/// Why it is not known what a server has.
#[derive(Debug, thiserror::Error)]
enum NotLearned {
    #[error(transparent)]
    Gone(#[from] Error),
    #[error("{}", .0.message())]
    NotListed(#[from] RpcError),
    #[error("it does not answer")]
    Silent,
    #[error("it lists more than {PAGES} pages")]
    Endless,
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// Learns what is in a list; `true` when it changed.
async fn learn(node: &Arc<Node>, what: What, ground: &Ground) -> Result<bool, NotLearned> {
    // It says that it is there a moment before its client is.
    let ready = tokio::time::timeout(MOMENT, node.client().ready()).await;
    let client = ready.unwrap_or_else(|_| node.client().client())?;
    match what {
        What::Tools => {}
        What::Resources => {
            let lists = (node.reread(Kind::Resources), node.reread(Kind::Templates));
            let (resources, templates) = futures_util::future::join(lists.0, lists.1).await;
            return Ok(resources || templates);
        }
        What::Prompts => return Ok(node.reread(Kind::Prompts).await),
    }
    node.shelf().offers(client.capabilities());
    let tools = match client.capabilities().tools {
        Some(_) => list(node.id(), &client, node, ground).await?,
        None => Vec::new(),
    };
    let tools = hops::behind(tools, client.server());
    let entry = entry(node, &client, tools, ground);
    let changed = put(&ground.index, entry).await?;
    let tools = ground.index.tools_of(node.id().as_str()).len();
    ground.met.meet(&node.config(), tools);
    Ok(changed)
}

/// All pages of the list of tools.
async fn list(
    id: &ServerId,
    client: &Client,
    node: &Node,
    ground: &Ground,
) -> Result<Vec<Tool>, NotLearned> {
    let gate = DefinitionLayer::new(ground.governance.definitions().clone()).server(id.clone());
    let stack = Stack::new(gate.layer(gateway::ungated_supervised(node.client()).clone()));
    let (mut tools, mut params) = (Vec::new(), ListParams::new());
    for _ in 0..PAGES {
        let mut call = Call::ask::<ToolsList>(&params, client.context())?;
        hops::mark(&mut call, client.server());
        let reply = stack.send(call).await?;
        let page: ListToolsResult = reply.get()?;
        tools.extend(page.tools);
        match page.next_cursor {
            Some(cursor) => params.cursor = Some(cursor),
            None => return Ok(tools),
        }
    }
    Err(NotLearned::Endless)
}

fn entry(node: &Node, client: &Client, tools: Vec<Tool>, ground: &Ground) -> ServerEntry {
    let definitions = ground.governance.definitions();
    let mut entry = ServerEntry::new(node.id().as_str()).state(node.state());
    if let Some(info) = client.server_info() {
        entry = entry.name(info.title.unwrap_or(info.name));
    }
    if let Some(instructions) = client.instructions() {
        entry = entry.description(instructions);
    }
    if let Some(mgp) = &node.config().mgp {
        entry = entry.categories(mgp.tags.iter().cloned());
    }
    entry.tools(tools.into_iter().map(|tool| {
        // What the kernel worked out counts, not what the server says.
        let decided = definitions.assessment(Some(node.id()), &tool.name);
        let claimed = tool.find_security();
        let mut security = claimed
            .as_ref()
            .and_then(mgp_types::Lenient::valid)
            .cloned()
            .unwrap_or_else(|| ToolSecurity::new(decided.effective_risk.clone()));
        security.risk_level = decided.effective_risk.clone();
        security.permissions_required = decided.permissions.iter().cloned().collect();
        ToolEntry::from(tool).security(security)
    }))
}

/// The index works for some milliseconds: no runtime waits for it.
async fn put(index: &ToolIndex, entry: ServerEntry) -> Result<bool, NotLearned> {
    let index = index.clone();
    let put = tokio::task::spawn_blocking(move || index.put(entry)).await;
    let put = put.map_err(|error| RpcError::internal("the index failed").because(error))??;
    for refused in &put.refused {
        tracing::warn!(server = %refused.server, tool = %refused.name, why = %refused.reason, "not indexed");
    }
    Ok(put.added + put.changed + put.removed > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_waits_for_each_thing_that_is_not_said_and_ever_longer() {
        let errands = Errands::default();
        let mut rests = Vec::new();
        for _ in 0..12 {
            rests.extend(errands.failed(What::Tools));
            assert_eq!(errands.failed(What::Tools), None, "somebody waits");
            errands.rested(What::Tools);
        }
        assert_eq!(rests[..4], [1, 2, 4, 8].map(Duration::from_secs));
        assert_eq!(rests[11], AT_LAST);
        assert_eq!(errands.failed(What::Prompts), Some(AGAIN));
        errands.told(What::Tools);
        assert_eq!(errands.failed(What::Tools), Some(AGAIN));
    }
}
