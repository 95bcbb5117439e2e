//! The limits that apply to a call after the security checks have allowed it: the number of running calls, and the
//! quotas.
//!
//! A call passes the security checks before it reaches these limits. So a call does not count as running while it waits
//! for a person's confirmation, and a call that the security checks refuse uses up no quota.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_client_sdk::{ClientBuilder, gateway};
use mgp_security::Governance;
use mgp_types::RpcError;
use mgp_types::service::{Call, Reply, ServerId, Stack};
use tower_layer::layer_fn;

use super::rounds::Round;
use super::usage::{Counted, Usage};
use super::{Bound, CallBounds, CallCost, ServerBound, counted};

type Recheck = dyn Fn(&Call) -> Result<(), RpcError> + Send + Sync;

/// The limits of one call, stored as an extension in the call's context.
pub(super) struct LimitedCall {
    agent: Option<Arc<Bound>>,
    server: Option<Arc<ServerBound>>,
    /// The caller's name in the table of counts.
    who: String,
    cost: CallCost,
    /// `true` once the call was charged to the quotas. A call is charged once, however often the kernel retries it or
    /// repeats it with a legacy caller's answers, and however many rounds it has.
    is_charged: AtomicBool,
    /// The round of the call, i.e. one of the requests that its caller sends to answer questions. `None` if the caller
    /// does not repeat the call.
    round: Option<Arc<Round>>,
}

impl LimitedCall {
    pub(super) fn new(
        agent: Option<Arc<Bound>>,
        server: Option<Arc<ServerBound>>,
        who: String,
        cost: CallCost,
        round: Option<Arc<Round>>,
    ) -> Self {
        let is_charged = AtomicBool::new(round.as_ref().is_some_and(|round| round.was_charged()));
        Self { agent, server, who, cost, is_charged, round }
    }

    fn counted(&self) -> Vec<Counted<'_>> {
        counted(self.agent.as_deref(), self.server.as_ref(), &self.who)
    }

    /// Returns the error if a quota would refuse the call now. Returns `None` if all quotas allow the call, or if it
    /// was charged already. Charges nothing.
    pub(super) fn refusal(&self, usage: &Usage) -> Option<RpcError> {
        if self.is_charged.load(Ordering::Relaxed) {
            return None;
        }
        usage.refusal(&self.counted(), self.cost.units())
    }

    /// Charges the quotas, unless an earlier attempt of the call was charged, and records that the call now runs.
    async fn charge(&self, usage: &Usage) -> Result<(), RpcError> {
        if !self.is_charged.load(Ordering::Relaxed) {
            usage.charge(&self.counted(), self.cost.units()).await?;
            self.is_charged.store(true, Ordering::Relaxed);
            if let Some(round) = &self.round {
                round.set_charged();
            }
        }
        if let Some(round) = &self.round {
            round.set_running();
        }
        Ok(())
    }

    /// If a result states a higher cost than the charged cost, charges the difference.
    ///
    /// Only logs the error if the charge cannot be stored: the call has run, so its caller must get the result. The
    /// units are counted in memory, and stored with the next charge.
    async fn charge_rest(&self, usage: &Usage, reply: &Reply) {
        let rest = self.cost.actual(reply).saturating_sub(self.cost.units());
        if rest > 0
            && let Err(error) = usage.add(&self.counted(), rest).await
        {
            tracing::warn!(%error, units = rest, "additional cost of a call not stored");
        }
    }
}

/// The parts that apply the limits to a call after the security checks.
struct DecidedLimits {
    usage: Usage,
    /// The function that repeats the decision about a call that has waited for its turn, because the first decision may
    /// be out of date.
    recheck: Arc<Recheck>,
    /// The stack that sends calls to the server. If the server runs a call as a task, this stack waits for the result
    /// of the task, because the call counts as running until its task ends.
    finished: Stack,
}

impl CallBounds {
    /// Adds the layer of the limits that apply after the decision (running calls and quotas) to the stack that sends
    /// calls to a server. Call this before the security layers are added: layers that are added later are outer ones,
    /// so a call passes the security checks first.
    pub(crate) fn layer_decided(
        &self,
        builder: ClientBuilder,
        governance: &Governance,
        server: &ServerId,
    ) -> ClientBuilder {
        let usage = self.0.usage.clone();
        let recheck: Arc<Recheck> = Arc::new(governance.layer(server.clone()).recheck());
        builder.layer(layer_fn(move |inner: Stack| {
            let (usage, recheck) = (usage.clone(), Arc::clone(&recheck));
            let finished = gateway::await_tasks(inner.clone());
            let limits = DecidedLimits { usage, recheck, finished };
            Stack::from_fn(move |call: Call| {
                let limited = call.cx().extensions.get_shared::<LimitedCall>();
                // The security checks can also request the list of tools through this stack. Limit only calls of tools.
                match limited.filter(|_| call.tool().is_some()) {
                    Some(limited) => limits.stack(limited).send(call),
                    // Wait for the end of the call's task, because the audit record of the call contains its outcome.
                    None if call.tool().is_some() && gateway::awaits_task(&call) => {
                        limits.finished.send(call)
                    }
                    None => inner.send(call),
                }
            })
        }))
    }
}

impl DecidedLimits {
    /// Returns a stack that lets a call wait until it is allowed to run, charges it, and runs it.
    fn stack(&self, limited: Arc<LimitedCall>) -> Stack {
        let (usage, recheck) = (self.usage.clone(), Arc::clone(&self.recheck));
        let finished = self.finished.clone();
        let (agent, server) = (limited.agent.clone(), limited.server.clone());
        let all = server.as_ref().map(|server| &server.all).into_iter().chain(agent.as_deref());
        let can_wait = all.clone().any(|bound| bound.running.is_some());
        let mut stack = Stack::from_fn(move |call: Call| {
            let (limited, usage, finished) =
                (Arc::clone(&limited), usage.clone(), finished.clone());
            // Repeat the decision if the call may have waited, because the first decision may be out of date.
            let allowed = if can_wait { recheck(&call) } else { Ok(()) };
            async move {
                allowed?;
                limited.charge(&usage).await?;
                let reply = finished.send(call).await?;
                limited.charge_rest(&usage, &reply).await;
                Ok(reply)
            }
        });
        for bound in all {
            stack = bound.layer_running(stack);
        }
        stack
    }
}

#[cfg(test)]
mod tests {
    use mgp_discovery::ServerLimits;
    use mgp_testkit::{FaultyStore, store_busy};
    use mgp_types::service::mock;
    use mgp_types::store::Store as _;
    use mgp_types::{ErrorCode, Payload};

    use super::*;

    #[tokio::test]
    async fn a_call_that_ran_is_answered_although_its_additional_cost_cannot_be_stored() {
        let store = FaultyStore::default().on_commit(|store, change| {
            let is_full = store.is_failing();
            store.set_failing(true);
            if is_full { store_busy("it is full") } else { store.inner().commit(change) }
        });
        let usage = Usage::load(Arc::new(store)).await.unwrap();
        let mut limits = ServerLimits::default();
        limits.calls.units_per_day = Some(5);
        let server = ServerBound::new("s", &limits);
        let finished = Stack::from_fn(|_| async {
            let result = r#"{"content":[],"_meta":{"cost":{"units":5}}}"#;
            Ok(Reply::raw(Payload::from_trusted(result)))
        });
        let recheck: Arc<Recheck> = Arc::new(|_: &Call| Ok(()));
        let decided = DecidedLimits { usage, recheck, finished };
        let client = || {
            let cost = CallCost { configured: None, stated: None };
            let who = "local/ann".to_owned();
            let limited = LimitedCall::new(None, server.clone(), who, cost, None);
            mock::client(decided.stack(Arc::new(limited)))
        };
        client().request("tools/call", r#"{"name":"t"}"#).await.unwrap();
        // The first call was charged more than the quota, so the next call is refused.
        let refused = client().request("tools/call", r#"{"name":"t"}"#).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::QUOTA_EXCEEDED, "{refused}");
    }
}
