//! Tests of `mgp connect` and `mgp disconnect`.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::program::program;
use crate::world::Home;

#[test]
fn the_entry_is_added_and_the_rest_of_the_file_is_kept() {
    let home = Home::new();
    let before = "{\n  // my servers\n  \"mcpServers\": { \"own\": {\"command\": \"own\"}, },\n  \"theme\": \"dark\"\n}\n";
    let file = home.write(".cursor/mcp.json", before);
    let done = home.json("connect", &["connect", "cursor", "--interactive", "yes"]);
    assert_eq!(done["file"], file.to_str().unwrap());
    assert_eq!(done["beside"], serde_json::json!(["own"]));
    assert_eq!(fs::read_to_string(done["backup"].as_str().unwrap()).unwrap(), before);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("// my servers") && text.contains("\"theme\": \"dark\""), "{text}");
    assert!(text.contains("\"--agent\",\n        \"cursor\""), "{text}");
    assert!(text.contains(env!("CARGO_BIN_EXE_mgp")), "{text}");
    assert!(
        fs::read_to_string(home.own()).unwrap().contains("[agents.cursor]\ninteractive = true")
    );

    // Connecting a second time must not change a file or ask a question.
    let again = home.json("connect", &["connect", "cursor"]);
    assert!(again.get("backup").is_none() && again["interactive"] == true, "{again}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn the_advice_on_servers_beside_mgp_names_the_host_and_the_agent() {
    let home = Home::new();
    let own = r#"{"mcpServers": {"own": {"command": "own"}}}"#;
    home.write(".cursor/mcp.json", own);
    let shown = home.succeed(&["connect", "cursor", "--agent", "ann", "--interactive", "no"]);
    assert!(shown.contains("`mgp import cursor --apply --agent ann` copies"), "{shown}");
    assert!(shown.contains("`mgp connect cursor --replace --agent ann` takes"), "{shown}");
    let file = home.write("other.json", own);
    let file = file.to_str().unwrap();
    let shown = home.succeed(&["connect", "generic", file, "--interactive", "no"]);
    assert!(shown.contains("`mgp connect generic ") && shown.contains(" --replace`"), "{shown}");
}

#[test]
fn the_entry_has_the_options_of_the_command() {
    let home = Home::new();
    let config = home.write("work/c.toml", "");
    #[cfg(unix)]
    let state = home.path("st");
    let arguments = [
        "connect",
        "vscode",
        "--interactive",
        "no",
        "--config",
        "c.toml",
        "--state",
        state.to_str().unwrap(),
    ];
    let done = home.json("connect", &arguments);
    let text = fs::read_to_string(done["file"].as_str().unwrap()).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    let entry = &written["servers"]["mgp"];
    assert_eq!(entry["type"], "stdio");
    let args = serde_json::json!([
        "serve",
        "--stdio",
        "--agent",
        "vscode",
        "--config",
        config.to_str().unwrap(),
        "--state",
        state.to_str().unwrap()
    ]);
    assert_eq!(entry["args"], args);
}

#[test]
fn the_entry_has_the_settings_of_the_environment() {
    let home = Home::new();
    let config = home.write("work/c.toml", "");
    let ended = home
        .command(&["connect", "cursor", "--interactive", "no"])
        .env("MGP_CONFIG_PATH", "c.toml")
        .env("XDG_STATE_HOME", home.path("st"))
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let text = fs::read_to_string(home.path(".cursor/mcp.json")).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    let args = written["mcpServers"]["mgp"]["args"].as_array().unwrap();
    let state = home.path("st/mgp");
    let expected = ["--config", config.to_str().unwrap(), "--state", state.to_str().unwrap()];
    assert_eq!(args[4..], expected);
}

#[test]
fn without_a_terminal_nobody_is_assumed_to_sit_at_the_host() {
    let home = Home::new();
    home.write(".claude.json", r#"{"mcpServers": {}}"#);
    let ended = home.run(&["connect", "claude-code", "--replace"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("--interactive yes lets claude-code ask"), "{ended:?}");
    assert_eq!(home.json("connect", &["connect", "claude-code"])["interactive"], false);
    // `mgp connect` without a terminal records no answer, so a later run may still ask the person.
    assert!(!fs::read_to_string(home.own()).unwrap_or_default().contains("interactive"));

    // `mgp servers add` grants the agents of the connected hosts access to the added server.
    let added = home.succeed(&["servers", "add", "echo", "--", &program("echo")]);
    for expected in ["echo: access for claude-code, default; ", "`mgp access revoke"] {
        assert!(added.contains(expected), "{expected}: {added}");
    }
    let add = ["servers", "add", "own", "--agent", "ada", "--", &program("echo"), "own"];
    let granted = home.json("servers-add", &add)["granted"].clone();
    assert_eq!((granted.as_array().unwrap().len(), &granted[0]["agent"]), (1, &json!("ada")));
}

#[test]
fn the_doctor_names_a_proxy_that_does_not_answer() {
    let home = Home::with_servers(&["a"]);
    let closed = mgp_testkit::unused_address();
    let proxy = format!("http://ann:secret@{closed}");
    let report = home.run_with(&["doctor", "--no-start"], &[("HTTPS_PROXY", &proxy)]);
    let expected = format!("HTTPS_PROXY names {closed}, which does not answer");
    assert!(report.out.contains(&expected), "{report:?}");
    assert!(!format!("{report:?}").contains("secret"), "{report:?}");
}

#[test]
fn each_host_has_a_row_of_the_doctor() {
    let home = Home::with_servers(&["a"]);
    home.write(".cursor/mcp.json", r#"{"mcpServers": {"own": {"command": "x"}}}"#);
    let rows = || -> Vec<String> {
        let (report, _) = home.any_json("doctor", &["doctor", "--no-start"]);
        let checks = report["checks"].as_array().unwrap().iter();
        let hosts = checks.filter(|check| check["about"] == "host");
        hosts
            .map(|check| format!("{} {} {}", check["level"], check["what"], check["fix"]))
            .collect()
    };
    assert_eq!(rows().len(), 1, "{:?}", rows());
    assert!(rows()[0].contains("cursor does not start mgp"), "{:?}", rows());
    home.succeed(&["connect", "cursor", "--interactive", "no"]);
    let row = &rows()[0];
    assert!(row.contains("not governed: own") && row.contains("connect cursor --replace"), "{row}");
    let text = fs::read_to_string(home.path(".cursor/mcp.json")).unwrap();
    let text = text.replace(env!("CARGO_BIN_EXE_mgp"), "/nothing/mgp");
    home.write(".cursor/mcp.json", &text);
    assert!(
        rows()[0].starts_with("\"fail\"") && rows()[0].contains("does not exist"),
        "{:?}",
        rows()
    );
    let table = home.run(&["doctor", "--no-start"]).out;
    assert!(table.ends_with("1 server configured and not started\n"), "{table}");
}

#[test]
fn a_host_gets_no_server_that_it_did_not_have() {
    let home = Home::new();
    home.succeed(&["servers", "add", "bench", "--no-grant", "--", &program("workbench")]);
    home.succeed(&["servers", "add", "closed", "--no-grant", "--", &program("echo")]);
    home.succeed(&["servers", "add", "own", "--no-grant", "--", &program("echo"), "own"]);
    let host = json!({ "mcpServers": { "mine": { "command": program("echo"), "args": ["own"] } } });
    home.write(".cursor/mcp.json", &host.to_string());
    let connect = |more: &[&str]| {
        let done =
            home.json("connect", &[&["connect", "cursor", "--interactive", "no"], more].concat());
        let granted = done["granted"].as_array().unwrap().iter();
        let granted: Vec<_> =
            granted.map(|one| one["server"].as_str().unwrap().to_owned()).collect();
        (granted, done["not_granted"].clone())
    };
    // `mgp connect` recognizes the host's server under any id, and lists the servers that the agent may not use.
    assert_eq!(connect(&["--no-grant"]), (vec![], json!(["bench", "closed", "own"])));
    let own = fs::read_to_string(home.own()).unwrap();
    fs::write(home.own(), own.replace("id = \"own\"", "id = \"mine\"")).unwrap();
    assert_eq!(connect(&[]), (vec!["mine".to_owned()], json!(["bench", "closed"])));
    home.silent(&["access", "grant", "cursor", "closed", "--deny"]);
    assert_eq!(connect(&["--grant", "all"]), (vec!["bench".to_owned()], json!([])));
    let standing = home.json("access-query", &["access", "query", "cursor", "closed"]);
    assert_eq!(standing["entries"][0]["permission"], "deny");
    let wrong = ["connect", "cursor", "--interactive", "no", "--grant", "bnech"];
    home.fail(1, &wrong, "there is no server `bnech`; did you mean `bench`?");
}

#[test]
fn a_replaced_host_starts_its_own_servers_again_after_disconnect() {
    let home = Home::new();
    let (echo, folder) = (program("echo"), home.work());
    let before = format!(
        "{{\n\t// mine\n\t\"mcpServers\": {{\n\t\t\"a\": {{ \"command\": \"{echo}\" }}, // first\n\t\t\"bad\": {{}}\n\t}},\n\t\"projects\": {{ \"{}\": {{ \"mcpServers\": {{ \"b\": {{ \"command\": \"{echo}\" }} }} }} }},\n\t\"starts\": 1\n}}\n",
        folder.display()
    );
    let file = home.write(".claude.json", &before);
    home.succeed(&["import", "--apply"]);
    let connect = ["connect", "claude-code", "--interactive", "yes", "--replace"];
    let done = home.json("connect", &connect);
    assert_eq!((&done["replaced"], &done["beside"]), (&json!(["a", "b"]), &json!([])), "{done}");
    let text = || fs::read_to_string(&file).unwrap();
    let connected = text();
    assert!(connected.contains("// mine") && connected.contains("\n\t\t\"mgp\": {"), "{connected}");
    assert_eq!(connected.matches(&echo).count(), 0, "{connected}");
    home.json("connect", &connect[..4]);
    assert_eq!(text(), connected, "connecting again brings nothing back");
    home.json("connect", &[&connect[..], &["--agent", "other"]].concat());
    assert!(text().contains("\"other\""));

    let done = home.json("disconnect", &["disconnect", "claude-code"]);
    assert_eq!((&done["exact"], &done["restored"]), (&json!(true), &json!(["a", "b"])));
    assert_eq!(text(), before, "byte for byte");
    home.fail(1, &["disconnect", "claude-code"], "does not start mgp");

    // The host changes its file after mgp was connected, so `mgp disconnect` keeps this change.
    home.succeed(&connect);
    fs::write(&file, text().replace("\"starts\": 1", "\"starts\": 2")).unwrap();
    let done = home.json("disconnect", &["disconnect", "claude-code"]);
    assert_eq!(done["differs"], json!(["changed since mgp was connected, and kept: `starts`"]));
    let text = text();
    assert_eq!(text.matches(&echo).count(), 2, "{text}");
    assert!(!text.contains("\"mgp\"") && text.contains("\"starts\": 2"), "{text}");
}

#[test]
fn a_file_that_mgp_created_is_removed_by_disconnect() {
    let home = Home::new();
    home.succeed(&["connect", "cursor", "--interactive", "no"]);
    assert!(home.path(".cursor/mcp.json").exists());
    let printed = home.succeed(&["disconnect", "cursor"]);
    assert!(printed.contains("is as it was before mgp was connected"), "{printed}");
    assert!(!home.path(".cursor/mcp.json").exists());
}

/// Creates a symbolic link to the home folder, and returns its path.
#[cfg(unix)]
fn link_to(home: &Home) -> String {
    let link = home.path("link");
    std::os::unix::fs::symlink(home.path(""), &link).unwrap();
    link.into_os_string().into_string().unwrap()
}

#[cfg(unix)]
#[test]
fn a_file_that_mgp_created_below_a_linked_home_is_removed_by_disconnect() {
    let home = Home::new();
    let link = link_to(&home);
    let run = |arguments: &[&str]| {
        let ended = home.run_with(arguments, &[("HOME", &link)]);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
        ended.out
    };
    run(&["connect", "cursor", "--interactive", "no"]);
    // The second `mgp connect` finds the file that the first one created.
    run(&["connect", "cursor", "--interactive", "no", "--agent", "other"]);
    let printed = run(&["disconnect", "cursor"]);
    assert!(printed.contains("is as it was before mgp was connected"), "{printed}");
    assert!(!home.path(".cursor/mcp.json").exists());
}

#[test]
fn disconnect_takes_out_an_entry_that_was_there_before_the_first_connect() {
    let home = Home::new();
    let file = home.write(
        ".cursor/mcp.json",
        r#"{"mcpServers": {"own": {"command": "own"}, "mgp": {"command": "mgp", "args": ["serve", "--stdio"]}}}"#,
    );
    home.succeed(&["connect", "cursor", "--interactive", "no"]);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(env!("CARGO_BIN_EXE_mgp")), "{text}");
    home.succeed(&["disconnect", "cursor"]);
    let text = fs::read_to_string(&file).unwrap();
    let left: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(left, json!({ "mcpServers": { "own": { "command": "own" } } }));
    home.fail(1, &["disconnect", "cursor"], "does not start mgp");
}

#[test]
fn disconnect_restores_an_entry_named_mgp_that_starts_another_server_or_cannot_be_read() {
    for entry in [
        json!({ "command": "other", "args": ["serve"] }),
        json!({ "command": "other", "args": "serve" }),
        json!({ "command": "other", "disabled": true }),
    ] {
        let home = Home::new();
        let before = json!({ "mcpServers": { "mgp": entry } }).to_string();
        let file = home.write(".cursor/mcp.json", &before);
        home.succeed(&["connect", "cursor", "--interactive", "no"]);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(env!("CARGO_BIN_EXE_mgp")), "{text}");
        home.succeed(&["disconnect", "cursor"]);
        home.fail(1, &["disconnect", "cursor"], "starts another program, or cannot be read");
        assert_eq!(fs::read_to_string(&file).unwrap(), before);
        // The host changes its file after mgp was connected.
        for is_connected_again in [false, true] {
            home.succeed(&["connect", "cursor", "--interactive", "no"]);
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replacen('{', "{\"theme\": \"dark\",", 1)).unwrap();
            if is_connected_again {
                home.succeed(&["connect", "cursor", "--interactive", "no", "--agent", "other"]);
            }
            home.succeed(&["disconnect", "cursor"]);
            let left: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
            assert_eq!(left, json!({ "theme": "dark", "mcpServers": { "mgp": entry } }));
            fs::write(&file, &before).unwrap();
        }
    }
}

#[cfg(unix)]
#[test]
fn setup_leaves_no_server_beside_mgp_below_a_linked_home() {
    let home = Home::new();
    let link = link_to(&home);
    fs::create_dir(home.path("tools")).unwrap();
    let desk = mgp_testkit::program("desk");
    let servers = json!({ "mcpServers": {
        "data": { "command": desk, "args": ["data"] },
        "terminal": { "command": desk, "args": ["terminal"], "cwd": "tools" },
    } });
    let file = home.write(".cursor/mcp.json", &servers.to_string());
    let arguments = ["--json", "setup", "cursor", "--yes", "--interactive", "yes"];
    let ended = home.run_with(&arguments, &[("HOME", &link)]);
    home.run_with(&["stop"], &[("HOME", &link)]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let done: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(done["hosts"][0]["beside"], json!([]), "{done}");
    let text = fs::read_to_string(&file).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<_> = written["mcpServers"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["mgp"]);
    let own = fs::read_to_string(home.own()).unwrap();
    assert_eq!(own.matches("[[servers]]").count(), 2, "{own}");
}

#[test]
fn other_hosts_need_their_file() {
    let home = Home::new();
    home.fail(2, &["connect", "generic", "--interactive", "no"], "mgp connect generic FILE");
    home.fail(2, &["connect", "emacs"], "possible values");
    home.fail(
        2,
        &["connect", "claude-desktop", "--project", "--interactive", "no"],
        "has no project files",
    );
    home.fail(
        2,
        &["connect", "cursor", "--agent", "a b", "--interactive", "no"],
        "is not a valid agent name",
    );
    let file = home.write("work/h.json", "[]");
    let path = file.to_str().unwrap();
    home.fail(1, &["connect", "generic", path, "--interactive", "no"], "was not changed");
    assert_eq!(fs::read_to_string(&file).unwrap(), "[]");
    fs::remove_file(&file).unwrap();
    home.succeed(&["connect", "generic", path, "--interactive", "no", "--agent", "other"]);
    assert!(fs::read_to_string(&file).unwrap().contains("\"other\""));
}

/// For each host: its name, the path of its file in the home, and the file's text, which has the server `own` of the
/// user.
const HOST_FILES: &[(&str, &str, &str)] = &[
    (
        "codex",
        ".codex/config.toml",
        "# mine\nmodel = \"o\"\n\n[mcp_servers.own] # notes\ncommand = 'own'\nargs = [\"-y\"]\n\n[tools]\nweb = true\n",
    ),
    (
        "gemini",
        ".gemini/settings.json",
        "{\n  \"theme\": \"x\",\n  \"mcpServers\": {\n    \"own\": { \"command\": \"own\", \"args\": [\"-y\"] }\n  }\n}\n",
    ),
    (
        "windsurf",
        ".codeium/windsurf/mcp_config.json",
        "{\"mcpServers\": {\"own\": {\"command\": \"own\", \"args\": [\"-y\"]}}}",
    ),
    (
        "zed",
        ".config/zed/settings.json",
        "// Zed\n{\n  \"theme\": \"One\", // dark\n  \"context_servers\": {\n    \"own\": { \"command\": \"own\", \"args\": [\"-y\"], \"env\": {} },\n  },\n}\n",
    ),
    (
        "opencode",
        ".config/opencode/opencode.json",
        "{\n  \"mcp\": {\n    \"own\": { \"type\": \"local\", \"command\": [\"own\", \"-y\"] }\n  }\n}\n",
    ),
    (
        "cline",
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        "{\n  \"mcpServers\": {\n    \"own\": { \"command\": \"own\", \"args\": [\"-y\"], \"disabled\": false, \"autoApprove\": [] }\n  }\n}\n",
    ),
    (
        "copilot",
        ".copilot/mcp-config.json",
        "{\n  \"mcpServers\": {\n    \"own\": { \"type\": \"local\", \"command\": \"own\", \"args\": [\"-y\"], \"tools\": [\"*\"] }\n  }\n}\n",
    ),
    (
        "lm-studio",
        ".lmstudio/mcp.json",
        "{\n  \"mcpServers\": {\n    \"own\": { \"command\": \"own\", \"args\": [\"-y\"] }\n  }\n}\n",
    ),
    (
        "kiro",
        ".kiro/settings/mcp.json",
        "{\n  \"mcpServers\": {\n    \"own\": { \"command\": \"own\", \"args\": [\"-y\"], \"disabled\": false }\n  }\n}\n",
    ),
    (
        "junie",
        ".junie/mcp/mcp.json",
        "{\n  \"mcpServers\": {\n    \"own\": { \"command\": \"own\", \"args\": [\"-y\"] }\n  }\n}\n",
    ),
    (
        "continue",
        ".continue/mcpServers/mcp.json",
        "{\n  \"mcpServers\": {\n    \"own\": { \"command\": \"own\", \"args\": [\"-y\"] }\n  }\n}\n",
    ),
    (
        "goose",
        ".config/goose/config.yaml",
        "GOOSE_MODEL: o # mine\nextensions:\n  own: # notes\n    enabled: true\n    type: stdio\n    name: own\n    cmd: own\n    args:\n    - -y\n    envs: {}\n    env_keys: []\n    timeout: 300\n    bundled: null\nGOOSE_PROVIDER: p\n",
    ),
];

/// Adds a key at the top level of a host's file.
fn add_key(file: &Path, name: &str) {
    let text = fs::read_to_string(file).unwrap();
    let text = match file.extension().and_then(|end| end.to_str()) {
        Some("toml") => format!("{name} = 1\n{text}"),
        Some("yaml") => format!("{text}{name}: 1\n"),
        _ => text.replacen('{', &format!("{{\"{name}\": 1,"), 1),
    };
    fs::write(file, text).unwrap();
}

#[test]
fn each_host_starts_mgp_instead_of_its_own_server_and_gets_its_file_back() {
    let home = Home::new();
    for (host, file, text) in HOST_FILES {
        let path = home.write(file, text);
        let import = home.json("import", &["import", host, "--apply", "--no-grant"]);
        assert_eq!(import["servers"][0]["id"], "own", "{host}: {import}");
        let arguments = ["connect", host, "--replace", "--interactive", "no", "--no-grant"];
        let connected = home.json("connect", &arguments);
        assert_eq!(connected["file"], path.to_str().unwrap(), "{host}");
        assert_eq!(connected["replaced"], json!(["own"]), "{host}: {connected}");
        let after = fs::read_to_string(&path).unwrap();
        assert!(after.contains(env!("CARGO_BIN_EXE_mgp")) && !after.contains("own"), "{after}");
        let report = home.any_json("doctor", &["doctor", "--no-start"]).0.to_string();
        assert!(report.contains(host), "{host}: {report}");
        let done = home.json("disconnect", &["disconnect", host]);
        assert_eq!((&done["exact"], &done["restored"]), (&json!(true), &json!(["own"])), "{host}");
        assert_eq!(fs::read_to_string(&path).unwrap(), *text, "{host}");

        // The host changes another part of its file while mgp is connected.
        home.json("connect", &arguments);
        add_key(&path, "added");
        let done = home.json("disconnect", &["disconnect", host]);
        assert_eq!((&done["exact"], &done["restored"]), (&json!(false), &json!(["own"])), "{host}");
        let differs = json!(["changed since mgp was connected, and kept: `added`"]);
        assert_eq!(done["differs"], differs, "{host}");
        home.json("connect", &arguments);
        add_key(&path, "more");
        home.json("connect", &arguments);
        home.json("disconnect", &["disconnect", host]);
        let text = fs::read_to_string(&path).unwrap();
        for kept in ["own", "added", "more"] {
            assert!(text.contains(kept), "{host}: {text}");
        }
        assert!(!text.contains(env!("CARGO_BIN_EXE_mgp")), "{host}: {text}");
    }
    home.fail(2, &["connect", "gemni"], "gemini");
    home.fail(2, &["import", "windsrf"], "windsurf");
}

#[test]
fn undo_takes_changes_back_one_by_one_and_refuses_to_lose_those_of_others() {
    let home = Home::new();
    home.fail(1, &["undo"], "no host's file to restore");
    let before = "{ \"mcpServers\": {\"own\": {\"command\": \"own\"}} }";
    let cursor = home.write(".cursor/mcp.json", before);
    let connect = |host| home.succeed(&["connect", host, "--interactive", "no", "--no-grant"]);
    connect("cursor");
    connect("kiro");
    let kiro = home.path(".kiro/settings/mcp.json");
    assert!(kiro.exists());
    let listed = home.json("undo", &["undo", "--list"]);
    assert_eq!(listed[0]["file"], kiro.to_str().unwrap(), "{listed}");
    assert_eq!(
        (listed[1]["command"].as_str(), listed.as_array().unwrap().len()),
        (Some("connect"), 2)
    );
    home.succeed(&["undo"]);
    assert!(!kiro.exists(), "there was no file before");
    connect("kiro");
    fs::write(&kiro, "{}").unwrap();
    let backup = home.json("undo", &["undo", "--force"])[0]["backup"].as_str().map(str::to_owned);
    assert_eq!(fs::read_to_string(backup.unwrap()).unwrap(), "{}", "what others wrote is kept");

    let ours = fs::read_to_string(&cursor).unwrap();
    fs::write(&cursor, ours.replace("--stdio", "--other")).unwrap();
    home.fail(1, &["undo"], "the entry of mgp in");
    // `mgp undo` keeps the changes of other programs in the file.
    fs::write(&cursor, ours.replace("own", "theirs")).unwrap();
    let undone = home.succeed(&["undo"]);
    assert!(undone.contains("and kept: `mcpServers.own`, `mcpServers.theirs`"), "{undone}");
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let now = fs::read_to_string(&cursor).unwrap();
    assert_eq!(json(&now), json(&before.replace("own", "theirs")));
    fs::write(&cursor, before).unwrap();
    connect("cursor");
    assert_eq!(fs::read_to_string(&cursor).unwrap(), ours);
    home.succeed(&["disconnect", "cursor"]);
    assert_eq!(fs::read_to_string(&cursor).unwrap(), before);
    home.succeed(&["undo"]);
    assert_eq!(fs::read_to_string(&cursor).unwrap(), ours, "the disconnect is taken back");
    home.succeed(&["disconnect", "cursor"]);
    assert_eq!(fs::read_to_string(&cursor).unwrap(), before, "it is connected as before");
    home.succeed(&["undo"]);
    home.succeed(&["undo"]);
    assert_eq!(fs::read_to_string(&cursor).unwrap(), before, "byte for byte");
    fs::write(&cursor, "{}").unwrap();
    home.fail(1, &["undo"], "no host's file to restore");
}

#[test]
fn setup_puts_mgp_between_all_hosts_and_their_servers_and_undo_restores_every_byte() {
    let home = Home::new();
    let desk = mgp_testkit::program("desk");
    let desk = desk.to_str().unwrap();
    let claude = format!(
        "{{\n  \"theme\": \"dark\",\n  \"mcpServers\": {{\n    \"terminal\": {{\"command\": \"{desk}\", \"args\": [\"terminal\"], \"env\": {{\"TOKEN\": \"tok-3n\"}}}},\n    \"data\": {{\"command\": \"{desk}\", \"args\": [\"data\"]}}\n  }}\n}}\n"
    );
    let cursor = format!(
        "{{ // mine\n  \"mcpServers\": {{\n    \"data\": {{\"command\": \"{desk}\", \"args\": [\"data\"]}},\n  }},\n}}"
    );
    let codex = "# mine\n[mcp_servers.broken]\ncommand = \"false\"\nargs = [\"desk\"]\n".to_owned();
    let files = [
        (home.write(".claude.json", &claude), claude),
        (home.write(".cursor/mcp.json", &cursor), cursor),
        (home.write(".codex/config.toml", &codex), codex),
        (home.write(".gemini/settings.json", "{}"), "{}".to_owned()),
    ];
    let unchanged = || files.iter().all(|(file, text)| fs::read_to_string(file).unwrap() == *text);
    // Without a terminal in which a person could answer, `mgp setup` shows the planned change but does not make it.
    let shown = home.run(&["setup"]);
    assert_eq!(shown.code, Some(2), "{shown:?}");
    assert!(shown.err.contains("mgp setup --yes") && unchanged(), "{shown:?}");
    assert!(!shown.out.contains("tok-3n") && shown.out.contains("TOKEN"), "{shown:?}");
    for expected in [
        "claude-code would be allowed to use data, terminal",
        "cursor would be allowed to use data",
        "gemini has no servers",
        "cursor: ~/.cursor/mcp.json would change",
        "    + ",
    ] {
        assert!(shown.out.contains(expected), "{expected}: {}", shown.out);
    }
    let planned = home.json("setup", &["setup", "--dry-run"]);
    assert_eq!((planned["applied"].as_bool(), unchanged()), (Some(false), true));
    assert!(!planned.to_string().contains("tok-3n"), "{planned}");

    let done = home.json("setup", &["setup", "--yes", "--interactive", "yes"]);
    let host = |name: &str| {
        let all = done["hosts"].as_array().unwrap();
        all.iter().find(|host| host["host"] == name).unwrap_or_else(|| panic!("{name}: {done}"))
    };
    assert_eq!(host("claude-code")["ready"], 2, "{done}");
    assert_eq!(host("cursor")["ready"], 1, "{done}");
    assert!(host("cursor")["tools"].as_u64().unwrap() > 0, "{done}");
    let broken = &host("codex")["problems"][0];
    assert!(broken.as_str().unwrap().starts_with("broken is not ready"), "{done}");
    for (file, before) in &files[..3] {
        let text = fs::read_to_string(file).unwrap();
        assert!(text != *before && text.contains(env!("CARGO_BIN_EXE_mgp")), "{text}");
        assert!(!text.contains("desk\""), "its servers are taken out: {text}");
    }
    let own = fs::read_to_string(home.own()).unwrap();
    assert!(own.contains("[agents.codex]") && own.contains("id = \"terminal\""), "{own}");

    // The second `mgp setup` has nothing to change.
    let again = home.json("setup", &["setup", "claude-code", "cursor", "--yes"]);
    let all = again["hosts"].as_array().unwrap();
    assert!(all.iter().all(|host| host["difference"] == json!([])), "{again}");
    home.succeed(&["stop"]);

    home.succeed(&["undo"]);
    assert!(unchanged(), "byte for byte");
    for (file, _) in &files {
        let names = fs::read_dir(file.parent().unwrap()).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        let is_copy = |name: &OsString| name.to_string_lossy().contains(".bak");
        assert!(!names.iter().any(is_copy), "no copy is left: {names:?}");
    }
    home.fail(2, &["setup", "curser"], "'cursor'");
}
