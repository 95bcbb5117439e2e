//! Kernels behind kernels.

use std::sync::{Arc, OnceLock};

use mgp_client_sdk::{Kernel, ToolResult};
use mgp_server_sdk::{Resource, Server, Tool};
use mgp_types::ErrorCode;
use mgp_types::mcp::Era;

use crate::world::{begins, host, kernel, knows, open, until};

#[tokio::test]
async fn what_is_behind_two_kernels_is_reached_through_both() {
    let clock = || {
        Server::new("clock", "1")
            .tool(Tool::new("now", "The time of day", || async { "noon" }))
            .resource(Resource::text("file:///a", "a", "text"))
    };
    let inner = kernel(Kernel::builder().local_as("clock", open(&["now"]), clock)).await;
    knows(&inner, "clock", 1).await;
    let behind = inner.clone();
    let builder = Kernel::builder().local_as("inner", open(&["now"]), move || behind.server());
    let outer = kernel(builder).await;
    knows(&outer, "inner", 1).await;
    for era in [Era::Legacy, Era::Modern] {
        let host = host(&outer, "ann", begins(era)).await;
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
async fn a_kernel_that_has_itself_among_its_servers_cuts_the_circle() {
    let own: Arc<OnceLock<Kernel>> = Arc::default();
    let later = Arc::clone(&own);
    let builder = Kernel::builder().local_as("self", open(&[]), move || later.wait().server());
    let kernel = kernel(builder).await;
    own.set(kernel.clone()).unwrap();
    let host = host(&kernel, "ann", begins(Era::Legacy)).await;
    until("the circle is cut", || async {
        let refused = host.read_resource("nowhere://x").await.unwrap_err();
        refused.code() == ErrorCode::INVALID_PARAMS
            && refused.to_string().contains("passed 8 kernels")
    })
    .await;
    kernel.stop().await;
}
