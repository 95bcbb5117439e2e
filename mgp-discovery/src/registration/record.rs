//! A registration as the store keeps it (MGP §15.4).
//!
//! Applies to: inbound.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use mgp_types::mgp::{Permission, ServerMgpConfig, TrustLevel};
use mgp_types::service::{Principal, ServerId};
use mgp_types::{Hash, Timestamp};
use serde::{Deserialize, Serialize};

/// The space of the store; the key is the server.
pub(super) const SPACE: &str = "registrations";

/// What sandboxed servers do not get unless an operator grants each of them (checklist C33).
const KEPT_FROM_SANDBOXED: [Permission; 5] = [
    Permission::ShellExecute,
    Permission::CodeExecution,
    Permission::FilesystemWrite,
    Permission::NetworkListen,
    Permission::Camera,
];

/// A registration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// What is run.
    pub(super) program: Proposal,
    /// Who asked for it.
    pub(super) by: Creator,
    /// Who that claims to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) claimed_by: Option<String>,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) justification: Option<String>,
    /// When.
    pub(super) asked_at: Timestamp,
    /// Whether other files had been approved before these: it is more than a question then, and has something to remove.
    #[serde(default)]
    pub(super) changed: bool,
    /// What became of it.
    pub(super) stage: Stage,
}

/// What became of a registration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// An operator must agree; what ran before waits as long as that takes.
    Waiting { until: Option<Timestamp> },
    /// An operator said no, which is remembered for a while.
    Rejected { by: String, until: Option<Timestamp> },
    /// It may run.
    Approved { by: String, at: Timestamp, granted: Vec<Permission> },
    /// It is being removed.
    Leaving { by: Creator, at: Timestamp, reason: Option<String> },
}

/// What is run, and how it is governed; a change of any of it is another one.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Proposal {
    pub(super) id: String,
    /// The program, by its whole path.
    pub(super) command: String,
    /// Where that leads, links followed.
    pub(super) real: String,
    /// Its arguments; those of a `source` come behind the path of its file.
    pub(super) args: Vec<String>,
    /// Its folder, by its whole path.
    pub(super) cwd: String,
    pub(super) env: BTreeMap<String, String>,
    /// The script that came in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    /// The files that decide what runs.
    pub(super) files: Vec<Bound>,
    pub(super) mgp: ServerMgpConfig,
    pub(super) trust: TrustLevel,
    /// What an operator should know.
    #[serde(default)]
    pub(super) notes: Vec<String>,
}

/// A file, bound by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bound {
    pub(super) path: PathBuf,
    pub(super) sha256: String,
}

/// A principal, as far as it is kept; its authority is not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Creator {
    tenant: String,
    subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
}

impl Record {
    /// Whether it is over by itself.
    pub(super) fn is_over(&self, now: SystemTime) -> bool {
        match &self.stage {
            // A time that nobody can read is no reason to wait for ever.
            Stage::Waiting { until } | Stage::Rejected { until, .. } => {
                until.as_ref().is_some_and(|until| until.is_before(now).unwrap_or(true))
            }
            Stage::Approved { .. } | Stage::Leaving { .. } => false,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting { .. })
    }

    pub(super) fn is_approved(&self) -> bool {
        matches!(self.stage, Stage::Approved { .. })
    }

    /// What it does not get.
    pub(super) fn denied(&self) -> Vec<Permission> {
        let granted = match &self.stage {
            Stage::Approved { granted, .. } => granted.as_slice(),
            _ => &[],
        };
        let mut denied = kept_from(&self.program.trust);
        denied.retain(|permission| !granted.contains(permission));
        denied
    }
}

/// What servers of a trust do not get by themselves.
pub(super) fn kept_from(trust: &TrustLevel) -> Vec<Permission> {
    if is_sandboxed(trust) { KEPT_FROM_SANDBOXED.to_vec() } else { Vec::new() }
}

/// A word that nobody knows trusts nobody.
pub(super) fn is_sandboxed(trust: &TrustLevel) -> bool {
    !matches!(trust, TrustLevel::Trusted | TrustLevel::Core | TrustLevel::Standard)
}

impl Proposal {
    pub(super) fn server(&self) -> ServerId {
        ServerId::from(self.id.as_str())
    }

    /// What an approval is bound to, values of the environment included.
    pub(super) fn fingerprint(&self) -> Hash {
        // Notes are ours, and may be worded better one day.
        let bound = Self { notes: Vec::new(), ..self.clone() };
        // It was read from JSON or checked to be text, so it can be written.
        Hash::of(serde_json::to_string(&bound).unwrap_or_default().as_bytes())
    }
}

/// Values of an environment may be secret.
impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proposal")
            .field("id", &self.id)
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Creator {
    pub(super) fn of(principal: &Principal) -> Self {
        Self {
            tenant: principal.tenant().to_string(),
            subject: principal.subject().to_string(),
            agent: principal.as_agent().map(ToString::to_string),
        }
    }

    /// The principal, without any authority.
    pub(super) fn to_principal(&self) -> Principal {
        let principal = Principal::new(self.tenant.as_str(), self.subject.as_str());
        match &self.agent {
            Some(agent) => principal.agent(agent.as_str()),
            None => principal,
        }
    }
}
