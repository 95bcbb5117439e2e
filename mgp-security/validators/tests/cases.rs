//! Runs the test cases in `cases/`: commands, calls, targets and code of every class, each with the expected decision.

use mgp_validators::{CaseKind, Cases};
use serde_json::Value;

fn check(kind: CaseKind, lines: &str) {
    let configs = include_str!("cases/configs.json");
    let cases = Cases::new(kind).configs(configs).expect("lists");
    let mut wrong = Vec::new();
    let (mut blocked, mut allowed) = (0, 0);
    for line in lines.lines() {
        let case: Value = serde_json::from_str(line).expect("a case");
        let decided = cases.judge(line);
        let block = case["expect"] == "block";
        *(if block { &mut blocked } else { &mut allowed }) += 1;
        if decided.is_err() != block {
            wrong.push(format!("{line}: {decided:?}"));
        }
    }
    assert!(
        blocked > 30 && allowed > 25,
        "the file has both: {blocked} blocked, {allowed} allowed"
    );
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn commands_are_judged_by_what_they_run() {
    check(CaseKind::Sandbox, include_str!("cases/sandbox.jsonl"));
}

#[test]
fn calls_are_judged_by_name_declarations_and_arguments() {
    check(CaseKind::Readonly, include_str!("cases/readonly.jsonl"));
}

#[test]
fn targets_are_judged_by_where_they_lead() {
    check(CaseKind::NetworkRestricted, include_str!("cases/network_restricted.jsonl"));
}

#[test]
fn code_is_judged_by_what_its_names_mean() {
    check(CaseKind::CodeSafety, include_str!("cases/code_safety.jsonl"));
}
