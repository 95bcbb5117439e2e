//! Tests of the console's answers: Enter in a field allows nothing, a link cannot pretend a result, and a notice shows
//! the result of a decision. The inbox shows all pending approvals, and the audit log is verified as a whole.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use mgp_security::{AuditLog, Event, LogConfig};
use mgp_testkit::until_blocking;
use mgp_types::mgp::Actor;
use mgp_types::service::Principal;
use mgp_types::store::{Db, Store};
use serde_json::json;

use crate::callbacks::asking;
use crate::console::{Answer, Browser, TIMEOUT, call_of, calling, ended, guarded, waiting};
use crate::hostile::{FLAGGED, stub};
use crate::kernel::Kernel;
use crate::world::Home;

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split_once(&format!(" {name}=\""))?.1.split('"').next()
}

/// Sends each form of a page whose action is `path`, as if a person pressed its first submit button, and returns the
/// answers. Enter in a field would press that button; as it is disabled, a browser sends nothing.
fn enter(browser: &Browser, page: &str, path: &str, more: &[(&str, &str)]) -> Vec<Answer> {
    let body = browser.get(page).body;
    let action = format!("action=\"{}{path}\"", browser.base);
    let forms = body.split("<form ").skip(1).filter(|form| {
        form.split('>').next().is_some_and(|tag| tag.contains(&action) && tag.contains("post"))
    });
    let sent = forms.map(|form| {
        let form = form.split("</form>").next().unwrap();
        let button = form.split("<button").nth(1).unwrap().split('>').next().unwrap();
        let hidden = "aria-hidden=\"true\"";
        assert!(button.contains("tabindex=\"-1\"") && button.contains(hidden), "{button}");
        assert!(button.contains(" disabled "), "the typed text would be lost: {button}");
        let fields = form.split("<input ").skip(1).map(|input| input.split('>').next().unwrap());
        let fields = fields.map(|tag| format!(" {tag}"));
        let kept: Vec<(String, String)> = fields
            .filter(|tag| attribute(tag, "type") == Some("hidden"))
            .filter_map(|tag| {
                let name = attribute(&tag, "name").filter(|name| *name != "token")?;
                Some((name.to_owned(), attribute(&tag, "value")?.to_owned()))
            })
            .collect();
        let pairs = kept.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let pressed = (attribute(button, "name").unwrap(), attribute(button, "value").unwrap());
        let pairs: Vec<_> = pairs.chain(more.iter().copied()).chain([pressed]).collect();
        browser.post(path, &pairs)
    });
    sent.collect()
}

#[test]
fn a_grant_for_a_new_agent_with_a_similar_name_needs_a_tick() {
    let kernel = guarded("");
    let browser = Browser::new(&kernel.home);
    let grant = |agent, more: &[(&'static str, &'static str)]| {
        let form =
            [("agent", agent), ("server", "desk"), ("expires", "1 hour"), ("answer", "allow")];
        browser.post("/access/grant", &[&form[..], more].concat())
    };
    assert_eq!(grant("alice", &[("new_agent", "yes")]).status, 303, "`1 hour` is a time");
    let refused = grant("alise", &[]);
    let text = refused.text();
    assert!(refused.status == 422 && text.contains("did you mean `alice`?"), "{text}");
    assert!(text.contains("tick “This is a new agent”") && !text.contains("--new-agent"), "{text}");
    let wrong = [("new_agent", "yes"), ("tool", "ehco")];
    let refused = grant("alise", &wrong).text();
    assert!(refused.contains("there is no `desk` tool `ehco`"), "{refused}");
    assert_eq!(grant("alise", &[("new_agent", "yes")]).status, 303);
    let why = browser.get("/search?query=echo&agent=nemo").text();
    assert!(why.contains("desk.echo"), "the server is open to all: {why}");
}

#[test]
fn the_search_begins_with_an_agent_that_has_access_and_says_why_another_finds_nothing() {
    let kernel = Kernel::bench();
    let home = &kernel.home;
    home.silent(&["access", "grant", "alice", "bench", "--new-agent"]);
    let browser = Browser::new(home);
    let page = browser.get("/search").text();
    assert!(page.contains("name=\"agent\" value=\"alice\""), "{page}");
    let page = browser.get("/search?query=add&agent=default").text();
    assert!(page.contains("`default` has access to no server."), "{page}");
    let page = browser.get("/search?query=add&agent=nemo").text();
    assert!(page.contains("No agent with the name `nemo` is known"), "{page}");
    let why = browser.get("/access?agent=default&tool=bench.echo").text();
    assert!(why.contains("/access?for=default&server=bench&name=echo#grant"), "{why}");
}

const NOTHING: &str = "Nothing was changed. Press a button to answer.";

#[track_caller]
fn changed_nothing(browser: &Browser, answer: &Answer) {
    assert_eq!(answer.status, 303, "{}", answer.body);
    let next = answer.header("location").unwrap().strip_prefix(&browser.base).unwrap();
    let page = browser.get(next).text();
    assert!(page.contains(NOTHING), "{page}");
}

#[test]
fn enter_in_a_field_answers_no_call() {
    let kernel = guarded("");
    let (home, browser) = kernel.console();
    let calls = ["one", "two"].map(|text| calling(home, &json!({ "message": text })));
    let open = || {
        let all = home.json("approvals-ls", &["approvals", "ls"]);
        let all = all.as_array().unwrap().clone();
        let open = all.into_iter().filter(|one| one["state"] == "open");
        open.map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    until_blocking("two calls wait", || open().len() == 2);
    let ids = open();
    let reason = ("because", "typed");
    let both = [("id", ids[0].as_str()), ("id", ids[1].as_str()), reason];
    let answers = enter(&browser, "", "/decide", &both);
    assert_eq!(answers.len(), 3, "two cards and the form for several");
    let of_call = enter(&browser, &format!("/call/{}", ids[0]), "/decide", &[reason]);
    assert_eq!(of_call.len(), 1);
    for answer in answers.iter().chain(&of_call) {
        changed_nothing(&browser, answer);
    }
    assert_eq!(open(), ids, "the calls still wait");
    let inbox = browser.get("").text();
    assert!(inbox.contains("{\"message\":\"one\"}") && inbox.contains("{\"message\":\"two\"}"));
    // Both cards have the same heading, so they are articles: as sections, they would be two landmarks with one name.
    assert_eq!(inbox.matches("<article class=\"card\" aria-labelledby=\"a-").count(), 2);
    for id in &ids {
        browser.done("/decide", &[("id", id), ("answer", "deny")]);
    }
    assert!(calls.into_iter().all(|call| !ended(call).0));
}

#[test]
fn enter_in_a_field_approves_no_definition_and_grants_nothing() {
    let files = Home::new();
    let tools =
        json!([{ "name": "look", "description": FLAGGED, "inputSchema": { "type": "object" } }]);
    let result = json!({ "content": [] });
    let kernel = Kernel::new(&stub(&files, "odd", &tools, &result));
    let (home, browser) = kernel.console();
    until_blocking("the definition waits", || browser.get("").text().contains("odd.look"));
    for answer in enter(&browser, "", "/definitions", &[("because", "typed")]) {
        changed_nothing(&browser, &answer);
    }
    assert!(browser.get("").text().contains("Approve this definition"), "it still waits");
    let access = [("agent", "default"), ("server", "odd"), ("because", "typed")];
    let permission = [("server", "odd"), ("permissions", "filesystem.read")];
    for (path, fields) in [("/access/grant", &access[..]), ("/access/permit", &permission)] {
        let answers = enter(&browser, "/access", path, fields);
        assert_eq!(answers.len(), 1, "{path}");
        let text = answers[0].text();
        assert!(answers[0].status == 422 && text.contains(NOTHING), "{path}: {text}");
        assert!(text.contains("value=\"odd\""), "the input is kept: {text}");
    }
    let entry = home.json("access-query", &["access", "query", "default", "odd"]);
    assert_eq!(entry["entries"], json!([]), "{entry}");
}

#[test]
fn a_link_cannot_show_a_result_that_did_not_happen() {
    let kernel = guarded("");
    let browser = Browser::new(&kernel.home);
    for query in ["done=Everything+is+safe", "failed=Call+0800", "done=Everything+is+safe&sign=00"]
    {
        let page = browser.get(&format!("?{query}")).body;
        assert!(!page.contains("Everything is safe") && !page.contains("0800"), "{page}");
    }
    let done = browser.post("/configuration", &[]);
    let location = done.header("location").unwrap().strip_prefix(&browser.base).unwrap();
    assert!(browser.get(location).text().contains("nothing has changed"));
    let forged = location.replace("nothing+has+changed", "Everything+is+safe");
    assert_ne!(forged, location);
    let page = browser.get(&forged).text();
    assert!(!page.contains("Everything is safe"), "{page}");
    let forged = location.replace("done=", "failed=");
    assert!(!browser.get(&forged).text().contains("nothing has changed"));
}

#[test]
fn an_approval_of_a_call_that_is_refused_now_says_so() {
    let kernel = guarded("");
    let (home, browser) = kernel.console();
    let call = calling(home, &json!({ "message": "first" }));
    let first = waiting(home);
    let inbox = browser.get("").text();
    assert!(inbox.contains("`default` may call `desk.echo` with any arguments"), "{inbox}");
    assert!(inbox.contains("every call of `desk.echo` by `default` is refused"), "{inbox}");
    assert!(!inbox.contains("would be refused now"), "{inbox}");
    assert!(inbox.contains("How the server describes its tool:"), "{inbox}");
    let entry = [("agent", "default"), ("server", "desk"), ("tool", "echo"), ("answer", "deny")];
    browser.done("/access/grant", &entry);
    let inbox = browser.get("").text();
    assert!(inbox.contains("This call would be refused now"), "{inbox}");
    let page = browser.done("/decide", &[("id", &first), ("answer", "once")]);
    let notice = page.split("class=\"failed\"").nth(1).unwrap();
    assert!(notice.contains("allowed once, but the kernel refuses the call:"), "{page}");
    assert!(!page.contains("class=\"done\""), "{page}");
    assert!(!ended(call).0, "as the notice says");
}

#[test]
fn a_call_that_waits_when_its_kernel_is_killed_is_recorded_as_one_that_did_not_run() {
    let kernel = guarded("");
    let call = calling(&kernel.home, &json!({ "message": "a" }));
    let id = waiting(&kernel.home);
    let home = kernel.killed();
    assert!(!ended(call).0);
    let config = home.path("c.toml");
    std::fs::remove_file(home.path("ready.json")).unwrap();
    let kernel = Kernel::on(home, Some(&config));
    let events = kernel.home.json("audit-query", &["audit", "query", "--tool", "echo"]);
    let events = events.as_array().unwrap();
    let end = events.iter().find(|event| event["details"]["interrupted"] == true);
    let end = end.unwrap_or_else(|| panic!("{events:?}"));
    assert_eq!((&end["event_type"], &end["result"]), (&json!("TOOL_BLOCKED"), &json!("BLOCKED")));
    assert_eq!(end["details"]["approval_id"], *id);
    assert!(events.iter().all(|event| event["event_type"] != "TOOL_EXECUTED"), "{events:?}");
}

#[test]
fn an_approval_of_a_denied_call_does_not_report_the_denial() {
    let kernel = guarded("");
    let (home, browser) = kernel.console();
    let call = calling(home, &json!({ "message": "again" }));
    let id = waiting(home);
    let denial = [("id", &*id), ("answer", "deny"), ("because", "too early")];
    browser.done("/decide", &denial);
    assert!(!ended(call).0);
    let page = browser.done("/decide", &[("id", &id), ("answer", "once")]);
    let notice = page.split("class=\"done\"").nth(1).unwrap();
    assert!(notice.contains("allowed once") && !page.contains("class=\"failed\""), "{page}");
    assert!(ended(calling(home, &json!({ "message": "again" }))).0, "as the notice says");
}

#[test]
fn a_page_that_is_old_does_not_take_back_a_denial() {
    let kernel = guarded("");
    let (home, browser) = kernel.console();
    let call = calling(home, &json!({ "message": "a" }));
    let id = waiting(home);
    for page in [String::new(), format!("/call/{id}")] {
        let form = browser.get(&page).body;
        assert!(form.contains("name=\"seen\" value=\"open\""), "{form}");
    }
    home.silent(&["approvals", "deny", &id, "--because", "not on Fridays"]);
    assert!(!ended(call).0);
    for answer in ["once", "hour", "like"] {
        let page = browser.done("/decide", &[("id", &id), ("seen", "open"), ("answer", answer)]);
        let notice = page.split("class=\"failed\"").nth(1).unwrap();
        let notice = notice.split("</p>").next().unwrap();
        assert!(notice.contains(&format!("`{id}` is denied already, by ")), "{notice}");
        assert!(notice.contains(": not on Fridays"), "{notice}");
    }
    let all = home.json("approvals-ls", &["approvals", "ls"]);
    let denied = all.as_array().unwrap().iter().find(|one| one["id"] == *id).unwrap();
    assert_eq!(denied["state"], "denied", "{all}");
}

#[test]
fn of_an_approval_and_a_denial_at_the_same_moment_one_counts() {
    let kernel = guarded("");
    let (home, browser) = kernel.console();
    for round in 0..8 {
        let call = calling(home, &json!({ "message": format!("round {round}") }));
        let id = waiting(home);
        let succeeds = |answer| {
            let form = [("id", &*id), ("seen", "open"), ("answer", answer)];
            browser.done("/decide", &form).contains("class=\"done\"")
        };
        let (approved, denied) = std::thread::scope(|scope| {
            let approved = scope.spawn(|| succeeds("once"));
            let denied = succeeds("deny");
            (approved.join().unwrap(), denied)
        });
        assert_ne!(approved, denied, "round {round}");
        assert_eq!(ended(call).0, approved, "round {round}");
    }
}

#[test]
fn a_late_denial_is_refused_with_the_call_and_who_approved_it() {
    let kernel = guarded("");
    let (home, browser) = kernel.console();
    let call = calling(home, &json!({ "message": "a" }));
    let id = waiting(home);
    browser.done("/decide", &[("id", &id), ("answer", "once")]);
    assert!(ended(call).0);
    for answer in ["deny", "never"] {
        let page = browser.done("/decide", &[("id", &id), ("seen", "open"), ("answer", answer)]);
        let notice = page.split("class=\"failed\"").nth(1).unwrap();
        let notice = notice.split("</p>").next().unwrap();
        let expected = format!("default → desk.echo: `{id}` is approved and used already, by ");
        assert!(notice.contains(&expected), "{notice}");
    }
}

#[test]
fn the_page_of_a_denied_call_has_the_command_that_takes_the_denial_back() {
    let kernel = guarded("");
    let (home, browser) = kernel.console();
    let call = calling(home, &json!({ "message": "a" }));
    let id = waiting(home);
    let (page, command) = (format!("/call/{id}"), format!("mgp approvals approve {id}"));
    let open = browser.get(&page).text();
    assert!(!open.contains(&command), "{open}");
    assert!(open.contains("if its caller no longer waits, when it makes the call again"), "{open}");
    assert!(open.contains("for an hour the same call again"), "{open}");
    browser.done("/decide", &[("id", &id), ("answer", "deny")]);
    assert!(!ended(call).0);
    let denied = browser.get(&page).text();
    assert!(denied.contains(&command), "{denied}");
}

#[test]
fn the_notice_about_a_definition_names_the_decision() {
    let files = Home::new();
    let tools =
        json!([{ "name": "look", "description": FLAGGED, "inputSchema": { "type": "object" } }]);
    let kernel = Kernel::new(&stub(&files, "odd", &tools, &json!({ "content": [] })));
    let browser = Browser::new(&kernel.home);
    until_blocking("the definition waits", || browser.get("").text().contains("odd.look"));
    let inbox = browser.get("").text();
    let print = inbox.split("name=\"fingerprint\" value=\"").nth(1).unwrap();
    let print = print.split('"').next().unwrap();
    for (answer, word) in [("reject", "rejected"), ("approve", "approved")] {
        let pairs =
            [("server", "odd"), ("tool", "look"), ("fingerprint", print), ("answer", answer)];
        let page = browser.done("/definitions", &pairs);
        assert!(page.contains(&format!("odd.look: {word}")), "{page}");
        let definition = browser.get("/definition/odd.look").text();
        assert_eq!(definition.contains("mgp tools approve odd.look"), answer == "reject");
    }
}

#[test]
fn a_page_that_is_old_does_not_approve_a_rejected_definition() {
    let files = Home::new();
    let tools =
        json!([{ "name": "look", "description": FLAGGED, "inputSchema": { "type": "object" } }]);
    let kernel = Kernel::new(&stub(&files, "odd", &tools, &json!({ "content": [] })));
    let browser = Browser::new(&kernel.home);
    until_blocking("the definition waits", || browser.get("").text().contains("odd.look"));
    let inbox = browser.get("").text();
    let print = inbox.split("name=\"fingerprint\" value=\"").nth(1).unwrap();
    let print = print.split('"').next().unwrap();
    assert!(inbox.contains("name=\"seen\" value=\"flagged\""), "{inbox}");
    let [rejected, approved] = ["reject", "approve"].map(|answer| {
        let form = [
            ("server", "odd"),
            ("tool", "look"),
            ("fingerprint", print),
            ("seen", "flagged"),
            ("answer", answer),
        ];
        browser.done("/definitions", &form)
    });
    assert!(rejected.contains("odd.look: rejected"), "{rejected}");
    assert!(approved.contains("the definition of `look` is rejected already, by "), "{approved}");
    let definition = browser.get("/definition/odd.look").text();
    assert!(definition.contains("mgp tools approve odd.look"), "still rejected: {definition}");
}

#[test]
fn a_late_answer_to_a_forgotten_request_gets_a_plain_reason() {
    let kernel = guarded("");
    let browser = Browser::new(&kernel.home);
    for answer in ["once", "deny"] {
        let page = browser.done("/decide", &[("id", "gone"), ("seen", "open"), ("answer", answer)]);
        assert!(page.contains("This request no longer waits"), "{page}");
        assert!(!page.contains("-32602") && !page.contains("gone"), "{page}");
    }
}

#[test]
fn names_and_values_that_are_written_from_right_to_left_keep_their_order() {
    let kernel = guarded("");
    let (home, browser) = kernel.console();
    let call = calling(home, &json!({ "message": "בית/ספר/15", "עברית": "ערך" }));
    let id = waiting(home);
    let isolated = "\"<bdi>עברית</bdi>\":\"<bdi>ערך</bdi>\"";
    for page in [String::new(), format!("/call/{id}")] {
        let text = browser.get(&page).text();
        assert!(text.contains("\"<bdi>בית</bdi>/<bdi>ספר</bdi>/15\""), "{text}");
        assert!(text.contains(isolated), "{text}");
    }
    browser.done("/decide", &[("id", &id), ("answer", "deny")]);
    assert!(!ended(call).0);
    // A browser would need many seconds for a text that changes its direction so often.
    let call = calling(home, &json!({ "message": "aא".repeat(60_000) }));
    let page = browser.get(&format!("/call/{}", waiting(home))).text();
    assert!(page.contains("a<bdi>א</bdi>a\\u{5d0}a\\u{5d0}a"), "the end is shown as codes");
    browser.done("/decide", &[("id", &waiting(home)), ("answer", "deny")]);
    assert!(!ended(call).0);
}

#[test]
fn a_notice_about_several_answers_begins_with_those_that_failed() {
    let kernel = guarded("");
    let (home, browser) = kernel.console();
    let call = calling(home, &json!({ "message": "a" }));
    let id = waiting(home);
    let page = browser.done("/decide", &[("id", &id), ("id", "gone"), ("answer", "once")]);
    assert!(ended(call).0);
    let notice = page.split("class=\"failed\"").nth(1).unwrap();
    let (notice, _) = notice.split_once("</p>").unwrap();
    let (before, after) = notice.split_once("gone").unwrap();
    assert!(!before.contains("allowed once") && after.contains("allowed once"), "{notice}");
}

#[test]
fn a_decision_for_later_calls_names_its_tool_and_its_end() {
    let kernel = guarded("");
    let (home, browser) = kernel.console();
    let call = calling(home, &json!({ "message": "a" }));
    let id = waiting(home);
    let page = browser.done("/decide", &[("id", &id), ("answer", "like")]);
    assert!(ended(call).0);
    assert!(page.contains("/access#decisions"), "the notice leads to the decision: {page}");
    let inbox = browser.get("").text();
    assert!(!inbox.contains(">used<") && inbox.contains(">approved<"), "{inbox}");
    let access = browser.get("/access").text();
    let decisions = access.split("id=\"decisions\"").nth(1).unwrap();
    let row = decisions.split("call-").next().unwrap();
    assert!(row.contains("desk.echo"), "{row}");
    assert!(decisions.split("</tr>").nth(1).unwrap().contains("no end"), "{decisions}");
}

#[test]
fn a_question_of_a_server_waits_in_the_inbox_with_the_command_that_answers_it() {
    let kernel = asking();
    let (home, browser) = kernel.console();
    let mut call = home.command(&["tools", "call", "files.clean"]);
    let call = call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut inbox = String::new();
    until_blocking("the question is shown", || {
        inbox = browser.get("").text();
        inbox.contains("Delete files of which age?")
    });
    let open = home.json("callbacks-ls", &["callbacks", "ls"]);
    let id = open[0]["id"].as_str().unwrap();
    assert!(inbox.contains(&format!("mgp callbacks answer {id} …")), "{inbox}");
    assert!(inbox.contains("data-live=\"count\">1<"), "{inbox}");
    assert!(!inbox.contains("Nothing waits for you."), "{inbox}");
    assert_eq!(home.json("status", &["status"])["waiting_questions"], 1);
    assert!(home.succeed(&["status"]).contains("1 question: `mgp callbacks ls`"));
    home.silent(&["callbacks", "dismiss", id]);
    assert!(!ended(call).0);
}

#[test]
fn the_approval_of_a_published_server_shows_what_the_review_of_its_tools_found() {
    let home = Home::new();
    let package = json!({
        "registryType": "npm", "identifier": "@acme/desk", "version": "1.0.0",
        "transport": { "type": "stdio" },
    });
    let entry = json!({ "server": {
        "name": "io.github.acme/desk", "title": "Desk", "description": "Statistics of tables",
        "version": "1.0.0", "packages": [package],
    } });
    home.write("servers.json", &json!([entry]).to_string());
    // A confined `npx` reads its own installation, but no other files of the home folder.
    let desk = home.write("lib/desk", "");
    fs::copy(mgp_testkit::program("desk"), &desk).unwrap();
    let npx = home.write("bin/npx", &format!("#!/bin/sh\nexec '{}' data\n", desk.display()));
    fs::set_permissions(npx, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", home.path("bin").display());
    let config = home.write("c.toml", "[kernel.registry]\nfile = 'servers.json'\n");
    let kernel = Kernel::on_with(home, Some(&config), &[("PATH", &path)]);
    let home = &kernel.home;
    home.silent(&["access", "grant", "default", "mgp", "mgp.discovery.register"]);
    let asked = json!({ "id": "desk", "published": "io.github.acme/desk@1.0.0" });
    let (_, answer) = ended(call_of(home, "mgp_discovery_register", &asked));
    assert!(answer.contains("pending_approval"), "{answer}");
    let (id, browser) = (waiting(home), Browser::new(home));
    let path = format!("/call/{id}");
    let open = browser.get(&path).text();
    assert!(open.contains("An approved server runs until"), "{open}");
    assert!(!open.contains("Approve once"), "the approval lasts: {open}");
    // The page of a decided registration no longer exists, so the inbox shows the notice.
    let page = browser.done("/decide", &[("id", &id), ("answer", "once"), ("page", &path)]);
    let notice = page.split("class=\"done\"").nth(1).unwrap().split("</p>").next().unwrap();
    let found = "desk: connected; desk has 1 tool; the review found nothing";
    assert!(notice.contains(found), "{notice}");
}

#[test]
fn a_start_that_fails_is_reported_with_its_reason() {
    let script = "echo out of paper >&2; exit 3";
    let kernel = Kernel::new(&format!(
        "[[servers]]\nid = 'bad'\ncommand = 'sh'\nargs = ['-c', '{script}']\n"
    ));
    let browser = Browser::new(&kernel.home);
    for action in ["start", "restart"] {
        let page = browser.done("/servers/bad", &[("action", action)]);
        let notice = page.split("class=\"failed\"").nth(1).unwrap();
        let (notice, _) = notice.split_once("</p>").unwrap();
        assert!(notice.contains("bad is not connected: "), "{action}: {notice}");
        assert!(notice.contains("out of paper"), "{action}: {notice}");
    }
}

/// Writes a second audit log into a state folder, as commands of earlier versions did while a kernel was running.
/// Returns the path of the file with its records.
fn second_log(folder: &Path) -> PathBuf {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store: Arc<dyn Store> = Arc::new(Db::open(folder.join("state.db")).await.unwrap());
        let config = LogConfig::new(folder.join("audit")).name("beside");
        let config = config.digest_key(folder.join("digest.key"));
        let log = AuditLog::open(config, Some(store)).await.unwrap();
        for id in ["one", "two"] {
            let event = Event::key_added(Actor::kernel(), id, &Principal::local()).build();
            log.append(&event).await.unwrap();
        }
        log.close().await.unwrap();
    });
    let mut files = fs::read_dir(folder.join("audit")).unwrap().map(|file| file.unwrap().path());
    let is_of_log = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_str().unwrap();
        name.starts_with("beside") && file.extension().is_some_and(|ending| ending == "jsonl")
    };
    files.find(is_of_log).unwrap()
}

#[test]
fn the_page_also_verifies_a_second_log_of_earlier_versions() {
    let kernel = Kernel::bench();
    let home = &kernel.home;
    let file = second_log(&home.path(".local/state/mgp"));
    let browser = Browser::new(home);
    let page = || browser.get("/record?verify=yes").text();
    until_blocking("the page counts all records", || {
        let verified = home.json("audit-verify", &["audit", "verify"]);
        page().contains(&format!("{} records, unchanged", verified["records"]))
    });
    let text = fs::read_to_string(&file).unwrap();
    let kept = text.lines().filter(|line| !line.contains("\"two\""));
    fs::write(&file, kept.map(|line| line.to_owned() + "\n").collect::<String>()).unwrap();
    let page = page();
    assert!(page.contains("class=\"failed\" data-keep"), "{page}");
    assert_eq!(home.run(&["audit", "verify"]).code, Some(1));
}

/// Regression test: the events of the kernel had no data, and browsers drop such events.
#[test]
fn each_event_of_a_page_has_data() {
    let kernel = guarded("");
    let browser = Browser::new(&kernel.home);
    let mut stream = TcpStream::connect(&browser.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (base, cookie, address) = (&browser.base, &browser.cookie, &browser.address);
    let head = format!("Host: {address}\r\nCookie: {cookie}");
    write!(stream, "GET {base}/events?changes=1 HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
    kernel.home.silent(&["access", "grant", "default", "desk"]);
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    for event in ["event: waiting", "event: change"] {
        lines.by_ref().find(|line| line == event).unwrap();
        assert!(lines.next().unwrap().starts_with("data: "), "{event}");
    }
}

#[test]
fn a_connection_that_sends_only_half_a_request_is_closed() {
    let home = Home::new();
    let browser = Browser::new(&home);
    let (address, base) = (&browser.address, &browser.base);
    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT * 4)).unwrap();
        stream
    };
    let (mut head, mut form) = (connect(), connect());
    write!(head, "GET {base} HTTP/1.1\r\nHost:").unwrap();
    let length = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100";
    let named = format!("Host: {address}\r\nOrigin: http://{address}\r\n{length}");
    write!(form, "POST {base}/login HTTP/1.1\r\n{named}\r\n\r\nkey=").unwrap();
    let mut answer = String::new();
    form.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    head.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(browser.get("").status, 200);
    home.silent(&["stop"]);
}
