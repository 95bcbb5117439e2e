//! Tests of hosts' files that other programs edit while mgp is connected.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use mgp_types::PrivateFile;
use serde_json::{Value, json};

use crate::program::program;
use crate::world::Home;

#[test]
fn a_host_that_starts_mgp_only_in_this_project_is_not_advised_to_connect_it() {
    let home = Home::new();
    home.write(".cursor/mcp.json", "{}");
    home.succeed(&["connect", "cursor", "--project", "--interactive", "no"]);
    let printed = home.succeed(&["doctor", "--no-start"]);
    assert!(printed.contains("cursor in this project starts mgp"), "{printed}");
    assert!(!printed.contains("does not start mgp"), "{printed}");
}

#[test]
fn servers_that_connect_took_out_come_back_though_the_host_removed_the_entry_of_mgp() {
    let home = Home::new();
    let echo = program("echo");
    let before = json!({ "mcpServers": {
        "a": { "command": echo },
        "b": { "command": echo, "args": ["b"] },
    } });
    let file = home.write(".cursor/mcp.json", &before.to_string());
    home.succeed(&["import", "cursor", "--apply", "--no-grant"]);
    let connect = ["connect", "cursor", "--interactive", "no", "--no-grant", "--replace"];
    let written = || serde_json::from_str::<Value>(&fs::read_to_string(&file).unwrap()).unwrap();
    let names = || {
        let written = written();
        written["mcpServers"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    let remove_mgp = || {
        let mut now = written();
        now["mcpServers"].as_object_mut().unwrap().remove("mgp").unwrap();
        fs::write(&file, now.to_string()).unwrap();
    };
    home.succeed(&connect);
    assert_eq!(names(), ["mgp"]);
    remove_mgp();
    let done = home.json("disconnect", &["disconnect", "cursor"]);
    assert_eq!(done["restored"], json!(["a", "b"]), "{done}");
    assert_eq!(written(), before);
    home.fail(1, &["disconnect", "cursor"], "does not start mgp");

    home.succeed(&connect);
    remove_mgp();
    home.succeed(&connect[..5]);
    assert_eq!(names(), ["mgp"]);
    home.succeed(&["disconnect", "cursor"]);
    assert_eq!(written(), before);

    // Servers that the user puts back into the host's file meanwhile stay there.
    home.succeed(&connect);
    fs::write(&file, before.to_string()).unwrap();
    home.succeed(&connect[..5]);
    assert_eq!(names(), ["a", "b", "mgp"]);
    home.succeed(&["disconnect", "cursor"]);
    assert_eq!(written(), before);
}

#[test]
fn disconnect_reports_an_edited_entry_of_mgp_and_keeps_one_of_another_program() {
    let home = Home::new();
    let before = json!({ "mcpServers": { "mgp": { "command": "other" } } });
    let file = home.write(".cursor/mcp.json", &before.to_string());
    let read = || serde_json::from_str::<Value>(&fs::read_to_string(&file).unwrap()).unwrap();
    let edited = |edit: &dyn Fn(&mut Value)| {
        fs::write(&file, before.to_string()).unwrap();
        home.succeed(&["connect", "cursor", "--interactive", "no", "--no-grant"]);
        let mut now = read();
        edit(&mut now["mcpServers"]["mgp"]);
        fs::write(&file, now.to_string()).unwrap();
        let done = home.json("disconnect", &["disconnect", "cursor"]);
        (now, done["differs"].to_string(), done["backup"].clone())
    };
    let changed = "the entry `mgp` was changed since mgp was connected";
    for edit in [
        |entry: &mut Value| entry["env"] = json!({ "A": "b" }),
        |entry: &mut Value| entry["disabled"] = true.into(),
    ] {
        let (now, differs, backup) = edited(&edit);
        assert!(differs.contains(changed) && differs.contains("`mgp undo`"), "{differs}");
        assert_eq!(read(), before);
        let kept = fs::read_to_string(backup.as_str().unwrap()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), now);
        home.succeed(&["undo"]);
        assert_eq!(read(), now);
        home.succeed(&["disconnect", "cursor"]);
    }
    for entry in [json!({ "command": "mine" }), json!({ "command": "mine", "args": "x" })] {
        let (now, differs, _) = edited(&|own| *own = entry.clone());
        assert!(differs.contains("stays as it is") && !differs.contains(changed), "{differs}");
        assert!(differs.contains("` has the earlier one"), "{differs}");
        assert_eq!(read(), now);
    }
}

#[test]
fn a_host_whose_folder_a_variable_names_is_changed_there() {
    let home = Home::new();
    for (host, variable, name, before, added) in [
        ("codex", "CODEX_HOME", "config.toml", "model = \"o\"\n", "x = 1\n"),
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json", "{\"a\": 1}\n", "\n"),
        ("copilot", "COPILOT_HOME", "mcp-config.json", "{\"a\": 1}\n", "\n"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json", "{\"a\": 1}\n", "\n"),
        ("qwen", "QWEN_HOME", "settings.json", "{\"a\": 1}\n", "\n"),
    ] {
        let file = home.write(&format!("moved/{name}"), before);
        let folder = home.path("moved").to_str().unwrap().to_owned();
        let run = |arguments: &[&str]| {
            let ended = home.run_with(arguments, &[(variable, &folder)]);
            assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
        };
        let text = || fs::read_to_string(&file).unwrap();
        run(&["connect", host, "--interactive", "no", "--no-grant"]);
        assert!(text().contains(env!("CARGO_BIN_EXE_mgp")), "{}", text());
        // `mgp undo` also recognizes the host's file after the host has changed it.
        fs::write(&file, format!("{added}{}", text())).unwrap();
        run(&["undo"]);
        assert!(text().starts_with(added) && !text().contains("mgp"), "{}", text());
        fs::write(&file, before).unwrap();
        run(&["connect", host, "--interactive", "no", "--no-grant"]);
        run(&["disconnect", host]);
        assert_eq!(text(), before);
    }
    for own in [".codex", ".claude.json", ".copilot", ".gemini", ".qwen"] {
        assert!(!home.path(own).exists(), "{own}");
    }
}

#[test]
fn a_file_that_may_have_its_servers_under_another_name_is_noted() {
    let home = Home::new();
    for (text, is_noted) in
        [(r#"{"amp.mcpServers": {}}"#, true), (r#"{"mcpServers": {}}"#, false), ("", false)]
    {
        let file = home.write("work/other.json", text);
        let file = file.to_str().unwrap();
        let ended = home.run(&["connect", "generic", file, "--interactive", "no"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.err.contains("had no `mcpServers`"), is_noted, "{ended:?}");
        home.succeed(&["disconnect", "generic", file]);
    }
}

fn read(file: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// Changes the text of a host's file, as the host or its user does.
fn edit(file: &Path, change: impl FnOnce(&mut Value)) {
    let mut now = read(file);
    change(&mut now);
    fs::write(file, now.to_string()).unwrap();
}

#[test]
fn disconnect_reports_another_program_in_a_file_that_connect_has_created() {
    let home = Home::new();
    home.succeed(&["connect", "cursor", "--interactive", "no", "--no-grant"]);
    let file = home.path(".cursor/mcp.json");
    edit(&file, |now| now["mcpServers"]["mgp"] = json!({ "command": "mine" }));
    let kept = read(&file);
    let done = home.json("disconnect", &["disconnect", "cursor"]);
    assert!(done["differs"].to_string().contains("starts another program"), "{done}");
    assert_eq!(read(&file), kept);
}

#[test]
fn undo_restores_the_hosts_that_it_can_and_names_the_others() {
    let home = Home::new();
    let server = json!({ "command": program("echo"), "args": ["--tools", "1"] });
    let before = json!({ "mcpServers": { "own": server } });
    let host = |name: &str| home.write(name, &before.to_string());
    let (claude, cursor, kiro) =
        (host(".claude.json"), host(".cursor/mcp.json"), host(".kiro/settings/mcp.json"));
    let setup = || {
        home.succeed(&["setup", "--yes", "--interactive", "no"]);
        home.succeed(&["stop"]);
    };
    setup();
    fs::remove_file(&cursor).unwrap();
    edit(&claude, |now| now["history"] = 1.into());
    let undone = home.run(&["undo"]);
    assert_eq!(undone.code, Some(1), "{undone:?}");
    let changed = format!("`{}` was changed since `mgp setup`", cursor.display());
    assert!(undone.err.contains(&changed), "{undone:?}");
    let mut kept = before.clone();
    kept["history"] = 1.into();
    assert_eq!(read(&claude), kept);
    assert_eq!(fs::read_to_string(&kiro).unwrap(), before.to_string(), "byte for byte");
    assert!(!cursor.exists());
    home.fail(1, &["undo"], &changed);
    home.succeed(&["undo", "--force"]);
    assert_eq!(fs::read_to_string(&cursor).unwrap(), before.to_string());
    home.fail(1, &["undo"], "no host's file to restore");

    // With `--force`, only the file whose entry of mgp was edited loses later changes.
    setup();
    edit(&claude, |now| now["history"] = 2.into());
    edit(&cursor, |now| now["mcpServers"]["mgp"]["args"] = json!(["serve", "--stdio"]));
    home.succeed(&["undo", "--force"]);
    kept["history"] = 2.into();
    assert_eq!(read(&claude), kept);
    assert_eq!(fs::read_to_string(&cursor).unwrap(), before.to_string());
}

#[test]
fn a_hosts_file_is_written_only_after_the_records_that_restore_it() {
    let home = Home::new();
    let before = json!({ "mcpServers": { "mgp": { "command": "other" } } }).to_string();
    let file = home.write(".cursor/mcp.json", &before);
    let text = || fs::read_to_string(&file).unwrap();
    let connect = ["connect", "cursor", "--interactive", "no", "--no-grant"];
    home.succeed(&connect);
    home.succeed(&["undo"]);
    let changes = home.path(".local/state/mgp/host-changes.json");
    fs::write(&changes, "{").unwrap();
    home.fail(1, &connect, "is damaged");
    assert_eq!(text(), before);
    fs::remove_file(&changes).unwrap();
    home.fail(1, &["disconnect", "cursor"], "starts another program");

    home.succeed(&connect);
    let (connected, kept) = (text(), fs::read_to_string(&changes).unwrap());
    fs::write(&changes, "{").unwrap();
    home.fail(1, &["disconnect", "cursor"], "is damaged");
    assert_eq!(text(), connected);
    fs::write(&changes, kept).unwrap();
    // If a command is killed after it wrote its records, but before it wrote the host's file, this file stays as it
    // was.
    fs::write(&file, &before).unwrap();
    home.succeed(&["undo"]);
    assert_eq!(text(), before);
    home.fail(1, &["undo"], "no host's file to restore");
}

#[test]
fn one_command_at_a_time_changes_hosts_files_and_their_records() {
    let home = Home::new();
    let before = json!({ "mcpServers": { "mgp": { "command": "other" } } }).to_string();
    let file = home.write(".cursor/mcp.json", &before);
    let connect = ["connect", "cursor", "--interactive", "no", "--no-grant"];
    home.succeed(&["connect", "claude-code", "--interactive", "no", "--no-grant"]);
    let text = |path: &Path| fs::read_to_string(path).unwrap();
    let state = |name: &str| home.path(".local/state/mgp").join(name);
    let records = || fs::read(state("connected.json")).unwrap();
    let changes = PrivateFile::new(state("host-changes.json"), 0);
    // Another command holds this lock while it writes its host's file.
    let other = changes.lock(Duration::from_secs(30)).unwrap();
    let recorded = records();
    home.fail(1, &connect, "could not be locked within");
    assert_eq!((text(&file), records()), (before.clone(), recorded));
    assert!(!home.path(".cursor/mcp.json.bak1").exists());
    drop(other);

    home.succeed(&connect);
    let (connected, recorded) = (text(&file), records());
    let other = changes.lock(Duration::from_secs(30)).unwrap();
    home.fail(1, &["disconnect", "cursor"], "could not be locked within");
    assert_eq!((text(&file), records()), (connected, recorded));
    assert!(!home.path(".cursor/mcp.json.bak2").exists());
    drop(other);
    home.succeed(&["disconnect", "cursor"]);
    assert_eq!(text(&file), before);
}

#[test]
fn commands_of_the_same_moment_are_taken_back_one_by_one() {
    let home = Home::new();
    let files = ["cursor", "kiro"].map(|host| {
        let name = if host == "kiro" { ".kiro/settings/mcp.json" } else { ".cursor/mcp.json" };
        let file = home.write(name, "{}");
        home.succeed(&["connect", host, "--interactive", "no", "--no-grant"]);
        file
    });
    edit(&home.path(".local/state/mgp/host-changes.json"), |changes| {
        changes[1]["at"] = changes[0]["at"].clone();
    });
    home.succeed(&["undo"]);
    let is_connected = files.map(|file| read(&file) != json!({}));
    assert_eq!(is_connected, [true, false]);
    home.succeed(&["undo"]);
    home.fail(1, &["undo"], "no host's file to restore");
}

#[cfg(unix)]
#[test]
fn a_link_of_a_host_to_a_file_that_does_not_exist_is_not_replaced() {
    let home = Home::new();
    let link = home.write(".cursor/mcp.json", "");
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(home.path("dotfiles/mcp.json"), &link).unwrap();
    let connect = ["connect", "cursor", "--interactive", "no", "--no-grant"];
    home.fail(1, &connect, "is a link to a file that does not exist; create that file");
    assert!(link.is_symlink());
}

#[cfg(unix)]
#[test]
fn a_program_of_another_name_recognizes_its_own_entry() {
    let home = Home::new();
    let renamed = home.path("mgp-new");
    fs::hard_link(env!("CARGO_BIN_EXE_mgp"), &renamed)
        .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_mgp"), &renamed).map(|_| ()))
        .unwrap();
    let file = home.write(".cursor/mcp.json", "{\"mcpServers\": {}}");
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&renamed);
        command.args(arguments).current_dir(home.work()).env_clear().env("HOME", home.path(""));
        let ended = command.output().unwrap();
        assert!(ended.status.success(), "{arguments:?}: {ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    };
    run(&["connect", "cursor", "--interactive", "no", "--no-grant"]);
    edit(&file, |now| now["mcpServers"]["mgp"]["env"] = json!({ "A": "b" }));
    let planned = run(&["import", "cursor"]);
    assert!(!planned.contains("mgp-cursor"), "{planned}");
    run(&["disconnect", "cursor"]);
    assert_eq!(read(&file), json!({ "mcpServers": {} }));
}

#[cfg(unix)]
#[test]
fn a_host_starts_mgp_by_the_link_with_which_it_was_called() {
    let home = Home::new();
    let link = home.path("mgp");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mgp"), &link).unwrap();
    for called in [link.as_os_str(), "mgp".as_ref()] {
        let mut command = std::process::Command::new(&link);
        std::os::unix::process::CommandExt::arg0(&mut command, called);
        command.args(["connect", "cursor", "--interactive", "no", "--no-grant"]);
        command.current_dir(home.work()).env_clear().env("HOME", home.path(""));
        command.env("PATH", home.path(""));
        let ended = command.output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        let file = home.path(".cursor/mcp.json");
        assert_eq!(read(&file)["mcpServers"]["mgp"]["command"], link.to_str().unwrap());
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn undo_takes_back_a_later_change_of_a_connected_host_without_what_the_host_has_written() {
    let home = Home::new();
    let echo = program("echo");
    let before = json!({ "mcpServers": { "a": { "command": echo } } });
    let file = home.write(".cursor/mcp.json", &before.to_string());
    let connect = |more: &[&str]| {
        home.succeed(&["import", "cursor", "--apply", "--no-grant"]);
        let connect = ["connect", "cursor", "--replace", "--interactive", "no", "--no-grant"];
        home.succeed(&[&connect[..], more].concat());
    };
    connect(&[]);
    edit(&file, |now| now["mcpServers"]["b"] = json!({ "command": echo, "args": ["b"] }));
    let mut between = read(&file);
    connect(&["--agent", "other"]);
    let names: Vec<_> = read(&file)["mcpServers"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["mgp"]);
    edit(&file, |now| now["history"] = 1.into());
    let undone = home.json("undo", &["undo"]);
    assert!(undone[0]["differs"].to_string().contains("and kept: `history`"), "{undone}");
    between["history"] = 1.into();
    assert_eq!(read(&file), between);
    home.succeed(&["undo"]);
    let left: Vec<_> = read(&file)["mcpServers"].as_object().unwrap().keys().cloned().collect();
    assert_eq!((left, &read(&file)["history"]), (vec!["a".to_owned(), "b".to_owned()], &json!(1)));
}

#[test]
fn a_server_that_a_host_declares_twice_is_taken_out_of_its_file_completely() {
    let home = Home::new();
    let echo = program("echo");
    let entry = |argument: &str| {
        format!("\"own\": {{\"command\": \"{echo}\", \"args\": [\"{argument}\"]}}")
    };
    let before = format!("{{\"mcpServers\": {{{}, {}}}}}", entry("first"), entry("second"));
    let file = home.write(".cursor/mcp.json", &before);
    home.succeed(&["import", "cursor", "--apply", "--no-grant"]);
    let connect = ["connect", "cursor", "--replace", "--interactive", "no", "--no-grant"];
    let done = home.json("connect", &connect);
    assert_eq!((&done["replaced"], &done["beside"]), (&json!(["own"]), &json!([])), "{done}");
    let now = read(&file);
    assert_eq!(now["mcpServers"].as_object().unwrap().len(), 1, "{now}");
    home.succeed(&["undo"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn half_a_character_in_the_history_of_a_host_does_not_keep_its_servers_from_mgp() {
    let home = Home::new();
    let before = format!(
        r#"{{"history": ["cut \ud83d"], "mcpServers": {{"own": {{"command": {}}}}}}}"#,
        json!(program("echo"))
    );
    let file = home.write(".claude.json", &before);
    home.succeed(&["import", "claude-code", "--apply", "--no-grant"]);
    let connect = ["connect", "claude-code", "--replace", "--interactive", "no", "--no-grant"];
    let done = home.json("connect", &connect);
    assert_eq!(done["replaced"], json!(["own"]), "{done}");
    assert!(fs::read_to_string(&file).unwrap().contains(r"cut \ud83d"), "the rest is kept");
    home.succeed(&["undo"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn servers_in_the_second_file_of_opencode_are_named_until_it_starts_mgp() {
    let home = Home::new();
    let entry = |id: &str| {
        let own = json!({ "type": "local", "command": [program("echo"), id] });
        json!({ "mcp": { id: own } }).to_string()
    };
    home.write(".config/opencode/opencode.json", &entry("first"));
    let second = home.write(".config/opencode/opencode.jsonc", &entry("second"));
    let second = second.to_str().unwrap();
    let remedy = format!("run `mgp import \"{second}\" --apply`");
    let named = || home.run(&["doctor", "--no-start"]).out.contains(&remedy);
    assert!(named());
    home.succeed(&["import", second, "--apply", "--no-grant"]);
    let connect = ["connect", "opencode", second, "--replace", "--interactive", "no", "--no-grant"];
    let done = home.json("connect", &connect);
    assert_eq!(done["replaced"], json!(["second"]), "{done}");
    assert!(!named());
}

#[test]
fn a_server_that_copilot_has_disabled_is_not_imported_nor_mgp_connected_in_vain() {
    let home = Home::new();
    let own = json!({ "command": program("echo") });
    let before = json!({ "mcpServers": { "on": own, "off": own } }).to_string();
    let file = home.write(".copilot/mcp-config.json", &before);
    let disable = |name: &str| {
        let settings = json!({ "disabledMcpServers": [name] }).to_string();
        home.write(".copilot/settings.json", &settings);
    };
    disable("off");
    let seen = home.json("import", &["import", "copilot"]);
    let servers = seen["servers"].as_array().unwrap();
    let left_out = |name: &str| {
        let server = servers.iter().find(|server| server["name"] == name).unwrap();
        server["left_out"].clone()
    };
    assert_eq!(left_out("off"), "it is switched off there", "{seen}");
    assert!(left_out("on").is_null(), "{seen}");
    disable("mgp");
    let connect = ["connect", "copilot", "--interactive", "no", "--no-grant"];
    home.fail(1, &connect, "`disabledMcpServers` in its `settings.json` keeps the host from");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn a_hosts_file_that_is_not_json_is_not_changed() {
    let home = Home::new();
    for text in ["{\"a\": 1 \"mcpServers\": {}}", "{\"mcpServers\": {}}}"] {
        let file = home.write(".cursor/mcp.json", text);
        let connect = ["connect", "cursor", "--interactive", "no", "--no-grant"];
        home.fail(1, &connect, "was not changed: it is not JSON at line 1");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

#[test]
fn access_to_all_servers_can_be_granted_together_with_named_ones() {
    let home = Home::with_servers(&["clock", "files"]);
    let connect = ["connect", "cursor", "--interactive", "no", "--grant", "all", "files"];
    let done = home.json("connect", &connect);
    let granted = done["granted"].as_array().unwrap().iter();
    let ids: Vec<&Value> = granted.map(|one| &one["server"]).collect();
    assert_eq!(ids, ["clock", "files"], "{done}");
}

#[test]
fn a_person_reads_that_codex_asks_before_each_call_and_how_to_end_that() {
    let home = Home::new();
    let file = home.write(".codex/config.toml", "model = \"own\"\n");
    let shown = home.succeed(&["connect", "codex", "--interactive", "no"]);
    assert!(shown.contains("[mcp_servers.mgp.tools.mgp_tools_call]"), "{shown}");
    let key = "\n[mcp_servers.mgp.tools.mgp_tools_call]\napproval_mode = \"approve\"\n";
    let text = fs::read_to_string(&file).unwrap() + key;
    fs::write(&file, text.replace("[mcp_servers.mgp]", "[mcp_servers.mgp]\nenabled = false"))
        .unwrap();
    let shown = home.succeed(&["connect", "codex", "--interactive", "no"]);
    assert!(!shown.contains("mgp_tools_call"), "{shown}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("approval_mode = \"approve\"") && !text.contains("enabled"), "{text}");
}

#[test]
fn only_the_users_own_file_keeps_what_was_added_to_the_entry_of_mgp() {
    let home = Home::new();
    let added = json!({
        "command": "mgp", "args": ["serve"], "env": { "LD_PRELOAD": "/tmp/a.so" },
        "autoApprove": ["*"], "timeout": 5,
    });
    let text = json!({ "mcpServers": { "mgp": added } }).to_string();
    let members = |file: &Path| {
        let arguments =
            ["connect", "cursor", file.to_str().unwrap(), "--interactive", "no", "--no-grant"];
        home.succeed(&arguments);
        let entry = read(file)["mcpServers"]["mgp"].clone();
        entry.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>()
    };
    let of_project = home.write("work/.cursor/mcp.json", &text);
    let own_members = ["args", "command"].map(str::to_owned);
    assert_eq!(members(&of_project), own_members.clone().into());
    let own = home.write(".cursor/mcp.json", &text);
    let kept = ["autoApprove", "env", "timeout"].map(str::to_owned);
    assert_eq!(members(&own), own_members.into_iter().chain(kept).collect());
}

#[test]
fn undo_writes_no_file_while_the_records_of_connected_files_are_damaged() {
    let home = Home::new();
    let before = json!({ "mcpServers": {} }).to_string();
    let file = home.write(".cursor/mcp.json", &before);
    home.succeed(&["connect", "cursor", "--interactive", "no", "--no-grant"]);
    let connected = fs::read_to_string(&file).unwrap();
    let records = home.path(".local/state/mgp/connected.json");
    let kept = fs::read(&records).unwrap();
    fs::write(&records, &kept[..9]).unwrap();
    home.fail(1, &["undo"], "connected.json` is damaged");
    assert_eq!(fs::read_to_string(&file).unwrap(), connected);
    fs::write(&records, kept).unwrap();
    home.succeed(&["undo"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}

#[cfg(unix)]
#[test]
fn an_incomplete_backup_does_not_stay_beside_the_file_of_a_host() {
    let home = Home::new();
    let before = json!({ "mcpServers": { "long": { "command": "x".repeat(9000) } } });
    let file = home.write(".cursor/mcp.json", &before.to_string());
    home.succeed(&["connect", "cursor", "--interactive", "no", "--no-grant"]);
    let count = || fs::read_dir(home.path(".cursor")).unwrap().count();
    let (files, connected) = (count(), fs::read(&file).unwrap());
    // A file may have at most 4 KiB, and the signal that would end the program is ignored.
    let ended = home.run_after("trap '' XFSZ; ulimit -f 4", &["disconnect", "cursor"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!((count(), fs::read(&file).unwrap()), (files, connected), "{ended:?}");
}

#[cfg(unix)]
#[test]
fn no_backup_stays_beside_the_file_of_a_host_that_could_not_be_changed() {
    let home = Home::new();
    let before = json!({ "mcpServers": {} }).to_string();
    let file = home.write(".cursor/mcp.json", &before);
    // Create a folder with the name of the new file, which ends with the process id that `exec` keeps for the program.
    let line = "mkdir \"$HOME/.cursor/mcp.json.mgp-new$$\"";
    let ended = home.run_after(line, &["connect", "cursor", "--interactive", "no", "--no-grant"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    let names = fs::read_dir(home.path(".cursor")).unwrap().map(|entry| entry.unwrap().file_name());
    let backups = names.filter(|name| name.to_string_lossy().contains(".bak")).count();
    assert_eq!(backups, 0, "{ended:?}");
    home.fail(1, &["undo"], "there is no host's file to restore");
}
