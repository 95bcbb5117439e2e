//! Tests of the proof that changes require: a terminal, or a passphrase.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::pty::Terminal;
use crate::setting::{GRANT, Setting, mgp};
use crate::wire::{OPERATOR, agent};
use crate::world::{World, text, within};

pub(crate) const PASSPHRASE: &str = "correct horse";

pub(crate) const WITH_PASSPHRASE: &str = "[kernel]\noperator.proof = \"passphrase\"\n\n";

pub(crate) fn set_passphrase(command: &Command) {
    let mut terminal = Terminal::run(command);
    terminal.answer("New passphrase:", PASSPHRASE);
    terminal.answer("Again:", PASSPHRASE);
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains(PASSPHRASE), "{shown}");
}

/// Runs a command in a terminal and types the passphrase; returns the exit code and the output.
fn with_passphrase(setting: &Setting, args: &[&str], passphrase: &str) -> (Option<i32>, String) {
    let mut terminal = Terminal::run(&setting.mgp(args));
    terminal.answer("Passphrase of the operator:", passphrase);
    terminal.end()
}

#[test]
fn with_a_terminal_as_proof_changes_need_one_and_reads_do_not() {
    let setting = Setting::new("[kernel]\noperator.proof = \"terminal\"\n\n");
    setting.succeed(&["status"]);
    let refused = setting.refused(&GRANT);
    assert!(refused.contains("not in the foreground of a terminal"), "{refused}");
    // A connection that announced only reads is not allowed to change anything either.
    let grant = json!({"entry_type": "server_grant", "agent_id": "eve", "server_id": "files", "permission": "allow"});
    let refused = setting.world.wire(OPERATOR).ask("mgp/access/grant", &grant).unwrap_err();
    assert_eq!(refused["code"], 1000, "{refused}");
    assert!(!setting.is_granted());
    // A terminal that a process below a host has created does not count as proof.
    let grant =
        "script -qec 'MGP access grant eve files' /dev/null >tried; echo $? >>tried; mv tried out";
    let mut host = setting.host(grant);
    let refused = setting.wait_for("out");
    assert!(refused.contains("the host `sh`") && refused.ends_with("\n1\n"), "{refused}");
    drop(host.stdin.take());
    host.wait().unwrap();
    let (code, shown) = Terminal::run(&setting.mgp(&GRANT)).end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(setting.is_granted());
}

#[test]
fn with_a_passphrase_as_proof_only_who_knows_it_changes_something() {
    let setting = Setting::new(WITH_PASSPHRASE);
    let refused = setting.refused(&GRANT);
    assert!(refused.contains("mgp operator passphrase set"), "{refused}");
    set_passphrase(&setting.mgp(&["operator", "passphrase", "set"]));
    let mode = setting.world.state().join("operator.json").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    setting.succeed(&["status"]);
    let refused = setting.world.wire(OPERATOR).ask(
        "mgp/access/grant",
        &json!({"entry_type": "server_grant", "agent_id": "eve", "server_id": "files", "permission": "allow"}),
    );
    assert_eq!(refused.unwrap_err()["code"], 1000);
    let (code, shown) = with_passphrase(&setting, &GRANT, "incorrect horse");
    assert!(code == Some(1) && shown.contains("wrong passphrase"), "{shown}");
    assert!(!setting.is_granted());
    let (code, shown) = with_passphrase(&setting, &GRANT, PASSPHRASE);
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains(PASSPHRASE) && setting.is_granted());
    let causes: Vec<_> = setting.refusals().into_iter().map(|(cause, _)| cause).collect();
    for cause in ["no passphrase", "wrong passphrase"] {
        assert!(causes.iter().any(|known| known == cause), "{cause}: {causes:?}");
    }
}

#[test]
fn guessing_the_passphrase_closes_the_gate_for_a_while() {
    let setting = Setting::new(WITH_PASSPHRASE);
    set_passphrase(&setting.mgp(&["operator", "passphrase", "set"]));
    let hello = |passphrase: &str| {
        let hello = json!({"mgp": 1, "as": "operator", "changes": true, "passphrase": passphrase});
        let refused = setting.world.connect(&format!("{hello}\n")).err();
        refused.map(|reply| reply["error"].as_str().unwrap().to_owned())
    };
    let refused: Vec<_> = (0..4).map(|guess| hello(&format!("guess {guess}")).unwrap()).collect();
    assert_eq!(refused[..3], ["wrong passphrase"; 3]);
    assert!(refused[3].contains("try again in"), "{}", refused[3]);
    // After too many wrong passphrases, the kernel refuses even the correct passphrase for a while.
    assert!(hello(PASSPHRASE).unwrap().contains("too many wrong passphrases"));
    crate::world::within(|| hello(PASSPHRASE).is_none().then_some(()));
}

#[test]
fn a_person_in_the_terminal_of_a_host_shows_the_passphrase() {
    let setting = Setting::new(WITH_PASSPHRASE);
    set_passphrase(&setting.mgp(&["operator", "passphrase", "set"]));
    // A process that a host started needs the passphrase even for reading, and this process has no terminal in which it
    // could ask for the passphrase.
    let mut host = setting.host(
        "setsid MGP status 2>read </dev/null; echo $? >>read
         mkfifo type; (sleep 1; echo 'correct horse'; sleep 5) >type &
         script -qec 'MGP access grant eve files' /dev/null <type >tried; echo $? >>tried; mv tried out",
    );
    let refused = setting.wait_for("read");
    assert!(refused.contains("asked for on a terminal") && refused.ends_with("1\n"), "{refused}");
    let granted = setting.wait_for("out");
    assert!(granted.ends_with("0\n"), "{granted}");
    assert!(setting.is_granted());
    drop(host.stdin.take());
    host.wait().unwrap();
}

#[test]
fn changes_of_the_folder_without_a_kernel_need_the_passphrase_too() {
    let world = World::empty();
    world.config(WITH_PASSPHRASE);
    set_passphrase(&mgp(&world, &["operator", "passphrase", "set"]));
    for args in [&["keys", "add", "eve"][..], &GRANT, &["operator", "passphrase", "remove"]] {
        let output = Command::new("setsid")
            .arg(mgp(&world, args).get_program())
            .args(args)
            .env("MGP_STATE", world.state())
            .env("MGP_CONFIG_PATH", world.config_file())
            .output()
            .unwrap();
        let printed = crate::world::text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {printed}");
        assert!(printed.contains("asked for on a terminal"), "{args:?}: {printed}");
    }
    assert!(mgp(&world, &["keys", "ls"]).status().unwrap().success());
    let mut terminal = Terminal::run(&mgp(&world, &["keys", "add", "ada"]));
    terminal.answer("Passphrase of the operator:", PASSPHRASE);
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_passphrase_stays_if_its_removal_cannot_be_recorded() {
    let world = World::empty();
    world.config("");
    set_passphrase(&mgp(&world, &["operator", "passphrase", "set"]));
    let file = world.state().join("audit/audit.0000000000000001.jsonl");
    let log = std::fs::read_to_string(&file).unwrap();
    let changed = log.replacen("passphrase.set", "passphrase.get", 1);
    assert_ne!(changed, log);
    std::fs::write(&file, changed).unwrap();
    let mut terminal = Terminal::run(&mgp(&world, &["operator", "passphrase", "remove"]));
    terminal.answer("Passphrase of the operator:", PASSPHRASE);
    let (code, shown) = terminal.end();
    assert!(code == Some(1) && shown.contains("the log was changed"), "{shown}");
    assert!(world.state().join("operator.json").exists());
}

/// Starts a kernel in which each call of `echo` waits for an operator.
fn careful() -> Setting {
    let setting = Setting::new("");
    let config = std::fs::read_to_string(setting.world.config_file()).unwrap();
    let risky = "default_policy = \"opt-out\"\nrisk = { echo = \"dangerous\" }";
    setting.world.config(&config.replace("default_policy = \"opt-in\"", risky));
    within(|| {
        let why = setting.mgp(&["why", "eve", "files.echo"]).output().unwrap();
        text(&why.stdout).contains("waits").then_some(())
    });
    setting
}

/// Calls `echo` as the agent `eve`; returns once the call waits for an operator.
fn call_echo(setting: &Setting, message: &str) -> JoinHandle<Result<Value, Value>> {
    let mut eve = setting.world.wire(&agent("eve"));
    let asked = json!({"name": "files.echo", "arguments": {"message": message}});
    let call = std::thread::spawn(move || eve.ask("tools/call", &asked));
    within(|| setting.succeed(&["approvals", "ls"]).contains(message).then_some(()));
    call
}

#[test]
fn a_watch_in_a_terminal_answers_in_place() {
    let setting = careful();
    let call = call_echo(&setting, "hello");
    let listed = setting.succeed(&["approvals", "ls"]);
    assert_eq!(listed.matches("Calls like this").count(), 1, "{listed}");
    let mut watch = Terminal::run(&setting.mgp(&["approvals", "watch"]));
    watch.answer("[s]kip:", "d");
    watch.answer("message = \"hello\"", "");
    call.is_finished().then(|| panic!("it must wait"));
    drop(watch);
    // A skipped approval stays pending, and the next `mgp approvals watch` asks about it again.
    let mut watch = Terminal::run(&setting.mgp(&["approvals", "watch"]));
    watch.answer("[s]kip:", "y  as Ann asked");
    let ran = call.join().unwrap().unwrap();
    assert_eq!(ran["content"][0]["text"], "hello", "{ran}");
    let listed = setting.succeed(&["--json", "approvals", "ls"]);
    assert!(listed.contains("\"as Ann asked\""), "{listed}");
}

#[test]
fn a_line_that_was_typed_before_a_question_is_shown_does_not_answer_it() {
    let setting = careful();
    let mut watch = Terminal::run(&setting.mgp(&["approvals", "watch"]));
    watch.answer("watching for questions", "y");
    let call = call_echo(&setting, "hello");
    watch.answer("[s]kip:", "n not seen before");
    let outcome = call.join().unwrap();
    let listed = setting.succeed(&["--json", "approvals", "ls"]);
    assert!(listed.contains("\"not seen before\""), "{outcome:?} {listed}");
}

#[test]
fn a_watch_asks_the_newest_question_first() {
    let setting = careful();
    let calls = ["the first message", "the second message"].map(|text| call_echo(&setting, text));
    let mut watch = Terminal::run(&setting.mgp(&["approvals", "watch"]));
    for message in ["the second message", "the first message"] {
        watch.answer(message, "y");
    }
    for call in calls {
        call.join().unwrap().unwrap();
    }
}

#[test]
fn a_watch_names_calls_that_begin_to_wait_during_a_question() {
    let setting = careful();
    let first = call_echo(&setting, "the first message");
    let mut watch = Terminal::run(&setting.mgp(&["approvals", "watch"]));
    watch.wait_for("[s]kip:");
    let second = call_echo(&setting, "the second message");
    watch.answer("eve asks for files.echo; [s]kip shows it", "s");
    watch.answer("the second message", "y");
    second.join().unwrap().unwrap();
    drop(watch);
    let mut watch = Terminal::run(&setting.mgp(&["approvals", "watch"]));
    watch.answer("the first message", "y");
    first.join().unwrap().unwrap();
}

#[test]
fn a_secret_that_is_typed_at_a_terminal_is_stored_whole_or_refused() {
    let world = World::empty();
    world.config("");
    for (length, is_stored) in [(1500, true), (5000, false)] {
        // The person types Ctrl-Z before the value. This character must not become a part of the stored secret.
        let value = "\u{1a}".to_owned() + &"x".repeat(length);
        let mut terminal = Terminal::run(&mgp(&world, &["secrets", "set", "token"]));
        terminal.answer("Value of `token`:", &value);
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(i32::from(!is_stored)), "{shown}");
        assert!(is_stored || shown.contains("too long for a terminal"), "{shown}");
        let stored = std::fs::read_to_string(world.state().join("secrets.json")).unwrap();
        let stored: Value = serde_json::from_str(&stored).unwrap();
        assert_eq!(stored["secrets"]["token"], "x".repeat(1500));
    }
}

#[test]
fn an_interrupted_question_for_a_secret_leaves_the_terminal_with_its_echo() {
    let world = World::empty();
    world.config("");
    let mut command = Command::new("sh");
    let script = r#"trap : INT; "$MGP" secrets set token; echo "code $?"; stty -a"#;
    command.args(["-c", script]).env("MGP", env!("CARGO_BIN_EXE_mgp"));
    command.envs(mgp(&world, &[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut terminal = Terminal::run(&command);
    terminal.answer("Value of `token`:", "\u{3}");
    let (_, shown) = terminal.end();
    assert!(shown.contains("code 130") && shown.contains(" echo "), "{shown}");
    assert!(!world.state().join("secrets.json").exists());
}

#[test]
fn the_question_of_setup_names_the_configured_times() {
    let world = World::empty();
    world.config("[kernel]\nform_timeout = '3m'\napproval_timeout = '7s'\n");
    let file = world.folder.join(".gemini/settings.json");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, json!({"mcpServers": {"a": {"command": "false"}}}).to_string()).unwrap();
    let mut command = mgp(&world, &["setup", "gemini"]);
    command.env("HOME", &world.folder);
    let mut terminal = Terminal::run(&command);
    terminal.answer("Change these files?", "y");
    terminal.wait_for("a call waits up to 3 minutes");
    terminal.wait_for("a call waits up to 7 s, and");
}

#[test]
fn the_demo_prints_no_control_sequences_on_a_dumb_terminal() {
    let world = World::empty();
    let mut command = mgp(&world, &["demo"]);
    command.env("TERM", "dumb").env_remove("NO_COLOR");
    let (code, shown) = Terminal::run(&command).end();
    assert!(code == Some(0) && shown.contains("No access by default"), "{code:?} {shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
}
