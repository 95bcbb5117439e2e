//! Servers that are registered while the kernel runs: how the fleet takes them and forgets them (MGP §15.4, §15.5).
//!
//! Applies to: both.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_discovery::{Approved, Judge, Known, RegistrationConfig, Registrations, Servers};
use mgp_security::NameFlaw;
use mgp_toolindex::{Everything, Sessions};
use mgp_types::mgp::ShutdownReason;
use mgp_types::service::{BoxFuture, Context, Hidden, ServerId, Visibility, visibility};
use mgp_types::{ErrorCode, RpcError};

use super::current::InForce;
use super::fleet::{Fleet, Node};
use super::policy;
use super::seen::Seen;

/// The kernel as a server: what grants of its own tools name.
const OWN: &str = "mgp";

/// Runs what is registered; it knows nothing of the registrations, which hold it.
#[derive(Clone)]
pub(super) struct Runner {
    fleet: Fleet,
    in_force: InForce,
    sessions: Sessions,
}

/// The registrations of a kernel.
pub(super) fn registrations(
    runner: Runner,
    seen: &Seen,
    judge: Option<Arc<dyn Judge>>,
    config: RegistrationConfig,
) -> Registrations {
    let governance = runner.fleet.ground().governance.clone();
    let (store, audit) = (Arc::clone(governance.store()), Arc::clone(governance.audit()));
    let (access, seen) = (governance.access().clone(), seen.clone());
    let may = visibility(move |cx: &Context, server: Option<&ServerId>, tool: &str| {
        if server.is_some() {
            return seen.sees(cx, server, tool);
        }
        // Who may use everything of a server named so has not been told about this.
        let own = ServerId::from(OWN);
        access.sees(cx, Some(&own), tool)?;
        match access.named(&cx.principal, Some(&own), tool, SystemTime::now()) {
            Some(_) => Ok(()),
            None => Err(Hidden::by("no grant names it")),
        }
    });
    let builder = Registrations::builder(store, Arc::new(runner))
        .audit(audit)
        .may(Arc::new(may))
        .config(config);
    match judge {
        Some(judge) => builder.judge(judge).build(),
        None => builder.build(),
    }
}

impl Runner {
    pub(super) fn new(fleet: Fleet, in_force: InForce, sessions: Sessions) -> Self {
        Self { fleet, in_force, sessions }
    }

    /// The server of an id, if it was registered.
    fn registered(&self, id: &ServerId) -> Option<Arc<Node>> {
        self.fleet.get(id.as_str()).filter(|node| node.approved().is_some())
    }

    /// Puts a server in its place, with its rules in force.
    fn put(&self, approved: Approved) -> Result<Arc<Node>, RpcError> {
        let id = approved.id().clone();
        if self.fleet.get(id.as_str()).is_some() || self.configured(&id) {
            let message = format!("the configuration has a server `{id}` by now");
            return Err(RpcError::new(ErrorCode::SERVER_ALREADY_REGISTERED, message));
        }
        let policy = policy::registered(&self.in_force.config().kernel, &approved);
        self.fleet.ground().governance.policies().set(id, policy);
        Ok(self.fleet.put(approved.server.clone(), Some(approved))?)
    }

    /// Takes a server out once what runs there is finished; whoever waits for that may go.
    async fn take_out(&self, id: &ServerId) {
        if self.registered(id).is_none() {
            return;
        }
        let (fleet, id) = (self.fleet.clone(), id.clone());
        let out = tokio::spawn(async move {
            fleet.remove(&id, ShutdownReason::OperatorRequest).await;
        });
        // It ends by itself, also where the runtime does.
        let _ = out.await;
    }

    async fn forget(&self, id: &ServerId) -> Result<(), RpcError> {
        let failed =
            |error| RpcError::internal("what its tools were is not forgotten").because(error);
        self.fleet.forget(id).await.map_err(failed)?;
        let ground = self.fleet.ground();
        ground.governance.deregistered(id).await?;
        // Whoever had its tools in a session has them no longer.
        for cx in ground.callers.all(|_| true) {
            let session = self.sessions.find(&cx, None).ok().flatten();
            self.sessions.view(&cx.principal, session.as_ref(), &ground.index, &Everything);
        }
        Ok(())
    }
}

impl mgp_discovery::Fleet for Runner {
    fn known(&self) -> Vec<Known> {
        mgp_discovery::Fleet::known(&self.fleet)
    }
}

impl Servers for Runner {
    fn configured(&self, server: &ServerId) -> bool {
        self.in_force.has(server.as_str()) || NameFlaw::check_server(server.as_str(), []).is_err()
    }

    fn start(&self, approved: Approved) -> BoxFuture<'static, Result<(), RpcError>> {
        let this = self.clone();
        let put = match self.registered(approved.id()) {
            None => Ok(self.put(approved)),
            Some(_) => Err(approved),
        };
        Box::pin(async move {
            let node = match put {
                Ok(put) => put?,
                Err(approved) => {
                    this.take_out(approved.id()).await;
                    this.put(approved)?
                }
            };
            if this.fleet.is_known(&node) {
                return Ok(());
            }
            node.start().await;
            Ok(node.client().ready().await.map(drop)?)
        })
    }

    fn drain(&self, server: &ServerId, _: Duration) -> BoxFuture<'static, ()> {
        let (this, server) = (self.clone(), server.clone());
        Box::pin(async move { this.take_out(&server).await })
    }

    fn remove(&self, server: &ServerId) -> BoxFuture<'static, Result<(), RpcError>> {
        let (this, server) = (self.clone(), server.clone());
        Box::pin(async move {
            this.take_out(&server).await;
            // What the configuration has by now is not forgotten.
            if this.configured(&server) { Ok(()) } else { this.forget(&server).await }
        })
    }
}
