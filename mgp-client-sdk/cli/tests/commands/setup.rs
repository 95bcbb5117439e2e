//! Tests of `mgp setup`, `mgp import` and `mgp connect` with lists and files that only some hosts have.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::program::program;
use crate::world::Home;

/// Returns the access entries of an agent for the server `bench` as pairs of tool and permission; the tool is empty if
/// the entry is for all tools.
fn entries(home: &Home, agent: &str) -> Vec<(String, String)> {
    let found = home.json("access-query", &["access", "query", agent, "bench"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entries = found["entries"].as_array().unwrap().iter();
    let mut entries: Vec<_> =
        entries.map(|entry| (text(&entry["tool_name"]), text(&entry["permission"]))).collect();
    entries.sort();
    entries
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(tool, word)| ((*tool).to_owned(), (*word).to_owned())).collect()
}

#[test]
fn an_agent_gets_no_tool_that_its_host_withholds() {
    let with_hosts = || {
        let home = Home::new();
        write_host(&home, COPILOT, &json!({ "type": "local", "tools": ["echo"] }));
        write_host(&home, GEMINI, &json!({ "excludeTools": ["echo"] }));
        home
    };
    let home = with_hosts();
    let planned = home.succeed(&["import"]);
    for expected in [
        "its tools are granted as there: only echo",
        "its tools are granted as there: all but echo",
    ] {
        assert!(planned.contains(expected), "{planned}");
    }
    let done = home.json("import", &["import", "--apply"]);
    let of = |agent: &str| {
        let granted = done["granted"].as_array().unwrap();
        granted.iter().find(|one| one["agent"] == agent).unwrap_or_else(|| panic!("{done}"))
    };
    assert_eq!(entries(&home, "copilot"), pairs(&[("echo", "allow")]));
    assert_eq!(entries(&home, "gemini"), pairs(&[("", "allow"), ("echo", "deny")]));
    let query = |of: &[&str]| home.json("access-query", &[&["access", "query"], of].concat());
    assert_eq!(query(&["gemini", "bench", "echo"])["permission"], "deny");
    assert_eq!(query(&["copilot", "bench", "shell"])["permission"], "deny");
    assert_eq!(query(&["copilot", "bench"])["entries"][0]["confirm"], "usual");
    // The command asks for permissions of a server only if the agent can use a tool that needs them.
    assert_eq!(of("copilot")["asked"], json!([]), "{done}");
    assert_ne!(of("gemini")["asked"], json!([]), "{done}");

    // The tool lists of the hosts also limit the access that `mgp connect` grants.
    let home = with_hosts();
    home.succeed(&["import", "--apply", "--no-grant"]);
    let printed = home.succeed(&["connect", "copilot", "--interactive", "no"]);
    assert!(printed.contains("its tools: only echo"), "{printed}");
    assert_eq!(entries(&home, "copilot"), pairs(&[("echo", "allow")]));
    home.succeed(&["connect", "gemini", "--interactive", "no", "--grant", "bench"]);
    assert_eq!(entries(&home, "gemini"), pairs(&[("", "allow")]));
}

/// Writes the file of Copilot CLI or Gemini CLI with the server `bench`; the keys in `list` limit its tools.
fn write_host(home: &Home, file: &str, list: &Value) {
    let mut server = json!({ "command": program("workbench") });
    server.as_object_mut().unwrap().extend(list.as_object().unwrap().clone());
    home.write(file, &json!({ "mcpServers": { "bench": server } }).to_string());
}

const COPILOT: &str = ".copilot/mcp-config.json";
const GEMINI: &str = ".gemini/settings.json";

#[test]
fn a_new_list_of_a_host_replaces_the_access_that_an_earlier_command_gave() {
    let home = Home::new();
    write_host(&home, COPILOT, &json!({}));
    home.succeed(&["import", "copilot", "--apply"]);
    assert_eq!(entries(&home, "copilot"), pairs(&[("", "allow")]));
    write_host(&home, COPILOT, &json!({ "tools": ["echo"] }));
    let done = home.json("import", &["import", "copilot", "--apply"]);
    assert_eq!(done["granted"][0]["only_tools"], json!(["echo"]), "{done}");
    assert!(done["granted"][0].get("excess").is_none(), "{done}");
    assert_eq!(entries(&home, "copilot"), pairs(&[("echo", "allow")]));

    // If the host's list becomes longer, `mgp connect` grants further tools; if it becomes shorter, it revokes tools.
    let connect = ["connect", "copilot", "--interactive", "no"];
    write_host(&home, COPILOT, &json!({ "tools": ["echo", "fail"] }));
    home.succeed(&connect);
    assert_eq!(entries(&home, "copilot"), pairs(&[("echo", "allow"), ("fail", "allow")]));
    write_host(&home, COPILOT, &json!({ "tools": ["echo"] }));
    let printed = home.succeed(&connect);
    let expected = "its tools: only echo; its resources and prompts are not granted";
    assert!(printed.contains(expected), "{printed}");
    assert_eq!(entries(&home, "copilot"), pairs(&[("echo", "allow")]));
    let done = home.json("connect", &connect);
    assert_eq!(done["granted"], json!([]), "nothing is left to change: {done}");

    write_host(&home, GEMINI, &json!({}));
    home.succeed(&["import", "gemini", "--apply"]);
    write_host(&home, GEMINI, &json!({ "excludeTools": ["echo"] }));
    let done = home.json("connect", &["connect", "gemini", "--interactive", "no"]);
    assert_eq!(done["granted"][0]["withheld_tools"], json!(["echo"]), "{done}");
    assert_eq!(entries(&home, "gemini"), pairs(&[("", "allow"), ("echo", "deny")]));
    home.succeed(&["connect", "gemini", "--interactive", "no", "--grant", "bench"]);
    assert_eq!(entries(&home, "gemini"), pairs(&[("", "allow")]));

    // An import replaces the denials that an earlier import made.
    for (list, expected) in [
        (json!({ "excludeTools": ["echo"] }), pairs(&[("", "allow"), ("echo", "deny")])),
        (json!({ "includeTools": ["echo"] }), pairs(&[("echo", "allow")])),
        (json!({}), pairs(&[("", "allow"), ("echo", "allow")])),
    ] {
        write_host(&home, GEMINI, &list);
        home.succeed(&["import", "gemini", "--apply"]);
        assert_eq!(entries(&home, "gemini"), expected, "{list}");
    }
}

#[test]
fn the_lists_of_several_imports_for_one_agent_add_up() {
    let home = Home::new();
    for (file, tool) in [("a.json", "echo"), ("b.json", "fail")] {
        write_host(&home, &format!("work/{file}"), &json!({ "tools": [tool] }));
        home.succeed(&["import", file, "--apply", "--agent", "ada"]);
    }
    assert_eq!(entries(&home, "ada"), pairs(&[("echo", "allow"), ("fail", "allow")]));
}

#[test]
fn what_allows_more_than_the_list_of_a_host_is_named() {
    let connect = ["connect", "copilot", "--interactive", "no"];
    let ready = || {
        let home = Home::new();
        write_host(&home, COPILOT, &json!({ "tools": ["echo"] }));
        home.succeed(&["import", "copilot", "--apply", "--no-grant"]);
        home
    };
    let deny = ["access", "grant", "copilot", "bench", "--deny"];
    let remedy = format!("`mgp {}` ends that", deny.join(" "));
    let check = |home: &Home, cause: &str| {
        let printed = home.succeed(&connect);
        let expected = format!("the host allows only echo, but {cause} allows all tools; {remedy}");
        assert!(printed.contains(&expected) && !printed.contains("its tools:"), "{printed}");
        home.succeed(&deny);
        for (tool, permission) in [("echo", "allow"), ("shell", "deny")] {
            let query = ["access", "query", "copilot", "bench", tool];
            assert_eq!(home.json("access-query", &query)["permission"], permission, "{tool}");
        }
    };
    let home = ready();
    home.succeed(&["access", "grant", "*", "bench"]);
    check(&home, "the access entry of `*`");

    let home = ready();
    let text = fs::read_to_string(home.own()).unwrap();
    let policy = "[servers.mgp]\ndefault_policy = 'opt-out'\n";
    home.configure(&format!("{text}\n{policy}"));
    check(&home, "its `default_policy`");

    // `mgp connect` keeps an entry for the agent that an operator made.
    let home = ready();
    home.succeed(&["access", "grant", "copilot", "bench"]);
    let done = home.run(&connect);
    assert!(done.err.contains("the access entry of `copilot` allows all tools"), "{done:?}");
    assert!(done.err.contains(&remedy), "{done:?}");
    assert_eq!(entries(&home, "copilot"), pairs(&[("", "allow")]));
}

#[test]
fn an_agent_of_two_hosts_gets_what_one_of_them_offers() {
    let home = Home::new();
    for (file, tool) in [("a.json", "echo"), ("b.json", "fail")] {
        write_host(&home, &format!("work/{file}"), &json!({ "tools": [tool] }));
    }
    home.succeed(&["import", "a.json", "b.json", "--apply", "--agent", "ada"]);
    assert_eq!(entries(&home, "ada"), pairs(&[("echo", "allow"), ("fail", "allow")]));
}

#[test]
fn setup_names_what_it_does_not_copy() {
    let home = Home::new();
    let server = format!(
        "[mcp_servers.own]\ncommand = '{}'\nargs = ['--tools', '1']\noauth_resource = 'x'\n",
        program("echo")
    );
    home.write(".codex/config.toml", &server);
    let done = home.succeed(&["setup", "codex", "--yes"]);
    home.succeed(&["stop"]);
    assert!(done.contains("`oauth_resource` was left out: it is not known here"), "{done}");
}

#[test]
fn setup_names_the_reasons_of_a_host_none_of_whose_servers_can_be_copied() {
    let home = Home::new();
    let tools = json!({ "command": "node", "args": ["${workspaceFolder}/mcp.js"] });
    let text = json!({ "mcpServers": { "tools": tools } }).to_string();
    let file = home.write(".cursor/mcp.json", &text);
    home.write(".codeium/windsurf/mcp_config.json", "");
    let reason = "left out: only its host can replace `${workspaceFolder}`";
    let planned = home.succeed(&["setup", "--dry-run"]);
    assert!(planned.contains(reason) && !planned.contains("cursor has no servers"), "{planned}");
    assert!(planned.contains("windsurf has no servers"), "{planned}");
    let done = home.succeed(&["setup", "--yes"]);
    assert!(done.contains(reason) && done.contains("nothing to change: no server"), "{done}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    // If the user names the host, `mgp setup` adds mgp to the host's own servers.
    let done = home.succeed(&["setup", "cursor", "--yes"]);
    home.succeed(&["stop"]);
    assert!(done.contains(reason), "{done}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(env!("CARGO_BIN_EXE_mgp")) && text.contains("\"tools\""), "{text}");
}

#[test]
fn a_list_of_gemini_that_keeps_mgp_out_is_respected() {
    let home = Home::new();
    let write = |lists: Value| {
        let servers = json!({ "own": { "command": "own" }, "off": { "command": "off" } });
        let text = json!({ "mcp": lists, "mcpServers": servers }).to_string();
        (home.write(".gemini/settings.json", &text), text)
    };
    write(json!({ "excluded": ["off"] }));
    let seen = home.json("import", &["import", "gemini"]);
    let servers = seen["servers"].as_array().unwrap();
    let off = servers.iter().find(|server| server["name"] == "off").unwrap();
    assert_eq!(off["left_out"], "it is switched off there", "{seen}");
    let connect = ["connect", "gemini", "--replace", "--interactive", "no", "--no-grant"];
    for lists in [json!({ "allowed": ["own"] }), json!({ "excluded": ["mgp"] })] {
        let (file, text) = write(lists);
        home.fail(1, &connect, "its `mcp.allowed` or `mcp.excluded` keeps the host from starting");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    let (file, _) = write(json!({ "allowed": ["own", "mgp"] }));
    home.succeed(&["import", "gemini", "--apply", "--no-grant"]);
    let done = home.json("connect", &connect);
    assert_eq!((&done["replaced"], &done["beside"]), (&json!(["own"]), &json!([])), "{done}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(env!("CARGO_BIN_EXE_mgp")) && text.contains("\"off\""), "{text}");
}

#[test]
fn a_file_that_cannot_be_changed_does_not_stop_the_other_hosts() {
    let home = Home::new();
    let goose = "extensions: {own: {type: stdio, cmd: own, args: []}}\n";
    let file = home.write(".config/goose/config.yaml", goose);
    home.write(".codeium/windsurf/mcp_config.json", "");
    let cursor = json!({ "mcpServers": { "own": { "command": program("echo"), "args": ["--tools", "1"] } } });
    let cursor = home.write(".cursor/mcp.json", &cursor.to_string());
    let planned = home.run(&["setup", "--dry-run"]);
    let fault = "! `~/.config/goose/config.yaml` was not changed";
    assert!(planned.out.contains(fault) && !planned.out.contains("it is not JSON"), "{planned:?}");
    let json = home.json("setup", &["setup", "--dry-run"]);
    assert!(json["faults"][0].as_str().unwrap().contains("config.yaml` was not changed"), "{json}");
    let done = home.run(&["setup", "--yes", "--interactive", "no"]);
    home.succeed(&["stop"]);
    assert!(done.code == Some(0) && done.out.contains(fault), "{done:?}");
    assert!(fs::read_to_string(&cursor).unwrap().contains(env!("CARGO_BIN_EXE_mgp")));
    assert_eq!(fs::read_to_string(&file).unwrap(), goose);
    assert!(!fs::read_to_string(home.own()).unwrap().contains("goose"), "it is not imported");
    home.fail(1, &["setup", "goose", "--yes"], "was not changed");
}

#[test]
fn if_no_host_can_be_read_the_failure_names_the_file_the_reason_and_the_remedy() {
    let home = Home::new();
    home.write(".claude.json", r#"{"mcpServers": {"#);
    for command in ["setup", "import"] {
        home.fail(1, &[command], ".claude.json` cannot be read: it is not JSON at line 1");
        let failed = home.run(&[command, "--json"]);
        assert!(failed.out.contains(".claude.json` cannot be read"), "{failed:?}");
        assert!(failed.out.contains("correct this"), "{failed:?}");
    }
}

#[test]
fn servers_of_continue_in_its_settings_are_imported_and_named_as_not_governed() {
    let home = Home::new();
    let settings = "name: mine\nmcpServers:\n  - name: own\n    command: own\n    env: { KEY: \"${{ secrets.KEY }}\" }\n";
    let file = home.write(".continue/config.yaml", settings);
    let shown = home.run(&["setup", "continue", "--dry-run"]);
    let remedy = "not governed; `mgp import continue --apply` copies them";
    assert_eq!(shown.err.matches(remedy).count(), 1, "{shown:?}");
    let done = home.run(&["import", "continue", "--apply", "--no-grant"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.err.matches("remove there what you import").count(), 1, "{done:?}");
    assert!(done.out.contains("`KEY` is a secret there: run `mgp secrets set KEY`"), "{done:?}");
    let text = fs::read_to_string(home.own()).unwrap();
    assert!(text.contains("id = \"own\"") && text.contains("${keyring:KEY}"), "{text}");
    assert_eq!(fs::read_to_string(&file).unwrap(), settings);
    let connect = ["connect", "continue", file.to_str().unwrap(), "--interactive", "no"];
    home.fail(1, &connect, "its `mcpServers` is not a mapping");
    assert_eq!(fs::read_to_string(&file).unwrap(), settings);
    let mgp = env!("CARGO_BIN_EXE_mgp");
    let only_mgp = format!("  - name: mgp\n    command: {mgp}\n    args: [serve, --stdio]\n");
    for none in [" []\n".to_owned(), format!("\n{only_mgp}")] {
        home.write(".continue/config.yaml", &format!("name: mine\nmcpServers:{none}"));
        let shown = home.run(&["setup", "continue", "--dry-run"]);
        assert!(!shown.err.contains("not governed"), "{shown:?}");
    }
}

#[test]
fn a_host_that_is_named_twice_is_set_up_once() {
    let home = Home::new();
    let server = json!({ "mcpServers": { "own": { "command": program("echo"), "args": ["--tools", "1"] } } });
    home.write(".cursor/mcp.json", &server.to_string());
    let done = home.json("setup", &["setup", "cursor", "cursor", "--yes", "--interactive", "no"]);
    home.succeed(&["stop"]);
    assert_eq!(done["hosts"].as_array().unwrap().len(), 1, "{done}");
    assert_eq!(done["hosts"][0]["problems"], json!([]), "{done}");
}

#[test]
fn a_host_starts_mgp_only_after_its_agent_has_access() {
    let server = json!({ "mcpServers": { "bench": { "command": program("workbench") } } });
    for arguments in [&["setup", "cursor", "--yes"][..], &["connect", "cursor", "--replace"]] {
        let home = Home::new();
        let file = home.write(".cursor/mcp.json", &server.to_string());
        if arguments[0] == "connect" {
            home.succeed(&["import", "cursor", "--apply", "--no-grant"]);
        }
        let mut command = home.command(&[arguments, &["--interactive", "no"]].concat());
        let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let starts_mgp = || fs::read_to_string(&file).is_ok_and(|text| text.contains("serve"));
        // Poll without a pause, so that the command is killed just after it replaced the host's file.
        while running.try_wait().unwrap().is_none() && !starts_mgp() {}
        let _ = running.kill();
        running.wait().unwrap();
        assert!(starts_mgp(), "{arguments:?}");
        assert_eq!(entries(&home, "cursor"), pairs(&[("", "allow")]), "{arguments:?}");
    }
}

#[test]
fn the_file_of_opencode_with_comments_is_changed_and_restored() {
    let home = Home::new();
    let before = "{\n  // mine\n  \"mcp\": {\n    \"own\": { \"type\": \"local\", \"command\": [\"own\", \"-y\"] }\n  }\n}\n";
    let file = home.write(".config/opencode/opencode.jsonc", before);
    home.succeed(&["import", "opencode", "--apply", "--no-grant"]);
    let connect = ["connect", "opencode", "--replace", "--interactive", "no", "--no-grant"];
    let text = || fs::read_to_string(&file).unwrap();
    let done = home.json("connect", &connect);
    assert_eq!((&done["file"], &done["replaced"]), (&json!(file), &json!(["own"])), "{done}");
    assert!(text().contains(env!("CARGO_BIN_EXE_mgp")), "{}", text());
    assert!(!home.path(".config/opencode/opencode.json").exists());
    home.succeed(&["disconnect", "opencode"]);
    assert_eq!(text(), before);
    // `mgp undo` finds the entry of mgp even if the host has changed the file since.
    home.succeed(&["undo"]);
    home.succeed(&["undo"]);
    home.succeed(&connect);
    fs::write(&file, text().replacen('{', "{\n  \"theme\": \"x\",", 1)).unwrap();
    home.succeed(&["undo"]);
    let text = text();
    assert!(text.contains("\"theme\"") && text.contains("\"own\""), "{text}");
    assert!(!text.contains(env!("CARGO_BIN_EXE_mgp")), "{text}");
}

#[test]
fn disconnect_leaves_the_entry_of_another_program_that_has_replaced_mgp() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", "{}");
    home.succeed(&["connect", "cursor", "--interactive", "no"]);
    let other = json!({ "mcpServers": { "mgp": { "command": "other" } } }).to_string();
    fs::write(&file, &other).unwrap();
    home.succeed(&["disconnect", "cursor"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), other);
    home.fail(1, &["disconnect", "cursor"], "starts another program");
    assert_eq!(fs::read_to_string(&file).unwrap(), other);
}

#[test]
fn setup_shows_no_secret_of_a_hosts_file() {
    let home = Home::new();
    let text = r#"{ "mcpServers": {
        "a": {"command": "a", "args": ["--token", "sk-live-0123456789ab", "postgres://ada:pw-3x@db/x"],
            "env": {"TOKEN": "a$b-secret", "API_KEY": "ab\/cd-secret", "PGPASSWORD": "pg-secret"}}, // "old-secret"
        "off": {"command": "b", "disabled": true, "env": {"KEY": "off-secret"}}, "web": {"url": "https://x.example/mcp?key=query-secret"},
    } }"#;
    home.write(".cursor/mcp.json", text);
    let printed = home.run(&["setup", "--dry-run"]);
    assert!(printed.out.contains(r#"- "a": {"args":["--token","#), "{printed:?}");
    assert!(printed.out.contains(r#""TOKEN":"…""#), "{printed:?}");
    let planned = home.json("setup", &["setup", "--dry-run"]);
    let shown = format!("{}{}{planned}", printed.out, printed.err);
    for secret in ["sk-live", "pw-3x", "-secret"] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
    home.succeed(&["undo", "--list"]);
    assert!(!home.path(".local").exists(), "a command that only looks creates no folder");
}

#[test]
fn setup_tries_a_host_with_the_variables_of_its_own_environment() {
    let home = Home::new();
    let server = json!({ "command": program("echo"), "env": { "A": "${MINE}" } });
    home.write(".claude.json", &json!({ "mcpServers": { "one": server } }).to_string());
    let done = home.run_with(&["setup", "--yes", "--interactive", "no"], &[("MINE", "x")]);
    home.succeed(&["stop"]);
    assert!(done.out.contains("ok claude-code  started mgp: 1 server"), "{done:?}");
}

#[test]
fn setup_keeps_the_agent_and_the_own_settings_of_a_connected_host() {
    let home = Home::new();
    let echo = program("echo");
    let add = ["servers", "add", "one", "--no-grant", "--", &echo, "--tools", "1"];
    home.succeed(&add);
    let connect =
        ["connect", "cursor", "--agent", "team", "--grant", "one", "--interactive", "yes"];
    home.succeed(&connect);
    let file = home.path(".cursor/mcp.json");
    let edit = |edit: &dyn Fn(&mut Value)| {
        let mut now: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        edit(&mut now["mcpServers"]);
        fs::write(&file, now.to_string()).unwrap();
        now.to_string()
    };
    let before = edit(&|servers| servers["mgp"]["timeout"] = 90.into());
    let setup = || {
        let done = home.json("setup", &["setup", "cursor", "--yes", "--interactive", "no"]);
        home.succeed(&["stop"]);
        done
    };
    let done = setup();
    let host = &done["hosts"][0];
    assert_eq!((&host["agent"], &host["difference"]), (&json!("team"), &json!([])), "{done}");
    assert_eq!(host["problems"], json!([]), "{done}");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    let own = fs::read_to_string(home.own()).unwrap();
    assert!(own.contains("[agents.team]\ninteractive = false"), "{own}");
    assert!(!own.contains("[agents.cursor]"), "{own}");

    // `mgp setup` also grants the agent access to a server that was added to the host's file since the last setup.
    edit(&|servers| servers["two"] = json!({ "command": echo, "args": ["--tools", "2"] }));
    let done = setup();
    assert_eq!(done["access"], json!({ "team": ["two"] }), "{done}");
    assert_eq!(done["hosts"][0]["problems"], json!([]), "{done}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"team\"") && !text.contains("\"two\""), "{text}");
    assert!(text.contains("\"timeout\": 90"), "{text}");
}

#[test]
fn setup_leaves_a_host_with_another_configuration_as_it_is() {
    let home = Home::new();
    let config = home.write("work/other.toml", "");
    let connect = ["connect", "cursor", "--config", "other.toml", "--interactive", "no"];
    home.succeed(&connect);
    let file = home.path(".cursor/mcp.json");
    let before = fs::read_to_string(&file).unwrap();
    let option = format!("--config {}", config.display());
    home.fail(1, &["setup", "cursor", "--yes"], &format!("mgp setup cursor {option}`"));
    let all = home.run(&["setup", "--dry-run"]);
    assert!(all.err.contains(&format!("cursor starts mgp with `{option}`")), "{all:?}");
    let config = config.to_str().unwrap();
    let done = home.json("setup", &["setup", "cursor", "--config", config, "--dry-run"]);
    assert_eq!(done["hosts"][0]["difference"], json!([]), "{done}");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn files_of_continue_that_mgp_does_not_change_are_named() {
    let home = Home::new();
    home.write(".continue/mcpServers/mcp.json", r#"{"mcpServers": {}}"#);
    home.write(".continue/mcpServers/other.yaml", "mcpServers:\n  - command: npx\n");
    home.write(".continue/mcpServers/copied.json", r#"{"command": "own"}"#);
    home.write(".continue/mcpServers/notes.json", "{}");
    home.write(".continue/mcpServers/notes.md", "command");
    fs::write(home.path(".continue/mcpServers/bad.yaml"), [0xff]).unwrap();
    let warning = "mgp cannot change copied.json, other.yaml in `";
    for arguments in [&["setup", "continue", "--dry-run"][..], &["import", "continue"]] {
        let shown = home.run(arguments);
        assert_eq!(shown.err.matches(warning).count(), 1, "{arguments:?}: {shown:?}");
        assert!(shown.err.contains("mgp cannot read bad.yaml in `"), "{arguments:?}: {shown:?}");
    }
    let report = home.run(&["doctor", "--no-start"]);
    assert!(report.out.contains("mgp cannot change copied.json, other.yaml"), "{report:?}");
    fs::remove_dir_all(home.path(".continue/mcpServers")).unwrap();
    let shown = home.run(&["import"]);
    assert!(!shown.err.contains("cannot change"), "{shown:?}");
}

#[test]
fn servers_of_a_profile_of_vs_code_are_named_until_it_starts_mgp() {
    let home = Home::new();
    let path = ".config/Code/User/profiles/ab12/mcp.json";
    home.write(path, r#"{"servers": {"own": {"command": "no-such-program"}}}"#);
    home.write(".config/Code/User/mcp.json", r#"{"servers": {}}"#);
    let file = home.path(path).display().to_string();
    let remedy = format!("run `mgp import \"{file}\" --apply`");
    let report = home.run(&["doctor", "--no-start"]);
    assert!(report.out.contains(&remedy), "{report:?}");
    let import = home.run(&["import", &file]);
    assert!(import.out.contains("own") && import.out.contains("vscode"), "{import:?}");
    home.write(path, r#"{"servers": {"mgp": {"command": "mgp", "args": ["serve", "--stdio"]}}}"#);
    let report = home.run(&["doctor", "--no-start"]);
    assert!(!report.out.contains("profile"), "{report:?}");
}

#[test]
fn servers_of_a_hosts_file_in_the_project_are_named() {
    let home = Home::new();
    home.write("work/.cursor/mcp.json", r#"{"mcpServers": {"own": {"command": "true"}}}"#);
    let fix =
        "`mgp import cursor --project --apply`, then `mgp connect cursor --project --replace`";
    let has_fix = || home.run(&["doctor", "--no-start"]).out.contains(fix);
    assert!(!has_fix(), "this user has no Cursor");
    fs::create_dir(home.path(".cursor")).unwrap();
    assert!(has_fix());
}

/// Regression test: mgp skipped unreadable files, and `mgp doctor` reported nothing about them.
#[test]
fn files_of_a_project_and_of_a_profile_that_cannot_be_read_are_named() {
    let home = Home::new();
    home.write(".cursor/mcp.json", "{}");
    let long = format!(r#"{{"x": "{}"}}"#, "a".repeat(1 << 20));
    let profile = ".config/Code/User/profiles/ab12/mcp.json";
    for file in ["work/.cursor/mcp.json", profile] {
        for (text, why) in [("{", "it is not JSON"), (&*long, "it is longer than 1 MiB")] {
            home.write(file, text);
            let report = home.run(&["doctor", "--no-start"]);
            let expected = format!("{}` cannot be read: {why}", home.path(file).display());
            assert!(report.out.contains(&expected), "{report:?}");
        }
        home.write(file, "");
        assert!(!home.run(&["doctor", "--no-start"]).out.contains(file), "{file}");
    }
}

#[test]
fn the_new_agent_of_a_host_that_does_not_rewrite_names_gets_portable_ones() {
    // mgp does not change an agent's entry that exists, and writes no entry if a setting applies to all agents.
    for (before, host, is_written) in [
        ("", "cursor", true),
        ("", "claude-code", false),
        ("[agents.cursor]\ngroups = ['dev']\n", "cursor", false),
        ("[kernel]\nportable_names = true\n", "cursor", false),
    ] {
        let home = Home::new();
        home.configure(before);
        let done = home.json("connect", &["connect", host]);
        assert_eq!(done["portable_names"], is_written, "{before:?} {host}: {done}");
        let text = fs::read_to_string(home.own()).unwrap();
        let expected = if is_written { "[agents.cursor]\nportable_names = true\n" } else { before };
        assert_eq!(text, expected, "{host}");
        let again = home.json("connect", &["connect", host]);
        assert_eq!(again["portable_names"], false, "{again}");
    }
    let home = Home::new();
    let connect = ["connect", "generic", "mcp.json", "--agent", "other", "--interactive", "no"];
    let done = home.succeed(&connect);
    assert!(done.contains("other gets names of tools that all model providers accept"), "{done}");
}

/// Returns a home with two hosts. Each has the same two servers, which have a tool of the same name.
fn with_shared_names() -> Home {
    let home = Home::new();
    let server = |number: &str| json!({ "command": program("echo"), "env": { "N": number } });
    let servers = json!({ "mcpServers": { "one": server("1"), "two": server("2") } }).to_string();
    for file in [".cursor/mcp.json", ".claude.json"] {
        home.write(file, &servers);
    }
    home
}

#[test]
fn a_host_that_may_refuse_the_names_of_its_tools_gets_portable_ones() {
    let home = with_shared_names();
    let planned = home.run(&["setup", "--dry-run"]);
    let line = "`portable_names = true` would be written under `[agents.cursor]`";
    assert!(planned.out.contains(line) && !home.own().exists(), "{planned:?}");
    assert!(!planned.out.contains("[agents.claude-code]"), "it rewrites them: {planned:?}");
    let done = home.run(&["setup", "--yes"]);
    home.succeed(&["stop"]);
    assert!(done.out.contains("(`portable_names` in `[agents.cursor]`)"), "{done:?}");
    assert!(!done.out.contains("may refuse all tools"), "{done:?}");
    let own = fs::read_to_string(home.own()).unwrap();
    assert!(own.contains("[agents.cursor]\nportable_names = true\n"), "{own}");
    assert!(!own.contains("[agents.claude-code]"), "{own}");
}

#[test]
fn a_host_that_may_refuse_the_names_of_its_tools_is_named_with_the_line_to_write() {
    let home = with_shared_names();
    // `mgp setup` does not change an agent's entry that exists.
    home.configure("[agents.cursor]\n");
    let done = home.run(&["setup", "--yes", "--interactive", "no"]);
    let line = "write `portable_names = true` under `[agents.cursor]`";
    assert!(done.out.contains(line), "both servers have the same tool: {done:?}");
    assert!(!done.out.contains("[agents.claude-code]"), "it rewrites them: {done:?}");
    assert!(!fs::read_to_string(home.own()).unwrap().contains("portable_names"), "{done:?}");
    home.succeed(&["stop"]);
}
