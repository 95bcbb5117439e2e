//! Tests of the commands that a new user runs first: help, a first configuration, completions, and invalid usage.

use std::fs;
use std::process::Stdio;

use crate::program::program;
use crate::world::Home;

#[test]
fn a_first_configuration_is_written_once() {
    let home = Home::new();
    let written = home.json("init", &["init"]);
    assert_eq!(written["file"], home.own().to_str().unwrap());
    let text = fs::read_to_string(home.own()).unwrap();
    assert!(text.contains("[[servers]]") && text.contains("# id = "));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(home.own()).unwrap().permissions().mode() & 0o777, 0o600);
    }
    home.fail(1, &["init"], "already exists; edit it");
    assert_eq!(fs::read_to_string(home.own()).unwrap(), text);

    let printed = home.succeed(&["init", "--project"]);
    assert!(printed.contains("mgp trust"), "{printed}");
    let text = fs::read_to_string(home.path("work/mgp.toml")).unwrap();
    assert!(text.contains("# [[servers]]") && !text.contains("# [kernel]"), "{text}");
    home.fail(2, &["init", "--project", "--config", "x.toml"], "cannot be used with");
    // The command cannot create the folder of the configuration, because a file has its name.
    home.write("file", "");
    home.fail(
        1,
        &["init", "--config", home.path("file/x.toml").to_str().unwrap()],
        "cannot be created",
    );
}

#[cfg(unix)]
#[test]
fn a_new_file_that_does_not_fit_on_the_disk_is_removed_so_that_the_command_can_run_again() {
    let home = Home::new();
    for (command, file) in [("init", home.own()), ("report", home.work().join("mgp-report.md"))] {
        // A file may have at most one block, and the signal that would end the program is ignored.
        let ended = home.run_after("trap '' XFSZ; ulimit -f 1", &[command]);
        assert_eq!((ended.code, file.exists()), (Some(1), false), "{command}: {ended:?}");
        home.succeed(&[command]);
        assert!(file.exists(), "{command}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_current_folder_that_was_removed_is_named_by_the_commands_that_need_it_only() {
    let home = Home::new();
    home.write(".cursor/mcp.json", r#"{ "mcpServers": { "a": { "command": "a" } } }"#);
    let removed = "mkdir gone && cd gone && rmdir ../gone";
    let import = home.run_after(removed, &["import", "cursor"]);
    assert!(import.code == Some(0) && import.out.contains("+ a"), "{import:?}");
    let connect = ["connect", "cursor", "--project", "--interactive", "no", "--no-grant"];
    let connect = home.run_after(removed, &connect);
    assert_eq!(connect.code, Some(1), "{connect:?}");
    assert!(connect.err.contains("the current folder cannot be used"), "{connect:?}");
}

#[cfg(unix)]
#[test]
fn no_other_user_can_write_to_the_folder_of_the_configuration_whatever_the_umask_is() {
    use std::os::unix::fs::PermissionsExt as _;
    let init = ["init"];
    let add = ["servers", "add", "a", "--no-grant", "--", "a"];
    let import = ["import", "./mcp.json", "--apply", "--no-grant"];
    for command in [&init[..], &add, &import] {
        let home = Home::new();
        home.write("work/mcp.json", r#"{ "mcpServers": { "a": { "command": "a" } } }"#);
        let ended = home.run_after("umask 0", command);
        assert_eq!(ended.code, Some(0), "{command:?}: {ended:?}");
        for folder in [".config", ".config/mgp"] {
            let mode = fs::metadata(home.path(folder)).unwrap().permissions().mode();
            assert_eq!(mode & 0o022, 0, "{command:?}: {folder} has the mode {mode:o}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_configuration_that_cannot_be_written_is_reported_with_the_remedy() {
    let home = Home::new();
    // Use a folder in which no user can create files.
    let option = ["--config", "/sys/mgp.toml"];
    for command in [&["init"][..], &["tools", "pin", "a.b", "--agent", "x", "--force"]] {
        home.fail(1, &[command, &option].concat(), "or name another file with --config FILE");
    }
    let add = [&["servers", "add", "x", "--no-grant"][..], &option, &["--", "x"]].concat();
    home.fail(1, &add, "or name another file with --config FILE");
}

#[test]
fn additions_follow_the_comments_of_the_template() {
    let home = Home::new();
    home.succeed(&["init"]);
    home.succeed(&["servers", "add", "a", "--no-grant", "--", "a"]);
    let text = fs::read_to_string(home.own()).unwrap();
    assert!(text.starts_with("# The servers behind `mgp`"), "{text}");
    assert!(text.trim_end().ends_with("command = \"a\""), "{text}");
    let home = Home::new();
    home.succeed(&["init"]);
    home.silent(&["tools", "pin", "a.b", "--agent", "x", "--force"]);
    let text = fs::read_to_string(home.own()).unwrap();
    assert!(text.starts_with("# The servers behind `mgp`"), "{text}");
    assert!(text.trim_end().ends_with("pinned = [\"a.b\"]"), "{text}");
}

#[test]
fn commands_that_edit_one_configuration_at_the_same_time_all_take_effect() {
    let home = Home::with_servers(&["a", "b", "c", "d"]);
    let adding = ["e", "f", "g", "h"].map(|id| format!("servers add {id} --no-grant -- cat"));
    let switching = ["a", "b", "c", "d"].map(|id| format!("servers disable {id}"));
    let start = |line: String| {
        let words: Vec<&str> = line.split(' ').collect();
        home.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let started: Vec<_> = adding.into_iter().chain(switching).map(start).collect();
    for child in started {
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    let text = fs::read_to_string(home.own()).unwrap();
    let count = |part: &str| text.matches(part).count();
    assert_eq!((count("id = \""), count("enabled = false")), (4, 4), "{text}");
}

#[test]
fn a_lock_of_the_configuration_that_another_process_keeps_is_reported_with_the_remedy() {
    let home = Home::with_servers(&["a"]);
    let held = fs::File::create(home.path(".config/mgp/servers.toml.lock")).unwrap();
    held.lock().unwrap();
    let refused = home.run(&["servers", "disable", "a"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for text in [
        "/servers.toml.lock` could not be locked within 5 s, because ",
        " holds it; try again, or end that process if it hangs",
    ] {
        assert!(refused.err.contains(text), "{refused:?}");
    }
}

#[test]
fn a_server_whose_addition_ended_before_its_grants_is_not_added_again_but_granted() {
    let home = Home::new();
    let echo = program("echo");
    // A command that is killed after it has written the entry leaves the same configuration.
    home.succeed(&["servers", "add", "x", "--no-grant", "--", &echo]);
    let again = ["servers", "add", "x", "--", &echo];
    home.fail(1, &again, "`x` is this server already; run `mgp access grant AGENT x`");
    home.fail(1, &["servers", "add", "x", "--", "cat"], "there is a server `x` already");
}

#[cfg(unix)]
#[test]
fn a_server_that_does_not_start_is_added_with_the_ways_to_correct_it() {
    let home = Home::new();
    home.write("work/pets.yaml", "");
    let added = home.run(&["servers", "add", "pets", "--", "sh", "-c", "exit 1", "pets.yaml"]);
    let shown = format!("{}{}", added.out, added.err);
    for text in ["/work/pets.yaml`, or add --cwd DIR", "`mgp doctor pets` starts it again"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
}

#[test]
fn no_arguments_print_the_help() {
    let home = Home::new();
    home.fail(2, &[], "mgp setup");
    let help = home.succeed(&["--help"]);
    for word in ["doctor", "connect", "Exit code"] {
        assert!(help.contains(word), "{help}");
    }
    assert!(home.succeed(&["help", "access", "grant"]).contains("Example:"));
    let version = home.succeed(&["--version"]);
    assert!(version.starts_with("mgp ") && home.succeed(&["version"]) == version, "{version}");
    assert_eq!(home.json("done", &["version"])["status"], version[4..].trim_end());
}

#[test]
fn errors_of_usage_show_the_right_form() {
    let home = Home::new();
    home.fail(2, &["doctr"], "doctor");
    home.fail(2, &["servers", "lst"], "unrecognized subcommand");
    home.fail(1, &["lock"], "no servers are configured; run `mgp setup`");
    home.fail(2, &["access", "grant", "a"], "<SERVER>");
    home.fail(2, &["access", "grant", "a", "b", "--expires", "soon"], "90d");
    home.fail(2, &["access", "grant", "a", "b", "--expires", "2001-01-01"], "is in the past");
    home.fail(1, &["servers", "add", "a"], "COMMAND");
    let url = "https://x.example/mcp";
    let with_url = |id: &str| format!("`mgp servers add {id} --url {url}`");
    home.fail(2, &["servers", "add", "a", url], &with_url("a"));
    home.fail(2, &["servers", "add", url], &with_url("ID"));
    home.fail(2, &["servers", "add", "a", "npx", "b"], "`mgp servers add a -- npx …`");
    home.fail(2, &["servers", "add", "a b", "--", "c"], "is not a valid id");
    home.fail(2, &["servers", "add", "_a", "--", "c"], "begin with a letter or digit");
    home.fail(2, &["servers", "add", &"a".repeat(129), "--", "c"], "at most 128");
    home.fail(2, &["connect", "cursor", "--agent", "_a"], "begin with a letter or digit");
    home.fail(2, &["servers", "add", "a", "--url", "https://x", "--header", "y"], "NAME: VALUE");
    home.fail(
        1,
        &["servers", "add", "a", "--url", "ftp://x"],
        "begin with `https://` or `http://`",
    );
    home.fail(2, &["tools", "pin", "a", "--agent", "x"], "is not SERVER.TOOL");
    home.fail(
        2,
        &["permissions", "approve", "a", "files"],
        "is not a permission; known: filesystem.read",
    );
    home.fail(
        2,
        &["keys", "add", "a", "--permission", "all"],
        "is not a permission of keys; known: tools.call",
    );
    for name in ["", "*", "group:admins", "a\nb"] {
        home.fail(2, &["keys", "add", name], "the name of an agent");
    }
    home.fail(2, &["completions", "tcsh"], "possible values");
    for line in [&["-v"][..], &["--json"], &["servers", "-v"]] {
        home.fail(2, line, "error: no command was given; see --help");
    }
    let report = home.run(&["--json"]).out;
    assert!(report.contains("no command was given; see --help"), "{report}");
}

#[test]
fn the_users_configuration_is_in_xdg_config_home_unless_the_usual_folder_exists() {
    let home = Home::new();
    let moved = home.path("settings");
    let env = [("XDG_CONFIG_HOME", moved.to_str().unwrap())];
    let run = |arguments: &[&str]| {
        let ended = home.run_with(arguments, &env);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
        ended.out
    };
    run(&["init"]);
    let file = moved.join("mgp/servers.toml");
    assert!(file.exists() && !home.own().exists());
    fs::write(&file, "[[servers]]\nid = 'moved'\ncommand = 'sh'\n").unwrap();
    let report = run(&["doctor", "--no-start"]);
    assert!(report.contains(&format!("1 server in {}", file.display())), "{report}");
    assert!(!report.contains("is not used"), "{report}");

    // A host may start mgp without `XDG_CONFIG_HOME`, so `mgp connect` writes this variable into the host's entry of
    // mgp.
    for kept in [serde_json::json!({ "A": "1" }), serde_json::Value::Null] {
        let entry = serde_json::json!({ "command": "mgp", "args": ["serve"], "env": kept });
        let servers = serde_json::json!({ "mcpServers": { "mgp": entry } });
        home.write(".cursor/mcp.json", &servers.to_string());
        run(&["connect", "cursor", "--interactive", "no", "--no-grant"]);
        let text = fs::read_to_string(home.path(".cursor/mcp.json")).unwrap();
        let written: serde_json::Value = serde_json::from_str(&text).unwrap();
        let env = &written["mcpServers"]["mgp"]["env"];
        assert_eq!(env["XDG_CONFIG_HOME"], moved.to_str().unwrap(), "{text}");
        assert_eq!(env["A"], kept["A"], "{text}");
        run(&["disconnect", "cursor"]);
    }

    // mgp ignores a relative path in these variables, as the XDG specification requires.
    let relative = [("XDG_CONFIG_HOME", "../settings"), ("XDG_STATE_HOME", "../state")];
    let report = home.run_with(&["doctor", "--no-start"], &relative).out;
    assert!(report.contains("no servers are configured"), "{report}");
    assert!(report.contains(home.path(".local/state/mgp").to_str().unwrap()), "{report}");

    home.configure("[[servers]]\nid = 'usual'\ncommand = 'sh'\n");
    let report = run(&["doctor", "--no-start"]);
    assert!(report.contains(&format!("1 server in {}", home.own().display())), "{report}");
    let unused = moved.join("mgp").display().to_string();
    let unused = format!("`{unused}` is not used, because `~/.config/mgp` exists");
    assert!(report.contains(&unused), "{report}");
    run(&["connect", "cursor", "--interactive", "no", "--no-grant"]);
    let text = fs::read_to_string(home.path(".cursor/mcp.json")).unwrap();
    assert!(!text.contains("XDG_CONFIG_HOME"), "{text}");
}

#[cfg(unix)]
#[test]
fn a_link_to_the_usual_folder_is_not_reported_as_unused() {
    let home = Home::new();
    home.configure("[[servers]]\nid = 'usual'\ncommand = 'sh'\n");
    let link = home.path("link");
    std::os::unix::fs::symlink(home.path(".config"), &link).unwrap();
    let env = [("XDG_CONFIG_HOME", link.to_str().unwrap())];
    let report = home.run_with(&["doctor", "--no-start"], &env).out;
    assert!(report.contains("1 server in"), "{report}");
    assert!(!report.contains("is not used"), "{report}");
}

#[test]
fn a_call_tries_once_to_start_a_kernel() {
    let home = Home::new();
    home.configure("[[servers]\n");
    let ended = home.run(&["tools", "call", "a.b"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.err.matches("starting a kernel").count(), 1, "{ended:?}");
}

#[test]
fn the_words_that_people_type_are_understood() {
    let home = Home::with_servers(&["a"]);
    for arguments in [&["server", "restart", "a"][..], &["tool", "approve", "a.b"]] {
        home.fail(3, arguments, "mgp serve");
    }
    assert!(home.succeed(&["access", "list"]).starts_with("SERVER"));
    home.succeed(&["server", "remove", "a"]);
    for arguments in [
        &["key", "list"][..],
        &["permission", "list"],
        &["approval", "list"],
        &["secret", "list"],
        &["audit", "ls", "-n", "1"],
        &["audit", "search", "-n", "1"],
    ] {
        home.succeed(arguments);
    }
    home.fail(2, &["approve", "a9e645ed67"], "did you mean `mgp ");
    home.fail(2, &["access", "delegate"], "the commands of `mgp access` are grant, revoke");
}

#[test]
fn a_failure_is_json_where_json_was_asked_for() {
    let home = Home::new();
    let (report, code) = home.any_json("error", &["servers", "restart", "a"]);
    assert_eq!((code, &report["code"]), (Some(3), &serde_json::json!(3)));
    assert!(report["error"].as_str().unwrap().contains("mgp serve"), "{report}");
    for arguments in [&["servers", "lst"][..], &["servers", "add"], &["tools", "pin"], &["keys"]] {
        let (report, code) = home.any_json("error", arguments);
        assert_eq!((code, &report["code"]), (Some(2), &serde_json::json!(2)), "{report}");
        let error = report["error"].as_str().unwrap();
        assert!(!error.contains("Usage:") && !error.starts_with("error:"), "{report}");
    }
    let (report, _) = home.any_json("error", &["servers", "lst"]);
    let error = report["error"].as_str().unwrap();
    assert!(error.contains("similar subcommand") && error.contains("'ls'"), "{report}");
    assert!(error.contains("the commands of `mgp servers` are ls, "), "{report}");
    // `--json` after `--` belongs to the program of the server, so this error is plain text.
    let ended = home.run(&["servers", "add", "a", "--no-such", "--", "x", "--json"]);
    assert_eq!((ended.code, &*ended.out), (Some(2), ""));
    let (report, code) = home.any_json("error", &["access", "grant", "ada", "nothing"]);
    assert_eq!((code, &report["code"]), (Some(1), &serde_json::json!(1)));
}

#[test]
fn the_guard_answers_each_line_in_order() {
    let home = Home::new();
    let answers = |kind: &str, lines: &str| {
        let ended = home.run_fed(&["guard", kind, "--timing"], lines);
        assert!(ended.err.contains("p99_us"), "{ended:?}");
        let answers = ended.out.lines().map(|line| serde_json::from_str(line).unwrap());
        answers.collect::<Vec<serde_json::Value>>()
    };
    let lines = "{\"id\":\"a\",\"input\":\"env rm -rf x\"}\n{\n{\"id\":3,\"input\":\"ls 'a;b'\"}\n";
    let commands = answers("sandbox", lines);
    let decided = |at: usize| (&commands[at]["id"], commands[at]["decision"].as_str().unwrap());
    assert_eq!(decided(0), (&serde_json::json!("a"), "block"));
    assert_eq!(decided(1), (&serde_json::Value::Null, "block"));
    assert_eq!(decided(2), (&serde_json::json!(3), "allow"));
    let code = "{\"id\":1,\"input\":\"e = eval\",\"language\":\"python\",\"level\":\"standard\"}\n";
    assert_eq!(answers("code_safety", code)[0]["decision"], "block");
    home.fail(2, &["guard", "nothing"], "possible values");
}

#[test]
fn each_shell_gets_its_completions() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = home.succeed(&["completions", shell]);
        assert!(script.contains("doctor") && script.contains("permissions"), "{shell}");
        assert!(!script.contains("__kernel") && !script.contains("try-host"), "{shell}");
    }
}

#[test]
fn man_pages_are_written_and_reported() {
    let home = Home::new();
    let folder = home.path("man");
    let report = home.json("done", &["man", folder.to_str().unwrap()]);
    assert_eq!(report["status"], "written");
    assert!(folder.join("mgp-why.1").exists());
}

#[test]
fn names_are_completed() {
    let home = Home::with_servers(&["files", "fetch", "clock"]);
    let names = |words: &[&str]| home.succeed(&[&["__complete", "--"], words].concat());
    assert_eq!(names(&["servers", "rm", ""]), "", "without a state folder there are none");
    home.succeed(&["access", "grant", "reviewer", "files"]);
    assert_eq!(names(&["servers", "rm", "f"]), "fetch\nfiles\n");
    assert_eq!(names(&["why", "rev"]), "reviewer\n");
    assert_eq!(names(&["servers", "add", ""]), "");
    // In bash, the completion script completes the names of servers, and also the words of commands.
    let script = home.write("mgp.bash", &home.succeed(&["completions", "bash"]));
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_mgp")).parent().unwrap();
    let complete = |words: &str| {
        let line = format!(
            "PATH={}:$PATH; source {}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _mgp_names mgp \"${{COMP_WORDS[-1]}}\" x; echo \"${{COMPREPLY[@]}}\"",
            program.display(),
            script.display()
        );
        let mut bash = std::process::Command::new("bash");
        let bash = bash.args(["-c", &line]).env_clear().env("HOME", home.path(""));
        let output = bash.env("PATH", std::env::var_os("PATH").unwrap()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete("mgp servers disable c"), "clock\n");
    assert_eq!(complete("mgp access grant reviewer f"), "fetch files\n");
    assert!(complete("mgp servers dis").contains("disable"));
}

#[test]
fn commands_that_need_a_kernel_show_how_to_start_one() {
    let home = Home::new();
    for arguments in [
        &["status"][..],
        &["stop"],
        &["sessions"],
        &["servers", "restart", "a"],
        &["tools", "approve", "a.b"],
        &["audit", "tail", "--follow"],
    ] {
        home.fail(3, arguments, "mgp serve");
    }
    home.fail(3, &["servers", "logs", "a"], "`mgp doctor a` starts the server");
}

#[cfg(unix)]
#[test]
fn commands_about_tools_start_a_kernel_that_ends_by_itself() {
    let home = Home::new();
    let bench = program("workbench");
    home.configure(&format!("[[servers]]\nid = 'bench'\ncommand = '{bench}'\n"));
    home.succeed(&["access", "grant", "cursor", "bench", "--new-agent"]);
    let found = home.succeed(&["tools", "search", "echo a message"]);
    assert!(found.contains("bench.echo"), "the only agent with access searches: {found}");
    assert!(home.succeed(&["tools", "ls"]).contains("yes"));
    assert_eq!(home.json("servers-ls", &["servers", "ls"])[0]["id"], "bench");
    home.succeed(&["stop"]);
}

#[cfg(unix)]
#[test]
fn a_state_folder_open_to_others_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let folder = home.path("state");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    home.fail(1, &["--state", folder.to_str().unwrap(), "keys", "ls"], "chmod 700");
    home.fail(1, &["--state", folder.to_str().unwrap(), "access", "query", "a", "b"], "chmod 700");
}

#[cfg(unix)]
#[test]
fn an_opened_state_folder_works_again_after_the_command_that_the_refusal_names() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let folder = home.path("state");
    let folder = folder.to_str().unwrap();
    let chmod = |mode: &str| {
        let mut command = std::process::Command::new("chmod");
        assert!(command.args(["-R", mode, folder]).status().unwrap().success(), "{mode}");
    };
    home.succeed(&["--state", folder, "keys", "add", "ada"]);
    let list = ["--state", folder, "keys", "ls"];
    fs::set_permissions(folder, fs::Permissions::from_mode(0o750)).unwrap();
    home.fail(1, &list, &format!("run `chmod 700 {folder}`"));
    chmod("go=");
    // Open the files too, as Kubernetes does for a volume with an `fsGroup`.
    chmod("g+rw");
    home.fail(1, &list, &format!("run `chmod -R go= {folder}`"));
    chmod("go=");
    assert!(home.succeed(&list).contains("ada"));
}
