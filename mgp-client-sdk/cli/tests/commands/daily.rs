//! Tests of a person's everyday tasks: reading logs, and running the kernel as a service.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use crate::console::{calling, ended, guarded, waiting};
use crate::world::Home;

/// The log of a kernel that a host started.
const LOG: &str = ".local/state/mgp/kernel.log";

/// A script in place of `systemctl`: it writes its arguments to a file, and fails if a file `fails` exists.
const SYSTEMCTL: &str = "#!/bin/sh\necho \"$@\" >> \"$HOME/calls\"\n[ ! -e \"$HOME/fails\" ] || { echo 'no bus' >&2; exit 1; }\n";

#[test]
fn the_log_of_the_kernel_is_shown_and_followed() {
    let home = Home::new();
    home.fail(1, &["logs"], "no kernel has logged to");
    let first = "2026-11-24T01:02:03.000004Z  INFO mgp: the kernel serves\n";
    let path = home.write(LOG, &format!("{first}a panic\nlast \u{1b}[31m\n"));
    assert_eq!(home.succeed(&["logs", "-n", "1"]), "last \\u{1b}[31m\n");
    let lines = home.json("logs", &["logs"]);
    assert_eq!(lines[0]["at"], "2026-11-24T01:02:03.000004Z");
    assert_eq!(lines[0]["text"], "INFO mgp: the kernel serves");
    assert_eq!(lines[1]["text"], "a panic");

    let mut following =
        home.command(&["logs", "-f", "-n", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(following.stdout.take().unwrap()).lines();
    let append = |path: &Path, text: &str| {
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    // `mgp logs` may not have opened the file yet, so the test appends lines until the command shows one.
    let adding = std::thread::spawn({
        let path = path.clone();
        move || {
            for _ in 0..100 {
                append(&path, "new\n");
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
    });
    assert_eq!(shown.next().unwrap().unwrap(), "new");
    adding.join().unwrap();
    append(&path, "half");
    // Rename the log, as a kernel does when its log has become too long.
    fs::rename(&path, path.with_extension("log.old")).unwrap();
    fs::write(&path, "renamed\n").unwrap();
    assert!(shown.any(|line| line.unwrap() == "renamed"));
    following.kill().unwrap();
    following.wait().unwrap();
}

#[test]
fn lines_of_an_earlier_kernel_are_named_as_such() {
    let home = Home::new();
    home.write(LOG, "2026-11-24T01:02:03.000004Z  INFO mgp: an earlier kernel\n");
    fs::set_permissions(home.path(".local/state/mgp"), fs::Permissions::from_mode(0o700)).unwrap();
    let config = home.write("c.toml", "");
    let ready = home.path("ready.json");
    let mut command = home.command(&["serve", "--http", "127.0.0.1:0", "--ready-file"]);
    command.arg(&ready).arg("--config").arg(&config);
    let mut kernel = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    mgp_testkit::until_blocking("the kernel is ready", || ready.exists());
    let shown = home.run(&["logs"]);
    home.silent(&["stop"]);
    kernel.wait().unwrap();
    assert!(shown.out.contains("an earlier kernel"), "{shown:?}");
    assert!(shown.err.contains("these lines are from an earlier kernel"), "{shown:?}");
    assert!(home.run(&["logs"]).err.is_empty());
}

#[test]
fn a_report_has_no_secrets() {
    let home = Home::new();
    home.configure(
        "# [[servers]]\n# env = { OLD = 'c0mment-secret' }\n[[servers]]\nid = 'a'\ncommand = 'no-such-program'\n\
         args = ['--header', 'Authorization: Bearer h3ader-secret', '--key', 'k3y-secret', 'https://x.example/sse?key=qu3ry-secret']\n\
         env = { API_TOKEN = 't0psecret' } # was b3fore-secret\n[kernel.notify.chat]\n\
         webhook = 'https://chat.example/services/n0tify-secret'\n[kernel.webhooks.audit]\n\
         url = 'https://hooks.example/in/h0ok-secret'\n[kernel.audit.sinks.copy]\n\
         url = 'https://sink.example/in/${SINK}/s1nk-secret'\n[kernel.telemetry]\notlp = 'http://127.0.0.1:1/v1?key=0tlp-secret'\n",
    );
    let failed = "WARN `https://hooks.example/in/h0ok-secret` could not be fetched\n";
    let sink = "WARN `https://sink.example/in/v4r-secret/s1nk-secret` could not be fetched\n";
    home.write(LOG, &format!("WARN the server wrote t0psecret and envsecret1\n{failed}{sink}"));
    let state = home.path(".local/state/mgp");
    let env = [("GITHUB_TOKEN", "envsecret1"), ("SINK", "v4r-secret")];
    // mgp cannot read the configuration, so it does not know which secrets the log may contain, and leaves the log out.
    let written = home.run_with(&["report", "--out", "less.md"], &env);
    assert_eq!(written.code, Some(0), "{written:?}");
    let text = fs::read_to_string(home.work().join("less.md")).unwrap();
    let has_secret = |text: &str| {
        ["t0psecret", "envsecret1", "-secret"].iter().any(|secret| text.contains(secret))
    };
    assert!(text.contains("## Logs") && !has_secret(&text), "{text}");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    let written = home.run_with(&["report"], &env);
    assert_eq!(written.code, Some(0), "{written:?}");
    home.fail(1, &["report"], "`mgp-report.md` exists; delete it, or name another file with --out");
    let text = fs::read_to_string(home.work().join("mgp-report.md")).unwrap();
    assert!(!has_secret(&text), "{text}");
    for part in [
        "# Report of mgp ",
        "## mgp doctor --no-start",
        "no-such-program",
        "WARN the server wrote … and …",
        "https://chat.example/…",
        "https://x.example/sse",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains(home.path("").to_str().unwrap()), "{text}");
    let mode = fs::metadata(home.work().join("mgp-report.md")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    home.fail(1, &["report"], "exists");
}

#[test]
fn a_report_names_waiting_calls_without_their_arguments() {
    let kernel = guarded("");
    let call = calling(&kernel.home, &serde_json::json!({ "message": "a-secret-argument" }));
    let id = waiting(&kernel.home);
    kernel.home.succeed(&["report"]);
    let text = fs::read_to_string(kernel.home.work().join("mgp-report.md")).unwrap();
    assert!(text.contains(&id) && !text.contains("a-secret-argument"), "{text}");
    kernel.home.succeed(&["approvals", "deny", &id]);
    assert!(!ended(call).0);
}

#[test]
fn variables_and_arguments_that_are_not_text_cause_no_panic() {
    let home = Home::new();
    let api = r#"{"openapi":"3.1.0","paths":{"/a":{"get":{}}}}"#;
    fs::write(home.work().join("api.json"), api).unwrap();
    let other = OsStr::from_bytes(b"\xff");
    for arguments in
        [&["openapi", "api.json", "--base-url", "http://127.0.0.1:9"][..], &["report"][..]]
    {
        let ended = home.command(arguments).env("FOO_TOKEN", other).env(other, "a").output();
        let ended = ended.unwrap();
        assert_eq!(ended.status.code(), Some(0), "{arguments:?}: {ended:?}");
    }
    let refused = home.command(&["openapi"]).arg(other).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8(refused.stderr).unwrap().contains("UTF-8"));
}

#[test]
#[cfg(target_os = "linux")]
fn the_kernel_runs_as_a_service() {
    let home = Home::new();
    let manager = home.write("bin/systemctl", SYSTEMCTL);
    fs::set_permissions(&manager, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", manager.parent().unwrap().display());
    let run = |arguments: &[&str]| home.run_with(arguments, &[("PATH", &path)]);
    let unit = home.path(".config/systemd/user/mgp.service");
    assert!(run(&["service", "status"]).out.contains("not installed"));
    assert_eq!(run(&["service", "uninstall"]).code, Some(1));
    let refused = run(&["service", "install", "--http", "1.2.3.4:99999"]);
    assert!(refused.code == Some(2) && refused.err.contains("HOST:PORT"), "{refused:?}");
    assert!(!unit.exists());

    home.configure("");
    let mut kernel =
        home.command(&["__kernel", "--linger", "60"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut report = String::new();
    BufReader::new(kernel.stdout.take().unwrap()).read_line(&mut report).unwrap();
    let file = home.write("50% $x.toml", "");
    let install =
        ["service", "install", "--http", "127.0.0.1:8900", "--config", file.to_str().unwrap()];
    let installed = run(&install);
    assert_eq!(installed.code, Some(0), "{installed:?}");
    // The command reports that the service does not serve yet, because the `systemctl` of this test starts no kernel.
    assert!(installed.out.contains("service: started"), "{installed:?}");
    let log = "see `journalctl --user -u mgp.service`";
    assert!(installed.err.contains(&format!("it does not serve yet; {log}")), "{installed:?}");
    let marker = home.path(".local/state/mgp/service");
    assert_eq!(fs::read_to_string(&marker).unwrap(), unit.to_str().unwrap());
    // The kernel that several hosts shared has ended, so that the service's kernel can use the state folder.
    assert_eq!(kernel.wait().unwrap().code(), Some(0), "{report}");
    let text = fs::read_to_string(&unit).unwrap();
    let program = env!("CARGO_BIN_EXE_mgp");
    assert!(
        text.contains(&format!("ExecStart=\"{program}\" \"serve\" \"--http\" \"127.0.0.1:8900\"")),
        "{text}"
    );
    assert!(text.contains("50%% $$x.toml\""), "{text}");
    assert!(text.contains(&format!("Environment=\"PATH={path}\"")), "{text}");
    let calls = fs::read_to_string(home.path("calls")).unwrap();
    assert!(
        calls.ends_with("daemon-reload\n--user enable mgp.service\n--user restart mgp.service\n"),
        "{calls}"
    );
    assert!(run(&["service", "status"]).out.starts_with("running"));

    fs::write(home.path("fails"), "").unwrap();
    assert!(run(&["service", "status"]).out.contains(&format!("not running; {log}")));
    let refused = run(&["service", "install"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("has --http, --config; repeat its options"), "{refused:?}");
    assert_eq!(fs::read_to_string(&unit).unwrap(), text);
    fs::remove_file(&unit).unwrap();
    let failed = run(&["service", "install"]);
    assert_eq!(failed.code, Some(1));
    assert!(!marker.exists(), "hosts start kernels again");
    assert!(
        failed.err.contains("is written, but the service does not run")
            && failed.err.contains("no bus"),
        "{failed:?}"
    );
    assert!(fs::read_to_string(&unit).unwrap().contains("\"__kernel\" \"--linger\""));
    assert!(fs::read_to_string(&unit).unwrap().contains("\"--service\""));
    let removed = run(&["service", "uninstall"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(!unit.exists());
    let status = home.json("service-status", &["service", "status"]);
    assert_eq!(status["is_installed"], false);
}

#[test]
fn an_empty_variable_of_the_state_folder_counts_as_not_set() {
    let home = Home::new();
    let listed = home.run_with(&["trust", "--list"], &[("MGP_STATE", "")]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(home.path(".local/state/mgp").exists());
    home.fail(2, &["--state", "", "trust", "--list"], "a value is required");
}

#[test]
fn a_full_output_that_does_not_block_is_not_explained_by_the_limit_of_processes() {
    let (_reader, output) = UnixStream::pair().unwrap();
    output.set_nonblocking(true).unwrap();
    while (&output).write(&[b'x'; 4096]).is_ok_and(|written| written > 0) {}
    let home = Home::new();
    let mut command = home.command(&["completions", "bash"]);
    command.stdout(OwnedFd::from(output)).stderr(Stdio::piped());
    let ended = command.spawn().unwrap().wait_with_output().unwrap();
    let reason = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{reason}");
    assert!(reason.contains("standard output is full") && !reason.contains("ulimit"), "{reason}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_does_not_fit_on_its_disk_is_named() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let home = Home::new();
    let ended = home.command(&["completions", "bash"]).stdout(full).output().unwrap();
    let reason = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{reason}");
    assert!(reason.contains("standard output cannot be written: No space left"), "{reason}");
}
