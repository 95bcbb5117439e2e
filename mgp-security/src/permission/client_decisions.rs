//! The client's decisions about permissions, as far as the server knows them (MGP §3.6, §8.2).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::Timestamp;
use mgp_types::mgp::{Grant, GrantDecision, Permission, PermissionDecision};
use mgp_types::service::Context;
use mgp_types::sync::{Mutex, MutexGuard};

/// The maximum number of permissions whose decisions are stored; a limit is needed because the client chooses the
/// names. Further permissions stay deferred.
pub(super) const NOTED_MAX: usize = 256;

/// The maximum length of a permission's name, in bytes; decisions about longer names are not stored.
const NAME_MAX: usize = 128;

/// The decisions about permissions that apply to one connection or one call.
///
/// The handshake and the permission protocol store the decisions for a connection in the state of its
/// [`Scope`](mgp_types::service::Scope). Decisions in the extensions of a call replace them for that call.
///
/// A server that received no decisions runs all its tools, because the client enforces permissions (§8.2). Once the
/// server has received any decision, all other permissions count as deferred. It then refuses each tool that needs a
/// permission that is not granted, with error code 1000 (permission denied).
///
/// ```
/// use mgp_security::{Grants, GrantState};
/// use mgp_types::mgp::{GrantDecision, Permission};
///
/// let grants = Grants::default();
/// assert_eq!(grants.standing(&Permission::ShellExecute), GrantState::Unknown);
/// grants.note(&Permission::from("filesystem"), GrantDecision::Approved, None);
/// assert!(grants.is_granted(&Permission::FilesystemRead));
/// assert_eq!(grants.standing(&Permission::ShellExecute), GrantState::Deferred);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Grants(Arc<Mutex<ReceivedDecisions>>);

/// The state of a permission, as far as the server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrantState {
    /// The server has received no decision about any permission.
    Unknown,
    /// The permission is granted.
    Granted,
    /// The permission is denied.
    Denied,
    /// The permission is not decided yet.
    Deferred,
    /// The grant has expired.
    Expired,
}

impl GrantState {
    /// Returns the name of the state.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Granted => "granted",
            Self::Denied => "denied",
            Self::Deferred => "deferred",
            Self::Expired => "expired",
        }
    }
}

/// The decisions that the server has received.
#[derive(Debug, Default)]
struct ReceivedDecisions {
    /// `true` if the server has received a decision, or the message that permissions are being decided.
    is_informed: bool,
    decisions: BTreeMap<Permission, (GrantDecision, Option<SystemTime>)>,
}

impl Grants {
    /// Returns the decisions that apply to a call.
    #[must_use]
    pub fn from_context(cx: &Context) -> Self {
        match cx.extensions.get::<Self>() {
            Some(grants) => grants.clone(),
            None => (*cx.scope.state::<Self>()).clone(),
        }
    }

    /// Stores a decision about a permission, or about every permission that a short name represents.
    ///
    /// An unreadable expiry counts as past. At most 256 names are stored, of at most 128 bytes each; other permissions
    /// stay deferred.
    pub fn note(
        &self,
        permission: &Permission,
        decision: GrantDecision,
        until: Option<&Timestamp>,
    ) {
        let until = until.map(|time| time.to_system_time().unwrap_or(SystemTime::UNIX_EPOCH));
        let mut board = self.board();
        board.is_informed = true;
        for permission in permission.expand() {
            board.note(permission, decision, until);
        }
    }

    /// Notes that the client is still deciding about permissions. Earlier decisions about them apply until the new
    /// decisions arrive.
    pub fn await_decision(&self, permissions: &[Permission]) {
        let mut board = self.board();
        board.is_informed = true;
        for permission in permissions.iter().flat_map(Permission::expand) {
            if !board.decisions.contains_key(&permission) {
                board.note(permission, GrantDecision::Deferred, None);
            }
        }
    }

    /// Stores the decisions that a message contains (§3.6).
    pub fn apply(&self, decision: &PermissionDecision) {
        self.board().is_informed = true;
        for (permission, grant) in &decision.grants {
            self.note(permission, Grant::decision(grant), decision.expires_at.as_ref());
        }
    }

    /// Returns whether the server has received a decision, or the message that permissions are being decided.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.board().is_informed
    }

    /// Returns the state of a permission. For a short name, returns the state of the first permission that it
    /// represents and that is not granted, or `Granted` if all are granted.
    #[must_use]
    pub fn standing(&self, permission: &Permission) -> GrantState {
        let board = self.board();
        if !board.is_informed {
            return GrantState::Unknown;
        }
        let now = SystemTime::now();
        let stands = permission.expand().into_iter().map(|name| board.standing(&name, now));
        stands
            .into_iter()
            .find(|standing| *standing != GrantState::Granted)
            .unwrap_or(GrantState::Granted)
    }

    /// Returns whether a permission is granted; `false` if the server has received no decision.
    #[must_use]
    pub fn is_granted(&self, permission: &Permission) -> bool {
        self.standing(permission) == GrantState::Granted
    }

    /// Returns the standard names of the permissions that are granted now.
    #[must_use]
    pub fn active(&self) -> Vec<Permission> {
        let board = self.board();
        let now = SystemTime::now();
        let granted = board
            .decisions
            .keys()
            .filter(|permission| board.standing(permission, now) == GrantState::Granted);
        granted.cloned().collect()
    }

    fn board(&self) -> MutexGuard<'_, ReceivedDecisions> {
        self.0.lock()
    }
}

impl ReceivedDecisions {
    fn note(&mut self, name: Permission, decision: GrantDecision, until: Option<SystemTime>) {
        let is_new = !self.decisions.contains_key(&name);
        if is_new && (self.decisions.len() >= NOTED_MAX || name.as_str().len() > NAME_MAX) {
            return;
        }
        self.decisions.insert(name, (decision, until));
    }

    fn standing(&self, permission: &Permission, now: SystemTime) -> GrantState {
        match self.decisions.get(permission) {
            Some((GrantDecision::Approved, Some(until))) if *until <= now => GrantState::Expired,
            Some((GrantDecision::Approved, _)) => GrantState::Granted,
            Some((GrantDecision::Denied, _)) => GrantState::Denied,
            _ => GrantState::Deferred,
        }
    }
}
