//! `mgp keys`: the keys that agents show to reach the kernel over HTTP.
//!
//! Applies to: both.

use std::time::SystemTime;

use clap::{Args, Subcommand};
use mgp_security::auth::{ApiKeys, FileKeys, KeyGrant, KeyRecord};
use mgp_types::Timestamp;
use mgp_types::service::Principal;
use serde::Serialize;

use crate::cli::Global;
use crate::exit::{Ended, Failure};
use crate::output::{Cell, Done, Page, Shown, Tone, show};
use crate::{record, span, state};

/// `mgp keys`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Keys {
    /// Make a key; it is shown once
    #[command(after_help = "Example:\n  mgp keys add nightly-build --expires 90d")]
    Add(Add),
    /// List the keys, without their secrets
    Ls,
    /// End a key at once
    #[command(after_help = "Example:\n  mgp keys revoke 3f1c09aa52b7e4d0")]
    Revoke {
        /// Its id, as `mgp keys ls` shows it
        id: String,
    },
}

/// `mgp keys add`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Add {
    /// The agent that whoever shows the key counts as
    agent: String,
    /// Make an operator, who may change who may do what
    #[arg(long)]
    admin: bool,
    /// Narrow what the key permits: tools.call (resources and prompts with it), tools.call:NAME, tools.list, tools.read:NAME, admin.read, admin.write
    #[arg(long, value_name = "WORD")]
    permission: Vec<String>,
    /// When it ends: 30d, 12h, or a time as 2027-01-31T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = span::end)]
    expires: Option<SystemTime>,
}

/// A key that was made.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Made {
    /// Its id.
    id: String,
    /// The key itself: nobody can show it again.
    key: String,
    /// The agent.
    agent: String,
}

/// A key as it is kept.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Kept {
    /// Its id.
    id: String,
    /// The agent.
    agent: String,
    /// Whether whoever shows it is an operator.
    admin: bool,
    /// What narrows it.
    permissions: Vec<String>,
    /// `valid`, `expired` or `revoked`.
    status: &'static str,
    /// When it was made.
    #[cfg_attr(test, schemars(with = "String"))]
    created: Timestamp,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    expires: Option<Timestamp>,
}

/// All keys.
#[derive(Debug, Serialize)]
#[serde(transparent)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct All(Vec<Kept>);

impl Shown for Made {
    fn show(&self, page: &mut Page) {
        page.line(&self.key);
    }
}

impl From<&KeyRecord> for Kept {
    fn from(record: &KeyRecord) -> Self {
        let grant = record.grant();
        let ended =
            |end: &Timestamp| end.to_system_time().is_none_or(|end| end <= SystemTime::now());
        let status = match (record.revoked(), grant.as_expires()) {
            (Some(_), _) => "revoked",
            (None, Some(end)) if ended(end) => "expired",
            _ => "valid",
        };
        let principal = grant.principal();
        Self {
            id: record.id().to_owned(),
            agent: principal
                .as_agent()
                .map_or_else(|| principal.subject().to_string(), ToString::to_string),
            admin: principal.authority() == mgp_types::service::Authority::Operator,
            permissions: grant.permissions().to_vec(),
            status,
            created: record.created().clone(),
            expires: grant.as_expires().cloned(),
        }
    }
}

impl Shown for All {
    fn show(&self, page: &mut Page) {
        if self.0.is_empty() {
            return page.line("no keys; make one with `mgp keys add AGENT`");
        }
        let rows = self.0.iter().map(|key| {
            let tone = if key.status == "valid" { Tone::Good } else { Tone::Quiet };
            let role = if key.admin { "admin" } else { "agent" };
            let permits =
                if key.permissions.is_empty() { "all".into() } else { key.permissions.join(" ") };
            [
                key.id.as_str().into(),
                key.agent.as_str().into(),
                role.into(),
                Cell::from(key.status).tone(tone),
                key.expires.as_ref().map(ToString::to_string).into(),
                permits.into(),
            ]
        });
        page.table(["ID", "AGENT", "ROLE", "STATUS", "EXPIRES", "PERMITS"], rows);
    }
}

pub(crate) async fn run(global: &Global, keys: &Keys) -> Ended {
    let file = state::made(global)?.join("keys.json");
    let open = ApiKeys::open(FileKeys::new(file)).await?;
    match keys {
        Keys::Ls => {
            let mut all: Vec<Kept> = open.records().await?.iter().map(Kept::from).collect();
            all.sort_by_key(|key| key.created.to_string());
            show(global, &All(all))
        }
        Keys::Add(add) => {
            let mut grant = KeyGrant::new("local", "local").agent(&*add.agent);
            if add.admin {
                grant = grant.operator();
            }
            for permission in &add.permission {
                check(permission)?;
                grant = grant.permission(permission);
            }
            if let Some(end) = add.expires {
                grant = grant.expires(end);
            }
            let record = record::open(global).await?;
            let new =
                open.recorded(Principal::local().operator(), record.sink()).issue(grant).await?;
            record.close().await?;
            let made = Made {
                id: new.id().to_owned(),
                key: new.reveal().to_owned(),
                agent: add.agent.clone(),
            };
            show(global, &made)
        }
        Keys::Revoke { id } => {
            let record = record::open(global).await?;
            let revoked =
                open.recorded(Principal::local().operator(), record.sink()).revoke(id).await;
            record.close().await?;
            revoked.map_err(|error| Failure::failed(format!("{error}; see `mgp keys ls`")))?;
            Done::new(&**id, "revoked").tell(global)
        }
    }
}

/// A word that narrows nothing would be taken for one that does.
fn check(permission: &str) -> Ended {
    let known = matches!(permission, "tools.call" | "tools.list" | "admin.read" | "admin.write")
        || ["tools.call:", "tools.read:"]
            .iter()
            .any(|begin| permission.strip_prefix(begin).is_some_and(|name| !name.is_empty()));
    if known {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "`{permission}` permits nothing; known: tools.call, tools.call:NAME, tools.list, tools.read:NAME, admin.read, admin.write"
    )))
}
