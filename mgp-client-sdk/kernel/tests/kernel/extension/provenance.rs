//! Tests of the sources of results (extension `provenance`).

use mgp_client_sdk::ToolResult;
use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_testkit::temp_dir;
use mgp_types::mcp::{CallToolResult, Era};
use mgp_types::mgp::Extension;
use mgp_types::proposal::{Confidence, Provenance, ProvenanceHops, SourceLocation, Sources};

use crate::route::world::{
    PAIRS, host, host_of, kernel_with, limit_era, open, recorded_calls, until, wait_for_tools,
};

fn claim() -> Provenance {
    let mut claim = Provenance::new("invoice_v2.pdf");
    let mut location = SourceLocation::new();
    location.cell = Some("B7".to_owned());
    claim.location = Some(location);
    claim.confidence = Some(Confidence::Exact);
    claim
}

/// A server whose tool `list` names two sources of its result.
pub(crate) fn server() -> Server {
    let list = Tool::new("list", "Returns revenue", |cx: Context| async move {
        cx.add_to_result(&Sources::from(vec![claim(), Provenance::new("bank")]))?;
        Ok::<_, RpcError>("4.2M")
    });
    let recent = Tool::new("recent", "Names no source", || async { "none" });
    Server::new("books", "1").tool(list).tool(recent).extension(Extension::Provenance)
}

fn sources(result: &CallToolResult) -> Vec<Provenance> {
    Sources::of_result(result)
}

#[tokio::test]
async fn a_kernel_adds_its_hop_and_changes_no_claim_in_each_pair_of_eras() {
    for (above, below) in PAIRS {
        let kernel =
            kernel_with("books", open(&["list", "recent"]), 2, move || limit_era(server(), below))
                .await;
        let builder = host_of(above).extension(Extension::Provenance);
        let client = host(&kernel, "ada", builder).await;
        let result = client.call("list").trace("t-1").await.unwrap();
        assert_eq!(sources(&result), [claim(), Provenance::new("bank")], "{above:?} {below:?}");
        let hops = result.member::<ProvenanceHops>().unwrap().unwrap();
        assert_eq!(hops.0.len(), 1);
        assert_eq!(hops.0[0].server_id, "books");
        assert_eq!(hops.0[0].trace_id.as_deref(), Some("t-1"));
        // The kernel must add the server even to a result that states no sources.
        let result = client.call("recent").await.unwrap();
        assert!(sources(&result).is_empty());
        assert!(result.member::<ProvenanceHops>().unwrap().is_some());
    }
}

#[tokio::test]
async fn the_sources_of_a_result_are_in_the_audit_log() {
    let folder = temp_dir();
    let builder = Kernel::builder().local_with("books", open(&["list", "recent"]), server);
    let kernel = builder.in_folder(folder.path()).await.unwrap();
    wait_for_tools(&kernel, "books", 2).await;
    // The audit log shows an operator where a result came from, even if the caller did not negotiate the extension.
    let client = host(&kernel, "ada", host_of(Era::Modern)).await;
    client.call("list").await.unwrap();
    let events = || recorded_calls(&kernel, "books");
    until("the call is recorded", || async { events().await != "[]" }).await;
    let text = events().await;
    let expected =
        r#""provenance":[{"source":"invoice_v2.pdf","confidence":"exact"},{"source":"bank"}]"#;
    assert!(text.contains(expected), "{text}");
    client.close().await;
    kernel.stop().await;
}
