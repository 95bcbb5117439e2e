//! A governed client of a shop whose tools fail as configured.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mgp_client_sdk::{Client, ClientBuilder, RetryConfig, TestClient};
use mgp_security::{Governance, Policies, ServerPolicy};
use mgp_server_sdk::{Server, Tool};
use mgp_types::mgp::{AccessGrantParams, AuditEvent, RiskLevel};
use mgp_types::service::{MemoryAudit, Principal};
use mgp_types::{ErrorCode, Recovery, RpcError};

/// The tools of a shop, with the number of runs of each.
#[derive(Clone, Default)]
pub(crate) struct Shop(Arc<Mutex<HashMap<String, usize>>>);

/// A function that returns the result of a tool's nth call, counted from 1.
pub(crate) type Answer = fn(usize) -> Result<&'static str, RpcError>;

impl Shop {
    pub(crate) fn tool(&self, name: &str, risk: RiskLevel, answer: Answer) -> Tool {
        let (ran, own) = (Arc::clone(&self.0), name.to_owned());
        let tool = Tool::new(name, "Does something in the shop", move || {
            let number = {
                let mut ran = ran.lock().unwrap();
                let number = ran.entry(own.clone()).or_default();
                *number += 1;
                *number
            };
            async move { answer(number) }
        });
        tool.risk(risk)
    }

    pub(crate) fn ran(&self, tool: &str) -> usize {
        self.0.lock().unwrap().get(tool).copied().unwrap_or_default()
    }
}

pub(crate) fn tool_error(code: i32, hints: &str) -> RpcError {
    let hints: Recovery = serde_json::from_str(hints).unwrap();
    RpcError::new(ErrorCode(code), "not now").recovery(hints)
}

/// A governed client that retries calls.
pub(crate) struct Governed {
    pub(crate) client: TestClient,
    pub(crate) log: MemoryAudit,
}

impl Governed {
    /// Connects to a server, and grants access to these of its tools only.
    pub(crate) async fn new(
        server: Server,
        granted: &[&str],
        change: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Self {
        Self::under(ServerPolicy::default(), server, granted, change).await
    }

    pub(crate) async fn under(
        policy: ServerPolicy,
        server: Server,
        granted: &[&str],
        change: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Self {
        let log = MemoryAudit::bounded(100_000);
        let governance = Governance::builder()
            .audit(Arc::new(log.clone()))
            .policies(Policies::with_default(policy))
            .build();
        let ann = Principal::new("local", "ann").operator();
        for tool in granted {
            let grant = AccessGrantParams::allow("local", "shop").tool(*tool);
            governance.access().grant(&ann, grant).await.unwrap();
        }
        let builder = Client::builder("test", "1")
            .retry(RetryConfig::default())
            .governed(&governance, "shop");
        Self { client: TestClient::with_builder(server, change(builder)).await, log }
    }

    /// Returns the audit events about the calls of a tool.
    pub(crate) fn events(&self, tool: &str) -> Vec<AuditEvent> {
        let is_of = |event: &AuditEvent| {
            event.target.as_ref().and_then(|target| target.tool_name.as_deref()) == Some(tool)
                && event.event_type.as_str().starts_with("TOOL_")
        };
        self.log.events().into_iter().filter(is_of).collect()
    }
}

pub(crate) fn detail(event: &AuditEvent, name: &str) -> Option<String> {
    event.details.as_ref()?.get(name).map(|value| value.as_str().to_owned())
}
