//! Tests of commands that edit configurations and files of hosts: no command writes a byte before the kernel consents.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::program;
use crate::proof::{PASSPHRASE, WITH_PASSPHRASE, set_passphrase};
use crate::pty::Terminal;
use crate::setting::{GRANT, Setting, mgp};
use crate::world::{World, kill, text, within};

const WITH_TERMINAL: &str = "[kernel]\noperator.proof = \"terminal\"\n\n";

/// Writes the files that the commands need, and returns one command of each kind that edits a file.
fn edits(world: &World) -> Vec<Vec<String>> {
    let path = |name: &str| world.folder.join(name).to_str().unwrap().to_owned();
    let entry = |id: &str| json!({"mcpServers": {id: {"command": "/bin/false"}}}).to_string();
    let connected = json!({"mcpServers": {"mgp": {"command": "mgp", "args": ["serve"]}}});
    fs::write(path("import.json"), entry("imported")).unwrap();
    fs::write(path("host.json"), entry("kept")).unwrap();
    fs::write(path("connected.json"), connected.to_string()).unwrap();
    let ran = path("ran");
    let (import, host, connected, new) =
        (path("import.json"), path("host.json"), path("connected.json"), path("new.toml"));
    let all: [&[&str]; 11] = [
        &["servers", "add", "evil", "--no-grant", "--", "/bin/touch", &ran],
        &["servers", "add", "second", "--agent", "ada", "--", "/bin/false"],
        &["servers", "disable", "files"],
        &["servers", "enable", "files"],
        &["tools", "pin", "files.echo", "--agent", "ada", "--force"],
        &["import", &import, "--apply", "--no-grant"],
        &["import", &import, "--apply", "--agent", "ada"],
        &["connect", "generic", &host, "--interactive", "no", "--no-grant"],
        &["disconnect", "generic", &connected],
        &["init", "--config", &new],
        &["servers", "rm", "files"],
    ];
    all.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect()
}

/// Returns the text of each file in the folder of the world, except the files that the tests write themselves.
fn files(world: &World) -> BTreeMap<String, String> {
    let files = fs::read_dir(&world.folder).unwrap().map(|entry| entry.unwrap());
    let files = files.filter(|file| file.file_type().unwrap().is_file());
    let named = files.filter_map(|file| {
        let name = file.file_name().into_string().unwrap();
        // Skip a file that is gone by now, e.g. a temporary file that a command has moved to its final name.
        let text = fs::read(file.path()).ok()?;
        Some((name, String::from_utf8_lossy(&text).into_owned()))
    });
    // Leave out the files that the tests write themselves.
    named.filter(|(name, _)| !name.ends_with("ready.json")).collect()
}

fn words(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// Runs a command without a controlling terminal; returns its exit code and its output.
fn without_terminal(command: &Command) -> (Option<i32>, String) {
    let mut detached = Command::new("setsid");
    detached.arg("--wait").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => detached.env(name, value),
            None => detached.env_remove(name),
        };
    }
    let output = detached.stdin(std::process::Stdio::null()).output().unwrap();
    (output.status.code(), text(&output.stderr))
}

/// Listens at a socket, and acts like a kernel that requires the passphrase before a command edits the configuration of
/// `setting`. Returns the lines that it receives about this file.
fn false_kernel(setting: &Setting) -> Receiver<String> {
    fs::create_dir(setting.path("false")).unwrap();
    let listener = UnixListener::bind(setting.path("false/mgp.sock")).unwrap();
    let file = fs::canonicalize(setting.world.config_file()).unwrap().display().to_string();
    let (sender, lines) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            // Ignore an error: a command of another test may connect too, and may end before it sends a line.
            let _ = BufReader::new(&stream).read_line(&mut line);
            let is_own = line.contains(&file);
            // Pass the line to the test before the reply, because the command ends after the reply.
            if is_own && sender.send(line).is_err() {
                return;
            }
            let reply = if is_own {
                json!({"mgp": 1, "ok": false, "proof": "passphrase"})
            } else {
                json!({"mgp": 1, "ok": false, "unrelated": true})
            };
            let _ = writeln!(stream, "{reply}");
        }
    });
    lines
}

#[track_caller]
fn all_succeed(setting: &Setting, edits: &[Vec<String>]) {
    for args in edits {
        setting.succeed(&words(args));
    }
    let after = files(&setting.world);
    assert!(after["mgp.toml"].contains("evil") && !after["mgp.toml"].contains("\"files\""));
    assert!(after["host.json"].contains("serve") && !after["connected.json"].contains("serve"));
    assert!(after.contains_key("new.toml"));
}

#[test]
fn a_shell_of_the_host_edits_no_file_and_starts_no_server() {
    let setting = Setting::new("");
    let edits = edits(&setting.world);
    let before = files(&setting.world);
    let quoted = |args: &Vec<String>| {
        let quoted: Vec<String> = args.iter().map(|word| format!("'{word}'")).collect();
        format!("mgp_in {}", quoted.join(" "))
    };
    let (add, connect) = (quoted(&edits[0]), quoted(&edits[7]));
    let each = edits.iter().map(quoted).collect::<Vec<_>>().join("\n");
    // The kernel also refuses edits of its files by commands that name another state folder. A socket with a name that is
    // not UTF-8 does not hide it.
    let _other = UnixListener::bind(setting.path("state").join(OsStr::from_bytes(b"\xff.sock")));
    let script = format!(
        "mgp_in() {{ MGP \"$@\" >>state/out 2>&1; echo \"rc $?\" >>state/out; }}\n\
         {each}\nMGP doctor --no-start >state/doctor 2>&1\nMGP_STATE=$PWD/state/other\n{add}\n{connect}\necho 0 >>state/out\nmv state/out state/tried"
    );
    let mut host = setting.host(&script);
    let tried = setting.wait_for("state/tried");
    drop(host.stdin.take());
    host.wait().unwrap();
    let mut after = files(&setting.world);
    after.remove("shim.json");
    assert_eq!(after, before, "{tried}");
    assert_eq!(tried.matches("rc 1").count(), edits.len() + 2, "{tried}");
    assert_eq!(tried.matches("the host `sh`").count(), edits.len() + 2, "{tried}");
    let doctor = fs::read_to_string(setting.path("state/doctor")).unwrap();
    assert!(doctor.contains("fix: run it in a terminal outside the host"), "{doctor}");
    let servers = setting.succeed(&["--json", "servers", "ls"]);
    let servers: Value = serde_json::from_str(&servers).unwrap();
    assert_eq!(servers.as_array().unwrap().len(), 1, "{servers}");
    let table = setting.succeed(&["audit", "query", "--type", "PERMISSION_DENIED"]);
    assert!(table.contains("inside host"), "{table}");
    let query = ["--json", "audit", "query", "--type", "PERMISSION_DENIED", "--result"];
    let of = |result: &str| setting.succeed(&[&query[..], &[result]].concat());
    assert!(of("blocked").contains("inside host"), "{}", of("blocked"));
    assert_eq!(of("SUCCESS").trim(), "[]");
    let causes = setting.refusals();
    assert!(causes.iter().all(|(cause, _)| cause == "inside host"), "{causes:?}");
    assert!(causes.len() >= edits.len(), "{causes:?}");
    all_succeed(&setting, &edits);
}

#[test]
fn with_a_terminal_as_proof_files_are_edited_in_one_only() {
    let setting = Setting::new(WITH_TERMINAL);
    let edits = edits(&setting.world);
    let before = files(&setting.world);
    for args in &edits {
        let (code, shown) = without_terminal(&setting.mgp(&words(args)));
        assert_eq!(code, Some(1), "{args:?}: {shown}");
        assert!(shown.contains("not in the foreground of a terminal"), "{args:?}: {shown}");
    }
    let other = setting.path("state/other").display().to_string();
    let mut elsewhere = setting.mgp(&words(&edits[0]));
    let (code, shown) = without_terminal(elsewhere.env("MGP_STATE", &other));
    assert!(code == Some(1) && shown.contains("terminal"), "the kernel of the file: {shown}");
    assert_eq!(files(&setting.world), before);
    // No running kernel uses this file. Its edit then needs only the consent of the kernel of the named state folder,
    // and that folder has no kernel.
    let own = setting.path("own.toml").display().to_string();
    let mut unrelated = setting.mgp(&["init", "--config", &own]);
    unrelated.env("MGP_STATE", &other).env("MGP_CONFIG_PATH", &own);
    let (code, shown) = without_terminal(&unrelated);
    assert_eq!(code, Some(0), "{shown}");
    for args in &edits {
        let (code, shown) = Terminal::run(&setting.mgp(&words(args))).end();
        assert_eq!(code, Some(0), "{args:?}: {shown}");
    }
}

#[test]
fn with_a_passphrase_as_proof_files_are_edited_with_it_only() {
    let setting = Setting::new(WITH_PASSPHRASE);
    set_passphrase(&setting.mgp(&["operator", "passphrase", "set"]));
    let edits = edits(&setting.world);
    let before = files(&setting.world);
    for args in &edits {
        let (code, shown) = without_terminal(&setting.mgp(&words(args)));
        assert_eq!(code, Some(1), "{args:?}: {shown}");
        assert!(shown.contains("asked for on a terminal"), "{args:?}: {shown}");
    }
    let mut guess = Terminal::run(&setting.mgp(&words(&edits[0])));
    guess.answer("Passphrase of the operator:", "incorrect horse");
    let (code, shown) = guess.end();
    assert!(code == Some(1) && shown.contains("wrong passphrase"), "{shown}");
    assert_eq!(files(&setting.world), before);
    for args in [&edits[1], &edits[7], &edits[10]] {
        let mut terminal = Terminal::run(&setting.mgp(&words(args)));
        terminal.answer("Passphrase of the operator:", PASSPHRASE);
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(0), "{args:?}: {shown}");
    }
}

#[test]
fn the_passphrase_is_sent_only_to_kernels_whose_folder_has_its_hash() {
    let setting = Setting::new(WITH_PASSPHRASE);
    set_passphrase(&setting.mgp(&["operator", "passphrase", "set"]));
    // The edited file is used by a kernel, but the command names another state folder. Both folders have the same
    // passphrase.
    let other = setting.path("state/other").display().to_string();
    let elsewhere = |args: &[&str]| {
        let mut command = setting.mgp(args);
        command.env("MGP_STATE", &other);
        command
    };
    set_passphrase(&elsewhere(&["operator", "passphrase", "set"]));
    let mut terminal = Terminal::run(&elsewhere(&["servers", "disable", "files"]));
    terminal.answer("Passphrase of the operator:", PASSPHRASE);
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");

    let before = files(&setting.world);
    let received = false_kernel(&setting);
    let mut terminal = Terminal::run(&setting.mgp(&["servers", "enable", "files"]));
    terminal.answer("Passphrase of the operator:", PASSPHRASE);
    let (code, shown) = terminal.end();
    assert!(code == Some(1) && shown.contains("but none is set there"), "{shown}");
    let received: Vec<String> = received.try_iter().collect();
    assert_eq!(received.len(), 1);
    assert!(!received[0].contains(PASSPHRASE), "{received:?}");
    assert_eq!(files(&setting.world), before);
}

#[test]
fn what_a_host_writes_while_the_passphrase_is_typed_is_kept() {
    const QUESTION: &str = "Passphrase of the operator:";
    let setting = Setting::new(WITH_PASSPHRASE);
    set_passphrase(&setting.mgp(&["operator", "passphrase", "set"]));
    let file = setting.path("host.json");
    let host = file.to_str().unwrap();
    let connect = ["connect", "generic", host, "--interactive", "no", "--no-grant"];
    // Runs a command, and lets the host add a setting to its file while the command asks for the passphrase. Returns
    // the exit code and the output of the command.
    let run_while_edited = |args: &[&str]| {
        let mut terminal = Terminal::run(&setting.mgp(args));
        terminal.wait_for(QUESTION);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replacen('{', "{\"theme\": \"dark\",", 1)).unwrap();
        terminal.answer(QUESTION, PASSPHRASE);
        terminal.end()
    };
    let connected = || {
        let mut terminal = Terminal::run(&setting.mgp(&connect));
        terminal.answer(QUESTION, PASSPHRASE);
        assert_eq!(terminal.end().0, Some(0));
    };
    let entries = json!({"kept": {"command": "/bin/false"}});
    fs::write(&file, json!({ "mcpServers": entries }).to_string()).unwrap();
    connected();
    let (code, shown) = run_while_edited(&["undo"]);
    assert_eq!(code, Some(0), "{shown}");
    let left: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(left, json!({"theme": "dark", "mcpServers": entries}));
    // `mgp disconnect` removes a file that mgp created only if no other program has changed it.
    fs::remove_file(&file).unwrap();
    connected();
    let (code, shown) = run_while_edited(&["disconnect", "generic", host]);
    assert!(code == Some(1) && shown.contains("was changed by another program"), "{shown}");
    assert!(fs::read_to_string(&file).unwrap().contains("dark"));
}

#[test]
fn without_a_kernel_the_configured_proof_holds_for_files_too() {
    let world = World::empty();
    let server = world.server("files", &format!("exec {}", program("echo")));
    world.config(&(WITH_TERMINAL.to_owned() + &server));
    let edits = edits(&world);
    let before = files(&world);
    for args in &edits {
        let (code, shown) = without_terminal(&mgp(&world, &words(args)));
        assert_eq!(code, Some(1), "{args:?}: {shown}");
        assert!(shown.contains("changes need a terminal"), "{args:?}: {shown}");
        // The edited file sets the required proof, even if `MGP_CONFIG_PATH` names another file.
        let config = world.config_file().display().to_string();
        if args[0] == "servers" && args[1] != "add" {
            let mut named = mgp(&world, &[&words(args)[..], &["--config", &config]].concat());
            let (code, shown) = without_terminal(named.env("MGP_CONFIG_PATH", "/nothing/mgp.toml"));
            assert!(code == Some(1) && shown.contains("need a terminal"), "{args:?}: {shown}");
        }
    }
    assert_eq!(files(&world), before);
    for args in &edits {
        let (code, shown) = Terminal::run(&mgp(&world, &words(args))).end();
        assert_eq!(code, Some(0), "{args:?}: {shown}");
    }
}

#[test]
fn a_server_that_was_never_tried_is_not_left_in_the_file() {
    let setting = Setting::new("");
    let before = files(&setting.world);
    let script = format!("touch {}; exec sleep 60", setting.path("state/tried").display());
    let slow = ["servers", "add", "slow", "--agent", "ada", "--", "/bin/sh", "-c", &script];
    let mut command = setting.mgp(&slow);
    let mut adding = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    within(|| setting.path("state/tried").exists().then_some(()));
    kill("-INT", adding.id());
    adding.wait().unwrap();
    assert_eq!(files(&setting.world), before);
}

#[test]
fn a_server_that_was_deleted_by_hand_is_removed_before_the_kernel_has_applied_that() {
    let setting = Setting::new(WITH_TERMINAL);
    let run = |args: &[&str]| {
        let (code, shown) = Terminal::run(&setting.mgp(args)).end();
        assert_eq!(code, Some(0), "{args:?}: {shown}");
        shown
    };
    run(&GRANT);
    // With this proof, the kernel does not apply the changed file by itself.
    setting.world.config(WITH_TERMINAL);
    let shown = run(&["servers", "rm", "files"]);
    assert!(shown.contains("removed with it: the access of eve"), "{shown}");
    within(|| (setting.succeed(&["--json", "servers", "ls"]).trim() == "[]").then_some(()));
}

#[test]
fn the_edits_of_commands_that_gave_the_proof_are_applied_at_once() {
    let setting = Setting::new(WITH_TERMINAL);
    let file = setting.path("host.json");
    let host = file.to_str().unwrap();
    fs::write(&file, "{}").unwrap();
    let edits: [&[&str]; 2] = [
        &["tools", "pin", "files.echo", "--agent", "ada", "--force"],
        &["connect", "generic", host, "--agent", "eve", "--interactive", "no", "--no-grant"],
    ];
    for edit in edits {
        let (code, shown) = Terminal::run(&setting.mgp(edit)).end();
        assert_eq!(code, Some(0), "{edit:?}: {shown}");
        // The kernel looks for changes each second. It does not apply a change of another program, but reports it in
        // `mgp status`.
        thread::sleep(Duration::from_secs(2));
        let status = setting.succeed(&["status"]);
        assert!(!status.contains("run `mgp reload` to apply it"), "{edit:?}: {status}");
    }
}

#[test]
fn a_file_that_another_program_changes_is_applied_only_with_the_proof() {
    let setting = Setting::new("[kernel]\noperator.proof = \"terminal\"\n\n");
    let file = fs::read_to_string(setting.world.config_file()).unwrap();
    let ran = setting.world.folder.join("ran");
    let evil = setting.world.server("evil", &format!("touch {}", ran.display()));
    // The changed file also requires no proof any more, but this setting takes effect only when the kernel applies the
    // file.
    setting.world.config(&(file.replace("\"terminal\"", "\"none\"") + &evil));
    let held = within(|| {
        let status = setting.succeed(&["status"]);
        status.contains("run `mgp reload` to apply it").then_some(status)
    });
    assert!(held.contains("server `evil` added"), "{held}");
    let ids = || setting.succeed(&["--json", "servers", "ls"]).matches("\"evil\"").count();
    assert_eq!(ids(), 0);
    let (code, refused) = without_terminal(&setting.mgp(&["reload"]));
    assert!(code == Some(1) && refused.contains("not in the foreground"), "{refused}");
    assert!(ids() == 0 && !ran.exists());
    let (code, shown) = Terminal::run(&setting.mgp(&["reload"])).end();
    assert!(code == Some(0) && shown.contains("server evil: added"), "{shown}");
    assert_ne!(ids(), 0);
    assert!(!setting.succeed(&["status"]).contains("is not applied"));
}
