//! The way past the gates for calls that none of them would hold up.
//!
//! Applies to: both.

use std::fmt;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use mgp_types::RpcError;
use mgp_types::service::{Call, Either, MgpService, Reply, ServerId, Waited};
use tower_layer::Layer;
use tower_service::Service;

use crate::definition::{Definitions, Whose};

/// Puts gates before a service, and leads calls past them that need nothing: no definition to check, no permission, no
/// validator, no confirmation.
///
/// Each gate would say so by itself; asked one by one they cost as much as everything else that is decided of a call.
#[derive(Clone)]
#[must_use]
pub(super) struct BypassLayer<L> {
    pub(super) gates: L,
    pub(super) definitions: Definitions,
    pub(super) server: ServerId,
    pub(super) tools: Whose,
}

impl<S: Clone, L: Layer<S>> Layer<S> for BypassLayer<L> {
    type Service = Bypass<S, L::Service>;

    fn layer(&self, inner: S) -> Self::Service {
        let Self { gates, definitions, server, tools } = self;
        let gates = gates.layer(inner.clone());
        let (definitions, server, tools) = (definitions.clone(), server.clone(), *tools);
        Bypass { inner, gated: Arc::new(Guarded { gates, definitions, server, tools }) }
    }
}

/// A service before which gates stand that are asked where they have something to say.
#[derive(Clone)]
pub struct Bypass<S, G> {
    inner: S,
    gated: Arc<Guarded<G>>,
}

/// The gates, and what is looked at before they are asked.
struct Guarded<G> {
    gates: G,
    definitions: Definitions,
    server: ServerId,
    tools: Whose,
}

impl<G> Guarded<G> {
    /// Whether no gate would hold up a call; `false` where that is not plain to see.
    fn let_pass(&self, call: &Call) -> bool {
        let Some(tool) = call.tool() else { return false };
        let cx = call.cx();
        let server = cx.server.as_ref().unwrap_or(&self.server);
        // What waited further out is decided anew by the innermost gate.
        self.definitions.is_plain(server, tool.name, self.tools) && !Waited::is(cx)
    }
}

impl<S, G> fmt::Debug for Bypass<S, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bypass")
    }
}

impl<S: MgpService, G: MgpService> Service<Call> for Bypass<S, G> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, G::Future>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        if self.gated.let_pass(&call) {
            return Either::Left { future: self.inner.call(call) };
        }
        Either::Right { future: self.gated.gates.clone().call(call) }
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::mcp::Tool;
    use mgp_types::service::{Stack, gate, mock};
    use mgp_types::{ErrorCode, Payload};

    use super::*;
    use crate::{Policies, ServerPolicy};

    /// What a call meets on its way.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Way {
        Past,
        Gates,
    }

    struct World {
        definitions: Definitions,
        policies: Policies,
        client: mock::Client,
    }

    impl World {
        fn new(tools: Whose) -> Self {
            let policies = Policies::default();
            let definitions = Definitions::in_memory(policies.clone());
            let gates = gate(|_| Err(RpcError::new(ErrorCode::TOOL_DISABLED, "a gate")));
            let server = "garden".into();
            let layer = BypassLayer { gates, definitions: definitions.clone(), server, tools };
            let inner = Stack::from_fn(|_| async { Ok(Reply::empty()) });
            let client = mock::client(Stack::new(layer.layer(inner)));
            Self { definitions, policies, client }
        }

        fn learn(&self, tools: &[&str]) {
            let tools: Vec<Tool> =
                tools.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
            self.definitions.learn(Some(&"garden".into()), &tools);
        }

        async fn way(&mut self, tool: &str) -> Way {
            // The layer that records looks a tool up first.
            drop(self.definitions.assessment(Some(&"garden".into()), tool));
            let params = format!(r#"{{"name":"{tool}"}}"#);
            let called = self.client.request("tools/call", &params).await;
            if called.is_ok() { Way::Past } else { Way::Gates }
        }
    }

    const SAFE: &str = r#"{"name":"safe","inputSchema":{},"security":{"risk_level":"safe"}}"#;

    #[tokio::test]
    async fn only_a_tool_that_needs_nothing_is_led_past() {
        let mut world = World::new(Whose::Own);
        world.learn(&[
            SAFE,
            r#"{"name":"risky","inputSchema":{},"security":{"risk_level":"moderate"}}"#,
            r#"{"name":"checked","inputSchema":{},"security":{"risk_level":"safe","validator":"readonly"}}"#,
            r#"{"name":"asks","inputSchema":{},"security":{"risk_level":"safe","confirmation_required":true}}"#,
            r#"{"name":"needs","inputSchema":{},"security":{"risk_level":"safe","permissions_required":["notification"]}}"#,
        ]);
        assert_eq!(world.way("safe").await, Way::Past);
        for tool in ["risky", "checked", "asks", "needs", "unknown"] {
            assert_eq!(world.way(tool).await, Way::Gates, "{tool}");
        }
        assert!(world.client.request("tools/list", "{}").await.is_err(), "lists are for the gates");
    }

    #[tokio::test]
    async fn what_changes_holds_from_the_next_call_on() {
        let mut world = World::new(Whose::Own);
        world.learn(&[SAFE]);
        assert_eq!(world.way("safe").await, Way::Past);
        let strict = ServerPolicy::default().validator("safe", "readonly".into());
        world.policies.set("garden", strict);
        assert_eq!(world.way("safe").await, Way::Gates);
        world.policies.remove(&"garden".into());
        assert_eq!(world.way("safe").await, Way::Past);
        Waited::mark(&mut world.client.cx);
        assert_eq!(world.way("safe").await, Way::Gates, "what waited is decided anew");
    }

    #[tokio::test]
    async fn a_tool_of_somebody_else_is_led_past_while_its_definition_stands() {
        let mut world = World::new(Whose::Foreign);
        let garden = ServerId::from("garden");
        let listed = |text: &str| [Payload::parse(text.to_owned()).unwrap()];
        world.definitions.observe(&garden, &listed(SAFE)).await.unwrap();
        assert_eq!(world.way("safe").await, Way::Past);
        world.definitions.stale(&garden);
        assert_eq!(world.way("safe").await, Way::Gates, "its list must be seen first");
        let other = SAFE.replace("\"inputSchema\"", "\"description\":\"Another.\",\"inputSchema\"");
        world.definitions.observe(&garden, &listed(&other)).await.unwrap();
        assert_eq!(world.way("safe").await, Way::Gates, "it is another tool now");
    }
}
