//! Tests of commands about the tools of a server that is not started; of calls without an agent; of calls that a
//! validator blocks, or lets reach a local host; and of the state file after a stop.

use std::fs;

use mgp_testkit::until_blocking;
use serde_json::json;

use crate::kernel::Kernel;
use crate::program::program;
use crate::world::Home;

#[test]
fn after_a_stop_and_after_a_command_the_database_file_alone_has_the_whole_state() {
    let kernel = Kernel::bench();
    kernel.home.succeed(&["access", "grant", "ada", "bench"]);
    let log = kernel.home.path(".local/state/mgp/state.db-wal");
    assert!(log.exists());
    kernel.home.silent(&["stop"]);
    assert!(!log.exists());
    let home = kernel.into_home();
    home.succeed(&["access", "grant", "eve", "bench", "--force"]);
    assert!(!log.exists());
}

#[test]
fn a_call_without_an_agent_is_made_as_the_one_that_may() {
    let kernel = Kernel::bench();
    let home = &kernel.home;
    let call = ["tools", "call", "bench.echo", "message=hi"];
    home.fail(1, &call, "bench");
    home.succeed(&["access", "grant", "claude-code", "bench", "--no-confirm"]);
    let called = home.run(&call);
    assert_eq!((called.code, &*called.out), (Some(0), "hi\n"), "{called:?}");
    assert!(called.err.contains("calling as claude-code"), "{called:?}");
    home.succeed(&["access", "grant", "cursor", "bench", "--no-confirm"]);
    home.fail(2, &call, "name one of the agents that may: --agent claude-code, --agent cursor");
    home.succeed(&["access", "grant", "default", "bench", "--no-confirm"]);
    home.succeed(&call);
    let events = home.json("audit-query", &["audit", "query", "--type", "TOOL_EXECUTED"]);
    let actors: Vec<_> =
        events.as_array().unwrap().iter().map(|event| &event["actor"]["id"]).collect();
    assert_eq!(actors, ["claude-code", "default"]);
    let table = home.succeed(&["audit", "query", "--type", "ACCESS_GRANTED"]);
    assert!(table.contains("allow claude-code") && table.contains("allow cursor"), "{table}");
}

#[test]
fn an_idle_server_is_explained_after_a_restart_of_the_kernel() {
    let home = Home::new();
    let echo = program("echo");
    let off = "[[servers]]\nid = 'off'\ncommand = 'off'\nenabled = false\n";
    let file =
        home.write("c.toml", &format!("[[servers]]\nid = 'echo'\ncommand = '{echo}'\n{off}"));
    let kernel = Kernel::on(home, Some(&file));
    until_blocking("the tools are listed", || kernel.server("echo")["tools"] == 1);
    kernel.home.succeed(&["access", "grant", "ada", "echo"]);
    let states = |home: &Home| {
        let why = home.json("why", &["why", "ada", "echo.echo", "message=hi"]);
        let listed = home.json("tools-ls", &["tools", "ls", "echo", "--agent", "ada"]);
        // Arguments are checked only against a schema that the server lists, and no server runs after the restart.
        let mut steps = why["steps"].as_array().unwrap().clone();
        steps.retain(|step| step["stage"] != "schema");
        (why["outcome"].clone(), steps, listed[0]["standing"].clone())
    };
    let before = states(&kernel.home);
    kernel.home.silent(&["stop"]);
    let home = kernel.into_home();
    let _ = fs::remove_file(home.path("ready.json"));
    let kernel = Kernel::on(home, Some(&file));
    assert_eq!(states(&kernel.home), before);
    assert_eq!(before.2, "pinned");
    assert_eq!(kernel.server("echo")["status"], "registered", "it was not started for the answer");
    // A server with `enabled = false` in the configuration has the status `disabled`.
    assert_eq!(kernel.server("off")["status"], "disabled");
    let home = &kernel.home;
    assert!(home.succeed(&["servers", "ls"]).contains("`mgp servers enable off` uses it again"));
    for command in [
        &["servers", "start", "off"][..],
        &["why", "default", "off.echo"],
        &["tools", "ls", "off"],
        &["tools", "call", "off.echo", "text=x"],
        &["doctor", "off", "--no-start", "--config", file.to_str().unwrap()],
    ] {
        home.fail(1, command, "mgp: `off` is disabled; run `mgp servers enable off`");
    }
    home.silent(&["servers", "enable", "off", "--config", file.to_str().unwrap()]);
    until_blocking("it is used", || kernel.server("off")["status"] != "disabled");
    home.silent(&["servers", "disable", "off", "--config", file.to_str().unwrap()]);
    assert_eq!(kernel.server("off")["status"], "disabled");
}

#[test]
fn a_call_that_a_validator_blocks_is_explained_with_the_key_that_admits_it() {
    let bench = program("workbench");
    let mgp = "default_policy = 'opt-out', validators = { echo = 'sandbox' }";
    let kernel = Kernel::new(&format!(
        "[[servers]]\nid = 'bench'\ncommand = '{bench}'\nmgp = {{ {mgp} }}\n"
    ));
    until_blocking("the tools are listed", || kernel.server("bench")["tools"].as_u64() > Some(5));
    let why = kernel.home.json("why", &["why", "ada", "bench.echo", "message=rm -rf /"]);
    assert_eq!((&why["outcome"], &why["code"]), (&json!("refuse"), &json!(1010)), "{why}");
    let key = "`validators = { echo = \"none\" }` in `[servers.mgp]` of server `bench`";
    assert!(why["reason"].as_str().unwrap().contains(key), "{why}");
}

#[test]
fn a_command_may_reach_the_local_hosts_of_its_server_and_no_others() {
    let bench = program("workbench");
    let mgp = "default_policy = 'opt-out', validators = { echo = 'sandbox' }, \
               local_hosts = ['localhost:3000', '[::1]']";
    let kernel = Kernel::new(&format!(
        "[[servers]]\nid = 'bench'\ncommand = '{bench}'\nmgp = {{ {mgp} }}\n"
    ));
    until_blocking("the tools are listed", || kernel.server("bench")["tools"].as_u64() > Some(5));
    let why = |url: &str| {
        let command = format!("message=curl {url}");
        let why = kernel.home.json("why", &["why", "ada", "bench.echo", &command]);
        (why["code"] == 1010, why["reason"].as_str().unwrap_or_default().to_owned())
    };
    for url in ["http://localhost:3000/health", "http://[::1]:8080/"] {
        assert!(!why(url).0, "{url}");
    }
    for (url, has_remedy) in [
        ("http://localhost:3001/", true),
        ("http://127.0.0.1:8080/", true),
        ("http://169.254.169.254/", false),
        ("http://localhost:22/", false),
        ("http://me:pw@localhost:3000/", false),
        ("http://localhost:3001/ $(id)", false),
    ] {
        let (is_blocked, reason) = why(url);
        assert!(is_blocked, "{url}: {reason}");
        assert_eq!(reason.contains("permit a local host there"), has_remedy, "{url}: {reason}");
    }
    let shown = kernel.home.succeed(&["servers", "ls", "bench"]);
    assert!(shown.contains("local hosts   localhost:3000, [::1]"), "{shown}");
}
