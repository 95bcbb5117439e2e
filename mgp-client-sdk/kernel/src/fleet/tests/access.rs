//! Tests that a call of a caller without access does not run, even if the caller gains access meanwhile.

use mgp_discovery::Isolation;
use mgp_types::mcp::ReadResourceParams;
use mgp_types::method::{Request as _, ResourcesRead, ToolsCall};
use mgp_types::service::{Call, Context, Method, Params, Peer, Principal, Scope, ScopeKind};
use mgp_types::{ErrorCode, Payload};

use super::World;

fn request(method: &'static str, params: Params) -> Call {
    let ada = Principal::local().agent("ada");
    let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Request), ada);
    Call::request(Method::of(method), params, cx)
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_sent_without_access_does_not_run_if_access_is_granted_meanwhile() {
    let world = World::new(Isolation::PerAgent).await;
    let server = world.server();
    let call = || request(ToolsCall::METHOD, Params::tool("which", &Payload::empty_object()));
    // The rules allow the call now. The argument `false` simulates that they did not allow it when the kernel looked
    // the tool up.
    let refused = server.send(call(), false).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::TOOL_DISABLED, "{refused}");
    assert!(server.send(call(), true).await.is_ok());
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_read_in_the_instance_of_its_caller_if_access_is_granted_meanwhile() {
    let world = World::new(Isolation::PerAgent).await;
    let before = world.made();
    let params = ReadResourceParams::new("test://news");
    let params = Params::of(ResourcesRead::METHOD, &params).unwrap();
    world.server().send(request(ResourcesRead::METHOD, params), false).await.unwrap();
    assert!(world.made() > before, "the kernel only reads lists in the first one");
    world.kernel.stop().await;
}
