//! Tests of calls that a person must confirm: the answer to the caller, the audit log, and the inbox (MGP §4.4).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::{Client, ToolResult};
use mgp_testkit::until;
use mgp_types::mcp::{ElicitAction, ElicitParams, ElicitResult, Era};
use serde_json::{Value, json};

use crate::refusal::Refused;
use crate::word::TINY;
use crate::world::{ERAS, World};

/// A configuration in which a person may take longer to confirm a call than a tool may take to run.
const CONFIG: &str = r#"
[kernel]
timeout = "3s"
max_timeout = "3s"
form_timeout = "8s"
approval_timeout = "10s"

[agents.legacy-form]
interactive = true

[agents.modern-form]
interactive = true

[[servers]]
id = "files"
command = "sh"
args = ["{DIR}/files.sh"]
era = "legacy"
[servers.mgp]
default_policy = "opt-out"
"#;

/// A host with a simulated person. The last word of a path decides how this person answers the form about the path.
struct Desk {
    agent: String,
    era: Era,
    host: Client,
    forms: Arc<AtomicUsize>,
}

fn world() -> World {
    world_of(CONFIG)
}

/// Creates a world in which the kernel refuses a call from a host without forms after a short wait. Once an operator
/// has approved it, the host can repeat the call.
fn quick_world() -> World {
    world_of(&CONFIG.replace(r#"approval_timeout = "10s""#, r#"approval_timeout = "50ms""#))
}

fn world_of(config: &str) -> World {
    let world = World::new(config);
    let script = TINY.replace(r#","experimental":{"mgp":CAPABILITY}"#, "");
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}});
    let tools = json!([{"name": "write_file", "inputSchema": schema}]);
    world.write("files.sh", &script.replace("TOOLS", &tools.to_string()));
    world
}

async fn person(question: ElicitParams) -> ElicitResult {
    let content = |content: Value| Some(serde_json::from_value(content).unwrap());
    let says = |word: &str| question.message.contains(&format!("/{word}\""));
    let mut answer = ElicitResult::new(ElicitAction::Accept);
    if says("quick") || says("slow") {
        answer.content = content(json!({"confirm": true}));
    } else if says("reason") {
        answer.content = content(json!({"confirm": false, "reason": "not today"}));
    } else if says("decline") {
        answer.action = ElicitAction::Decline;
    } else if says("cancel") {
        answer.action = ElicitAction::Cancel;
    } else if says("never") {
        std::future::pending::<()>().await;
    }
    if says("slow") {
        tokio::time::sleep(Duration::from_secs(4)).await;
    }
    answer
}

impl Desk {
    async fn new(world: &World, era: Era, has_form: bool) -> Self {
        let agent = format!("{era:?}-{}", if has_form { "form" } else { "plain" }).to_lowercase();
        let forms: Arc<AtomicUsize> = Arc::default();
        let counted = Arc::clone(&forms);
        let mut builder = Client::builder("host", "1").timeout(Duration::from_mins(2));
        if has_form {
            builder = builder.on_elicitation(move |question| {
                counted.fetch_add(1, Ordering::SeqCst);
                async move { Ok(person(question).await) }
            });
        }
        let host = world.host(&agent, era, builder).await;
        Self { agent, era, host, forms }
    }

    async fn write(&self, path: &str) -> Result<String, Refused> {
        let call = self.host.call("write_file").arg("path", path).arg("content", "a");
        match call.await.and_then(ToolResult::into_result) {
            Ok(result) => Ok(serde_json::to_string(&result).unwrap()),
            Err(error) => Err(Refused::of(Err(error))),
        }
    }

    fn events(&self, world: &World, kind: &str) -> Vec<Value> {
        let query = ["audit", "query", "--type", kind, "--agent", &self.agent];
        world.json(&query).as_array().unwrap().clone()
    }

    /// Returns the latest approval of this agent that mentions a path.
    fn approval(&self, world: &World, path: &str) -> Value {
        let listed = world.json(&["approvals", "ls"]);
        let mut mine = listed.as_array().unwrap().iter().filter(|one| {
            one["agent_id"] == self.agent && one["question"].as_str().unwrap().contains(path)
        });
        mine.next_back().unwrap_or_else(|| panic!("{listed}")).clone()
    }
}

/// The forms of a test. Each entry has the path, whose last word is the behaviour of the person; the text that the
/// caller reads (`None` if the call runs); and the resulting state of the approval in the inbox.
const FORMS: [(&str, Option<&str>, &str); 7] = [
    ("/srv/a/quick", None, "used"),
    ("/srv/a/slow", None, "used"),
    ("/srv/a/reason", Some("a person denied it (“not today”)"), "denied"),
    ("/srv/a/unticked", Some("a person denied it"), "denied"),
    ("/srv/a/decline", Some("a person denied it"), "denied"),
    ("/srv/a/cancel", Some("the question was closed without an answer; it is dangerous"), "open"),
    ("/srv/a/never", Some("it was not confirmed in time; it is dangerous"), "open"),
];

#[tokio::test]
async fn a_form_does_what_its_words_say_and_nothing_counts_as_run_that_did_not() {
    for era in ERAS {
        let world = world();
        let desk = Desk::new(&world, era, true).await;
        world.knows(1).await;
        for (path, reads, state) in FORMS {
            let (ran, asked) =
                (desk.events(&world, "TOOL_EXECUTED").len(), desk.forms.load(Ordering::SeqCst));
            let about = format!("{era:?} {path}");
            if path.ends_with("never") && era == Era::Modern {
                // The host still shows the question. The kernel cannot know how long the person will take, so it keeps
                // the call open.
                let waits = tokio::time::timeout(Duration::from_secs(2), desk.write(path)).await;
                assert!(waits.is_err(), "{about}");
            } else {
                match (desk.write(path).await, reads) {
                    (Ok(_), None) => {}
                    (Err(refused), Some(words)) => {
                        assert_eq!(refused.code, 1000, "{about}");
                        assert!(refused.reason.contains("`write_file` did not run"), "{refused:?}");
                        assert!(refused.reason.contains(words), "{refused:?}");
                        refused.names_no_command();
                    }
                    other => panic!("{about}: {other:?}"),
                }
            }
            // A single form asks about both the permission and the call.
            assert_eq!(desk.forms.load(Ordering::SeqCst), asked + 1, "{about}");
            let approval = desk.approval(&world, path);
            assert_eq!(approval["state"], state, "{about}");
            assert_eq!(approval["kind"], "call", "{about}");
            let is_answered = state != "open";
            assert_eq!(approval["via"] == "host", is_answered, "{about}: {approval}");
            let runs = usize::from(reads.is_none());
            until("it is on the record", async || {
                desk.events(&world, "TOOL_EXECUTED").len() == ran + runs
            })
            .await;
            if path.ends_with("reason") {
                assert_eq!(approval["justification"], "not today");
                let denied = desk_events(&world, "dev.cloto.confirmation_denied");
                assert!(denied.contains("not today"), "{denied}");
            }
        }
        let blocked = desk.events(&world, "TOOL_BLOCKED").len();
        assert_eq!(blocked, if desk.era == Era::Legacy { 5 } else { 4 });
        // The kernel does not remember a denial: it asks again about the same call, unless an operator has answered
        // meanwhile.
        desk.write("/srv/a/unticked").await.unwrap_err();
        assert_eq!(desk.forms.load(Ordering::SeqCst), 8);
        let open = desk.approval(&world, "/srv/a/cancel");
        world.quietly(&["approvals", "approve", open["id"].as_str().unwrap()]);
        desk.write("/srv/a/cancel").await.unwrap();
        assert_eq!(desk.forms.load(Ordering::SeqCst), 8, "{era:?}");
    }
}

fn desk_events(world: &World, kind: &str) -> String {
    world.json(&["audit", "query", "--type", kind]).to_string()
}

#[tokio::test]
async fn without_forms_a_call_waits_for_an_operator_and_reads_the_reason() {
    for era in ERAS {
        let world = world();
        let desk = Desk::new(&world, era, false).await;
        world.knows(1).await;
        let decide = async |path: &str, decision: &str| {
            let listed = || world.json(&["approvals", "ls"]).to_string();
            until("it waits", async || listed().contains(path)).await;
            let open = desk.approval(&world, path);
            let id = open["id"].as_str().unwrap();
            world.quietly(&["approvals", decision, id, "--because", "as Ann said"]);
        };
        let (ran, ()) = tokio::join!(desk.write("/srv/a/yes"), decide("/srv/a/yes", "approve"));
        ran.unwrap();
        let (refused, ()) = tokio::join!(desk.write("/srv/a/no"), decide("/srv/a/no", "deny"));
        let refused = refused.unwrap_err();
        assert!(refused.reason.contains("a person denied it (“as Ann said”)"), "{refused:?}");

        let why = |path: &str| {
            let path = format!("path={path}");
            world.json(&["why", &desk.agent, "files.write_file", &path, "content=a"])
        };
        let refused = desk.write("/srv/a/never").await.unwrap_err();
        assert!(
            refused.reason.contains("it was not confirmed in time; it is dangerous"),
            "{refused:?}"
        );
        assert!(refused.reason.contains("in the console of mgp"), "{refused:?}");
        refused.names_no_command();
        let open = desk.approval(&world, "/srv/a/never");
        assert_eq!(open["state"], "open");
        let explained = why("/srv/a/never");
        let id = open["id"].as_str().unwrap();
        assert_eq!(explained["outcome"], "ask", "{explained}");
        assert!(explained["reason"].as_str().unwrap().ends_with(&format!("approval {id} is open")));
        assert_eq!(desk.events(&world, "TOOL_EXECUTED").len(), 1);
        assert_eq!(desk.events(&world, "TOOL_BLOCKED").len(), 2);

        // The operator replaces the denial with an approval, and the call runs once.
        let denied = why("/srv/a/no");
        assert_eq!(denied["outcome"], "refuse", "{denied}");
        let (reason, id) =
            (denied["reason"].as_str().unwrap(), &desk.approval(&world, "/srv/a/no"));
        let id = id["id"].as_str().unwrap();
        assert!(reason.starts_with("a person denied it: as Ann said; "), "{reason}");
        assert!(
            reason.contains(&format!("`mgp approvals approve {id}` takes it back")),
            "{reason}"
        );
        world.quietly(&["approvals", "approve", id]);
        assert_eq!(why("/srv/a/no")["outcome"], "allow");
        desk.write("/srv/a/no").await.unwrap();
        assert_eq!(desk.events(&world, "TOOL_EXECUTED").len(), 2);
    }
}

#[tokio::test]
async fn a_call_that_its_host_gives_up_while_a_person_reads_did_not_run() {
    let world = world();
    let desk = Desk::new(&world, Era::Legacy, true).await;
    world.knows(1).await;
    let call = desk.host.call("write_file").arg("path", "/srv/a/never").arg("content", "a");
    tokio::select! {
        ended = call.into_future() => panic!("{ended:?}"),
        () = until("the form is shown", async || desk.forms.load(Ordering::SeqCst) == 1) => {}
    }
    until("it is on the record", async || desk.events(&world, "TOOL_BLOCKED").len() == 1).await;
    assert_eq!(desk.events(&world, "TOOL_BLOCKED")[0]["details"]["cancelled"], true);
    assert_eq!(desk.events(&world, "TOOL_EXECUTED").len(), 0);
    assert_eq!(desk.approval(&world, "/srv/a/never")["state"], "open");
}

#[tokio::test]
async fn a_kernel_that_stops_waits_for_no_person() {
    for (has_form, text) in
        [(true, "closed without an answer; it is dangerous"), (false, "approval")]
    {
        // Remove the short time limits, so that no call in this test ends by itself.
        let slow = CONFIG.replace(r#"form_timeout = "8s""#, "").replace(r#""10s""#, r#""2m""#);
        let world = world_of(&slow);
        let desk = Desk::new(&world, Era::Legacy, has_form).await;
        world.knows(1).await;
        let stop = async {
            let listed = || world.json(&["approvals", "ls"]).to_string();
            until("it waits", async || listed().contains("/srv/a/never")).await;
            let mut stop = tokio::process::Command::from(world.command(&["stop"]));
            let begun = tokio::time::Instant::now();
            assert!(stop.status().await.unwrap().success());
            begun.elapsed()
        };
        let (refused, took) = tokio::join!(desk.write("/srv/a/never"), stop);
        let refused = refused.unwrap_err();
        assert!(took < Duration::from_secs(15), "{took:?}");
        assert_eq!(refused.code, 1000, "{refused:?}");
        assert!(refused.reason.contains("`write_file` did not run"), "{refused:?}");
        assert!(refused.reason.contains(text), "{refused:?}");
        // The question stays open, so that an operator can still answer it when the next kernel runs.
        assert_eq!(desk.approval(&world, "/srv/a/never")["state"], "open");
    }
}

#[tokio::test]
async fn calls_like_an_approved_one_run_and_others_wait() {
    for era in ERAS {
        let world = quick_world();
        let desk = Desk::new(&world, era, false).await;
        world.knows(1).await;
        let ran = async |path: &str, term: &[&str]| {
            desk.write(path).await.unwrap_err();
            let open = desk.approval(&world, path);
            let id = open["id"].as_str().unwrap();
            world.quietly(&[&["approvals", "approve", id][..], term].concat());
            desk.write(path).await.unwrap();
            open["like"].as_str().unwrap().to_owned()
        };
        let like = ran("/srv/notes/a.txt", &["--always-like-this"]).await;
        assert_eq!(like, "paths below `/srv/notes`");
        desk.write("/srv/notes/b.txt").await.unwrap();
        let elsewhere = ["/srv/other/a.txt", "/srv/notes/../other/b.txt", "/srv/notes2/c.txt"];
        for path in elsewhere {
            desk.write(path).await.unwrap_err();
        }
        // `mgp permissions ls` lists the approval with its limits. Once the approval is revoked, it no longer applies.
        let listed = world.json(&["permissions", "ls", "files"]);
        let kept = &listed[0];
        assert_eq!((&kept["limits"], &kept["agent_id"]), (&json!(like), &json!(desk.agent)));
        let id = kept["permission"].as_str().unwrap();
        world.quietly(&["permissions", "revoke", "files", id]);
        for path in ["/srv/notes/c.txt", "/srv/notes/a.txt"] {
            desk.write(path).await.unwrap_err();
        }

        // With `--for`, all calls of the tool by this agent run for a time, but calls of other agents do not.
        ran("/srv/x/a.txt", &["--for", "1h"]).await;
        desk.write("/srv/y/b.txt").await.unwrap();
        let other = Desk::new(&world, era, true).await;
        other.write("/srv/y/unticked").await.unwrap_err();
        assert_eq!(other.forms.load(Ordering::SeqCst), 1);
        // Revoking the permission also ends the approval of calls that need it.
        world.quietly(&["permissions", "revoke", "files", "filesystem.write"]);
        desk.write("/srv/y/c.txt").await.unwrap_err();
    }
}

#[tokio::test]
async fn a_form_offers_what_the_inbox_offers() {
    let world = world();
    let forms: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&forms);
    let builder = Client::builder("host", "1").on_elicitation(move |question: ElicitParams| {
        counted.fetch_add(1, Ordering::SeqCst);
        assert!(question.message.contains("Calls like this: paths below `/srv/notes`"));
        async move {
            let mut answer = ElicitResult::new(ElicitAction::Accept);
            let content = json!({"confirm": true, "term": "calls like this for 30 days"});
            answer.content = Some(serde_json::from_value(content).unwrap());
            Ok(answer)
        }
    });
    let host = world.host("legacy-form", Era::Legacy, builder).await;
    world.knows(1).await;
    for name in ["a.txt", "b.txt"] {
        let path = format!("/srv/notes/{name}");
        host.call("write_file").arg("path", &path).await.unwrap();
    }
    assert_eq!(forms.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_late_answer_about_permissions_is_for_the_calls_of_all_agents() {
    for (answer, decision) in [("approve", "approved"), ("deny", "denied")] {
        let config = CONFIG.replace(r#"approval_timeout = "10s""#, r#"approval_timeout = "50ms""#);
        let world = world_of(&format!("{config}risk = {{ write_file = \"moderate\" }}\n"));
        let desks =
            [Desk::new(&world, ERAS[0], false).await, Desk::new(&world, ERAS[1], false).await];
        world.knows(1).await;
        for desk in &desks {
            desk.write("/srv/a/x.txt").await.unwrap_err();
        }
        let open = || {
            let all = world.json(&["approvals", "ls"]);
            let all = all.as_array().unwrap().iter();
            all.filter(|one| one["state"] == "open").cloned().collect::<Vec<_>>()
        };
        let asked = open();
        assert!(asked.len() == 2 && asked[0]["kind"] == "permissions", "{asked:?}");
        world.quietly(&["approvals", answer, asked[0]["id"].as_str().unwrap()]);
        assert_eq!(open(), Vec::<Value>::new(), "one answer is for both agents");
        let kept = world.json(&["permissions", "ls", "files"]);
        let kept = (&kept[0]["permission"], &kept[0]["decision"]);
        assert_eq!(kept, (&json!("filesystem.write"), &json!(decision)));
        for desk in &desks {
            assert_eq!(desk.write("/srv/a/y.txt").await.is_ok(), answer == "approve");
        }
        assert_eq!(open(), Vec::<Value>::new(), "no agent is asked again");
    }
}

#[tokio::test]
async fn approvals_are_decided_without_a_kernel() {
    let world = quick_world();
    let desk = Desk::new(&world, Era::Legacy, false).await;
    world.knows(1).await;
    desk.write("/srv/a/one.txt").await.unwrap_err();
    desk.write("/srv/a/two.txt").await.unwrap_err();
    let (one, two) = (
        desk.approval(&world, "one.txt")["id"].clone(),
        desk.approval(&world, "two.txt")["id"].clone(),
    );
    let (one, two) = (one.as_str().unwrap(), two.as_str().unwrap());
    desk.host.close().await;
    world.quietly(&["stop"]);
    until("the kernel has ended", async || !world.path("state/mgp.sock").exists()).await;
    assert_eq!(world.json(&["approvals", "ls"]).as_array().unwrap().len(), 2);
    let whole = world.json(&["approvals", "show", one]);
    assert!(whole["arguments"].as_str().unwrap().contains("one.txt"), "{whole}");
    world.quietly(&["approvals", "approve", one]);
    world.quietly(&["approvals", "deny", two, "--because", "too late"]);
    let desk = Desk::new(&world, Era::Legacy, false).await;
    world.knows(1).await;
    desk.write("/srv/a/one.txt").await.unwrap();
    let refused = desk.write("/srv/a/two.txt").await.unwrap_err();
    assert!(refused.reason.contains("“too late”"), "{refused:?}");
}

#[tokio::test]
async fn a_revocation_without_a_kernel_ends_unused_approvals() {
    let world = quick_world();
    let desk = Desk::new(&world, Era::Legacy, false).await;
    world.knows(1).await;
    desk.write("/srv/a/one.txt").await.unwrap_err();
    let asked = desk.approval(&world, "one.txt");
    assert_eq!(asked["permissions"], json!(["filesystem.write"]));
    desk.host.close().await;
    world.quietly(&["stop"]);
    until("the kernel has ended", async || !world.path("state/mgp.sock").exists()).await;
    world.quietly(&["approvals", "approve", asked["id"].as_str().unwrap()]);
    world.quietly(&["permissions", "revoke", "files", "filesystem.write"]);
    let desk = Desk::new(&world, Era::Legacy, false).await;
    world.knows(1).await;
    desk.write("/srv/a/one.txt").await.unwrap_err();
}

#[tokio::test]
async fn limits_of_a_permission_hold_in_the_file_and_by_flag() {
    let world = world();
    let file = "permissions = [\"filesystem.write\"]\nrisk = { write_file = \"moderate\" }\n\
                [servers.mgp.permission_limits]\npaths = [\"/srv/notes\"]\n";
    world.configure(&format!("{CONFIG}{file}"));
    let desk = Desk::new(&world, Era::Legacy, false).await;
    world.knows(1).await;
    let refused = async |path: &str| desk.write(path).await.unwrap_err().details["missing"].clone();
    desk.write("/srv/notes/a.txt").await.unwrap();
    // Servers resolve each of these paths to a file outside of the approved folder.
    for outside in [
        "/etc/a.txt",
        "/srv/notes/../../etc/a.txt",
        "http://x/../../../../../etc/a.txt",
        "file:///etc/a.txt",
    ] {
        assert_eq!(refused(outside).await[0]["status"], "out_of_scope", "{outside}");
    }
    // The tool does not declare the argument `file` and ignores it, so this argument does not show that the call is for
    // a file in the folder.
    let ignored = desk.host.call("write_file").arg("name", "b").arg("file", "/srv/notes/b.txt");
    let ignored = Refused::of(Err(ignored.await.and_then(ToolResult::into_result).unwrap_err()));
    assert_eq!(ignored.details["missing"][0]["status"], "out_of_scope", "{ignored:?}");

    let approve = ["permissions", "approve", "files", "filesystem.write", "--path", "/etc"];
    world.quietly(&approve);
    desk.write("/etc/a.txt").await.unwrap();
    assert_eq!(refused("/srv/notes/a.txt").await[0]["status"], "out_of_scope");
    let listed = world.command(&["permissions", "ls"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("paths below `/etc`"), "{listed}");
}

#[tokio::test]
async fn a_question_about_a_call_no_longer_names_a_permission_that_was_granted_elsewhere() {
    let world = quick_world();
    let desk = Desk::new(&world, Era::Legacy, false).await;
    world.knows(1).await;
    let names =
        |request: &Value| request["question"].as_str().unwrap().contains("filesystem.write");
    let approve = ["permissions", "approve", "files", "filesystem.write"];
    desk.write("/srv/a/one.txt").await.unwrap_err();
    let asked = desk.approval(&world, "one.txt");
    assert!(names(&asked) && asked["permissions"] == json!(["filesystem.write"]), "{asked}");
    world.quietly(&approve);
    let open = desk.approval(&world, "one.txt");
    assert_eq!((&open["id"], &open["state"]), (&asked["id"], &json!("open")), "{open}");
    assert!(!names(&open) && open["permissions"] == Value::Null, "{open}");
    let id = open["id"].as_str().unwrap();
    world.quietly(&["approvals", "approve", id]);
    desk.write("/srv/a/one.txt").await.unwrap();

    // The answer to a question grants no permission that the question did not name. Once the permission is revoked, the
    // kernel asks again about the same call.
    desk.write("/srv/a/two.txt").await.unwrap_err();
    let without = desk.approval(&world, "two.txt");
    assert!(!names(&without), "{without}");
    world.quietly(&["approvals", "approve", without["id"].as_str().unwrap()]);
    world.quietly(&["permissions", "revoke", "files", "filesystem.write"]);
    desk.write("/srv/a/two.txt").await.unwrap_err();
    let again = desk.approval(&world, "two.txt");
    assert!(names(&again) && again["id"] != without["id"] && again["state"] == "open", "{again}");

    // An approval with limits grants the permission to some calls only, so the question still names it.
    world.quietly(&[&approve[..], &["--path", "/srv/b"]].concat());
    assert!(names(&desk.approval(&world, "two.txt")));
}

#[tokio::test]
async fn an_open_form_is_shown_again_without_a_permission_that_was_granted_elsewhere() {
    for (era, agent) in [(Era::Legacy, "legacy-form"), (Era::Modern, "modern-form")] {
        let world = world();
        let shown: Arc<std::sync::Mutex<Vec<bool>>> = Arc::default();
        let seen = Arc::clone(&shown);
        let config = world.command(&["permissions", "approve", "files", "filesystem.write"]);
        let grant = Arc::new(std::sync::Mutex::new(config));
        let builder = Client::builder("host", "1").on_elicitation(move |question: ElicitParams| {
            let names = question.message.contains("Needs a permission: filesystem.write");
            seen.lock().unwrap().push(names);
            let grant = Arc::clone(&grant);
            async move {
                if names {
                    // Another terminal grants the permission while the person reads the form.
                    let granting = move || grant.lock().unwrap().status().unwrap();
                    assert!(tokio::task::spawn_blocking(granting).await.unwrap().success());
                    tokio::time::sleep(Duration::from_secs(4)).await;
                }
                let mut answer = ElicitResult::new(ElicitAction::Accept);
                answer.content = Some(serde_json::from_value(json!({"confirm": true})).unwrap());
                Ok(answer)
            }
        });
        let host = world.host(agent, era, builder).await;
        world.knows(1).await;
        host.call("write_file").arg("path", "/srv/a/x.txt").arg("content", "a").await.unwrap();
        assert_eq!(*shown.lock().unwrap(), [true, false], "{era:?}");
        let given = world.json(&["audit", "query", "--type", "dev.cloto.confirmation_given"]);
        assert_eq!(given.as_array().unwrap().len(), 1, "{given}");
        until("the record of the call names its question", async || {
            let run = world.json(&["audit", "query", "--type", "TOOL_EXECUTED"]);
            run[0]["details"]["approval_id"].is_string()
        })
        .await;
        let left = world.json(&["approvals", "ls"]);
        assert!(left.as_array().unwrap().iter().all(|one| one["state"] != "open"), "{left}");
    }
}

/// Regression test: the question did not name the argument that made a confirmation necessary.
#[tokio::test]
async fn the_question_about_a_doubtful_argument_names_it() {
    let world = quick_world();
    let script = TINY.replace(r#","experimental":{"mgp":CAPABILITY}"#, "");
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {"path": text, "via": text}});
    let tools = json!([{"name": "write_file", "inputSchema": schema}]);
    world.write("files.sh", &script.replace("TOOLS", &tools.to_string()));
    let config = CONFIG.replace(r#"approval_timeout = "10s""#, r#"approval_timeout = "50ms""#);
    let limits = "permissions = [\"filesystem.write\"]\nrisk = { write_file = \"moderate\" }\n\
                  [servers.mgp.permission_limits]\npaths = [\"/srv/notes\"]\n";
    world.configure(&format!("{config}{limits}"));
    let desk = Desk::new(&world, Era::Legacy, false).await;
    world.knows(1).await;
    let call = |via: &str| {
        desk.host.call("write_file").arg("path", "/srv/notes/a.txt").arg("via", via.to_owned())
    };
    call("plain").await.and_then(ToolResult::into_result).unwrap();
    call("notes.txt").await.and_then(ToolResult::into_result).unwrap_err();
    let asked = desk.approval(&world, "notes.txt");
    let question = asked["question"].as_str().unwrap();
    let line = "To check: the argument `via` may be the name of another file, but `filesystem.write` \
                is limited\n";
    assert!(question.contains(line), "{question}");
}
