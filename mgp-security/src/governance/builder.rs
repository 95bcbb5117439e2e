//! The builder of [`Governance`].

use std::sync::Arc;

use mgp_types::mgp::Validator;
use mgp_types::service::{AuditSink, MemoryAudit, Principal};
use mgp_types::store::Store;
use tokio::sync::watch;

#[cfg(feature = "sqlite")]
use super::folder;
use super::{Books, Governance};
use crate::access::Access;
use crate::approval::{Approver, AskedAndKept, ByCaller, Inbox, InboxConfig, MayConfirm};
use crate::audit::{AuditConfig, AuditLog};
use crate::definition::Definitions;
use crate::permission::Permissions;
use crate::policy::Policies;
use crate::tool::{Confirmations, Validate, Validators};

/// A builder of a [`Governance`]. By default, everything is stored in memory, and questions remain unanswered because
/// no caller is configured as interactive.
#[must_use = "nothing is governed until it is built"]
pub struct GovernanceBuilder {
    pub(super) store: Arc<dyn Store>,
    /// The sink of audit events; if it is `None`, they are stored in memory.
    pub(super) audit: Option<Arc<dyn AuditSink>>,
    pub(super) log: Option<AuditLog>,
    pub(super) recording: AuditConfig,
    pub(super) policies: Policies,
    pub(super) approver: Arc<dyn Approver>,
    pub(super) inbox: Option<InboxConfig>,
    pub(super) by_caller: Option<Arc<MayConfirm>>,
    pub(super) validators: Validators,
    #[cfg(feature = "sqlite")]
    pub(super) logging: Option<folder::Logging>,
}

impl GovernanceBuilder {
    /// Sets the store for access entries, permissions and pinned definitions.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self
    }

    /// Sets the sink of audit events; replaces an earlier sink or [log](Self::log). With a sink, `in_folder` fails,
    /// because a folder has its own log.
    pub fn audit(mut self, sink: Arc<dyn AuditSink>) -> Self {
        self.audit = Some(sink);
        self.log = None;
        self
    }

    /// Sets the audit log. If it has a key, the arguments of calls are digested with that key, unless the
    /// [recording](Self::recording) has its own.
    pub fn log(mut self, log: AuditLog) -> Self {
        self.audit = Some(Arc::new(log.clone()));
        self.log = Some(log);
        self
    }

    /// Sets how the arguments of calls are recorded.
    pub fn recording(mut self, config: AuditConfig) -> Self {
        self.recording = config;
        self
    }

    /// Sets the operator's policies for servers.
    pub fn policies(mut self, policies: Policies) -> Self {
        self.policies = policies;
        self
    }

    /// Sets the approver that decides about permissions and confirmations.
    pub fn approver(mut self, approver: impl Approver + 'static) -> Self {
        self.approver = Arc::new(approver);
        self
    }

    /// Adds an inbox, in which each question stays until the [approver](Self::approver) or an operator answers it; see
    /// [`Inbox`].
    pub fn inbox(mut self, config: InboxConfig) -> Self {
        self.inbox = Some(config);
        self
    }

    /// Sets the function that decides which callers may confirm a call by asking their own user and sending a token. It
    /// applies to callers that negotiated `human_in_the_loop`, and needs a
    /// [`CallerConfirmLayer`](crate::CallerConfirmLayer) outside of the governance. By default, no caller may confirm
    /// in this way.
    pub fn confirmed_by_caller(
        mut self,
        may_confirm: impl Fn(&Principal) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.by_caller = Some(Arc::new(may_confirm));
        self
    }

    /// Adds the standard validators of §4.5.
    #[cfg(feature = "validators")]
    pub fn standard_validators(self, validators: &crate::StandardValidators) -> Self {
        crate::StandardValidators::NAMES
            .into_iter()
            .fold(self, |builder, name| builder.validator(name, validators.clone()))
    }

    /// Sets the check that runs for a validator's name; it replaces an earlier check for that name.
    pub fn validator(mut self, name: Validator, check: impl Validate + 'static) -> Self {
        self.validators.insert(name, Arc::new(check));
        self
    }

    /// Builds the governance; call [`Governance::open`] to read the store.
    #[must_use]
    pub fn build(self) -> Governance {
        let Self {
            store,
            audit,
            log,
            recording,
            policies,
            mut approver,
            inbox,
            validators,
            by_caller,
            ..
        } = self;
        let audit = audit.unwrap_or_else(|| Arc::new(MemoryAudit::new()));
        let key = log.as_ref().and_then(AuditLog::digest_key).filter(|_| !recording.has_key());
        let recording = match key {
            Some(key) => recording.key(key.clone()),
            None => recording,
        };
        let kept = || (Arc::clone(&store), Arc::clone(&audit), policies.clone());
        let (one, two, three) = kept();
        let access = Access::new(one, two, three);
        let inbox = inbox.map(|config| {
            let (store, audit, _) = kept();
            Inbox::with_config(store, audit, config)
        });
        if let Some(inbox) = &inbox {
            approver = Arc::new(AskedAndKept { first: approver, inbox: inbox.clone() });
        }
        let approver = confirmed_by(by_caller, approver);
        let (one, two, three) = kept();
        let definitions = Definitions::new(one, two, three);
        let (one, two, three) = kept();
        let permissions = Permissions::new(one, two, three, Some(Arc::clone(&approver)));
        let confirmations =
            Confirmations::new(policies.clone(), approver).audit(Arc::clone(&audit));
        let confirmations = match &inbox {
            Some(inbox) => confirmations.calls(inbox.calls().clone()),
            None => confirmations,
        };
        let books = Books {
            store,
            audit,
            log,
            recording,
            policies,
            access,
            definitions,
            permissions,
            inbox,
            confirmations,
            validators,
            changed: Arc::new(watch::Sender::new(0)),
            shared_changed: Arc::new(watch::Sender::new(0)),
        };
        let governance = Governance(Arc::new(books));
        governance.count_changes();
        governance
    }
}

impl Governance {
    fn count_changes(&self) {
        let count = |counter: &Arc<watch::Sender<u64>>| {
            let counter = Arc::clone(counter);
            move || counter.send_modify(|count| *count = count.wrapping_add(1))
        };
        self.on_change(count(&self.0.changed));
        self.0.access.on_shared_change(count(&self.0.shared_changed));
    }
}

/// Wraps an approver so that callers can confirm with a token. A question that a caller can confirm in this way does
/// not reach the inbox: the caller's next call answers the question, so it must not stay open in the inbox.
fn confirmed_by(
    may_confirm: Option<Arc<MayConfirm>>,
    approver: Arc<dyn Approver>,
) -> Arc<dyn Approver> {
    match may_confirm.and_then(|may| ByCaller::new(may, Arc::clone(&approver))) {
        Some(by_caller) => Arc::new(by_caller),
        None => approver,
    }
}

mgp_types::opaque_debug!(GovernanceBuilder { policies });

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use mgp_testkit::temp_dir;

    use super::*;

    #[tokio::test]
    async fn a_sink_that_the_log_of_a_folder_would_replace_is_an_error() {
        let folder = temp_dir();
        let builder = Governance::builder().audit(Arc::new(MemoryAudit::new()));
        let refused = builder.in_folder(folder.path().join("state")).await.err().unwrap();
        assert!(matches!(refused, folder::FolderError::OtherSink), "{refused}");
    }
}
