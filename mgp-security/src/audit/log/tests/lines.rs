//! Tests that the encoder writes exactly what serde serializes for the same types.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgp_types::mgp::AuditEvent;
use mgp_types::service::{EndedCall, Rule};
use mgp_types::{ErrorCode, Payload};
use proptest::prelude::*;

use super::super::encode::{self, EventEncoder};
use super::*;

#[track_caller]
fn check(ended: &EndedCall) {
    let mut out = Vec::new();
    EventEncoder::default().ended(&mut out, ended);
    let expected = serde_json::to_string(&ended.to_event()).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), expected.replace('\n', " "));
}

fn outcomes() -> Vec<AuditOutcome> {
    let rule = Some(Rule::new("deny for \"ada\""));
    vec![
        AuditOutcome::Success,
        AuditOutcome::Task,
        AuditOutcome::ToolError,
        AuditOutcome::Cancelled,
        AuditOutcome::Failed(ErrorCode::INTERNAL_ERROR),
        AuditOutcome::Blocked { code: ErrorCode::ACCESS_DENIED, rule },
        AuditOutcome::Blocked { code: ErrorCode::ACCESS_DENIED, rule: None },
    ]
}

#[test]
fn each_outcome_is_written_as_the_types_write_it() {
    for outcome in outcomes() {
        for risk in [None, Some(RiskLevel::Safe), Some(RiskLevel::Other("o\"dd".into()))] {
            for note in ["digest", "rule", "cancelled"] {
                let start = start("rm", risk.clone(), None);
                start.add_note(note, Payload::of("x").unwrap());
                start.add_note("more", Payload::parse("{\n\"a\": [1.5]}").unwrap());
                check(&EndedCall::now(Arc::new(start), outcome.clone()));
            }
            check(&EndedCall::now(Arc::new(start("rm", risk, None)), outcome.clone()));
        }
    }
    let mut bare = start("rm", None, None);
    (bare.server, bare.trace, bare.principal) = (None, None, Principal::local());
    bare.continue_from(&start("rm", None, None));
    check(&EndedCall::now(Arc::new(bare), AuditOutcome::Success));
}

#[test]
fn times_are_written_as_the_types_write_them() {
    let day = 86_400_000;
    for millis in [0, 1, day - 1, day, 59 * day, 789 * day + 45_296_789, 20_000 * day + 999] {
        let mut start = start("rm", None, None);
        start.started_at = UNIX_EPOCH + Duration::from_millis(millis);
        check(&EndedCall::now(Arc::new(start), AuditOutcome::Success));
    }
    let mut start = start("rm", None, None);
    start.started_at = SystemTime::now() + Duration::from_hours(24 * 365 * 9000);
    EventEncoder::default()
        .ended(&mut Vec::new(), &EndedCall::now(Arc::new(start), AuditOutcome::Success));
}

#[test]
fn a_note_of_invalid_json_does_not_break_the_line() {
    let start = start("rm", None, None);
    start.add_note("odd", Payload::from_trusted("{\n"));
    start.add_note("a\"b", Payload::from_trusted("\"x\"}"));
    let mut out = Vec::new();
    EventEncoder::default()
        .ended(&mut out, &EndedCall::now(Arc::new(start), AuditOutcome::Success));
    assert!(!out.contains(&b'\n'));
    let event: AuditEvent = serde_json::from_slice(&out).unwrap();
    assert_eq!(event.details.unwrap().decode::<String>("odd").unwrap().unwrap(), "{\n");
}

#[test]
fn long_names_and_notes_are_cut() {
    let mut start = start("rm", None, None);
    start.tool = "ü".repeat(1_000_000).into();
    start.add_note("big", Payload::of(&"x".repeat(1_000_000)).unwrap());
    let mut out = Vec::new();
    EventEncoder::default()
        .ended(&mut out, &EndedCall::now(Arc::new(start), AuditOutcome::Success));
    assert!(out.len() < 10_000);
    let event: AuditEvent = serde_json::from_slice(&out).unwrap();
    assert!(event.details.unwrap().get("notes_left_out").is_some());
}

proptest! {
    #[test]
    fn any_name_is_written_as_the_types_write_it(
        tool in ".{0,40}", server in ".{0,20}", trace in ".{0,20}", note in ".{0,20}", number: u64,
    ) {
        let mut start = start("rm", None, None);
        start.tool = tool.into();
        start.server = Some(server.as_str().into());
        start.trace = Some(trace.into());
        start.add_note("text", Payload::of(&note).unwrap());
        start.add_note("number", Payload::of(&number).unwrap());
        check(&EndedCall::now(Arc::new(start), AuditOutcome::Success));
    }

    #[test]
    fn numbers_are_written_in_full(number: u64) {
        let mut out = Vec::new();
        encode::number(&mut out, number);
        prop_assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
    }

    #[test]
    fn no_bytes_panic_the_reader(bytes: Vec<u8>, text in r#"\{"seq":[0-9]{1,3},"no":1,"[a-z]{1,6}":.{0,99}"#) {
        super::super::chain::Line::read(&bytes);
        super::super::chain::Line::read(text.as_bytes());
    }
}
