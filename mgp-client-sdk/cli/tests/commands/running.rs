//! Tests of warnings and notices while a kernel runs: about servers without tools, servers whose output is not MCP,
//! projects, and the configuration of a host.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use mgp_discovery::SecretFile;
use mgp_testkit::{KilledChild, until_blocking};

use crate::hostile::stub;
use crate::kernel::Kernel;
use crate::program::program;
use crate::world::Home;

#[test]
#[cfg(unix)]
fn status_and_stop_name_a_process_that_uses_the_folder_and_does_not_serve() {
    let home = Kernel::new("").killed();
    let lock = home.path(".local/state/mgp/kernel.lock");
    fs::write(&lock, std::process::id().to_string()).unwrap();
    let held = fs::File::open(&lock).unwrap();
    until_blocking("the killed kernel has released its lock", || held.try_lock().is_ok());
    for command in ["status", "stop"] {
        let reason = format!("process {} uses the state folder", std::process::id());
        home.fail(3, &[command], &reason);
    }
    held.unlock().unwrap();
    home.fail(3, &["status"], "no kernel is running");
}

#[test]
#[cfg(unix)]
fn commands_advise_to_wait_while_the_kernel_finishes_its_calls() {
    let home = Home::new();
    let tools = json!([{
        "name": "wait", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true},
    }]);
    let entry = stub(&home, "slow", &tools, &json!({"content": []}));
    // A call lasts as long as this file exists.
    let result = home.path("slow.result.json");
    let script = fs::read_to_string(home.path("stub.sh")).unwrap();
    let wait = r#"touch "$2.begun"; while [ -e "$2" ]; do sleep 0.1; done; echo '{"content":[]}'"#;
    home.write("stub.sh", &script.replace(r#"cat "$2""#, wait));
    let policy = "[servers.mgp]\ndefault_policy = 'opt-out'\n";
    let file = home.write("c.toml", &(entry + policy));
    let kernel = Kernel::on(home, Some(&file));
    let home = &kernel.home;
    until_blocking("the tool is listed", || kernel.server("slow")["tools"] == 1);
    let mut call = home.command(&["tools", "call", "slow.wait"]).spawn().unwrap();
    until_blocking("the call runs", || home.path("slow.result.json.begun").exists());
    let mut stop = home.command(&["stop", "--timeout", "5m"]).spawn().unwrap();
    let socket = home.path(".local/state/mgp/mgp.sock");
    until_blocking("the kernel is stopping", || !socket.exists());
    let before = fs::read_to_string(&file).unwrap();
    let remove = ["servers", "rm", "slow", "--config", file.to_str().unwrap()];
    for command in [
        &["reload"][..],
        &["servers", "start", "slow"],
        &["status"],
        &["serve", "--http", "127.0.0.1:0", "--no-auth"],
        &["access", "grant", "ada", "slow"],
        &remove,
    ] {
        home.fail(3, command, "is stopping; wait until it has ended");
    }
    home.fail(3, &remove, "mgp: nothing was changed: the kernel of `");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    // The kernel starts no server that is added now.
    let late = home.path("late.begun");
    let added =
        format!("[[servers]]\nid = 'late'\ncommand = 'touch'\nargs = ['{}']\n", late.display());
    fs::write(&file, fs::read_to_string(&file).unwrap() + &added).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(!late.exists());
    fs::remove_file(result).unwrap();
    assert!(call.wait().unwrap().success() && stop.wait().unwrap().success());
}

#[test]
#[cfg(unix)]
fn a_program_in_a_usual_folder_of_the_user_starts_although_the_path_is_short() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = Home::new();
    let script = |name: &str, text: &str| {
        let file = home.write(name, text);
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    };
    // Like `npx`, the program needs an interpreter, which is in another folder.
    script(".nvm/versions/node/v20.11.1/bin/mgp-test-runner", "#!/usr/bin/env mgp-test-node\n");
    let echo = format!("#!/bin/sh\nexec '{}'\n", program("echo"));
    script(".local/bin/mgp-test-node", &echo);
    script(".cargo/bin/mgp-test-open", &echo);
    fs::set_permissions(home.path(".cargo"), fs::Permissions::from_mode(0o777)).unwrap();
    let server = |id: &str, program: &str| {
        format!(
            "[[servers]]\nid = '{id}'\ncommand = '{program}'\n[servers.mgp]\nrestart_policy = 'never'\n"
        )
    };
    let config = server("runs", "mgp-test-runner") + &server("open", "mgp-test-open");
    let file = home.write("c.toml", &config);
    let kernel = Kernel::on_with(home, Some(&file), &[("PATH", "/usr/bin:/bin")]);
    until_blocking("the tools are listed", || kernel.server("runs")["tools"] == 1);
    let lacks = || kernel.server("open")["lacks"].as_str().unwrap_or_default().to_owned();
    until_blocking("a folder that others can change is left out", || {
        lacks() == "it does not start"
    });
    let (folder, open) = (kernel.home.path(".cargo/bin"), kernel.home.path(".cargo"));
    let (folder, open) = (folder.display(), open.display());
    let reason = format!("`{folder}` is not searched, because other users could change `{open}`");
    let error = kernel.server("open")["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains(&reason), "{error}");
    assert!(error.ends_with(&format!("; run `chmod go-w '{open}'`")), "{error}");
    let doctor = ["doctor", "--no-start", "--config", file.to_str().unwrap()];
    let report = kernel.home.run_with(&doctor, &[("PATH", "/usr/bin:/bin")]).out;
    let is_named = |line: &str| line.contains("  environment") && line.contains(&reason);
    assert!(report.lines().any(is_named), "{report}");
}

#[test]
#[cfg(unix)]
fn a_command_of_a_value_is_found_in_a_usual_folder_of_the_user_although_the_path_is_short() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = Home::new();
    let vault = home.write(".local/bin/mgp-test-vault", "#!/bin/sh\necho \"opened $1\"\n");
    fs::set_permissions(vault, fs::Permissions::from_mode(0o755)).unwrap();
    let config = r#"[[servers]]
id = 'a'
command = 'sh'
args = ['-c', 'echo "$TOKEN" > "$HOME/token"']
env = { TOKEN = '${cmd:mgp-test-vault it}' }
"#;
    home.configure(config);
    home.run_with(&["servers", "ls"], &[("PATH", "/usr/bin:/bin")]);
    let token = || fs::read_to_string(home.path("token")).unwrap_or_default();
    until_blocking("the server is started with the value", || token() == "opened it\n");
    home.succeed(&["stop"]);
}

#[test]
fn a_server_without_tools_has_a_reason() {
    let echo = program("echo");
    let mut config: String = ["report", "reprot", "kernel"]
        .map(|id| format!("[[servers]]\nid = '{id}'\ncommand = '{echo}'\n"))
        .concat();
    // Permit no restarts, so that the state of the server does not change while the test reads it.
    config += "[[servers]]\nid = 'gone'\ncommand = 'no-such-program'\n\
               [servers.mgp]\nrestart_policy = 'never'\n";
    let kernel = Kernel::new(&config);
    let home = &kernel.home;
    let lacks = |id: &str| kernel.server(id)["lacks"].as_str().unwrap_or_default().to_owned();
    until_blocking("the warning is updated", || lacks("gone") == "it does not start");
    until_blocking("the warning is updated", || lacks("kernel").starts_with("its id is reserved"));
    // Find out which of the two ids the kernel accepts: it accepts only the first of two ids that look alike, and the
    // order of the servers may vary.
    let has = |id: &str| kernel.server(id)["tools"].as_u64() > Some(0);
    until_blocking("the command shows it", || {
        (has("report") || has("reprot")) && (lacks("report") + &lacks("reprot")).contains("looks")
    });
    let (is_in, is_out) = if has("report") { ("report", "reprot") } else { ("reprot", "report") };
    assert_eq!(lacks(is_in), "");
    assert_eq!(lacks(is_out), format!("its id looks like `{is_in}`; give it another"));

    let table = home.succeed(&["servers", "ls"]);
    let line = |id: &str| table.lines().find(|line| line.starts_with(id)).unwrap().to_owned();
    assert!(line("kernel:").contains("its id is reserved"), "{table}");
    let of_out = line(&format!("{is_out}:"));
    assert!(of_out.ends_with(&format!("looks like `{is_in}`; give it another")), "{table}");
    assert!(line(is_out).contains(&echo), "{table}");
    assert!(line(is_in).contains(&echo), "{table}");
    assert!(home.succeed(&["servers", "ls", "kernel"]).contains("lacks         its id"));

    let file = home.path("c.toml");
    let (report, code) =
        home.any_json("doctor", &["doctor", "--no-start", "--config", file.to_str().unwrap()]);
    let printed = |id: &str| -> Vec<(Value, String)> {
        let checks = report["checks"].as_array().unwrap().iter();
        let of = checks.filter(|check| check["server"] == id);
        of.map(|check| (check["level"].clone(), format!("{} {}", check["what"], check["fix"])))
            .collect()
    };
    assert_eq!(code, Some(1));
    let fails = |id: &str, word: &str| {
        printed(id).iter().any(|(level, what)| {
            level == "fail" && what.contains(word) && what.contains("give it another `id` in")
        })
    };
    assert!(fails("kernel", "is reserved") && fails(is_out, "looks like"), "{report}");
    assert!(printed(is_in).iter().all(|(level, _)| level == "ok"), "{report}");
    assert!(
        printed("gone")
            .iter()
            .any(|(level, what)| level == "warn" && what.contains("does not start")),
        "{report}"
    );
}

#[test]
#[cfg(unix)]
fn the_doctor_names_a_folder_in_which_every_user_can_replace_the_configuration() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::with_servers(&["a"]);
    let folder = home.path(".config/mgp");
    let report = || home.run(&["doctor", "--no-start"]).out;
    assert!(!report().contains("every user"), "{}", report());
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let remedy = format!("run `chmod o-w` on the folder `{}`", folder.display());
    assert!(report().contains(&remedy), "{}", report());
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_on_a_read_only_file_system_is_not_reported_as_open_to_every_user() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::with_servers(&["a"]);
    let folder = home.path(".config/mgp");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    // Mount the folder as Kubernetes mounts a `ConfigMap`. The line ends with 77 where a user may not mount anything.
    let line = concat!(
        "unshare --user --map-root-user --mount mount --bind . . || exit 77; ",
        "exec unshare --user --map-root-user --mount sh -c 'cd \"$HOME/.config\" && ",
        "mount --bind mgp mgp && mount -o remount,bind,ro mgp || exit 77; exec \"$0\" \"$@\"' ",
        "\"$0\" \"$@\"",
    );
    let report = home.run_after(line, &["doctor", "--no-start"]);
    if report.code != Some(77) {
        assert!(report.out.contains("1 server in "), "{report:?}");
        assert!(!report.out.contains("every user"), "{report:?}");
    }
}

#[test]
fn a_reload_with_an_error_names_its_place_and_keeps_the_server() {
    let kernel = Kernel::bench();
    let home = &kernel.home;
    home.write("c.toml", "[[servers]]\nid = 'bench'\ncomand = 'oops'\n");
    let reloaded = home.run(&["reload"]);
    assert_eq!(reloaded.code, Some(1), "{reloaded:?}");
    assert!(reloaded.out.contains("c.toml:2: a server has neither"), "{reloaded:?}");
    assert!(reloaded.err.contains("keeps its previous one"), "{reloaded:?}");
    home.write("c.toml", "servers = [\n");
    home.fail(1, &["reload"], "c.toml:1:");
    assert_eq!(kernel.server("bench")["status"], "connected");
}

#[test]
fn approvals_of_projects_are_recorded_with_and_without_a_kernel() {
    let home = Home::new();
    let file = home.write("work/mgp.toml", "[[servers]]\nid = 'own'\ncommand = 'own'\n");
    home.succeed(&["trust", "--yes"]);
    let events =
        home.json("audit-query", &["audit", "query", "--type", "dev.cloto.project_approved"]);
    let approved = &events[0];
    assert_eq!(events.as_array().unwrap().len(), 1, "{events}");
    assert_eq!(approved["details"]["file"], file.to_str().unwrap(), "{events}");
    assert_eq!(approved["details"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(
        (&approved["result"], &approved["actor"]["type"]),
        (&json!("SUCCESS"), &json!("user"))
    );
    home.silent(&["trust", "--revoke"]);
    let query = ["audit", "query", "--type", "dev.cloto.project_revoked"];
    let events = home.json("audit-query", &query);
    assert_eq!(events[0]["details"]["sha256"], approved["details"]["sha256"], "{events}");
    assert!(home.succeed(&query).contains("work/mgp.toml"), "the file is shown");
    // The kernel does not record the revocation of an approval that does not exist.
    home.fail(1, &["trust", "--revoke"], "is not approved");
    assert_eq!(home.json("audit-query", &query).as_array().unwrap().len(), 1);

    let config = home.write("c.toml", "[kernel.audit.sinks.copy]\nfile = 'copy.jsonl'\n");
    let kernel = Kernel::on(home, Some(&config));
    let home = &kernel.home;
    let records = || home.json("audit-verify", &["audit", "verify"])["records"].as_u64().unwrap();
    let before = records();
    home.succeed(&["trust", "--yes"]);
    home.silent(&["trust", "--revoke"]);
    assert!(records() >= before + 2, "{before}");
    for event in ["project_approved", "project_revoked"] {
        let events = home.json("audit-query", &["audit", "query", "--type", event]);
        assert_eq!(events.as_array().unwrap().len(), 2, "{events}");
        until_blocking("the sink has it", || {
            let copied = fs::read_to_string(home.path(".local/state/mgp/copy.jsonl"));
            copied.unwrap_or_default().matches(&format!("dev.cloto.{event}")).count() == 2
        });
    }
}

#[test]
fn status_and_doctor_name_a_sink_that_takes_no_events() {
    let bench = program("workbench");
    let server = format!("[[servers]]\nid = 'bench'\ncommand = '{bench}'\n");
    let sink = "[kernel.audit.sinks.copy]\nfile = 'missing/copy.jsonl'\n";
    let kernel = Kernel::new(&(server + sink));
    until_blocking("the sink is shown", || {
        let status = kernel.home.json("status", &["status"]);
        status["findings"].to_string().contains("`kernel.audit.sinks.copy` takes no events")
    });
    let checked = kernel.home.json("doctor", &["doctor", "--no-start"])["checks"].to_string();
    assert!(checked.contains("`kernel.audit.sinks.copy` takes no events"), "{checked}");
}

#[test]
fn a_host_is_warned_that_the_kernel_uses_the_files_of_another_folder() {
    let home = Home::new();
    let file = home.write("work/mgp.toml", "");
    let kernel = Kernel::on(home, None);
    let home = &kernel.home;
    let printed = |folder: &str| {
        let mut command = home.command(&["serve", "--stdio"]);
        let ended = command.current_dir(home.path(folder)).output().unwrap();
        String::from_utf8(ended.stderr).unwrap()
    };
    assert!(!printed("work").contains("configuration ignored"));
    fs::create_dir(home.path("other")).unwrap();
    let other = printed("other");
    assert!(other.contains(file.to_str().unwrap()) && other.contains("--state DIR"), "{other}");
    let missing = home.path("missing.toml");
    let mut command = home.command(&["serve", "--stdio", "--config"]);
    let ended = command.arg(&missing).current_dir(home.path("work")).output().unwrap();
    let printed = String::from_utf8(ended.stderr).unwrap();
    let reason = format!("configuration ignored: `{}` does not exist, and ", missing.display());
    assert!(printed.contains(&reason) && !printed.contains("no file"), "{printed}");
}

#[test]
fn commands_that_use_another_file_than_the_running_kernel_name_the_file_of_the_kernel() {
    let kernel = Kernel::new("");
    let (home, echo) = (&kernel.home, program("echo"));
    let read = home.path("c.toml");
    let read = read.to_str().unwrap();
    let remedy = format!("use `--config {read}`");
    let add = |id: &str, options: &[&str]| {
        let arguments =
            [&["servers", "add", id, "--no-grant"][..], options, &["--", &echo]].concat();
        let added = home.run(&arguments);
        assert_eq!(added.code, Some(0), "{added:?}");
        added.err
    };
    let other = add("other", &[]);
    assert!(other.contains("the running kernel does not read `"), "{other}");
    assert!(other.contains(&remedy), "{other}");
    assert!(!add("same", &["--config", read]).contains("does not read"));

    let checked = home.json("doctor", &["doctor", "--no-start"])["checks"].to_string();
    let found = format!("the running kernel reads `{read}`");
    assert!(checked.contains(&found) && checked.contains(&remedy), "{checked}");
    let same = ["doctor", "--no-start", "--config", read];
    let checked = home.json("doctor", &same)["checks"].to_string();
    assert!(!checked.contains(&found), "{checked}");
    let ended = kernel.killed();
    let checked = ended.any_json("doctor", &["doctor", "--no-start"]).0.to_string();
    assert!(!checked.contains(&found), "no kernel runs: {checked}");
}

#[test]
fn a_kernel_at_an_address_reports_it_when_it_accepts_connections() {
    let home = Home::new();
    let mut command = home.command(&["serve", "--http", "127.0.0.1:0", "--no-auth"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let address = printed.find_map(|line| {
        let url = line.strip_prefix("serving at http://")?;
        Some(url.strip_suffix("/mcp")?.to_owned())
    });
    let connected = std::net::TcpStream::connect(address.unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    connected.unwrap();
}

#[test]
fn a_server_that_does_not_start_is_in_the_log_of_a_kernel_without_options() {
    let home = Home::new();
    let server = "[[servers]]\nid = 'gone'\ncommand = 'no-such-program'\n";
    home.configure(server);
    let log = home.path("log");
    let mut command = home.command(&["serve", "--http", "127.0.0.1:0", "--no-auth"]);
    command.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap());
    let _kernel = KilledChild(command.spawn().unwrap());
    let words = [" WARN ", "server failed server=gone", "no-such-program"];
    until_blocking("the failure is logged", || {
        let log = fs::read_to_string(&log).unwrap();
        log.lines().any(|line| words.iter().all(|word| line.contains(word)))
    });
}

#[test]
fn a_server_that_writes_no_mcp_is_reported_with_its_words() {
    let prints = r#"while echo "blah $API_TOKEN blah"; do sleep 0.2; done"#;
    let kernel = Kernel::new(&format!(
        "[[servers]]\nid = 'prints'\ncommand = 'sh'\nargs = ['-c', '{prints}']\n\
         start_timeout = '4s'\nenv = {{ API_TOKEN = 'hunter2-hunter2' }}\n"
    ));
    let home = &kernel.home;
    let stray = "it wrote lines to standard output that are not MCP: “blah … blah”";
    until_blocking("the start has failed", || {
        kernel.server("prints")["error"].as_str().is_some_and(|error| error.contains(stray))
    });
    let lines = home.json("servers-logs", &["servers", "logs", "prints"]);
    assert_eq!(lines[0]["text"], "(stdout, not MCP) blah … blah");
}

#[test]
fn a_change_of_a_server_that_takes_long_is_reported_while_it_lasts() {
    let kernel = Kernel::new("[[servers]]\nid = 'slow'\ncommand = 'sleep'\nargs = ['60']\n");
    let mut restart = kernel.home.command(&["servers", "restart", "slow"]);
    let mut restart = restart.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(restart.stderr.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "mgp: still waiting for slow");
    restart.kill().unwrap();
    restart.wait().unwrap();
}

#[test]
fn commands_that_follow_the_kernel_end_with_it_and_name_the_reason() {
    let kernel = Kernel::new("");
    let home = &kernel.home;
    let commands: [&[&str]; 3] =
        [&["events", "--follow"], &["audit", "tail", "--follow"], &["approvals", "watch"]];
    let followers = commands.map(|arguments| {
        let mut command = home.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    });
    // `mgp status` also lists itself as a client.
    let are_connected = || {
        let clients = home.json("status", &["status"])["clients"].as_array().unwrap().len();
        clients == followers.len() + 1
    };
    // A command can have a second connection for a moment, so the test checks the number twice.
    until_blocking("the commands are connected", || are_connected() && are_connected());
    home.silent(&["stop"]);
    for (arguments, follower) in commands.iter().zip(followers) {
        let ended = follower.wait_with_output().unwrap();
        let printed = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(3), "{arguments:?}: {printed}");
        // While the kernel stops, it refuses new requests.
        let reasons = ["mgp: the kernel has stopped\n", "mgp: the kernel is stopping\n"];
        let is_named = reasons.iter().any(|reason| printed.ends_with(reason));
        assert!(is_named, "{arguments:?}: {printed}");
    }
}

#[test]
fn a_server_added_after_another_of_its_id_was_removed_has_none_of_its_tools() {
    let home = Home::new();
    home.succeed(&["servers", "add", "x", "--no-grant", "--", &program("workbench")]);
    let kernel = Kernel::on(home, None);
    let tools = |kernel: &Kernel| kernel.server("x")["tools"].as_u64().unwrap_or_default();
    until_blocking("the tools are listed", || tools(&kernel) > 5);
    kernel.home.silent(&["stop"]);
    let home = kernel.into_home();
    let secrets = SecretFile::in_folder(&home.path(".local/state/mgp"));
    for name in ["x.KEY", "x.y.KEY", "xy.KEY"] {
        secrets.set(name, "s3cret").unwrap();
    }
    let removed = home.run(&["servers", "rm", "x"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(removed.err.contains("its stored secrets stay: x.KEY; `mgp secrets rm"), "{removed:?}");
    home.fail(1, &["index", "export"], "the index is empty");
    home.succeed(&["servers", "add", "x", "--no-grant", "--", "sleep", "60"]);
    assert_eq!(tools(&Kernel::on(home, None)), 0);
}

#[test]
fn a_server_with_the_id_of_a_removed_one_in_another_spelling_has_a_remedy() {
    let echo = program("echo");
    let entry = |id: &str| format!("[[servers]]\nid = '{id}'\ncommand = '{echo}'\n");
    let kernel = Kernel::new(&entry("web_search"));
    let home = &kernel.home;
    let has = |id: &str| kernel.server(id)["tools"].as_u64() > Some(0);
    until_blocking("the tools are listed", || has("web_search"));
    home.fail(1, &["servers", "rm", "other"], "there is no server `other`");
    home.write("c.toml", &entry("web-search"));
    home.run(&["reload"]);
    until_blocking("the warning is updated", || {
        let lacks = kernel.server("web-search")["lacks"].to_string();
        lacks.contains("run `mgp servers rm web_search`, then `mgp servers restart web-search`")
    });
    let removed = home.run(&["servers", "rm", "web_search"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(removed.err.contains("removed with it: the recorded definitions of"), "{removed:?}");
    home.succeed(&["servers", "restart", "web-search"]);
    until_blocking("the tools are listed", || has("web-search"));
    home.fail(1, &["servers", "rm", "web_search"], "there is no server `web_search`");
}

#[test]
fn a_tool_whose_id_is_that_of_another_tool_is_not_approved_by_its_id() {
    let home = Home::new();
    let servers = [("a.b", "c"), ("a", "b.c")].map(|(id, tool)| {
        let tools = json!([{"name": tool, "inputSchema": {"type": "object"}}]);
        stub(&home, id, &tools, &json!({"content": []}))
    });
    let file = home.write("c.toml", &servers.concat());
    let kernel = Kernel::on(home, Some(&file));
    let home = &kernel.home;
    let remedy = "tools of `a` and `a.b` have the same id; give one of these servers another id";
    until_blocking("both tools are listed", || {
        home.succeed(&["tools", "ls", "a", "--waiting"]).contains(remedy)
    });
    home.fail(1, &["tools", "approve", "a.b.c", "--yes"], remedy);
}

#[test]
fn doctor_counts_the_tokens_of_tools_as_their_list_does() {
    let home = Home::new();
    let server = format!("[[servers]]\nid = 'bench'\ncommand = '{}'\n", program("workbench"));
    home.configure(&server);
    let kernel = Kernel::on(home, None);
    until_blocking("the tools are listed", || kernel.server("bench")["tools"].as_u64() > Some(5));
    let list = kernel.home.json("tools-ls", &["tools", "ls"]);
    let tokens = list.as_array().unwrap().iter().map(|tool| tool["tokens"].as_u64().unwrap());
    let report = kernel.home.json("doctor", &["doctor"]);
    assert_eq!(report["tokens"], tokens.sum::<u64>(), "{list}");
}
