//! Tests of kernels that are servers of other kernels, or of themselves.

use std::sync::{Arc, OnceLock};

use mgp_client_sdk::ToolResult;
use mgp_kernel::Kernel;
use mgp_server_sdk::{Prompt, Resource, Server, Tool};
use mgp_types::ErrorCode;
use mgp_types::mcp::Era;

use super::world::{build, host, host_of, kernel_with, open, until};

#[tokio::test]
async fn a_server_behind_two_kernels_is_reached_through_both() {
    let clock = || {
        Server::new("clock", "1")
            .tool(Tool::new("now", "The time of day", || async { "noon" }))
            .resource(Resource::text("file:///a", "a", "text"))
    };
    let inner = kernel_with("clock", open(&["now"]), 1, clock).await;
    let behind = inner.clone();
    let outer = kernel_with("inner", open(&["now"]), 1, move || behind.server()).await;
    for era in [Era::Legacy, Era::Modern] {
        let host = host(&outer, "ann", host_of(era)).await;
        let result = host.call("now").await.unwrap();
        assert_eq!(result.to_text(), "noon", "{era:?}");
        until("the resource is listed", || async { host.resources().await.unwrap().len() == 1 })
            .await;
        let read = host.read_resource("file:///a").await.unwrap();
        assert_eq!(read.contents[0].text.as_deref(), Some("text"), "{era:?}");
    }
    outer.stop().await;
    inner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_kernel_that_has_itself_among_its_servers_refuses_the_circle() {
    let own: Arc<OnceLock<Kernel>> = Arc::default();
    let later = Arc::clone(&own);
    let builder = Kernel::builder().local_with("self", open(&[]), move || later.wait().server());
    let kernel = build(builder).await;
    own.set(kernel.clone()).unwrap();
    let host = host(&kernel, "ann", host_of(Era::Legacy)).await;
    until("the circle is refused", || async {
        let refused = host.read_resource("nowhere://x").await.unwrap_err();
        refused.code() == ErrorCode::INVALID_PARAMS
            && refused.to_string().contains("passed 8 kernels")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_lists_of_a_kernel_behind_itself_stop_growing() {
    let own: Arc<OnceLock<Kernel>> = Arc::default();
    let later = Arc::clone(&own);
    let files = || {
        Server::new("files", "1")
            .resource(Resource::text("file:///a", "a", "text"))
            .prompt(Prompt::new("plan", "Plans", || async { "plan" }))
    };
    let builder = Kernel::builder().local_with("files", open(&[]), files).local_with(
        "self",
        open(&[]),
        move || later.wait().server(),
    );
    let kernel = build(builder).await;
    own.set(kernel.clone()).unwrap();
    let host = host(&kernel, "ann", host_of(Era::Legacy)).await;
    // The kernel is its own server, so it reads its own list again and again. Without a limit, the list would become
    // longer each time.
    let mut deepest = 0;
    for _ in 0..100 {
        let resources = host.resources().await.unwrap();
        let prompts = host.prompts().await.unwrap();
        let depths = resources.iter().map(|one| one.uri.matches("mgp+self:").count());
        let depths = depths.chain(prompts.iter().map(|one| one.name.matches("self.").count()));
        deepest = depths.max().unwrap_or(0).max(deepest);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!((1..=3).contains(&deepest), "{deepest} kernels deep");
}
