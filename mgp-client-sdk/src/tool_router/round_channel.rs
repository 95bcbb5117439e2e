//! The channel with which the layers of a call ask its caller, if the call can be parked (continue to run between
//! requests of its caller).

use std::sync::{Arc, OnceLock};

use mgp_types::service::{BoxFuture, CallerChannel, CallerRequest, Reply};
use mgp_types::{Payload, RpcError};

/// A channel that uses the channel of the caller's request until the call is parked, and that of the parked call
/// afterwards.
///
/// The layers of a parked call run in another task than its caller's request, so they must not use the channel of the
/// request. Otherwise a layer that ends a round could remove the open questions that the request is about to return.
/// Also, a question that is asked after the end of the request would never be answered.
pub(crate) struct RoundChannel {
    request: Arc<dyn CallerChannel>,
    parked: OnceLock<Arc<dyn CallerChannel>>,
}

impl RoundChannel {
    pub(super) fn new(request: Arc<dyn CallerChannel>) -> Self {
        Self { request, parked: OnceLock::new() }
    }

    /// Uses the channel of the parked call from now on, in place of the channel of the request.
    pub(super) fn park(&self, parked: Arc<dyn CallerChannel>) {
        // Ignore the result: a call gets a task of its own only once.
        let _ = self.parked.set(parked);
    }

    fn current(&self) -> &dyn CallerChannel {
        &**self.parked.get().unwrap_or(&self.request)
    }
}

impl CallerChannel for RoundChannel {
    fn ask(&self, key: &str, ask: CallerRequest) -> BoxFuture<'static, Result<Payload, RpcError>> {
        self.current().ask(key, ask)
    }

    fn forget_early(&self, key: &str) {
        self.current().forget_early(key);
    }

    fn kept(&self, key: &str) -> Option<Payload> {
        self.current().kept(key)
    }

    fn keep(&self, key: &str, value: &Payload) {
        self.current().keep(key, value);
    }

    fn has_asked(&self, key: &str) -> bool {
        self.current().has_asked(key)
    }

    fn has_suspended(&self) -> bool {
        self.current().has_suspended()
    }

    fn can_ask_now(&self) -> bool {
        self.current().can_ask_now()
    }

    fn take_suspended(&self) -> Option<Reply> {
        self.current().take_suspended()
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::{Principal, Rounds};

    use super::*;
    use crate::tool_router::parked_call::{ParkedCall, ParkedEvent};
    use crate::tool_router::parked_calls::ParkedCalls;

    /// Regression test: the audit layer of a parked call could take the questions of the caller's request, so that the
    /// request never ended and the task was cancelled.
    #[tokio::test]
    async fn a_parked_call_does_not_take_the_questions_of_the_request() {
        let question = || CallerRequest::new("elicitation/create", Payload::empty_object());
        let (rounds, parked_calls) = (Rounds::default(), ParkedCalls::default());
        let channel = Arc::new(RoundChannel::new(Arc::new(rounds.clone())));
        let who = Principal::local();
        let mut call = ParkedCall::inline(who.clone(), |_| Box::pin(std::future::pending()));
        call.channel = Some(Arc::clone(&channel));
        drop(channel.ask("gate", question()));
        assert!(channel.take_suspended().is_some(), "a gate ends the round before there is a task");

        parked_calls.put("call", call);
        drop(rounds.ask("task.a", question()));
        assert!(channel.take_suspended().is_none());
        assert!(rounds.take_suspended().is_some());
        let _open = channel.ask("late", question());
        let mut call = parked_calls.take("call", &who).unwrap();
        let ParkedEvent::Asks(asks) = call.next().await else { panic!("it must ask") };
        assert_eq!(asks.len(), 1);
        assert_eq!(asks[0].0, "late", "a later round of the caller asks it");
    }
}
