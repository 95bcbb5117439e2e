//! Tests with random configurations. The list of tools, the preview of a call, the call itself and the second check of
//! a call that waited must all make the same decision.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests may panic; the check of the house reads the line"
)]

mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use mgp_security::{CallOutcome, CallVerdict, Refusal, Requirement, Stage, Step, StepResult};
use mgp_types::mgp::Permission;
use mgp_types::service::{BoxFuture, CredentialGrant, Rule, Visibility as _};
use mgp_types::{ErrorCode, RpcError};

use world::{World, files};

/// Returns the number of random worlds: the environment variable `WORLDS`, or enough for a quick run.
fn worlds() -> u64 {
    std::env::var("WORLDS").ok().and_then(|count| count.parse().ok()).unwrap_or(1_500)
}

const TOOLS: [&str; 4] = ["read_file", "wipe", "run", "send"];
const NEEDED: [Permission; 3] =
    [Permission::FilesystemRead, Permission::NetworkOutbound, Permission::ShellExecute];
const ARGUMENTS: [&str; 4] =
    [r#"{"path":"/a/x"}"#, r#"{"path":"/b/x"}"#, r#"{"path":"/a/bad"}"#, "{}"];

/// The approver's possible answers. Each world is tried with one of them, in turn.
const ANSWERS: [Answer; 3] = [Answer::Nobody, Answer::Yes, Answer::No];

/// The answer that the approver gives to every question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Nobody,
    Yes,
    No,
}

type Change = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

fn code(error: &RpcError) -> ErrorCode {
    error.code()
}

fn rule(error: &RpcError) -> Option<String> {
    Rule::of(error).map(|rule| rule.as_str().to_owned())
}

/// Returns a name for the outcome of a verdict, to count which outcomes occurred.
fn word(verdict: &CallVerdict) -> String {
    match verdict.outcome() {
        CallOutcome::Allow => "allow".to_owned(),
        CallOutcome::Ask(Requirement::Permissions(missing)) if missing.is_empty() => {
            "ask for a record of permissions".to_owned()
        }
        CallOutcome::Ask(need) => {
            format!("ask for {}", format!("{need:?}").split('(').next().unwrap())
        }
        CallOutcome::Refuse(_) => {
            format!("refused by {}", verdict.steps().last().unwrap().stage)
        }
        _ => "other".to_owned(),
    }
}

/// Checks that a verdict explains itself: its last step is the rule that decided. If a person must first decide about
/// permissions, steps for the rules after permissions may follow.
fn is_explained(verdict: &CallVerdict) {
    let asks_for_permissions =
        matches!(verdict.outcome(), CallOutcome::Ask(Requirement::Permissions(_)));
    let is_decided = |step: &&Step| !asks_for_permissions || step.stage <= Stage::Permissions;
    let decided: Vec<Step> = verdict.steps().iter().filter(is_decided).cloned().collect();
    let (last, before) = decided.split_last().unwrap();
    let expected = match verdict.outcome() {
        CallOutcome::Allow => StepResult::Passed,
        CallOutcome::Refuse(_) => StepResult::Refused,
        _ => StepResult::Asks,
    };
    assert_eq!(last.result, expected, "{verdict:?}");
    let stages = verdict.steps().iter().map(|step| step.stage);
    assert!(stages.is_sorted(), "{verdict:?}");
    // A validator that refuses a call decides before a person is asked about permissions.
    let is_open = |step: &Step| last.stage == Stage::Validators && step.stage == Stage::Permissions;
    for step in before.iter().filter(|step| step.stage != last.stage && !is_open(step)) {
        assert_eq!(step.result, StepResult::Passed, "{verdict:?}");
    }
}

/// Checks that the list of tools shows what previews and searches show.
async fn the_list_agrees(world: &mut World) {
    if world.is_own {
        world.learn();
    }
    let listed = world.list().await;
    let mut cx = world.client.cx.clone();
    for tool in TOOLS {
        let verdict = world.explain(tool);
        is_explained(&verdict);
        assert_eq!(listed.contains(tool), verdict.is_visible(), "{tool}: {verdict:?}");
        let seen = world.governance.sees(&cx, Some(&files()), tool);
        assert_eq!(seen.is_ok(), verdict.is_visible(), "{tool}: {verdict:?}");
        assert_eq!(seen.is_ok(), world.governance.shows(&cx, "files", tool));
        the_missing_permissions_agree(world, tool, &verdict);
        if verdict.refusal().is_some() && !verdict.is_visible() {
            let last = verdict.steps().last().unwrap();
            assert!(matches!(last.stage, Stage::Access | Stage::Definition));
        }
    }
    // Credentials restrict calls and lists in the same way.
    cx.extensions.insert(CredentialGrant::new(["tools.call:wipe".to_owned()], || true));
    let before = std::mem::replace(&mut world.client.cx, cx);
    let narrowed = world.list().await;
    world.client.cx = before;
    let only = |name: &&String| name.as_str() == "wipe";
    assert_eq!(narrowed, listed.iter().filter(only).cloned().collect());
}

/// Checks that a call is not allowed, and that no question is asked about it, if a person cannot grant one of its
/// missing permissions. Any other call is refused for its permissions only if its arguments are outside the limits of a
/// permission, which lists cannot know.
fn the_missing_permissions_agree(world: &World, tool: &str, verdict: &CallVerdict) {
    let missing = world.governance.missing_permissions(&world.principal(), &files(), tool);
    let is_closed = missing.iter().any(|missing| !missing.may_ask);
    let about = || format!("{tool}: {missing:?}, {verdict:?}");
    match verdict.outcome() {
        CallOutcome::Refuse(Refusal::Permission(refused)) => {
            let error = RpcError::from(Refusal::Permission(refused.clone()));
            let details = error.as_recovery().unwrap().details.as_ref().unwrap();
            let lacks: Vec<serde_json::Value> = details.decode("missing").unwrap().unwrap();
            let is_outside = lacks.iter().any(|lack| lack["status"] == "out_of_scope");
            assert!(is_closed || is_outside, "{}", about());
        }
        CallOutcome::Allow
        | CallOutcome::Ask(Requirement::Permissions(_) | Requirement::Confirmation) => {
            assert!(!is_closed, "{}", about());
        }
        _ => {}
    }
}

/// Compares the second check of a call, which follows after the call has waited, with the preview. The second check
/// must refuse all calls that the preview refuses, and all calls with an open question, because no person has answered
/// the question.
fn the_recheck_agrees(world: &World, verdict: &CallVerdict) {
    let refused = world.recheck();
    match verdict.outcome() {
        CallOutcome::Allow => assert!(refused.is_none(), "{verdict:?}: {refused:?}"),
        CallOutcome::Ask(Requirement::Confirmation) => {
            assert!(refused.is_some_and(|error| is_unconfirmed(&error, "newly_needed")));
        }
        CallOutcome::Refuse(refusal) => {
            let (error, refused) = (RpcError::from(refusal.clone()), refused.unwrap());
            assert_eq!((code(&refused), rule(&refused)), (code(&error), rule(&error)));
        }
        CallOutcome::Ask(Requirement::Permissions(missing)) if !missing.is_empty() => {
            assert_eq!(code(&refused.unwrap()), ErrorCode::PERMISSION_DENIED, "{verdict:?}");
        }
        // These calls first need the list of tools or an audit record, so their outcome is not final.
        _ => {}
    }
}

/// Makes a call, and checks that previews before and after the call agree with its outcome. Returns the name of the
/// outcome that the first preview shows.
async fn the_gate_agrees(world: &mut World, answer: Answer) -> String {
    let before = world.explain(world.tool);
    the_recheck_agrees(world, &before);
    let refused = world.call().await;
    let after = world.explain(world.tool);
    let about = || format!("{answer:?}, before {before:?}, {refused:?}, after {after:?}");
    match before.outcome() {
        CallOutcome::Allow => assert!(refused.is_none(), "{}", about()),
        CallOutcome::Refuse(refusal) => {
            let (error, refused) = (RpcError::from(refusal.clone()), refused.as_ref().unwrap());
            assert_eq!((code(refused), rule(refused)), (code(&error), rule(&error)), "{}", about());
        }
        _ => {}
    }
    if before.is_allowed() || before.refusal().is_some() {
        assert_eq!(world.questions(), 0, "nobody is asked in vain: {}", about());
    }
    match after.outcome() {
        CallOutcome::Allow => assert!(refused.is_none(), "{}", about()),
        CallOutcome::Refuse(refusal) => {
            let (error, refused) = (RpcError::from(refusal.clone()), refused.as_ref().unwrap());
            assert_eq!((code(refused), rule(refused)), (code(&error), rule(&error)), "{}", about());
        }
        CallOutcome::Ask(Requirement::Confirmation) => {
            assert_eq!(refused.is_none(), answer == Answer::Yes, "{}", about());
        }
        // If the question was about a call together with its permissions, the answer applies to that call only.
        CallOutcome::Ask(Requirement::Permissions(_)) => match &refused {
            None => assert_eq!(answer, Answer::Yes, "{}", about()),
            Some(refused) => {
                assert_ne!(answer, Answer::Yes, "{}", about());
                assert_eq!(code(refused), ErrorCode::PERMISSION_DENIED);
            }
        },
        _ => panic!("the tools were listed and overrides recorded: {}", about()),
    }
    the_recheck_agrees(world, &after);
    word(&before)
}

/// Checks that a call that waited runs only if it passes the second check, whatever changed meanwhile.
async fn a_change_while_asked_counts(world: &mut World, rng: &mut Rng) -> &'static str {
    let change = world.change(rng);
    *world.officer.change.lock().unwrap() = Some(change);
    let refused = world.call().await;
    if world.officer.change.lock().unwrap().take().is_some() {
        return "nobody was asked";
    }
    // The second check has no answer of a person, so a missing confirmation is not compared.
    let is_compared = |error: &RpcError| !is_unconfirmed(error, "newly_needed");
    let (after, recheck) = (world.explain(world.tool), world.recheck().filter(is_compared));
    let about = format!("{refused:?}, {recheck:?}, after {after:?}");
    match (&refused, &recheck) {
        (None, recheck) => {
            let was_granted_once =
                matches!(after.outcome(), CallOutcome::Ask(Requirement::Permissions(_)));
            assert!(recheck.is_none() || was_granted_once, "it ran: {about}");
            assert!(after.refusal().is_none(), "it ran: {about}");
            "a change let it run"
        }
        (Some(refused), Some(recheck)) => {
            // While the call was being confirmed, the definition of the tool may have changed. Then the two refusals
            // may differ.
            let is_same = (code(refused), rule(refused)) == (code(recheck), rule(recheck));
            assert!(is_same || is_unconfirmed(refused, "changed"), "{about}");
            "a change refused it"
        }
        (Some(refused), None) => {
            assert!(is_unconfirmed(refused, "changed"), "{about}");
            "it was not confirmed"
        }
    }
}

fn is_unconfirmed(error: &RpcError, why: &str) -> bool {
    let rule = rule(error).unwrap_or_default();
    rule.starts_with("confirmation") && rule.ends_with(why)
}

#[test]
fn house_verdict() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    std::thread::scope(|scope| {
        let each = |thread| scope.spawn(move || worlds_of(thread, threads, worlds()));
        let running: Vec<_> = (0..threads).map(each).collect();
        for done in running {
            for word in done.join().unwrap() {
                *counts.entry(word).or_default() += 1;
            }
        }
    });
    let expected = [
        "allow",
        "ask for Confirmation",
        "ask for Listing",
        "ask for Permissions",
        "ask for RiskRecord",
        "ask for a record of permissions",
        "refused by access",
        "refused by definition",
        "refused by permissions",
        "refused by validators",
        "a change let it run",
        "a change refused it",
        "it was not confirmed",
        "nobody was asked",
    ];
    let rare: Vec<_> = expected
        .into_iter()
        .filter(|word| counts.get(*word).copied().unwrap_or_default() < worlds() / 500)
        .collect();
    assert!(rare.is_empty(), "rarely tried: {rare:?} of {counts:?}");
    println!("{} worlds agree: {counts:?}", worlds());
}

/// Tries all worlds of one thread; returns the outcomes that occurred in them.
fn worlds_of(thread: usize, threads: usize, worlds: u64) -> Vec<String> {
    let mut words = Vec::new();
    let seeds: Vec<u64> = (0..worlds).skip(thread).step_by(threads).collect();
    for batch in seeds.chunks(250) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (seed, answer) in batch.iter().zip(ANSWERS.into_iter().cycle()) {
            let tried = AssertUnwindSafe(|| runtime.block_on(one_world(*seed, answer)));
            let tried = catch_unwind(tried);
            words.extend(
                tried.unwrap_or_else(|_| panic!("in the world of seed {seed}, {answer:?}")),
            );
        }
    }
    words
}

/// Tries one world; returns the outcomes that occurred in it.
async fn one_world(seed: u64, answer: Answer) -> Vec<String> {
    let mut world = World::new(seed, answer).await;
    let first = the_gate_agrees(&mut world, answer).await;
    the_list_agrees(&mut world).await;
    let rng = &mut Rng::with_seed(!seed);
    let mut other = World::new(seed, Answer::Yes).await;
    let second = a_change_while_asked_counts(&mut other, rng).await;
    vec![first, second.to_owned()]
}
