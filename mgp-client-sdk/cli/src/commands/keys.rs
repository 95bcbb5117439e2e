//! The command `mgp keys`: manages the API keys of agents that connect over HTTP.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use mgp_client_sdk::Client;
use mgp_discovery::{Sources, Trust};
use mgp_security::Access;
use mgp_security::auth::{ApiKeys, FileKeys, KeyGrant, KeyRecord};
use mgp_types::Timestamp;
use mgp_types::service::Principal;
use serde::Serialize;
use tokio::time::sleep;

use super::default_policy::of_config;
use super::known_names::{KnownNames, elsewhere_remedy};
use crate::args::Global;
use crate::backend::operator;
use crate::control;
use crate::exit::{CliResult, Failure};
use crate::offline_audit::OfflineAudit;
use crate::output::{ActionReport, Cell, Color, Output, Render, plural, print, print_note};
use crate::socket_hello::check_agent_name;
use crate::state_option::shell_word_or;
use crate::{prompt, state, time_args};

/// The time after which a running kernel has noticed a change of the file with the keys: it notices each change within
/// 250 ms.
pub(super) const NOTICE_DELAY: Duration = Duration::from_millis(300);

/// The status of a revoked key.
const REVOKED: &str = "revoked";

/// The error of a command that would have to ask for confirmation.
pub(super) const NO_TERMINAL: &str =
    "nothing was changed: the question needs a terminal; add --yes";

/// `mgp keys`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Keys {
    /// Create a key, which is shown once
    #[command(after_help = "Example:\n  mgp keys add nightly-build --expires 90d")]
    Add(Add),
    /// List the keys, without their secrets
    Ls,
    /// Revoke a key, or all keys of a tenant
    #[command(
        after_help = "Example:\n  mgp keys revoke 3f1c09aa52b7e4d0\n  mgp keys revoke --tenant acme"
    )]
    Revoke(Revoke),
}

/// `mgp keys revoke`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Revoke {
    /// Id of the key, as `mgp keys ls` shows it
    #[arg(required_unless_present = "tenant", conflicts_with = "tenant")]
    id: Option<String>,
    /// Revoke all keys of this tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Do not ask for confirmation
    #[arg(long, short, requires = "tenant")]
    yes: bool,
}

/// `mgp keys add`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Add {
    /// Agent name of callers with the key
    agent: String,
    /// Create a key for an operator: operators of the tenant `local` may change everything, operators of another tenant
    /// only the access, permissions, approvals, questions, transactions and subscriptions of its agents
    #[arg(long)]
    admin: bool,
    /// Tenant of callers with the key: they see nothing of other tenants, and operators change only rules of their own
    /// tenant
    #[arg(long, value_name = "NAME", default_value = "local", value_parser = tenant_name)]
    tenant: String,
    /// Limit the key to this permission; may be given several times: tools.call (and resources and prompts),
    /// tools.call:TOOL, tools.list, tools.read:TOOL, admin.read, admin.write; TOOL is a name, or SERVER.TOOL; without
    /// one that begins with `tools.`, the key may call all tools of its agent
    #[arg(long, value_name = "WORD")]
    permission: Vec<String>,
    /// Expiry: 30d, 12h, or a timestamp, e.g. 2027-01-31T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time_args::future)]
    expires: Option<SystemTime>,
    /// Accept a permission for a tool that does not exist yet
    #[arg(long)]
    force: bool,
}

/// A new key.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct NewKey {
    /// The id of the key, which commands and the audit log show.
    id: String,
    /// The key itself, which cannot be shown again.
    key: String,
    /// The agent that calls with the key.
    agent: String,
}

/// A stored key.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct KeyInfo {
    /// The id of the key, which commands and the audit log show.
    pub(crate) id: String,
    /// The agent that calls with the key.
    pub(crate) agent: String,
    /// The tenant of the key's holder.
    pub(crate) tenant: String,
    /// `true` if callers with the key are operators.
    pub(crate) admin: bool,
    /// The permissions that the key is limited to; empty if it is not limited.
    pub(crate) permissions: Vec<String>,
    /// `valid`, `expired` or `revoked`.
    pub(crate) status: &'static str,
    /// `true` if the key is revoked, or expired and ended by a kernel, so that it cannot be valid again.
    #[serde(skip)]
    pub(crate) is_ended: bool,
    /// The time of its creation.
    #[cfg_attr(test, schemars(with = "String"))]
    created: Timestamp,
    /// The time it expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) expires: Option<Timestamp>,
    /// The time of the key's last use, which can be about a minute too early, because not every use is recorded. Absent
    /// if the key was not used or is revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    used: Option<Timestamp>,
}

/// All keys.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct KeyList(Vec<KeyInfo>);

impl Render for NewKey {
    fn render(&self, out: &mut Output) {
        out.line(&self.key);
    }
}

impl From<&KeyRecord> for KeyInfo {
    fn from(record: &KeyRecord) -> Self {
        let grant = record.grant();
        let ended =
            |end: &Timestamp| end.to_system_time().is_none_or(|end| end <= SystemTime::now());
        let status = match (record.revoked(), grant.expiry()) {
            (Some(_), _) if record.is_expired() => "expired",
            (Some(_), _) => REVOKED,
            (None, Some(end)) if ended(end) => "expired",
            _ => "valid",
        };
        let principal = grant.principal();
        Self {
            id: record.id().to_owned(),
            agent: principal
                .as_agent()
                .map_or_else(|| principal.subject().to_string(), ToString::to_string),
            tenant: principal.tenant().to_string(),
            admin: principal.authority() > mgp_types::service::Authority::User,
            permissions: grant.permissions().to_vec(),
            status,
            is_ended: record.revoked().is_some(),
            created: record.created().clone(),
            expires: grant.expiry().cloned(),
            used: None,
        }
    }
}

impl Render for KeyList {
    fn render(&self, out: &mut Output) {
        if self.0.is_empty() {
            return out.hint("no keys; create one with `mgp keys add AGENT`");
        }
        let rows = self.0.iter().map(|key| {
            let color = if key.status == "valid" { Color::Green } else { Color::Dim };
            let role = if key.admin { "admin" } else { "agent" };
            let permits =
                if key.permissions.is_empty() { "all".into() } else { key.permissions.join(" ") };
            [
                key.id.as_str().into(),
                key.agent.as_str().into(),
                key.tenant.as_str().into(),
                role.into(),
                Cell::from(key.status).color(color),
                key.expires.as_ref().into(),
                key.used.as_ref().into(),
                permits.into(),
            ]
        });
        out.table(["ID", "AGENT", "TENANT", "ROLE", "STATUS", "EXPIRES", "USED", "PERMITS"], rows);
    }
}

fn tenant_name(name: &str) -> Result<String, String> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=128).contains(&name.len()) && name.chars().all(is_valid) {
        return Ok(name.to_owned());
    }
    Err("use 1 to 128 letters, digits, `.`, `_` and `-`".to_owned())
}

pub(crate) async fn run(global: &Global, keys: &Keys) -> CliResult {
    match keys {
        Keys::Ls => print(global, &KeyList(list(global).await?)),
        Keys::Add(add) => {
            let agent = check_agent_name(&add.agent).map_err(Failure::usage)?;
            let mut grant = KeyGrant::new(&*add.tenant, "local").agent(agent);
            if add.admin {
                grant = grant.operator();
            }
            if !add.force {
                check_tools(global, &add.permission).await?;
            }
            for permission in &add.permission {
                check(permission)?;
                grant = grant.permission(permission);
            }
            if let Some(end) = add.expires {
                grant = grant.expires(end);
            }
            let running = control::admit_and_connect(global).await?;
            let audit = OfflineAudit::open(global).await?;
            let new = open(global).await?.with_audit(operator(), audit.sink()).issue(grant).await?;
            audit.close().await?;
            noticed(running).await;
            let key = NewKey {
                id: new.id().to_owned(),
                key: new.reveal().to_owned(),
                agent: add.agent.clone(),
            };
            print(global, &key)?;
            print_note(global, "mgp: store the key now, because it is not shown again");
            if !add.admin
                && let Some(remedy) = access_remedy(global, add).await.unwrap_or_default()
            {
                print_note(global, &format!("mgp: {} has no access yet; {remedy}", add.agent));
            }
            Ok(())
        }
        Keys::Revoke(Revoke { tenant: Some(tenant), yes, .. }) => {
            revoke_all(global, tenant, *yes).await
        }
        Keys::Revoke(Revoke { id, .. }) => {
            let id = id.as_deref().unwrap_or_default();
            let running = control::admit_and_connect(global).await?;
            let was_revoked = revoke(global, id, operator()).await?;
            noticed(running).await;
            let note = was_revoked.then(|| format!("the key `{id}` was already revoked"));
            ActionReport::new(id, REVOKED).with_notes(note.into_iter().collect()).print(global)
        }
    }
}

/// Revokes all keys of a tenant, after a question unless `yes` is set.
async fn revoke_all(global: &Global, tenant: &str, yes: bool) -> CliResult {
    let count = unrevoked(&open(global).await?, tenant).await?.len();
    if count == 0 {
        return Err(Failure::failed(format!(
            "the tenant `{tenant}` has no key to revoke; see `mgp keys ls`"
        )));
    }
    if !yes {
        let question = format!("Revoke {} of the tenant `{tenant}`?", plural(count, "key"));
        prompt::require(global, &question, "nothing was revoked", NO_TERMINAL)?;
    }
    let running = control::admit_and_connect(global).await?;
    let revoked = revoke_tenant(global, tenant).await?;
    noticed(running).await;
    let note = format!("revoked {}", revoked.join(", "));
    ActionReport::new(tenant, "revoked").with_notes(vec![note]).print(global)
}

/// Waits for [`NOTICE_DELAY`] if a kernel runs, so that it then admits a new key and refuses a revoked key.
async fn noticed(running: Option<Client>) {
    if let Some(client) = running {
        client.close().await;
        sleep(NOTICE_DELAY).await;
    }
}

/// Returns the remedy if neither an access entry nor the `default_policy` of a server can apply to the agent of a new
/// key. For another tenant, always returns one.
async fn access_remedy(global: &Global, add: &Add) -> CliResult<Option<String>> {
    if add.tenant != operator().tenant().as_str() {
        return Ok(Some(elsewhere_remedy(&add.tenant)));
    }
    let db = state::db(global).await?;
    let named = Access::named_in(&db, operator().tenant()).await?;
    let applies = |name: &String| *name == add.agent || name == "*" || name.starts_with("group:");
    if named.iter().any(applies) {
        return Ok(None);
    }
    let config = Sources::from_env().load(&Trust::new(Arc::new(db))).await?.config;
    let is_open =
        config.servers.iter().any(|server| of_config(&config, server.id.as_str(), None) == "allow");
    let agent = shell_word_or("AGENT", &add.agent);
    Ok((!is_open).then(|| format!("run `mgp access grant {agent} SERVER`")))
}

async fn open(global: &Global) -> CliResult<ApiKeys> {
    Ok(ApiKeys::open(file(global)?).await?)
}

/// Opens the keys for a revocation, which the state also keeps, in case an older copy replaces the file of keys.
async fn open_remembered(global: &Global, audit: &OfflineAudit) -> CliResult<ApiKeys> {
    let file = file(global)?.remember_revoked(Arc::clone(audit.store()));
    Ok(ApiKeys::open(file).await?)
}

fn file(global: &Global) -> CliResult<FileKeys> {
    Ok(FileKeys::new(state::create_folder(global)?.join("keys.json")))
}

/// Returns all keys, the oldest first.
pub(crate) async fn list(global: &Global) -> CliResult<Vec<KeyInfo>> {
    let keys = open(global).await?;
    let mut all: Vec<KeyInfo> = keys.records().await?.iter().map(KeyInfo::from).collect();
    for key in &mut all {
        key.used = keys.last_use(&key.id).map(Timestamp::from);
    }
    all.sort_by_key(|key| key.created.to_string());
    Ok(all)
}

/// Revokes a key, and records who did it. Returns whether the key was revoked before.
pub(crate) async fn revoke(global: &Global, id: &str, by: Principal) -> CliResult<bool> {
    let audit = OfflineAudit::open(global).await?;
    let keys = open_remembered(global, &audit).await?;
    let records = keys.records().await?;
    let was_revoked =
        records.iter().any(|key| key.id() == id && key.revoked().is_some() && !key.is_expired());
    // Also revoke a revoked key again: recording its first revocation may have failed.
    let revoked = keys.with_audit(by, audit.sink()).revoke(id).await;
    audit.close().await?;
    revoked.map_err(|error| Failure::failed(format!("{error}; see `mgp keys ls`")))?;
    Ok(was_revoked)
}

/// Revokes all keys of a tenant, and records who did it. Returns each of them with its agent. If this fails, some keys
/// may have been revoked.
pub(super) async fn revoke_tenant(global: &Global, tenant: &str) -> CliResult<Vec<String>> {
    let audit = OfflineAudit::open(global).await?;
    let keys = open_remembered(global, &audit).await?;
    let revoked = revoke_each(&keys.with_audit(operator(), audit.sink()), tenant).await;
    audit.close().await?;
    revoked
}

async fn revoke_each(keys: &ApiKeys, tenant: &str) -> CliResult<Vec<String>> {
    let mut revoked = Vec::new();
    for key in unrevoked(keys, tenant).await? {
        keys.revoke(&key.id).await?;
        revoked.push(format!("{} ({})", key.id, key.agent));
    }
    Ok(revoked)
}

/// Returns the keys of a tenant that are not revoked. Includes expired keys that no kernel has ended yet, because these
/// would be valid again if the clock were set back.
async fn unrevoked(keys: &ApiKeys, tenant: &str) -> CliResult<Vec<KeyInfo>> {
    let records = keys.records().await?;
    let mut all: Vec<KeyInfo> = records.iter().map(KeyInfo::from).collect();
    all.retain(|key| key.tenant == tenant && !key.is_ended);
    Ok(all)
}

/// Refuses permissions for tools that do not exist, because such a permission would have no effect.
async fn check_tools(global: &Global, permissions: &[String]) -> CliResult {
    let tools = permissions.iter().filter_map(|permission| Some(permission.split_once(':')?.1));
    let mut tools = tools.filter(|tool| !tool.is_empty()).peekable();
    if tools.peek().is_none() {
        return Ok(());
    }
    let known = KnownNames::read_alone(global).await?;
    for tool in tools {
        if let Some(note) = known.check_any_tool(tool)? {
            print_note(global, &format!("mgp: {note}"));
        }
    }
    Ok(())
}

/// Refuses an unknown permission, because a key that is limited to it could do nothing.
fn check(permission: &str) -> CliResult {
    let known = matches!(permission, "tools.call" | "tools.list" | "admin.read" | "admin.write")
        || ["tools.call:", "tools.read:"]
            .iter()
            .any(|begin| permission.strip_prefix(begin).is_some_and(|name| !name.is_empty()));
    if known {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "`{permission}` is not a permission of keys; known: tools.call, tools.call:TOOL, tools.list, tools.read:TOOL, admin.read, admin.write"
    )))
}
