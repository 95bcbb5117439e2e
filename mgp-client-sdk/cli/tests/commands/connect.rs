//! `mgp connect`.

use std::fs;

use serde_json::Value;

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

    // A second time changes nothing and asks nothing.
    let again = home.json("connect", &["connect", "cursor"]);
    assert!(again.get("backup").is_none() && again["interactive"] == true, "{again}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
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
fn the_agent_gets_access_to_configured_servers_unless_it_has_an_entry() {
    let home = Home::new();
    home.succeed(&["servers", "add", "bench", "--no-grant", "--", &program("workbench")]);
    home.succeed(&["servers", "add", "closed", "--no-grant", "--", &program("echo")]);
    home.silent(&["access", "grant", "cursor", "closed", "--deny"]);
    let done = home.json("connect", &["connect", "cursor", "--interactive", "no"]);
    let granted: Vec<_> = done["granted"]
        .as_array()
        .unwrap()
        .iter()
        .map(|granted| granted["server"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(granted, ["bench"]);
    let standing = home.json("access-query", &["access", "query", "cursor", "closed"]);
    assert_eq!(standing["entries"][0]["permission"], "deny");
}

#[test]
fn interactivity_is_never_guessed() {
    let home = Home::new();
    home.fail(2, &["connect", "claude-code"], "use --interactive yes or --interactive no");
    assert!(!home.path(".claude.json").exists() && !home.own().exists(), "nothing was written");
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
