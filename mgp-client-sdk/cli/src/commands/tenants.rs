//! The command `mgp tenants`: lists the tenants for which something is stored, and removes a tenant that has left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clap::{Args, Subcommand};
use mgp_client_sdk::Client;
use mgp_discovery::{Config, TokenTenant};
use mgp_lifecycle::{Idempotency, Transactions};
use mgp_security::{Governance, InboxConfig, TenantHoldings};
use mgp_server_sdk::EventHub;
use mgp_toolindex::{Erase, History, HistoryConfig};
use mgp_types::method::KernelReload;
use mgp_types::mgp::KernelReloadParams;
use mgp_types::service::{Principal, TenantId};
use mgp_types::store::{Db, Store, StoreError};
use serde::Serialize;
use tokio::time::sleep;

use super::known_names::did_you_mean;
use super::{keys, login};
use crate::args::{ConfigArg, Global};
use crate::backend::operator;
use crate::exit::{CliResult, Failure};
use crate::offline_audit::OfflineAudit;
use crate::output::{ActionReport, Cell, Output, Render, plural, print};
use crate::{control, prompt, state};

/// `mgp tenants`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Tenants {
    /// List the tenants for which something is stored, e.g. keys, access entries or searches
    Ls,
    /// Revoke all keys of a tenant, and delete its decisions, logins, searches, transactions, subscriptions and tasks
    #[command(after_help = "Example:\n  mgp tenants rm acme")]
    Rm(Remove),
}

/// `mgp tenants rm`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Remove {
    /// Tenant
    tenant: String,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    config: ConfigArg,
}

/// A tenant, and the number of things stored for it.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TenantInfo {
    /// The name of the tenant.
    tenant: String,
    /// The number of keys that are not revoked.
    keys: usize,
    /// The number of access entries.
    access: usize,
    /// The number of decisions about permissions.
    permissions: usize,
    /// The number of approvals, and of requests for them.
    approvals: usize,
    /// The number of stored logins of the tenant's `agents`.
    logins: usize,
    /// The number of stored searches.
    searches: usize,
    /// The number of stored results of calls with idempotency keys.
    results: usize,
    /// The number of transactions, including those that have ended.
    transactions: usize,
    /// The number of durable subscriptions to events.
    subscriptions: usize,
    /// The agents that the tenant's keys, decisions and other stored data name.
    #[serde(skip)]
    agents: BTreeSet<String>,
}

/// All tenants.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TenantList(Vec<TenantInfo>);

impl TenantInfo {
    fn parts(&self) -> [(usize, &'static str); 9] {
        let Self { keys, access, permissions, approvals, logins, .. } = *self;
        let Self { searches, results, transactions, subscriptions, .. } = *self;
        [
            (keys, "key"),
            (access, "access entry"),
            (permissions, "permission decision"),
            (approvals, "approval"),
            (logins, "login"),
            (searches, "stored query"),
            (results, "stored result"),
            (transactions, "transaction"),
            (subscriptions, "subscription"),
        ]
    }

    fn is_empty(&self) -> bool {
        self.parts().iter().all(|(count, _)| *count == 0)
    }

    /// Returns the things stored for the tenant, as a list in words.
    fn words(&self) -> String {
        let parts = self.parts().into_iter().filter(|(count, _)| *count > 0);
        let words = parts.map(|(count, thing)| match thing.strip_suffix("ry") {
            Some(stem) if count > 1 => format!("{count} {stem}ries"),
            _ => plural(count, thing),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

impl Render for TenantList {
    fn render(&self, out: &mut Output) {
        if self.0.is_empty() {
            return out.hint("no tenants; `mgp keys add AGENT --tenant NAME` makes one");
        }
        let rows = self.0.iter().map(|one| {
            let counts = one.parts().map(|(count, _)| Cell::from(count.to_string()));
            [Cell::from(one.tenant.as_str())].into_iter().chain(counts).collect::<Vec<_>>()
        });
        let heads = [
            "TENANT",
            "KEYS",
            "ACCESS",
            "PERMISSIONS",
            "APPROVALS",
            "LOGINS",
            "SEARCHES",
            "RESULTS",
            "TRANSACTIONS",
            "SUBSCRIPTIONS",
        ];
        out.grid(&heads, rows);
    }
}

pub(crate) async fn run(global: &Global, tenants: &Tenants) -> CliResult {
    match tenants {
        Tenants::Ls => print(global, &TenantList(list(global).await?)),
        Tenants::Rm(args) => remove(global, args).await,
    }
}

/// Returns the names of the tenants for which something is stored.
pub(super) async fn names(global: &Global) -> CliResult<Vec<String>> {
    Ok(list(global).await?.into_iter().map(|one| one.tenant).collect())
}

/// Returns the tenants for which something is stored.
async fn list(global: &Global) -> CliResult<Vec<TenantInfo>> {
    let mut all = known(global).await?;
    all.retain(|one| !one.is_empty());
    Ok(all)
}

/// Returns the same tenants as [`list`], and the tenants whose keys are all revoked: a running kernel may still have
/// unstored searches of such a tenant in memory.
async fn known(global: &Global) -> CliResult<Vec<TenantInfo>> {
    control::admit_reader(global).await?;
    let mut all = BTreeMap::<String, TenantInfo>::new();
    let db = state::db(global).await?;
    for (tenant, held) in TenantHoldings::read(&db).await? {
        let one = all.entry(tenant).or_default();
        (one.access, one.permissions) = (held.entries, held.permissions);
        (one.approvals, one.agents) = (held.approvals, held.agents);
    }
    for key in keys::list(global).await? {
        let one = all.entry(key.tenant).or_default();
        one.keys += usize::from(!key.is_ended);
        one.agents.insert(key.agent);
    }
    // Only log the failure, because the command must still be able to revoke the tenant's keys.
    if let Err(error) = count_calls(&db, &mut all).await {
        tracing::warn!(%error, "not all searches, results, transactions and subscriptions were counted");
    }
    for (tenant, one) in &mut all {
        let files = login::files_of_agents(global, tenant, &one.agents).unwrap_or_default();
        one.logins = files.iter().map(|(_, files)| files.len()).sum();
    }
    Ok(all.into_iter().map(|(tenant, one)| TenantInfo { tenant, ..one }).collect())
}

/// Counts the searches, the results of calls, the transactions and the subscriptions. If the callers of a tenant have
/// access tokens and no keys, these may be the only data that name the tenant.
async fn count_calls(db: &Db, all: &mut BTreeMap<String, TenantInfo>) -> Result<(), StoreError> {
    let mut of = |caller: &Principal, count: fn(&mut TenantInfo)| {
        let one = all.entry(caller.tenant().to_string()).or_default();
        one.agents.insert(caller.name().to_owned());
        count(one);
    };
    let store: Arc<dyn Store> = Arc::new(db.clone());
    for caller in History::callers(db).await? {
        of(&caller, |one| one.searches += 1);
    }
    for caller in Idempotency::open(Arc::clone(&store)).await?.callers() {
        of(&caller, |one| one.results += 1);
    }
    for caller in Transactions::open(store).await?.callers() {
        of(&caller, |one| one.transactions += 1);
    }
    for caller in EventHub::subscribers(db).await? {
        of(&caller, |one| one.subscriptions += 1);
    }
    Ok(())
}

async fn remove(global: &Global, args: &Remove) -> CliResult {
    let tenant = &args.tenant;
    if tenant == operator().tenant().as_str() {
        return Err(Failure::usage(format!(
            "`{tenant}` is the tenant of this machine's user and cannot be removed"
        )));
    }
    let mut all = known(global).await?;
    let Some(at) = all.iter().position(|one| one.tenant == *tenant) else {
        let near = did_you_mean(tenant, all.iter().map(|one| one.tenant.as_str()));
        let near = near.unwrap_or_else(|| "; see `mgp tenants ls`".to_owned());
        return Err(Failure::failed(format!("nothing is stored for a tenant `{tenant}`{near}")));
    };
    let mut found = all.swap_remove(at);
    if !args.yes {
        let with =
            if found.is_empty() { String::new() } else { format!(" with {}", found.words()) };
        let question = format!("Remove the tenant `{tenant}`{with}?");
        prompt::require(global, &question, "nothing was changed", keys::NO_TERMINAL)?;
    }
    let running = control::admit_and_connect(global).await?;
    // Revoke the keys first, and wait until a running kernel refuses them. Otherwise a caller with a key could use a
    // tool whose denial was just deleted, or make a decision after the deletion.
    keys::revoke_tenant(global, tenant).await?;
    if running.is_some() {
        sleep(keys::NOTICE_DELAY).await;
    }
    let more = delete_rest(global, args, &found.agents, running).await.map_err(|error| {
        Failure::failed(format!(
            "the keys of `{tenant}` are revoked, but not all of its logins, searches, results and decisions are deleted; run the command again: {error}"
        ))
    })?;
    // Do not count the logins, because the notes in `more` report them.
    found.logins = 0;
    let words = (!found.is_empty()).then(|| format!("removed with it: {}", found.words()));
    let notes: Vec<String> = words.into_iter().chain(more).collect();
    ActionReport::new(&**tenant, "removed").with_notes(notes).print(global)
}

/// Deletes the logins, the data of calls and the decisions of a tenant; returns notes about its logins and its access
/// tokens.
async fn delete_rest(
    global: &Global,
    args: &Remove,
    agents: &BTreeSet<String>,
    running: Option<Client>,
) -> CliResult<Vec<String>> {
    let loaded = args.config.load(global).await;
    let config = loaded.as_ref().map(|loaded| &loaded.config);
    let file = args.config.file_to_edit().ok();
    let (file, tenant) = (file.as_deref(), &args.tenant);
    let mut notes = login::delete_of_agents(global, config.ok(), file, tenant, agents).await?;
    notes.extend(config.ok().and_then(|config| servers_note(config, tenant)));
    notes.extend(match config {
        Ok(config) => token_note(config, tenant),
        Err(error) => Some(format!(
            "whether access tokens admit callers of this tenant is not known: {error}"
        )),
    });
    erase_calls(global, tenant, running).await?;
    // Delete the decisions last: while some are left, the tenant is listed, so the command can be run again.
    delete_decisions(global, tenant).await?;
    Ok(notes)
}

/// Erases the searches, the idempotency keys, the transactions and the subscriptions of a tenant from the memory of the
/// running kernel, if any, and from the state folder.
async fn erase_calls(global: &Global, tenant: &str, running: Option<Client>) -> CliResult {
    if let Some(client) = running {
        let mut params = KernelReloadParams::new();
        params.forget_tenants.push(tenant.to_owned());
        client.request::<KernelReload>(&params).await?;
        client.close().await;
    }
    // Also erase them from the state folder: they can be stored there even if the running kernel does not use them,
    // e.g. because learning is off.
    let (db, tenant) = (state::db(global).await?, TenantId::from(tenant));
    let store: Arc<dyn Store> = Arc::new(db.clone());
    Transactions::open(Arc::clone(&store)).await?.remove_tenant(&tenant).await?;
    Idempotency::open(store).await?.remove_tenant(&tenant).await?;
    let events = EventHub::new();
    events.keep_in_db(db.clone()).await?;
    events.end_subscriptions(&tenant, None).await?;
    History::open(db, HistoryConfig::new()).await?.erase(Erase::Tenant(&tenant)).await?;
    Ok(())
}

/// Deletes the decisions of a tenant from the store, and records the deletion. A running kernel notices the changed
/// store.
async fn delete_decisions(global: &Global, tenant: &str) -> CliResult {
    let audit = OfflineAudit::open(global).await?;
    let deleted = delete_from(&audit, tenant).await;
    audit.close().await?;
    deleted
}

async fn delete_from(audit: &OfflineAudit, tenant: &str) -> CliResult {
    let governance = Governance::builder().store(Arc::clone(audit.store())).audit(audit.sink());
    let governance = governance.inbox(InboxConfig::default()).build();
    governance.open().await?;
    Ok(governance.remove_tenant(&operator(), &tenant.into()).await?)
}

/// Returns a note if the configuration names the tenant in `tenants` of servers.
fn servers_note(config: &Config, tenant: &str) -> Option<String> {
    let of_tenant = config.servers.iter().filter(|server| {
        let mut tenants = server.tenants.iter().flatten();
        tenants.any(|one| one == tenant)
    });
    let ids: Vec<_> = of_tenant.map(|server| format!("`{}`", server.id)).collect();
    (!ids.is_empty()).then(|| {
        let ids = ids.join(", ");
        format!("a later tenant `{tenant}` may use {ids}: remove the name from their `tenants`")
    })
}

/// Returns a note if callers of the tenant may still call with access tokens, which only the issuer of the tokens can
/// end.
fn token_note(config: &Config, tenant: &str) -> Option<String> {
    let tokens = config.kernel.http.tokens.as_ref()?;
    let is_named = matches!(&tokens.tenant, TokenTenant::Named(named) if named == tenant);
    (is_named || matches!(tokens.tenant, TokenTenant::Claim(_))).then(|| {
        format!(
            "access tokens of `{}` with this tenant still admit callers until they expire or the issuer ends them: to servers with the default_policy `opt-out`, and to whatever an operator among them grants",
            tokens.issuer
        )
    })
}
