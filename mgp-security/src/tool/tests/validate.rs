//! Tests of checks of arguments, and of missing checks (MGP §4.5).

use std::sync::Arc;

use mgp_types::ErrorCode;
use mgp_types::mgp::{CodeRejection, RejectionStatus, Validator};
use mgp_types::service::{Reply, Rule, ServerId, Stack, mock};
use tower_layer::Layer;

use crate::{Assessment, CheckedCall, Validate, ValidateLayer, Violation};

struct NoDots;

impl Validate for NoDots {
    fn check(&self, checked: &CheckedCall<'_>) -> Result<(), Violation> {
        let arguments = checked.call.tool().and_then(|tool| tool.arguments).unwrap_or_default();
        if arguments.contains("..") { Err(Violation::new("two dots")) } else { Ok(()) }
    }
}

fn client(layer: impl FnOnce(ValidateLayer) -> ValidateLayer) -> mock::Client {
    let known = |_: Option<&ServerId>, tool: &str| {
        let mut assessment = Assessment::unknown();
        assessment.validators =
            tool.split('+').filter(|word| *word != "free").map(Validator::from).collect();
        Arc::new(assessment)
    };
    let tools = Stack::from_fn(|_| async { Ok(Reply::empty()) });
    mock::client(Stack::new(layer(ValidateLayer::new(known)).layer(tools)))
}

#[tokio::test]
async fn a_check_that_is_not_there_blocks_by_name() {
    let mut client = client(|layer| layer.server("files"));
    client.request("tools/call", r#"{"name":"free"}"#).await.unwrap();
    client.request("tools/list", "{}").await.unwrap();
    for name in ["sandbox", "readonly", "network_restricted", "code_safety", "sandbx"] {
        let call = format!(r#"{{"name":"{name}"}}"#);
        let error = client.request("tools/call", &call).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::VALIDATION_BLOCKED);
        let recovery = error.as_recovery().unwrap();
        assert!(!recovery.is_retryable());
        let details = recovery.details.as_ref().unwrap();
        assert_eq!(details.decode::<String>("validator").unwrap().as_deref(), Some(name));
        assert_eq!(details.decode::<String>("server_id").unwrap().as_deref(), Some("files"));
        let remedy: String = details.decode("remedy").unwrap().unwrap();
        assert!(remedy.contains("`validators`"), "{remedy}");
        assert!(Rule::of(&error).unwrap().as_str().contains(name));
    }
}

#[tokio::test]
async fn every_check_must_pass() {
    let mut client = client(|layer| layer.validator(Validator::Sandbox, NoDots));
    let fine = r#"{"name":"sandbox","arguments":{"path":"a"}}"#;
    client.request("tools/call", fine).await.unwrap();
    let dots = r#"{"name":"sandbox","arguments":{"path":"../a"}}"#;
    let error = client.request("tools/call", dots).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::VALIDATION_BLOCKED);
    assert!(error.message().contains("two dots"), "{}", error.message());
    let both = r#"{"name":"sandbox+readonly","arguments":{"path":"a"}}"#;
    let error = client.request("tools/call", both).await.unwrap_err();
    assert!(error.message().contains("readonly"), "{}", error.message());
}

struct NoSockets;

impl Validate for NoSockets {
    fn check(&self, checked: &CheckedCall<'_>) -> Result<(), Violation> {
        assert_eq!(checked.validator, &Validator::CodeSafety);
        let mut body = CodeRejection::new(RejectionStatus::Rejected, "Code validation failed");
        body.violations = vec!["Blocked import: 'socket'".to_owned()].into();
        Err(Violation::of_code("Code validation failed: Blocked import: 'socket'", body))
    }
}

#[tokio::test]
async fn rejected_code_has_a_code_of_its_own_and_names_each_violation() {
    let mut client = client(|layer| layer.validator(Validator::CodeSafety, NoSockets));
    let error = client.request("tools/call", r#"{"name":"code_safety"}"#).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::CODE_SAFETY_VIOLATION);
    assert!(error.message().contains("Blocked import: 'socket'"), "{}", error.message());
    let details = error.as_recovery().unwrap().details.as_ref().unwrap();
    let violations: Vec<String> = details.decode("violations").unwrap().unwrap();
    assert_eq!(violations, ["Blocked import: 'socket'"]);
}
