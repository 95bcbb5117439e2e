//! Tests of structured errors and of the cost of calls (extensions `structured_errors` and `cost_hints`).

use mgp_client_sdk::{Error, ToolResult as _};
use mgp_kernel::Kernel;
use mgp_server_sdk::StructuredErrors;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::Era;
use mgp_types::method::ToolsDiscover;
use mgp_types::mgp::{DiscoverOrder, DiscoverToolsFilter, DiscoverToolsParams, Extension};
use mgp_types::proposal::{
    ActualCost, CostCategory, CostHints, ErrorKind, LatencyClass, StructuredError, ToolCost,
};

use crate::route::world::{PAIRS, build_with_tools, config_of, host, host_of, limit_era, open};

fn shop(below: Era) -> Server {
    let busy = Tool::new("busy", "Is busy", || async {
        let mut busy =
            StructuredError::new("RATE_LIMIT_EXCEEDED", "too many", ErrorKind::RateLimited);
        busy.retry_after_seconds = Some(42);
        Err::<String, _>(busy)
    });
    let fail =
        Tool::new("fail", "Fails", || async { Err::<String, _>(ToolError("no room".to_owned())) });
    let mut cost = ToolCost::new();
    (cost.category, cost.estimated_units) = (Some(CostCategory::Metered), Some(4_u64.into()));
    let export = Tool::new("export", "Exports", |cx: Context| async move {
        cx.add_to_result(&ActualCost::new(6_u64))?;
        Ok::<_, RpcError>("exported")
    });
    let server = Server::new("shop", "1").tool(busy).tool(fail).tool(export.cost(&cost));
    limit_era(server.extension(StructuredErrors).extension(Extension::CostHints), below)
}

async fn kernel(below: Era, config: &str) -> Kernel {
    let config = config_of(config);
    let policy = open(&["busy", "fail", "export"]);
    let builder = Kernel::builder().config(config).local_with("shop", policy, move || shop(below));
    build_with_tools(builder, [("shop", 3)]).await
}

#[tokio::test]
async fn a_caller_with_structured_errors_gets_them_from_every_server() {
    for (above, below) in PAIRS {
        let kernel = kernel(below, "").await;
        let builder = host_of(above).extension(Extension::StructuredErrors);
        let client = host(&kernel, "ada", builder).await;
        let busy = StructuredError::in_result(&client.call("busy").await.unwrap()).unwrap();
        assert_eq!((busy.category, busy.retry_after_seconds), (ErrorKind::RateLimited, Some(42)));
        let failed = StructuredError::in_result(&client.call("fail").await.unwrap()).unwrap();
        assert_eq!((failed.message.as_str(), failed.category), ("no room", ErrorKind::Permanent));
        let Err(Error::Call(error)) = client.call("nothing").await else { panic!("{above:?}") };
        let unknown = StructuredError::in_error(&error).unwrap();
        assert_eq!(unknown.code, "TOOL_NOT_FOUND", "{above:?} {below:?}");
        client.close().await;

        let plain = host(&kernel, "ada", host_of(above)).await;
        let failed = plain.call("fail").await.unwrap();
        assert!(failed.structured_content.is_none(), "{above:?} {below:?}");
    }
}

#[tokio::test]
async fn the_stated_and_the_actual_cost_of_calls_count_against_the_quota() {
    // The first call is charged 4 units before it runs and 2 units after it. So the second call would exceed the quota
    // of 9 units.
    let kernel = kernel(Era::Modern, "[limits]\nunits_per_day = 9").await;
    let client = host(&kernel, "ada", host_of(Era::Modern).extension(Extension::CostHints)).await;
    let done = client.call("export").await.unwrap();
    assert_eq!(done.member::<ActualCost>().unwrap().unwrap().rounded(), 6);
    let Err(Error::Call(spent)) = client.call("export").await else { panic!("not refused") };
    assert_eq!(spent.code().0, 3002, "{spent}");
    assert!(client.call("fail").await.is_ok(), "a call without a cost is one unit");
    let tools = client.list_tools().await.unwrap();
    let export = tools.iter().find(|tool| tool.name == "export").unwrap();
    assert_eq!(CostHints::of(export).units(), Some(4));
    client.close().await;

    let plain = host(&kernel, "bob", host_of(Era::Modern)).await;
    let tools = plain.list_tools().await.unwrap();
    assert!(tools.iter().all(|tool| CostHints::of(tool) == CostHints::default()));
}

#[tokio::test]
async fn a_search_filters_and_sorts_by_what_tools_state() {
    let kernel = kernel(Era::Modern, "").await;
    let client = host(&kernel, "ada", host_of(Era::Modern)).await;
    let search = async |change: fn(&mut DiscoverToolsParams)| {
        let mut params = DiscoverToolsParams::new();
        change(&mut params);
        let found = client.request::<ToolsDiscover>(&params).await.unwrap();
        found.tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    let cheap = search(|params| {
        let mut filter = DiscoverToolsFilter::new();
        filter.max_cost_units = Some(4);
        params.filter = Some(filter);
    });
    assert_eq!(cheap.await, ["export"]);
    let quick = search(|params| {
        let mut filter = DiscoverToolsFilter::new();
        filter.latency_max = Some(LatencyClass::Minutes);
        params.filter = Some(filter);
    });
    assert!(quick.await.is_empty(), "no tool states a latency");
    let sorted = search(|params| params.sort = Some(DiscoverOrder::Cost)).await;
    assert_eq!((sorted.len(), sorted[0].as_str()), (3, "export"));
}
