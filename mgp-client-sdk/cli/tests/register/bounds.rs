//! Tests of the limits of registration: the agents that may register, the programs that they may register, and the
//! number of registrations.

use std::sync::Arc;

use async_trait::async_trait;
use mgp_discovery::{CodeJudge, CodeVerdict, JudgedScript};
use mgp_types::method::{DiscoveryDeregister, DiscoveryRegister, Request as _, tool_spelling};
use mgp_types::mgp::{DeregisterParams, RegistrationStatus};
use mgp_types::{ErrorCode, RpcError};

use crate::world::{World, register, waiting};

#[tokio::test]
async fn an_agent_with_one_tool_cannot_register_in_any_spelling() {
    let world = World::new("").await;
    let operator = world.operator().await;
    register(&operator, &world.asks("made")).await.unwrap();
    world.knows("made").await;
    world.grant("eve", "made", "say").await;
    // An access entry for all tools of `mgp`, which is the kernel's own id, does not cover the kernel's own tools.
    let whole = mgp_types::mgp::AccessGrantParams::allow("eve", "mgp");
    let by = mgp_types::service::Principal::local().operator();
    world.kernel.governance().access().grant(&by, whole).await.unwrap();
    let eve = world.agent("eve").await;
    let (asks, gone) = (world.asks("mine"), DeregisterParams::new("made"));
    let refused = |code: ErrorCode| assert_eq!(code, ErrorCode::PERMISSION_DENIED);
    refused(register(&eve, &asks).await.unwrap_err().code());
    refused(eve.mgp().discovery_deregister(&gone).await.unwrap_err().code());
    for method in [DiscoveryRegister::METHOD, DiscoveryDeregister::METHOD] {
        for name in [method.to_owned(), method.replace('/', "."), tool_spelling(method)] {
            for arguments in [serde_json::to_value(&asks).unwrap(), serde_json::json!({"id": 3})] {
                refused(eve.call(&name).args(&arguments).await.unwrap_err().code());
            }
        }
    }
    let listed = eve.tools().await.unwrap();
    assert!(listed.iter().all(|tool| !tool.name.contains("register")), "in no list");
    assert!(waiting(&operator).await.is_empty());
    assert!(world.server("made").is_some() && world.server("mine").is_none());
    world.end().await;
}

/// A code judge that accepts every script.
struct Lenient;

#[async_trait]
impl CodeJudge for Lenient {
    async fn judge(&self, script: JudgedScript) -> Result<CodeVerdict, RpcError> {
        assert!(script.text.contains("rm -rf work"));
        Ok(CodeVerdict::Accepted)
    }
}

#[tokio::test]
async fn the_judge_decides_whether_an_operator_is_asked_about_a_sandboxed_script() {
    let world = World::new("").await;
    let ada = world.registrar().await;
    let script = |world: &World| {
        std::fs::write(world.folder.join("made.sh"), "rm -rf work\n").unwrap();
        let mut asks = world.asks("made");
        asks.command = Some("/bin/sh".to_owned());
        asks.args = vec![world.folder.join("made.sh").display().to_string()].into();
        asks
    };
    let refused = register(&ada, &script(&world)).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::CODE_SAFETY_VIOLATION);
    assert!(refused.to_string().contains("of `rm`"), "{refused}");
    assert!(waiting(&world.operator().await).await.is_empty());
    world.end().await;

    let world = World::with("", |builder| builder.judge(Arc::new(Lenient))).await;
    let ada = world.registrar().await;
    let reply = register(&ada, &script(&world)).await.unwrap();
    assert_eq!(reply.status, RegistrationStatus::PendingApproval, "an operator still decides");
    world.end().await;
}

#[tokio::test]
async fn pending_registrations_and_their_rate_are_bounded() {
    let world = World::new("").await;
    let ada = world.registrar().await;
    for number in 0..4 {
        register(&ada, &world.asks(&format!("made{number}"))).await.unwrap();
    }
    let full = register(&ada, &world.asks("made4")).await.unwrap_err();
    assert_eq!(full.code(), ErrorCode::RESOURCE_EXHAUSTED, "{full}");
    assert!(full.to_string().contains("of your registrations wait"), "{full}");
    let mut last = full.code();
    for _ in 0..20 {
        last = register(&ada, &world.asks("made4")).await.unwrap_err().code();
    }
    assert_eq!(last, ErrorCode::RATE_LIMITED);
    assert_eq!(waiting(&world.operator().await).await.len(), 4);
    world.end().await;
}
