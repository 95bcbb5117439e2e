//! Tests of properties that must hold for all combinations of approvals, policies and times.

use std::collections::BTreeMap;
use std::time::SystemTime;

use mgp_types::mgp::PermissionScope;
use proptest::prelude::*;

use super::super::book::{Book, StoredApproval};
use super::super::entry::ApprovalOwner;
use super::super::rule::{PermissionNeed, PermissionState};
use super::*;
use crate::state::Snapshot as _;

const NAMES: [&str; 5] = ["filesystem.read", "camera", "com.example.x", "odd", "memory.read"];
const ARGUMENTS: [&str; 3] = [r#"{"path":"/a/x"}"#, r#"{"path":"/b/x"}"#, "{}"];

fn at(second: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + second)
}

fn place() -> ApprovalOwner {
    ApprovalOwner { tenant: "acme".into(), server: Some(server()) }
}

fn policy() -> impl Strategy<Value = ServerPolicy> {
    let word = prop_oneof![
        Just("interactive"),
        Just("auto_approve"),
        Just("deny_all"),
        Just("config_only"),
        Just("odd"),
    ];
    let listed = proptest::sample::subsequence(
        vec!["*", "filesystem", "camera", "com.example.*", "com.example.x"],
        0..3,
    );
    (word, listed).prop_map(|(word, listed)| {
        let mut policy = governed(word.into());
        policy.permissions = listed.into_iter().map(Into::into).collect();
        policy
    })
}

fn scope() -> impl Strategy<Value = Option<PermissionScope>> {
    let json = prop_oneof![
        Just(None),
        Just(Some(r#"{"paths":["/a"]}"#)),
        Just(Some(r#"{"paths":["/a","/b"],"deny_paths":["/b/x"]}"#)),
        Just(Some(r#"{"hosts":["a.example"]}"#)),
    ];
    json.prop_map(|json| json.map(|json| serde_json::from_str(json).unwrap()))
}

fn approval() -> impl Strategy<Value = Approval> {
    let decision = prop_oneof![
        3 => Just(ApprovalDecision::Approved),
        1 => Just(ApprovalDecision::Denied),
        1 => Just(ApprovalDecision::Revoked),
    ];
    let source = prop_oneof![
        Just(ApprovalSource::Operator),
        Just(ApprovalSource::Answer),
        Just(ApprovalSource::Policy),
    ];
    let end = proptest::option::of(0..100_u64);
    let tools = proptest::sample::subsequence(vec!["t", "u"], 0..2);
    (proptest::sample::select(&NAMES[..]), decision, source, scope(), end, tools).prop_map(
        |(name, decision, source, scope, end, tools)| {
            let mut approval = Approval::new(&place(), name.into(), decision, source, "olga");
            approval.scope = scope;
            approval.expires_at = end.map(|end| at(end).into());
            approval.tools = tools.into_iter().map(str::to_owned).collect();
            approval
        },
    )
}

fn book(approvals: &[Approval]) -> Book {
    let entries: BTreeMap<_, _> =
        approvals.iter().map(|approval| (approval.key(), Arc::new(approval.clone()))).collect();
    Book::of(&entries)
}

/// Returns whether a call of the tool `t`, which needs one permission, runs without a question to an approver.
fn runs(
    approvals: &[Approval],
    policy: &ServerPolicy,
    name: &str,
    arguments: &str,
    second: u64,
) -> bool {
    let book = book(approvals);
    let permission = name.into();
    let held = book.held(&"acme".into(), Some(&server()));
    let need = PermissionNeed {
        principal: &Principal::local(),
        server: Some(&server()),
        tool: "t",
        needed: std::slice::from_ref(&permission),
        arguments: Some(arguments),
        any_arguments: false,
        definition: None,
        at: at(second),
        tools: None,
    };
    PermissionState::of(policy, held, &permission, need.at, || false)
        .missing(&permission, &need)
        .is_none()
}

fn worlds() -> impl Strategy<Value = (Vec<Approval>, ServerPolicy, &'static str, &'static str, u64)>
{
    (
        proptest::collection::vec(approval(), 0..6),
        policy(),
        proptest::sample::select(&NAMES[..]),
        proptest::sample::select(&ARGUMENTS[..]),
        0..100_u64,
    )
}

proptest! {
    #[test]
    fn nothing_runs_that_nobody_granted((approvals, policy, name, arguments, second) in worlds()) {
        if !runs(&approvals, &policy, name, arguments, second) {
            return Ok(());
        }
        // If there are several approvals of the same permission, the last one counts.
        let held = approvals.iter().rev().find(|approval| approval.permission.as_str() == name);
        let word = policy.permission_policy.as_str();
        let listed = policy.permissions.iter().any(|listed| match listed.as_str() {
            "*" => name != "com.example.x" && name != "odd",
            "filesystem" => name == "filesystem.read",
            listed => listed == name,
        });
        let alive = |approval: &Approval| approval.until().is_none_or(|end| end > at(second));
        let counts = |approval: &Approval| match approval.source {
            ApprovalSource::Operator => true,
            ApprovalSource::Policy => word == "auto_approve",
            ApprovalSource::Answer => {
                word != "deny_all" || approval.decision != ApprovalDecision::Approved
            }
        };
        let approved = held.is_some_and(|approval| {
            approval.decision == ApprovalDecision::Approved
                && alive(approval)
                && counts(approval)
                && (approval.tools.is_empty() || approval.tools.iter().any(|tool| tool == "t"))
                && match approval.scope.as_ref().map(|scope| scope.paths.len()) {
                    None => true,
                    Some(1 | 2) => arguments.contains("/a/"),
                    Some(_) => false,
                }
        });
        let spoken_for = held.is_some_and(|approval| {
            counts(approval)
                && (approval.decision != ApprovalDecision::Denied || alive(approval))
        });
        let granted = match word {
            "config_only" => listed,
            "interactive" | "deny_all" => approved || listed && !spoken_for,
            "auto_approve" => approved || (listed || name != "odd") && !spoken_for,
            _ => false,
        };
        prop_assert!(granted, "{name} ran under {word}: {held:?}");
    }

    #[test]
    fn a_denial_or_a_revocation_never_opens(
        (mut approvals, policy, name, arguments, second) in worlds(),
        target in proptest::sample::select(&NAMES[..]),
        decision in prop_oneof![Just(ApprovalDecision::Denied), Just(ApprovalDecision::Revoked)],
    ) {
        let before = runs(&approvals, &policy, name, arguments, second);
        approvals.push(Approval::new(&place(), target.into(), decision, ApprovalSource::Operator, "olga"));
        let after = runs(&approvals, &policy, name, arguments, second);
        prop_assert!(before || !after, "{decision:?} of {target} opened {name}");
        prop_assert!(!after || target != name || policy.permission_policy.as_str() == "config_only");
    }

    #[test]
    fn a_narrower_approval_never_opens(
        (approvals, policy, name, arguments, second) in worlds(),
        mut wide in approval(),
        end in 0..100_u64,
        how in 0..4,
    ) {
        wide.permission = name.into();
        wide.decision = ApprovalDecision::Approved;
        let mut narrow = wide.clone();
        match how {
            0 if wide.until().is_none_or(|until| until > at(end)) => narrow.expires_at = Some(at(end).into()),
            1 => narrow.tools = vec!["u".to_owned()],
            2 if wide.scope.is_none() => narrow.scope = Some(serde_json::from_str(r#"{"paths":["/a"]}"#).unwrap()),
            _ => narrow.scope.get_or_insert_with(PermissionScope::new).deny_paths.push("/a".to_owned()),
        }
        let with = |last: &Approval| {
            let mut all = approvals.clone();
            all.push(last.clone());
            runs(&all, &policy, name, arguments, second)
        };
        prop_assert!(with(&wide) || !with(&narrow), "{narrow:?} opens more than {wide:?}");
    }

    #[test]
    fn time_never_opens_what_was_approved((mut approvals, policy, name, arguments, second) in worlds(), later in 0..100_u64) {
        // Leave denials out: the end of a denial is meant to allow the call again.
        approvals.retain(|approval| approval.decision != ApprovalDecision::Denied);
        let before = runs(&approvals, &policy, name, arguments, second);
        let after = runs(&approvals, &policy, name, arguments, second + later);
        prop_assert!(before || !after);
    }

    #[test]
    fn approvals_survive_the_store(approval in approval()) {
        let text = serde_json::to_string(&approval).unwrap();
        let read: Approval = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&read, &approval);
        prop_assert_eq!(StoredApproval::of(&Arc::new(read)).is_over(at(50)), approval.until().is_some_and(|end| end <= at(50)));
    }
}

#[test]
fn no_two_places_have_one_name_in_the_store() {
    let named = |tenant: &str, server: Option<&str>, permission: &str| {
        let place = ApprovalOwner { tenant: tenant.into(), server: server.map(Into::into) };
        place.key(&permission.into())
    };
    let keys = [
        named("a", Some("b"), "c"),
        named("a\",\"b", Some("c"), "c"),
        named("a", None, "c"),
        named("a", Some("null"), "c"),
        named("a", Some(""), "c"),
        named("a", Some("b\",\"c"), ""),
    ];
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(key), "{key}");
    }
}
