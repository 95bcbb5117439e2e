//! Tests that the kernel checks the arguments of calls and the required versions of tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_types::dialect::codomyrmex;
use mgp_types::mcp::Era;
use serde_json::json;

use super::world::{build_with_tools, host, host_of, limit_era, open};

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Order {
    days: u32,
    symbol: String,
}

/// Returns a kernel with a server of one era, whose tools count their calls.
async fn kernel(era: Era, calls: &Arc<AtomicU32>) -> Kernel {
    let calls = Arc::clone(calls);
    let make = move || {
        let counted = Arc::clone(&calls);
        let order = Tool::new("order", "Orders", move |Args(_): Args<Order>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { "ordered" }
        });
        limit_era(Server::new("shop", "1").tool(order.version("1.4.0")), era)
    };
    let hidden = || Server::new("hidden", "1").tool(Tool::new("secret", "Hides", || async { "" }));
    let builder =
        Kernel::builder().local_with("shop", open(&["order"]), make).local("hidden", hidden);
    build_with_tools(builder, [("shop", 1), ("hidden", 1)]).await
}

#[tokio::test]
async fn the_kernel_checks_arguments_for_any_server_without_a_call() {
    for era in [Era::Legacy, Era::Modern] {
        let calls = Arc::new(AtomicU32::new(0));
        let kernel = kernel(era, &calls).await;
        let ann = host(&kernel, "ann", host_of(era)).await;
        let result = ann.validate("order", &json!({ "days": -1 })).await.unwrap();
        let mut errors: Vec<_> =
            result.errors.iter().map(|one| (&*one.field, &*one.error_type)).collect();
        errors.sort_unstable();
        assert!(!result.valid);
        assert_eq!(errors, [("days", "minimum"), ("symbol", "required")]);
        let fits = ann.validate("order", &json!({ "days": 1, "symbol": "A" })).await.unwrap();
        assert!(fits.valid && fits.errors.is_empty());
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        // A tool that the caller may not use gets the same error as a tool that does not exist.
        for tool in ["secret", "hidden.secret", "other"] {
            let error = ann.validate(tool, &json!({})).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::TOOL_NOT_FOUND, "{tool}: {error}");
        }
    }
}

#[tokio::test]
async fn the_kernel_enforces_the_version_that_a_caller_demands() {
    let calls = Arc::new(AtomicU32::new(0));
    let kernel = kernel(Era::Modern, &calls).await;
    let ann = host(&kernel, "ann", host_of(Era::Modern)).await;
    let arguments = json!({ "days": 1, "symbol": "A" });
    let error = ann.call("order").args(&arguments).version("^2").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::INVALID_TOOL_ARGS, "{error}");
    assert!(error.to_string().contains("has version 1.4.0"), "{error}");
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    ann.call("order").args(&arguments).version("^1.2").await.unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_call_in_the_form_of_codomyrmex_returns_a_result_in_that_form() {
    let calls = Arc::new(AtomicU32::new(0));
    let kernel = kernel(Era::Modern, &calls).await;
    let ann = host(&kernel, "ann", host_of(Era::Modern)).await;
    let call = r#"{"tool_name":"shop.order","arguments":{"days":1,"symbol":"A"}}"#;
    let call = codomyrmex::ToolCall::read_strictly(call).unwrap();
    let result = ann.call_codomyrmex(&call).await;
    assert_eq!((&*result.status, result.explanation.as_deref()), ("success", Some("ordered")));
    let unknown = r#"{"tool_name":"shop.other","arguments":{}}"#;
    let result = ann.call_codomyrmex(&codomyrmex::ToolCall::read(unknown).unwrap()).await;
    assert!(result.is_failure() && result.check().is_ok());
    assert_eq!(result.error.unwrap().error_type, "ResourceNotFound");
    let wrong = r#"{"tool_name":"shop.order","arguments":{"days":"soon","symbol":"A"}}"#;
    let wrong = ann.call_codomyrmex(&codomyrmex::ToolCall::read(wrong).unwrap()).await;
    let error = wrong.error.unwrap();
    assert_eq!(error.error_type, "ValidationError");
    let details = error.error_details.unwrap();
    assert_eq!(
        (&details["parameter"], &details["provided_value"]),
        (&json!("days"), &json!("soon"))
    );
    assert!(details["constraint"].as_str().unwrap().contains("integer"), "{details}");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}
