//! The stored form of a registration (MGP §15.4).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

use mgp_types::mgp::{Permission, ServerMgpConfig, TrustLevel};
use mgp_types::service::{Principal, ServerId};
use mgp_types::{Sha256Hash, Timestamp};
use serde::{Deserialize, Serialize};

use super::origin::RegistryOrigin;
use super::remote::Remote;

/// The name space of the records in the store; the key of a record is the server's id.
pub(super) const SPACE: &str = "registrations";

/// The permissions that a sandboxed server gets only if an operator grants each of them.
const DENIED_TO_SANDBOXED: [Permission; 5] = [
    Permission::ShellExecute,
    Permission::CodeExecution,
    Permission::FilesystemWrite,
    Permission::NetworkListen,
    Permission::Camera,
];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The program and its governance.
    pub(super) program: Proposal,
    /// The principal who requested the registration.
    pub(super) by: Creator,
    /// The name that the principal claims for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) claimed_by: Option<String>,
    /// The justification, in the principal's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) justification: Option<String>,
    /// The time when the registration was requested.
    pub(super) asked_at: Timestamp,
    /// `true` if an operator approved earlier files of this registration, so that its server might be running: a
    /// removal must then also drain the server.
    #[serde(default)]
    pub(super) changed: bool,
    /// The reason for the creation, if an agent created the server in a session because no tool matched. Such a server
    /// is removed when the session ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) created: Option<Created>,
    pub(super) stage: Stage,
}

/// The reason why an agent created a tool in its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Created {
    /// The requested capabilities that no tool had.
    pub(super) wanted: Vec<String>,
    /// The number of the creation, unique in its process. It distinguishes the creation from a creation in another
    /// session with the same server id.
    #[serde(default)]
    pub(super) number: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// The registration waits for an operator, at most until the deadline if there is one.
    Waiting { until: Option<Timestamp> },
    /// An operator rejected the registration; the rejection is stored until the deadline, if any.
    Rejected { by: String, until: Option<Timestamp> },
    /// An operator approved the registration; the server is allowed to run.
    Approved { by: String, at: Timestamp, granted: Vec<Permission> },
    /// The server is being removed.
    Leaving { by: Creator, at: Timestamp, reason: Option<String> },
}

/// A program and its governance, as proposed for approval. Proposals that differ in any field except `notes` need
/// separate approvals.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Proposal {
    pub(super) id: String,
    /// The absolute path of the program.
    pub(super) command: String,
    /// The real path of the program, with links resolved.
    pub(super) real: String,
    /// The arguments; if `source` is set, the command line has the path of the script's file before them.
    pub(super) args: Vec<String>,
    /// The absolute path of the working directory.
    pub(super) cwd: String,
    pub(super) env: BTreeMap<String, String>,
    /// The script in the request, if it contained one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    /// The registry entry that determines what runs; `None` if the request named the program itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) published: Option<RegistryOrigin>,
    /// The server at a URL; if it is set, the members about a program and its environment are empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) remote: Option<Remote>,
    /// The files whose content the approval covers. A program that only the administrator can change is not among them.
    pub(super) files: Vec<BoundFile>,
    pub(super) mgp: ServerMgpConfig,
    pub(super) trust: TrustLevel,
    /// The notes for the operator who reviews the registration.
    #[serde(default)]
    pub(super) notes: Vec<String>,
}

/// The path of a file with the SHA-256 of its content; an approval applies only to this content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BoundFile {
    pub(crate) path: PathBuf,
    pub(crate) sha256: String,
}

/// A stored principal, without its authority to administer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Creator {
    tenant: String,
    subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
}

impl Record {
    pub(super) fn is_over(&self, now: SystemTime) -> bool {
        match &self.stage {
            // If the deadline cannot be read, treat the record as expired.
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

    pub(super) fn granted(&self) -> &[Permission] {
        match &self.stage {
            Stage::Approved { granted, .. } => granted,
            _ => &[],
        }
    }

    /// Returns the permissions that the server does not get, because its trust level excludes them by default and no
    /// operator granted them.
    pub(super) fn denied(&self) -> Vec<Permission> {
        let mut denied = denied_by_default(&self.program.trust);
        denied.retain(|permission| !self.granted().contains(permission));
        denied
    }
}

/// Returns the permissions that servers of a trust level do not get by default.
pub(super) fn denied_by_default(trust: &TrustLevel) -> Vec<Permission> {
    if is_sandboxed(trust) { DENIED_TO_SANDBOXED.to_vec() } else { Vec::new() }
}

/// Returns whether a trust level is treated as `sandboxed`. Unknown levels are treated in this way too.
pub(super) fn is_sandboxed(trust: &TrustLevel) -> bool {
    !matches!(trust, TrustLevel::Trusted | TrustLevel::Core | TrustLevel::Standard)
}

impl Proposal {
    pub(super) fn server(&self) -> ServerId {
        ServerId::from(self.id.as_str())
    }

    /// Returns the hash by which an approval identifies a proposal; it also covers the values of the environment.
    pub(super) fn fingerprint(&self) -> Sha256Hash {
        // Notes are generated and their wording can change, so the hash leaves them out.
        let bound = Self { notes: Vec::new(), ..self.clone() };
        // A proposal comes from JSON or consists of checked texts, so encoding it cannot fail.
        Sha256Hash::digest(serde_json::to_string(&bound).unwrap_or_default().as_bytes())
    }
}

// Hides the values of the environment, because they may be secret.
mgp_types::opaque_debug!(Proposal { id, command, files });

impl Creator {
    pub(super) fn of(principal: &Principal) -> Self {
        Self {
            tenant: principal.tenant().to_string(),
            subject: principal.subject().to_string(),
            agent: principal.as_agent().map(ToString::to_string),
        }
    }

    pub(super) fn is_of_same_tenant(&self, other: &Self) -> bool {
        self.tenant == other.tenant
    }

    /// Returns the part of a limit of all registrations that the creator's tenant may use, so that a tenant other than
    /// the local one leaves some for the others.
    pub(super) fn share_of(&self, max: usize) -> usize {
        let is_local = self.tenant == Principal::local().tenant().as_str();
        if is_local { max } else { max.div_ceil(2) }
    }

    /// Returns the principal, without any authority to administer.
    pub(super) fn to_principal(&self) -> Principal {
        let principal = Principal::new(self.tenant.as_str(), self.subject.as_str());
        match &self.agent {
            Some(agent) => principal.agent(agent.as_str()),
            None => principal,
        }
    }
}
