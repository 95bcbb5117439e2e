//! The target of the attacks: a governed disk with dangerous tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_security::{ElicitApprover, Governance};
use mgp_server_sdk::{Server, Tool};
use mgp_types::mgp::{
    AccessGrantParams, AccessPermission, AccessRevokeParams, AuditEvent, EntryType, Permission,
    RiskLevel,
};
use mgp_types::service::{MemoryAudit, Principal};

/// A governed party: its governance, its log, and how often its tools ran.
pub(crate) struct World {
    pub(crate) governance: Governance,
    pub(crate) log: MemoryAudit,
    pub(crate) ran: Arc<AtomicUsize>,
}

pub(crate) fn ann() -> Principal {
    Principal::new("acme", "ann").operator()
}

pub(crate) fn mallory() -> Principal {
    Principal::new("acme", "mallory")
}

impl World {
    /// Creates a world in which callers confirm their own calls, and no access is granted yet.
    pub(crate) fn new() -> Self {
        let log = MemoryAudit::new();
        let governance = Governance::builder()
            .audit(Arc::new(log.clone()))
            .approver(ElicitApprover::everyone())
            .build();
        Self { governance, log, ran: Arc::default() }
    }

    /// Creates a world in which Mallory has access to the whole disk.
    pub(crate) async fn open() -> Self {
        let world = Self::new();
        world.grant("mallory").await;
        world
    }

    pub(crate) async fn grant(&self, agent: &str) {
        let allow = AccessPermission::Allow;
        let grant = AccessGrantParams::new(EntryType::ServerGrant, agent, "disk", allow);
        self.governance.access().grant(&ann(), grant).await.unwrap();
    }

    pub(crate) async fn revoke(&self, agent: &str) {
        let revoke = AccessRevokeParams::new(agent, "disk", EntryType::ServerGrant);
        self.governance.access().revoke(&ann(), revoke).await.unwrap();
    }

    /// Returns a disk server with four tools: one is dangerous, one safe, one slow, and one needs a permission.
    pub(crate) fn disk(&self) -> Server {
        let count = |ran: &Arc<AtomicUsize>| {
            let ran = Arc::clone(ran);
            move || {
                ran.fetch_add(1, Ordering::SeqCst);
            }
        };
        let (wiped, looked, slept, sent) =
            (count(&self.ran), count(&self.ran), count(&self.ran), count(&self.ran));
        let ran = move |run: &dyn Fn()| {
            run();
            "done"
        };
        let wipe = Tool::new("wipe", "Wipes the disk", move || {
            let done = ran(&wiped);
            async move { done }
        });
        let look = Tool::new("look", "Looks at the disk", move || {
            let done = ran(&looked);
            async move { done }
        });
        let sleep = Tool::new("sleep", "Takes a while", move || {
            let done = ran(&slept);
            async move {
                mgp_testkit::sleep_in_parts(Duration::from_millis(400)).await;
                done
            }
        });
        let send = Tool::new("send", "Sends the disk", move || {
            let done = ran(&sent);
            async move { done }
        });
        Server::new("disk", "1")
            .tool(wipe.risk(RiskLevel::Dangerous))
            .tool(look.risk(RiskLevel::Safe))
            .tool(sleep.risk(RiskLevel::Safe))
            .tool(send.risk(RiskLevel::Moderate).permissions([Permission::ShellExecute]))
            .governed(&self.governance, "disk")
    }

    /// Returns a new server with the same governance, as after a restart of its process.
    pub(crate) fn disk_again(&self) -> Server {
        let again = Self { governance: self.governance.clone(), ..Self::new() };
        again.disk()
    }

    pub(crate) fn ran(&self) -> usize {
        self.ran.load(Ordering::SeqCst)
    }

    pub(crate) fn events(&self, kind: &str) -> Vec<AuditEvent> {
        let events = self.log.events().into_iter();
        events.filter(|event| event.event_type.as_str() == kind).collect()
    }
}
