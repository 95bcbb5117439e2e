//! Sends calls to a server: applies the server's limits, and chooses the session.

use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::{Client, Error, Hop, gateway};
use mgp_discovery::{CallTimeouts, KernelConfig};
use mgp_security::DecideOnly;
use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, Call, Context, Reply, Stack};

use super::ManagedServer;
use crate::fleet::era_choice::SessionUse;
use crate::fleet::session::Session;
use crate::fleet::subscriptions::Source;

impl ManagedServer {
    /// Sends a call to the server through all security checks; starts the server if it is stopped.
    ///
    /// If `has_access` is `false`, and the caller has not gained the access meanwhile, does not start the server; the
    /// security checks then refuse the call.
    pub(crate) fn send(
        self: &Arc<Self>,
        mut call: Call,
        has_access: bool,
    ) -> BoxFuture<'static, Result<Reply, RpcError>> {
        // Check the access to resources and prompts again, because the caller may have gained it while the kernel
        // waited for the lists of servers.
        let is_granted = || {
            let access = self.context().governance.access();
            call.tool().is_none() && access.sees_server(call.cx(), &self.id).is_ok()
        };
        if !has_access && !is_granted() {
            // If this request answers a question of an earlier request, end the earlier request. Otherwise it would
            // continue with the answer, without another decision about its access.
            self.sessions().iter().for_each(|session| session.hop().end_parked(call.cx()));
            // Mark the call, so that it never runs. Otherwise it would run if the rules meanwhile allow it, or if the
            // server lists an approved definition again. It would then run without preparation and limits, and perhaps
            // in the wrong instance.
            call.cx_mut().extensions.insert(DecideOnly);
            return self.shared.main().send(call);
        }
        let bounds = &self.context().bounds;
        if bounds.is_set() {
            // Set the server of the call, because the limits of a server count its calls by this id.
            call.cx_mut().server = Some(self.id.clone());
            let server = Arc::clone(self);
            let send = Stack::from_fn(move |call| server.send_to_instance(call));
            let stack = bounds.layer(&mut call, &self.id, send);
            return Box::pin(async move { stack.send(call).await });
        }
        self.send_to_instance(call)
    }

    /// Returns the client of the session that serves a caller; starts the session if necessary.
    pub(crate) async fn wake_for(
        &self,
        cx: &Context,
        session_use: SessionUse,
    ) -> Result<Client, Error> {
        match &self.isolated {
            None => {
                self.shared.served().insert(&cx.principal);
                self.wake_shared(cx, session_use).await.1
            }
            Some(instances) => instances.get_or_create(&cx.principal)?.wake(cx, session_use).await,
        }
    }

    /// Returns the client over which to request a subscription, and the source that identifies its notifications.
    pub(crate) async fn wake_to_subscribe(
        &self,
        cx: &Context,
        session_use: SessionUse,
    ) -> Result<(Source, Client), Error> {
        let client = self.wake_for(cx, session_use).await?;
        let (owner, session) = match &self.isolated {
            None => (None, self.shared.kind_of(&client)),
            Some(all) => (Some(cx.principal.clone()), all.kind_of(&cx.principal, &client)),
        };
        Ok((Source { server: self.id.clone(), owner, session }, client))
    }

    fn send_to_instance(
        self: &Arc<Self>,
        mut call: Call,
    ) -> BoxFuture<'static, Result<Reply, RpcError>> {
        self.limit_time(&mut call);
        match &self.isolated {
            None => self.send_shared(call),
            Some(instances) => match instances.get_or_create(&call.cx().principal) {
                Err(error) => {
                    let server = Arc::clone(self);
                    Box::pin(async move {
                        if let Some(tool) = call.tool().map(|tool| tool.name.to_owned()) {
                            let bounds = &server.context().bounds;
                            bounds.record_refusal(call.cx(), Some(&server.id), &tool, &error).await;
                        }
                        Err(error)
                    })
                }
                Ok(instance) => Box::pin(instance.send(call)),
            },
        }
    }

    /// Applies the configured time limits to a call. Only calls of a tool can have limits of their own.
    fn limit_time(&self, call: &mut Call) {
        let tool = call.tool().map_or("", |tool| tool.name);
        let limits = self.time_limits(tool);
        // Do nothing if the limits are the default ones, because the client of the server applies these itself.
        if limits != KernelConfig::default().call_timeouts(&CallTimeouts::default(), tool) {
            gateway::limit_time(call, limits.0, limits.1);
        }
    }

    /// Returns two time limits for calls of a tool, or of a prompt or resource if the name is empty: the maximum time
    /// without progress, and the maximum time in total.
    fn time_limits(&self, tool: &str) -> (Duration, Duration) {
        let config = self.context().config.config();
        config.kernel.call_timeouts(&self.config.read().timeouts, tool)
    }

    fn send_shared(self: &Arc<Self>, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        self.shared.served().insert(&call.cx().principal);
        // A session that drains waits for its calls, so it accepts the answer for which one of them waits.
        let accepts = |session: &&Arc<Session>| {
            session.usable().is_some()
                || Hop::is_continued(call.cx()) && session.client().client().is_ok()
        };
        let session = self.shared.session_for(call.cx(), SessionUse::Call);
        if let Some(session) = session.filter(accepts) {
            return session.send(call);
        }
        let server = Arc::clone(self);
        Box::pin(async move {
            let (session, woken) = server.wake_shared(call.cx(), SessionUse::Call).await;
            // Ignore the error here: `send` below returns the same error and records the refusal.
            if let Err(error) = woken {
                tracing::debug!(server = %server.id, %error, "server not ready for a call");
            }
            session.send(call).await
        })
    }

    /// Connects the session of the shared instance that serves a caller. Does not start a server that has failed too
    /// often: it stays stopped until an operator starts it.
    async fn wake_shared(
        &self,
        cx: &Context,
        session_use: SessionUse,
    ) -> (Arc<Session>, Result<Client, Error>) {
        self.shared.wake_for(cx, session_use, Some(&self.start_permits().calls)).await
    }
}
