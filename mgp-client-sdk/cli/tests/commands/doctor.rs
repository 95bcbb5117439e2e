//! Tests of `mgp doctor`.

use std::fs;

use mgp_testkit::until_blocking;
use serde_json::Value;

use crate::kernel::Kernel;
use crate::program::program;
use crate::world::Home;

fn level(report: &Value, server: &str) -> String {
    let checks = report["checks"].as_array().unwrap();
    let of = checks.iter().filter(|check| check["server"] == server);
    let order = ["ok", "warn", "fail"];
    let worst =
        of.map(|check| order.iter().position(|word| check["level"] == **word).unwrap()).max();
    order[worst.unwrap()].to_owned()
}

fn printed(report: &Value, about: &str) -> String {
    let checks = report["checks"].as_array().unwrap();
    let of = checks.iter().filter(|check| check["about"] == about || check["server"] == about);
    of.flat_map(|check| [&check["what"], &check["fix"]]).map(ToString::to_string).collect()
}

#[test]
fn an_empty_home_gets_a_warning_with_the_next_step() {
    let home = Home::new();
    let report = home.json("doctor", &["doctor"]);
    assert_eq!(report["level"], "warn");
    assert!(printed(&report, "config").contains("run `mgp setup`"), "{report}");
    let shown = home.succeed(&["doctor"]);
    let last = "no server was checked; next: `mgp setup` copies the servers of your hosts";
    assert!(shown.lines().last().unwrap().starts_with(last), "{shown}");
}

#[test]
fn working_and_broken_servers_are_distinguished() {
    let home = Home::new();
    home.configure(&format!(
        r#"
[[servers]]
id = "bench"
command = "{}"

[[servers]]
id = "gone"
command = "no-such-program"

[[servers]]
id = "ends"
command = "false"

[[servers]]
id = "hangs"
command = "sleep"
args = ["60"]

[[servers]]
id = "prints"
command = "sh"
args = ["-c", "while echo \"blah blah $API_TOKEN\"; do sleep 0.1; done"]
env = {{ API_TOKEN = "hunter2-hunter2-hunter2" }}

[[servers]]
id = "unset"
command = "sh"
env = {{ KEY = "${{NOT_SET}}" }}

[[servers]]
id = "clear"
command = "{}"
env = {{ API_TOKEN = "hunter2-hunter2-hunter2" }}

[[servers]]
id = "url"
url = "http://127.0.0.1:9/mcp"

[[servers]]
id = "typo"
comand = "x"
"#,
        program("workbench"),
        program("echo"),
    ));
    let (report, code) = home.any_json("doctor", &["doctor", "--timeout", "3s"]);
    assert_eq!((code, &report["level"]), (Some(1), &"fail".into()));
    for (server, expected) in [
        ("bench", "ok"),
        ("gone", "fail"),
        ("ends", "fail"),
        ("hangs", "fail"),
        ("prints", "fail"),
        ("unset", "fail"),
        ("clear", "warn"),
        ("url", "fail"),
        ("typo", "fail"),
    ] {
        assert_eq!(level(&report, server), expected, "{server}: {report}");
    }
    assert!(printed(&report, "gone").contains("not on the PATH"));
    assert!(printed(&report, "unset").contains("${NOT_SET:-default}"));
    assert!(printed(&report, "hangs").contains("did not answer within 3 s"));
    let stray = "it wrote lines to standard output that are not MCP: “blah blah …”";
    assert!(printed(&report, "prints").contains(stray), "{report}");
    assert!(printed(&report, "typo").contains("did you mean `command`"), "{report}");
    assert!(printed(&report, "bench").contains("tokens, MCP 2026-07-28 (modern), speaks MGP"));
    assert!(!report.to_string().contains("hunter2"));
    assert!(
        report["tokens"].as_u64().unwrap() > 100 && report["broken"].as_u64() == Some(7),
        "{report}"
    );

    let only = home.json("doctor", &["doctor", "bench"]);
    assert_eq!(only["servers"], 1);
    home.fail(1, &["doctor", "unknown"], "there is no server `unknown`");
    home.fail(2, &["doctor", "--timeout", "soon"], "15m");
}

#[test]
fn the_error_of_a_server_is_quoted_without_its_secrets() {
    let home = Home::new();
    let script = "echo starting >&2; echo \"Error: no such user: $TOKEN\" >&2; exit 3";
    home.configure(&format!(
        "[[servers]]\nid = 'a'\ncommand = 'sh'\nargs = ['-c', '{script}']\n\
             env = {{ TOKEN = 'hunter2-hunter2' }}\n"
    ));
    let (report, _) = home.any_json("doctor", &["doctor"]);
    let printed = printed(&report, "a");
    assert!(printed.contains("; it wrote: “Error: no such user: …”"), "{printed}");
    assert!(printed.contains("run it by hand") && !printed.contains("hunter2"), "{printed}");
    home.fail(1, &["doctor"], "1 check failed");
}

#[test]
fn the_era_of_a_server_is_that_of_the_configuration() {
    let home = Home::new();
    let eras = [("auto", "(modern)"), ("modern", "(modern)"), ("legacy", "(legacy)")];
    for (era, _) in eras {
        let words = ["servers", "add", era, "--era", era, "--no-grant", "--"];
        home.succeed(&[&words[..], &[&program("workbench")]].concat());
    }
    let report = home.json("doctor", &["doctor"]);
    for (era, expected) in eras {
        assert!(printed(&report, era).contains(expected), "{era}: {report}");
    }
}

#[test]
fn broken_files_and_a_changed_record_are_found() {
    let home = Home::new();
    home.succeed(&["access", "grant", "ada", "disk", "--force"]);
    assert_eq!(home.json("audit-verify", &["audit", "verify"])["records"], 1);
    home.configure("servers = [\n");
    let (report, _) = home.any_json("doctor", &["doctor"]);
    assert!(printed(&report, "config").contains("servers.toml:"), "{report}");

    let log = home.path(".local/state/mgp/audit/audit.0000000000000001.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replacen("\"ada\"", "\"bob\"", 1)).unwrap();
    let (verified, code) = home.any_json("audit-verify", &["audit", "verify"]);
    assert_eq!((code, &verified["ok"]), (Some(1), &false.into()));
    let (report, _) = home.any_json("doctor", &["doctor"]);
    assert!(printed(&report, "audit").contains("evidence"), "{report}");
    home.fail(1, &["audit", "verify"], "changed");
}

#[test]
fn a_setting_for_a_tool_that_its_server_does_not_have_is_found() {
    let home = Home::new();
    let limits = "[servers.limits]\ntool_units = { echo = 2, ehco = 3 }\ntool_max_stream_bytes = { ekko = 9 }\n\
                  [servers.mgp]\nrisk = { echo = 'safe', ecco = 'safe' }\nvalidators = { eco = 'sandbox' }\n";
    let agents = "[agents.clade-code.limits]\ncalls_per_day = 3\n[agents.cursor.limits]\ncalls_per_day = 3\n";
    let server =
        format!("[[servers]]\nid = 'echo'\ncommand = '{}'\n{limits}{agents}", program("echo"));
    home.configure(&server);
    let (report, _) = home.any_json("doctor", &["doctor"]);
    let found = printed(&report, "limits");
    for (key, tool) in [
        ("limits.tool_units", "ehco"),
        ("limits.tool_max_stream_bytes", "ekko"),
        ("mgp.risk", "ecco"),
        ("mgp.validators", "eco"),
    ] {
        let expected = format!("`{key}` of `echo` names the tool `{tool}`, which it does not have");
        assert!(found.contains(&expected), "{report}");
    }
    assert!(!found.contains("`echo`, which"), "{report}");
    assert!(found.contains("names `clade-code`; did you mean `claude-code`?"), "{report}");
    assert!(!found.contains("names `cursor`"), "{report}");
}

#[cfg(unix)]
#[test]
fn definitions_that_cannot_be_read_are_found() {
    let home = Home::new();
    let tools = serde_json::json!([
        {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        {"name": "bare"},
        {"name": "list", "inputSchema": [7]},
        {"inputSchema": {"type": "object"}},
    ]);
    let config = crate::hostile::stub(&home, "odd", &tools, &serde_json::json!({"content": []}));
    home.configure(&config);
    let report = home.json("doctor", &["doctor"]);
    assert_eq!(level(&report, "odd"), "warn");
    let found = printed(&report, "odd");
    for expected in [
        "the tool `bare` cannot be used: it has no `inputSchema`",
        "the tool `list` cannot be used: its `inputSchema` is not an object",
        "entry 4 of its list of tools cannot be used: it has no `name`",
    ] {
        assert!(found.contains(expected), "{expected}: {report}");
    }
}

#[test]
fn a_missing_folder_and_all_unset_variables_are_named_with_their_remedies() {
    let home = Home::new();
    let server = format!("[[servers]]\nid = 'away'\ncommand = '{}'\n", program("echo"));
    let env = "env = { K = '${UNSET_A}', L = '${UNSET_B}', M = '${UNSET_A}' }\n";
    let other = format!("[[servers]]\nid = 'unset'\ncommand = 'true'\n{env}");
    home.configure(&format!("{server}cwd = '/no/such/folder'\n{other}"));
    let (report, code) = home.any_json("doctor", &["doctor"]);
    assert_eq!(code, Some(1));
    let found = printed(&report, "away");
    assert!(found.contains("its folder `/no/such/folder` does not exist"), "{report}");
    assert!(found.contains("create it, or correct `cwd`"), "{report}");
    let checks = report["checks"].as_array().unwrap();
    let fix = checks.iter().find(|check| check["server"] == "unset").unwrap()["fix"].to_string();
    for name in ["UNSET_A", "UNSET_B"] {
        let count = fix.matches(&format!("`mgp secrets set {name}`")).count();
        assert_eq!(count, 1, "{name}: {fix}");
    }
}

#[test]
fn missing_ambiguous_and_oversized_pins_are_found() {
    let home = Home::new();
    let write = |pins: &str, budget: &str| {
        let (bench, echo) = (program("workbench"), program("echo"));
        home.configure(&format!(
            "[[servers]]\nid = 'bench'\ncommand = '{bench}'\n[[servers]]\nid = 'other'\ncommand = '{echo}'\n\
             [agents.ada]\npinned = {pins}\n[kernel.tool_context_budget]\n{budget}\n"
        ));
    };
    let looked = || {
        let (report, code) = home.any_json("doctor", &["doctor"]);
        let checks = report["checks"].as_array().unwrap().iter();
        let pins: Vec<_> = checks.filter(|check| check["about"] == "pins").cloned().collect();
        (pins, code)
    };
    write("['bench.echo', 'bench.ehco', 'nothing', 'echo']", "pinned_reserve = 2000");
    let (pins, code) = looked();
    let reply: Vec<_> = pins.iter().map(|check| check["what"].as_str().unwrap()).collect();
    assert_eq!(
        reply,
        [
            "`bench.ehco` is pinned for `ada`, but no server has it",
            "`nothing` is pinned for `ada`, but no server has it",
            "`echo` is pinned for `ada`, but is ambiguous: `bench.echo` or `other.echo`",
        ]
    );
    assert!(pins.iter().all(|check| check["level"] == "warn"), "{pins:?}");
    assert_eq!(code, Some(0));
    let fix = pins[0]["fix"].as_str().unwrap();
    assert!(fix.contains("`mgp tools pin bench.ehco --agent ada --remove`"), "{fix}");
    home.silent(&["tools", "pin", "bench.ehco", "--agent", "ada", "--remove"]);
    assert_eq!(looked().0.len(), 2, "the remedy works");

    write("['bench.echo']", "pinned_reserve = 2000");
    let (pins, _) = looked();
    assert_eq!((pins.len(), &pins[0]["level"]), (1, &"ok".into()), "{pins:?}");
    write("['bench.echo']", "pinned_reserve = 455");
    let (pins, code) = looked();
    assert_eq!((&pins[0]["level"], code), (&"warn".into(), Some(0)), "{pins:?}");
    assert!(pins[0]["what"].as_str().unwrap().contains("`pinned_reserve` is 455"), "{pins:?}");
    assert!(pins[0]["fix"].as_str().unwrap().contains("raise it or unpin tools"), "{pins:?}");
    write(
        "['bench.echo']",
        "max_tokens = 460\npinned_reserve = 455\ndiscovery_reserve = 5\ncache_limit = 0",
    );
    let (pins, code) = looked();
    assert_eq!((&pins[0]["level"], code), (&"fail".into(), Some(1)), "{pins:?}");

    // `mgp doctor` does not warn about pins while a server does not start, because the tools of this server are
    // unknown.
    write("['gone.read']", "");
    let file = home.path(".config/mgp/servers.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("[[servers]]\nid = 'gone'\ncommand = 'no-such-program'\n{text}"))
        .unwrap();
    let (pins, _) = looked();
    assert!(pins.iter().all(|check| check["level"] == "ok"), "{pins:?}");
}

#[test]
fn a_long_list_of_tools_is_not_a_warning() {
    let home = Home::new();
    let args = "args = ['--tools', '200']\n";
    let server = format!("[[servers]]\nid = 'many'\ncommand = '{}'\n{args}", program("echo"));
    home.configure(&server);
    let report = home.json("doctor", &["doctor", "many"]);
    assert!(report["tokens"].as_u64().unwrap() > 10_000, "{report}");
    assert_eq!(level(&report, "many"), "ok", "{report}");
}

/// Regression test: `mgp doctor` compared the pinned tools only with their own part of the budget. It ignored
/// `max_tokens`, which can be lower than the sum of all parts.
#[test]
fn a_maximum_of_tokens_below_the_sum_of_its_parts_is_reported() {
    let home = Home::new();
    let server = format!("[[servers]]\nid = 'bench'\ncommand = '{}'\n", program("workbench"));
    let budget = "[kernel.tool_context_budget]\nmax_tokens = 3000\n";
    home.configure(&format!("{server}{budget}"));
    let found = printed(&home.json("doctor", &["doctor"]), "limits");
    assert!(found.contains("add up to 8000 tokens, `max_tokens` is 3000"), "{found}");

    let agent = "[agents.ada]\npinned = ['bench.echo']\n";
    home.configure(&format!("{server}{agent}{budget}"));
    let (report, code) = home.any_json("doctor", &["doctor"]);
    let found = printed(&report, "pins");
    assert!(found.contains("`max_tokens` without `discovery_reserve` is 0"), "{report}");
    assert!(found.contains("raise `max_tokens` or lower `discovery_reserve`"), "{report}");
    assert_eq!(code, Some(1));
}

#[cfg(unix)]
#[test]
fn a_state_folder_is_not_created_and_a_shared_one_is_not_closed() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = Home::new();
    let of_state = |folder: &str| {
        let (report, _) = home.any_json("doctor", &["--state", folder, "doctor", "--no-start"]);
        let checks = report["checks"].as_array().unwrap().iter();
        let checks: Vec<_> = checks.filter(|check| check["about"] == "state").cloned().collect();
        let [check] = &checks[..] else { panic!("there is one check of the state: {report}") };
        format!("{} {} {}", check["level"], check["what"], check["fix"])
    };
    let own = home.json("doctor", &["doctor"]);
    assert!(printed(&own, "state").contains("will be created at the first start"), "{own}");
    assert!(!home.path(".local/state").exists());
    let typo = of_state("nothing/a");
    assert!(typo.contains("warn") && typo.contains("and neither does"), "{typo}");
    assert!(of_state("new").contains("will be created"));
    assert_eq!(fs::read_dir(home.work()).unwrap().count(), 0, "nothing is left in the folder");
    if cfg!(target_os = "linux") {
        // Use a folder in which no user can create files.
        let unwritable = of_state("/proc/mgp");
        assert!(
            unwritable.contains("fail") && unwritable.contains("cannot be written: "),
            "{unwritable}"
        );
    }

    let folder = |name: &str, mode: u32| {
        let path = home.work().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    folder("empty", 0o755);
    assert!(of_state("empty").contains("run `chmod 700 "));
    folder("shared", 0o1777);
    folder("used", 0o755);
    home.write("work/used/letter.txt", "");
    home.write("work/file", "");
    std::os::unix::fs::symlink("unmounted", home.work().join("link")).unwrap();
    for (name, why) in [
        ("shared", "(mode 1777)"),
        ("used", "(mode 755)"),
        ("file", "is not a folder"),
        ("link", "is a link to a folder that does not exist"),
    ] {
        let found = of_state(name);
        assert!(found.contains("fail") && found.contains(why), "{found}");
        assert!(found.contains("name a folder of your own with --state DIR"), "{found}");
        home.fail(1, &["--state", name, "tools", "ls"], "name a folder of your own");
    }
}

#[test]
fn an_address_for_metrics_that_is_in_use_is_found() {
    let home = Home::new();
    let address = mgp_testkit::unused_address();
    let taken = std::net::TcpListener::bind(address).unwrap();
    home.configure(&format!("[kernel]\nmetrics = '{address}'\n"));
    let (report, code) = home.any_json("doctor", &["doctor"]);
    let found = printed(&report, "kernel");
    assert!(found.contains(&format!("is `{address}`, which cannot be used")), "{report}");
    assert_eq!(code, Some(1));
    drop(taken);
    home.json("doctor", &["doctor"]);
}

#[test]
fn a_missing_secret_without_which_no_kernel_starts_is_found() {
    let home = Home::new();
    home.configure(
        r#"
[kernel.telemetry]
otlp = "http://127.0.0.1:4318"
headers = { authorization = "Bearer ${keyring:collector}" }

[kernel.audit.sinks.copies]
url = "http://127.0.0.1:4319/${MGP_TEST_UNSET}"

[kernel.audit.sinks.whole]
url = "http://127.0.0.1:4319/whole"
"#,
    );
    let (report, code) = home.any_json("doctor", &["doctor", "--no-start"]);
    let found = printed(&report, "config");
    assert_eq!(code, Some(1), "{report}");
    for expected in ["`kernel.telemetry`: ", "mgp secrets set collector", "sinks.copies`: "] {
        assert!(found.contains(expected), "{expected}: {found}");
    }
    assert!(!found.contains("sinks.whole"), "{found}");
}

#[test]
fn an_expired_certificate_and_a_key_that_others_can_read_are_found() {
    let home = Home::new();
    home.configure("[kernel.http]\ntls_cert = '~/tls/cert.pem'\ntls_key = '~/tls/key.pem'\n");
    let (report, code) = home.any_json("doctor", &["doctor", "--no-start"]);
    assert!(printed(&report, "http").contains("TLS cannot be served: "), "{report}");
    assert_eq!(code, Some(1), "{report}");
    let certificate = include_str!("../../../tests/http/certificates/expired.pem");
    home.write("tls/cert.pem", certificate);
    home.write("tls/key.pem", include_str!("../../../tests/http/certificates/server.key.pem"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(home.path("tls/key.pem"), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let found = printed(&home.json("doctor", &["doctor", "--no-start"]), "http");
    assert!(found.contains("cert.pem` expired on 2024-02-01"), "{found}");
    assert_eq!(found.contains("key.pem` (mode 644)"), cfg!(unix), "{found}");
}

#[test]
fn entries_of_hosts_that_start_nothing_are_not_reported_as_ungoverned() {
    let home = Home::new();
    let off = r#""off": {"command": "off", "disabled": true}"#;
    home.write(".cursor/mcp.json", &format!(r#"{{"mcpServers": {{{off}}}}}"#));
    home.write(".codex/config.toml", "[mcp_servers.off]\ncommand = 'off'\nenabled = false\n");
    for host in ["cursor", "codex"] {
        let connected = home.json("connect", &["connect", host, "--interactive", "no"]);
        assert_eq!(connected["beside"], serde_json::json!([]), "{connected}");
    }
    let report = home.json("doctor", &["doctor"]);
    let found = printed(&report, "host");
    assert!(found.contains("cursor starts mgp") && found.contains("codex starts mgp"), "{found}");
    assert!(!found.contains("off"), "{found}");

    let mcp = home.path(".cursor/mcp.json");
    let text = fs::read_to_string(&mcp).unwrap();
    fs::write(
        &mcp,
        text.replacen(
            off,
            &format!(
                r#"{off}, "github": {{}}, "x": {{"command": "x"}}, "y": {{"command": "y", "env": {{"K": "${{input:my-key}}"}}}}"#
            ),
            1,
        ),
    )
    .unwrap();
    let report = home.json("doctor", &["doctor"]);
    let found = printed(&report, "host");
    let why = "`github` of cursor cannot be imported: it has neither a `command` nor a `url`";
    assert!(found.contains(why), "{found}");
    assert!(found.contains("leave it there, not governed, or change it in"), "{found}");
    assert!(found.contains("not governed: x\""), "{found}");
    let fix = "\"run `mgp secrets set MY_KEY`, then run `mgp setup cursor`\"";
    assert!(found.contains(fix), "{found}");
}

#[test]
fn a_host_that_starts_a_missing_program_fails_in_each_form_of_the_entry() {
    let entry =
        "extensions:\n  mgp:\n    type: stdio\n    cmd: /nothing/mgp\n    args: [serve, --stdio]\n";
    for (file, text) in [
        (".config/goose/config.yaml", entry),
        (".cursor/mcp.json", r#"{"mcpServers": {"mgp": {/* it */ "command": "/nothing/mgp"}}}"#),
        (".config/opencode/opencode.json", r#"{"mcp": {"mgp": {"command": ["/nothing/mgp"]}}}"#),
    ] {
        let home = Home::new();
        home.write(file, text);
        let (report, code) = home.any_json("doctor", &["doctor", "--no-start"]);
        let found = printed(&report, "host");
        assert!(found.contains("starts `/nothing/mgp`, which does not exist"), "{file}: {report}");
        assert_eq!(code, Some(1), "{file}");
    }
}

#[test]
fn a_wrong_value_without_a_remedy_is_reported_without_a_reference_to_one() {
    let home = Home::new();
    home.configure("[kernel]\ntimeout = 'soon'\n");
    let failed = home.run(&["doctor"]);
    assert!(failed.out.contains("FAIL"), "{failed:?}");
    assert_eq!(failed.out.contains("fix: "), failed.err.contains("fix:"), "{failed:?}");
    assert!(failed.err.contains(" failed"), "{failed:?}");
}

#[test]
fn variables_that_only_the_shell_or_only_the_kernel_has_are_named_without_values() {
    let home = Home::new();
    let env = "env = { A = '${ONLY_SHELL:-}', B = '${ONLY_KERNEL:-}', C = '${BOTH:-}' }";
    let server = format!("[[servers]]\nid = 'echo'\ncommand = '{}'\n{env}\n", program("echo"));
    home.configure(&(server + "pass_env = ['NEITHER']\n"));
    let of_kernel = [("ONLY_KERNEL", "hunter2-kernel"), ("BOTH", "hunter2-both")];
    let kernel = Kernel::on_with(home, None, &of_kernel);
    let of_shell = [("ONLY_SHELL", "hunter2-shell"), ("BOTH", "hunter2-other")];
    let found = kernel.home.run_with(&["--json", "doctor", "--no-start"], &of_shell);
    let report: Value = serde_json::from_str(&found.out).unwrap();
    let printed = printed(&report, "environment");
    for text in [
        "your shell has ONLY_SHELL, the running kernel does not",
        "run `mgp stop`",
        "`mgp secrets set NAME`",
        "the running kernel has ONLY_KERNEL, your shell does not",
    ] {
        assert!(printed.contains(text), "{text}: {report}");
    }
    for text in ["BOTH", "NEITHER", "hunter2"] {
        assert!(!found.out.contains(text), "{text}: {report}");
    }
}

#[test]
fn a_manifest_that_cannot_be_used_is_reported_with_and_without_a_kernel() {
    let home = Home::new();
    let echo = program("echo");
    let server = format!("[[servers]]\nid = 'echo'\ncommand = '{echo}'\nmanifest = 'tools.json'\n");
    home.configure(&server);
    home.write(".config/mgp/tools.json", "{}");
    let expected = "its manifest is not used: `";
    let report = home.json("doctor", &["doctor"]);
    assert!(printed(&report, "echo").contains(expected), "{report}");
    let kernel = Kernel::on(home, None);
    until_blocking("the tools are listed", || kernel.server("echo")["tools"].as_u64() > Some(0));
    let lacks = kernel.server("echo")["lacks"].to_string();
    assert!(lacks.contains(expected) && lacks.contains("manifest_version"), "{lacks}");
    let report = kernel.home.json("doctor", &["doctor", "--no-start"]);
    assert_eq!(printed(&report, "echo").matches(expected).count(), 1, "{report}");
}

#[test]
fn agents_whose_api_may_refuse_names_with_a_dot_are_named_with_the_line_to_write() {
    let home = Home::new();
    let servers = |more: &str| {
        let echo = program("echo");
        let server = |id: &str| format!("[[servers]]\nid = '{id}'\ncommand = '{echo}'\n");
        home.configure(&(server("one") + &server("two") + more));
    };
    servers("");
    for agent in ["ada", "bob", "claude-code"] {
        home.succeed(&["access", "grant", agent, "one", "--new-agent"]);
        if agent != "bob" {
            home.succeed(&["access", "grant", agent, "two"]);
        }
    }
    let found = printed(&home.json("doctor", &["doctor"]), "names");
    assert!(found.contains("`ada` may get names such as `one."), "{found}");
    assert!(found.contains("`portable_names = true` under `[agents.ada]`"), "{found}");
    assert!(!found.contains("bob") && !found.contains("claude-code"), "{found}");
    for decided in ["[kernel]\nportable_names = true\n", "[agents.ada]\nportable_names = false\n"] {
        servers(decided);
        let found = printed(&home.json("doctor", &["doctor"]), "names");
        assert_eq!(found, "", "{decided}");
    }
}

#[test]
fn the_tokens_of_all_tools_are_the_sum_of_the_lines_also_beside_a_kernel() {
    let home = Home::new();
    let server = format!("[[servers]]\nid = 'echo'\ncommand = '{}'\n", program("echo"));
    home.configure(&server);
    let kernel = Kernel::on(home, None);
    until_blocking("the tools are listed", || kernel.server("echo")["tools"].as_u64() > Some(0));
    let report = kernel.home.json("doctor", &["doctor"]);
    let line = format!("{} tokens, MCP", report["tokens"]);
    assert!(printed(&report, "echo").contains(&line), "{report}");
}
