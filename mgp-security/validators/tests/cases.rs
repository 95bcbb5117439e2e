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
    assert!(blocked > 7 && allowed > 7, "the file has both: {blocked} blocked, {allowed} allowed");
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
fn statements_of_sql_are_judged_by_whether_they_may_write() {
    check(CaseKind::Readonly, include_str!("cases/sql.jsonl"));
}

#[test]
fn targets_are_judged_by_where_they_lead() {
    check(CaseKind::NetworkRestricted, include_str!("cases/network_restricted.jsonl"));
}

#[test]
fn code_is_judged_by_what_its_names_mean() {
    check(CaseKind::CodeSafety, include_str!("cases/code_safety.jsonl"));
}

#[test]
fn a_command_is_found_in_every_shape_of_arguments() {
    check(CaseKind::Sandbox, include_str!("cases/argument_shapes.jsonl"));
}

#[test]
fn relative_paths_are_judged_in_the_working_folder() {
    check(CaseKind::Sandbox, include_str!("cases/working_folders.jsonl"));
}

#[test]
fn code_in_standard_input_is_judged_in_the_language_of_the_program() {
    check(CaseKind::Sandbox, include_str!("cases/standard_input.jsonl"));
}

#[test]
fn a_newline_in_quotes_or_in_an_item_is_data() {
    check(CaseKind::Sandbox, include_str!("cases/newlines.jsonl"));
}

#[test]
fn a_script_feeds_no_command_with_code_that_is_not_judged() {
    check(CaseKind::CodeSafety, include_str!("cases/script_input.jsonl"));
}

#[test]
fn a_local_host_that_is_named_passes_and_no_other_does() {
    check(CaseKind::NetworkRestricted, include_str!("cases/local_hosts.jsonl"));
    check(CaseKind::Sandbox, include_str!("cases/local_hosts_sandbox.jsonl"));
}
