//! Tests of servers that are not ready when `mgp setup` grants access to them: mgp asks an operator about their
//! permissions once they are ready.

use std::fs;
use std::time::Duration;

use mgp_testkit::until_blocking;
use serde_json::{Value, json};

use crate::hostile::stub;
use crate::world::Home;

/// Creates a home in which the host Claude Code has a server that does not start before the file `ready` exists.
fn home_with_late_server(program: impl FnOnce(&Home) -> String) -> Home {
    let home = Home::new();
    let desk = mgp_testkit::program("desk");
    let (ready, program) = (home.path("ready"), program(&home));
    let script = format!("test -e {} || exit 1; exec {program}", ready.display());
    let servers = json!({"mcpServers": {
        "data": {"command": desk.to_str().unwrap(), "args": ["data"]},
        "late": {"command": "sh", "args": ["-c", script]},
    }});
    home.write(".claude.json", &servers.to_string());
    home
}

/// Returns the command line of a server that declares its permissions itself.
fn declaring(_: &Home) -> String {
    format!("{} terminal", mgp_testkit::program("desk").display())
}

/// Returns the command line of a plain MCP server. It declares no permissions, but the names of its tools show what
/// they do.
fn plain(home: &Home) -> String {
    let tool = |name: &str| {
        let path = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        json!({"name": name, "description": "Works on a file.", "inputSchema": path})
    };
    stub(home, "late", &json!([tool("read_file"), tool("write_file")]), &json!({"content": []}));
    let files = ["stub.sh", "late.tools.json", "late.result.json"];
    let files = files.map(|name| home.path(name).display().to_string());
    format!("sh {}", files.join(" "))
}

/// Returns the approvals about the server `late` in this state.
fn reviews(home: &Home, state: &str) -> Vec<Value> {
    let all = home.json("approvals-ls", &["approvals", "ls"]);
    let all = all.as_array().unwrap().iter();
    all.filter(|one| one["server_id"] == "late" && one["state"] == state).cloned().collect()
}

/// Lets the server start, and returns the open approval for its permissions.
fn first_start(home: &Home) -> Value {
    fs::write(home.path("ready"), "").unwrap();
    // Restart the server, because the kernel may already have given up.
    home.run(&["servers", "restart", "late"]);
    until_blocking("the permissions are asked for", || reviews(home, "open").len() == 1);
    reviews(home, "open").remove(0)
}

/// Returns the permissions of the server `late`, each with the decision about it.
fn decisions(home: &Home) -> Vec<(String, String)> {
    let all = home.json("permissions-ls", &["permissions", "ls", "late"]);
    let word = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
    let all = all.as_array().unwrap().iter();
    all.map(|one| (word(one, "permission"), word(one, "decision"))).collect()
}

#[test]
fn a_server_that_was_not_ready_at_setup_asks_once_for_all_of_its_permissions() {
    let home = home_with_late_server(declaring);
    let done = home.succeed(&["setup", "--yes", "--interactive", "yes"]);
    let told = "not ready: late; once it is, `mgp approvals ls` shows";
    assert!(done.contains(told), "{done}");
    assert_eq!((reviews(&home, "later").len(), reviews(&home, "open").len()), (1, 0));
    assert_eq!(home.json("status", &["status"])["waiting_approvals"], 0);

    let asked = first_start(&home);
    let both = json!(["filesystem.read", "filesystem.write"]);
    assert_eq!((&asked["kind"], &asked["permissions"]), (&json!("permissions"), &both), "{asked}");
    assert_eq!(home.json("status", &["status"])["waiting_approvals"], 1);
    assert!(home.succeed(&["approvals", "ls"]).contains("- filesystem.write ("));
    assert_eq!(decisions(&home), [], "nothing is granted before the answer");

    let id = asked["id"].as_str().unwrap();
    home.fail(2, &["approvals", "approve", id, "--once"], "granted to a server, not to one call");
    let done = home.succeed(&["approvals", "approve", id]);
    assert!(done.contains("for all tools of late, until they are revoked"), "{done}");
    let granted = [("filesystem.read", "approved"), ("filesystem.write", "approved")];
    assert_eq!(decisions(&home), granted.map(|(one, two)| (one.to_owned(), two.to_owned())));
    home.succeed(&["servers", "restart", "late"]);
    until_blocking("it runs again", || {
        let all = home.json("servers-ls", &["servers", "ls"]);
        all.as_array()
            .unwrap()
            .iter()
            .any(|one| one["id"] == "late" && one["status"] == "connected")
    });
    assert_eq!(reviews(&home, "open"), Vec::<Value>::new(), "it asks once");
    home.succeed(&["stop"]);
}

#[test]
fn a_review_of_a_server_that_is_denied_denies_its_permissions() {
    let home = home_with_late_server(plain);
    let done = home.succeed(&["import", "claude-code", "--apply"]);
    assert!(done.contains("not ready: late"), "{done}");
    // Without a kernel, the state folder keeps the review in the state `later`.
    assert_eq!(reviews(&home, "later").len(), 1);
    let kernel = crate::kernel::Kernel::on(home, None);
    let asked = first_start(&kernel.home);
    kernel.home.silent(&["approvals", "deny", asked["id"].as_str().unwrap()]);
    let decided = decisions(&kernel.home);
    assert!(decided.len() == 2 && decided.iter().all(|(_, word)| word == "denied"), "{decided:?}");
}

#[test]
fn a_denial_of_permissions_on_the_page_names_all_tools_of_the_server() {
    let home = home_with_late_server(plain);
    home.succeed(&["import", "claude-code", "--apply"]);
    let kernel = crate::kernel::Kernel::on(home, None);
    let asked = first_start(&kernel.home);
    let browser = crate::console::Browser::new(&kernel.home);
    let inbox = browser.get("").text();
    assert!(inbox.contains("A grant or a denial is for all tools of the server"), "{inbox}");
    let id = asked["id"].as_str().unwrap();
    let page = browser.done("/decide", &[("id", id), ("answer", "deny")]);
    assert!(page.contains(": denied to all tools of the server until revoked"), "{page}");
}

#[test]
fn a_server_that_refuses_connections_does_not_delay_a_second_setup() {
    let home = Home::new();
    let desk = mgp_testkit::program("desk");
    let servers = |url: &str| {
        json!({
            "data": {"command": desk.to_str().unwrap(), "args": ["data"]},
            "remote": {"url": url},
        })
    };
    let cursor = json!({"mcpServers": servers("http://127.0.0.1:9/mcp")});
    home.write(".cursor/mcp.json", &cursor.to_string());
    let code = json!({"servers": servers("http://127.0.0.1:9/other")});
    home.write(".config/Code/User/mcp.json", &code.to_string());
    let setup = ["setup", "--yes", "--interactive", "no"];
    home.succeed(&setup);
    home.succeed(&["stop"]);
    home.succeed(&["undo"]);
    let begin = tokio::time::Instant::now();
    let again = home.run(&setup);
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.out.contains("not ready: remote, remote-vscode; once it is"), "{again:?}");
    assert!(again.err.contains("starting what the hosts start: 2"), "{again:?}");
    home.succeed(&["stop"]);
}

#[test]
fn setup_leaves_servers_in_the_host_that_work_only_there() {
    let home = Home::new();
    let desk = mgp_testkit::program("desk");
    let desk = desk.to_str().unwrap();
    let file = ".config/Code/User/mcp.json";
    let servers = json!({"servers": {
        "data": {"command": desk, "args": ["data"]},
        "tools": {"command": "node", "args": ["${workspaceFolder}/tools/mcp.js"]},
        "filed": {"command": desk, "args": ["data"], "envFile": "/nowhere/.env"},
        "asking": {"command": desk, "args": ["data"], "env": {"TOKEN": "${input:api-key}"}},
    }});
    home.write(file, &servers.to_string());
    let setup = ["setup", "--yes", "--interactive", "no"];
    let done = home.succeed(&setup);
    for (name, reason) in [
        ("tools", "left out: only its host can replace `${workspaceFolder}`"),
        ("filed", "left out: its variables are in an `envFile`; write them to `env` there"),
        (
            "asking",
            "left out: its host asks for the input `api-key`; run `mgp secrets set API_KEY`",
        ),
    ] {
        assert!(done.lines().any(|line| line.contains(name) && line.contains(reason)), "{done}");
    }
    assert!(done.contains("the host still starts them itself: asking, filed, tools"), "{done}");
    let there = || fs::read_to_string(home.path(file)).unwrap();
    assert!(there().contains("${input:api-key}") && !there().contains("\"data\":"), "{}", there());

    // Once the secret is stored, `mgp setup` moves the server into mgp's configuration, with the secret in place of the
    // host's input.
    assert_eq!(home.run_fed(&["secrets", "set", "API_KEY"], "hunter2").code, Some(0));
    home.succeed(&setup);
    assert!(!there().contains("${input:api-key}"), "{}", there());
    let own = fs::read_to_string(home.own()).unwrap();
    assert!(own.contains("TOKEN = \"${keyring:API_KEY}\""), "{own}");
    home.succeed(&["stop"]);
}

#[test]
fn a_server_none_of_whose_tools_its_host_allows_is_named_with_the_reason_and_not_waited_for() {
    let home = Home::new();
    let desk = mgp_testkit::program("desk");
    let server = json!({"type": "local", "command": desk, "args": ["data"], "tools": ["no_such"]});
    home.write(".copilot/mcp-config.json", &json!({"mcpServers": {"data": server}}).to_string());
    let done = home.json("setup", &["setup", "--yes", "--interactive", "no"]);
    let reason = "the host allows none of the tools that the server has";
    assert_eq!(done["granted"][0]["error"], reason, "{done}");
    assert_eq!(done["hosts"][0]["problems"], json!([]), "{done}");
}
