//! Tests of messages to people with the real program: to a webhook, a topic, a mailbox and a desktop.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::json;

use crate::events::{Posted, receiver, signature};
use crate::program::program;
use crate::world::{Host, World, kill, within};

/// The time for which a test waits to check that the kernel sends no message.
const QUIET: Duration = Duration::from_millis(1500);

/// Creates a world in which a call of the tool `echo` waits up to one second for a person's approval.
fn world(places: &str) -> World {
    let world = World::empty();
    let server = world.server("echo", &format!("exec {}", program("echo")));
    let wait = "[kernel]\napproval_timeout = \"1s\"\n";
    world.config(&format!("{wait}{places}\n{server}risk = {{ echo = \"dangerous\" }}\n"));
    world
}

/// Makes a call that a person must approve, and waits until the kernel refuses it.
fn ask(host: &mut Host) {
    let refused = host.call("echo", &json!({"message": "a-secret-argument"})).unwrap_err();
    assert!(refused.to_string().contains("approv"), "{refused}");
}

pub(crate) fn next(posted: &Receiver<Posted>) -> Posted {
    posted.recv_timeout(Duration::from_secs(20)).unwrap()
}

fn mgp(world: &World, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
    command.args(args).arg("--state").arg(world.state());
    command
}

/// Runs `mgp notify test`.
fn notify_test(world: &World, args: &[&str], path: Option<&str>) -> Output {
    let mut command = mgp(world, &["notify", "test"]);
    command.args(args).arg("--config").arg(world.config_file());
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.output().unwrap()
}

#[test]
fn a_person_learns_once_that_decisions_wait_unless_they_were_made_meanwhile() {
    let (url, posted) = receiver(|_, _| 204);
    let world = world(&format!(
        "console_url = \"https://mgp.example/console/\"\n[kernel.notify.chat]\nwebhook = \"{url}\"\nsecret = \"s3cret\"\nafter = \"4s\"\nallow_loopback = true"
    ));
    let mut host = Host::standalone(&world, &[]);
    ask(&mut host);
    let first = next(&posted);
    let expected = signature("s3cret", first.header("mgp-timestamp"), &first.body);
    assert_eq!(first.header("mgp-signature"), expected);
    let message = first.value();
    assert_eq!(message["title"], "mgp: a decision waits for you");
    assert_eq!(message["waiting"], 1);
    let line = message["lines"][0].as_str().unwrap();
    assert!(line.contains(" asks for echo.echo (id "), "{line}");
    let id = line.split_once("(id ").unwrap().1.trim_end_matches(')');
    assert_eq!(message["link"], format!("https://mgp.example/console/call/{id}"));
    assert_eq!(message["links"], json!([message["link"]]));
    let (title, link) = (message["title"].as_str().unwrap(), message["link"].as_str().unwrap());
    let text = format!("{title}\n{line}\n{link}");
    assert_eq!(message["text"], text, "chats such as Slack show this member");
    assert!(!first.body.contains("a-secret-argument"), "{}", first.body);

    // The same call does not ask its question again, so the kernel sends no second message.
    ask(&mut host);
    assert!(matches!(posted.recv_timeout(QUIET * 4), Err(RecvTimeoutError::Timeout)));

    // The kernel sends no message about an approval that an operator decides in time.
    let mut operator = world.operator();
    let id =
        operator.ask("mgp/kernel/approvals", &json!({})).unwrap()["approvals"][0]["id"].clone();
    operator.ask("mgp/kernel/approvals/deny", &json!({"id": id})).unwrap();
    let refused = host.call("echo", &json!({"message": "another"}));
    assert!(refused.is_err());
    let open = operator.ask("mgp/kernel/approvals", &json!({})).unwrap();
    let open = open["approvals"].as_array().unwrap().iter().find(|one| one["state"] == "open");
    operator.ask("mgp/kernel/approvals/deny", &json!({"id": open.unwrap()["id"]})).unwrap();
    assert!(matches!(posted.recv_timeout(QUIET * 4), Err(RecvTimeoutError::Timeout)));

    let listed = mgp(&world, &["webhooks", "--json"]).output().unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed[0]["url"], "kernel.notify.chat");
    assert_eq!((&listed[0]["delivered"], &listed[0]["waiting"]), (&json!(1), &json!(0)));
}

#[test]
fn a_message_that_was_not_sent_survives_a_kill_of_the_kernel() {
    let (url, posted) = receiver(|_, _| 204);
    let place = |after: &str| {
        format!(
            "[kernel.notify.topic]\nntfy = \"{url}\"\nsecret = \"tok\"\nafter = \"{after}\"\nallow_loopback = true"
        )
    };
    let world = world(&place("1h"));
    let mut host = Host::standalone(&world, &[]);
    ask(&mut host);
    kill("-KILL", world.kernel().unwrap());
    drop(host);
    let text = fs::read_to_string(world.config_file()).unwrap().replace("1h", "1s");
    world.config(&text);
    let _host = within(|| Some(Host::standalone(&world, &[])));
    let sent = next(&posted);
    assert_eq!(sent.header("title"), "mgp: a decision waits for you");
    assert_eq!(sent.header("authorization"), "bearer tok");
    let command = format!("`mgp approvals --state {}`", world.state().display());
    assert!(sent.body.contains("echo.echo") && sent.body.contains(&command), "{}", sent.body);
    assert!(matches!(posted.recv_timeout(QUIET), Err(RecvTimeoutError::Timeout)));
}

#[test]
fn a_message_is_sent_once_the_secret_of_its_place_is_set() {
    let (url, posted) = receiver(|_, _| 204);
    let world = world(&format!(
        "[kernel.notify.topic]\nntfy = \"{url}\"\nsecret = \"${{keyring:phone}}\"\nafter = \"1s\"\nallow_loopback = true"
    ));
    let mut host = Host::standalone(&world, &[]);
    ask(&mut host);
    mgp_discovery::SecretFile::in_folder(&world.state()).set("phone", "tok").unwrap();
    assert_eq!(next(&posted).header("authorization"), "bearer tok");
}

#[test]
fn quiet_hours_hold_messages_back() {
    let (url, posted) = receiver(|_, _| 204);
    // Set quiet hours that cover the whole day except its last minute.
    let world = world(&format!(
        "[kernel.notify.chat]\nwebhook = \"{url}\"\nafter = \"1s\"\nquiet = \"00:00-23:59\"\nallow_loopback = true"
    ));
    let mut host = Host::standalone(&world, &[]);
    ask(&mut host);
    assert!(matches!(posted.recv_timeout(QUIET * 2), Err(RecvTimeoutError::Timeout)));
    let text =
        fs::read_to_string(world.config_file()).unwrap().replace("quiet = \"00:00-23:59\"\n", "");
    world.config(&text);
    assert_eq!(next(&posted).value()["waiting"], 1);
}

/// Starts a mail server; returns its address, and the mails that it receives.
pub(crate) fn mail_server() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let (sender, mails) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(8).flatten() {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let answer = |text: &str| write!(&stream, "{text}\r\n");
            let (mut mail, mut is_data) = (String::new(), false);
            let _ = answer("220 mail.test");
            while let Some(Ok(line)) = lines.next() {
                mail.extend([line.as_str(), "\n"]);
                let done = match line.split(' ').next().unwrap_or_default() {
                    "." if is_data => {
                        is_data = false;
                        answer("250 kept")
                    }
                    _ if is_data => continue,
                    "EHLO" => answer("250-mail.test\r\n250 AUTH PLAIN"),
                    "AUTH" => answer("235 welcome"),
                    "DATA" => {
                        is_data = true;
                        answer("354 go on")
                    }
                    "QUIT" => {
                        let _ = answer("221 bye");
                        break;
                    }
                    _ => answer("250 fine"),
                };
                if done.is_err() {
                    break;
                }
            }
            let _ = sender.send(mail);
        }
    });
    (url, mails)
}

#[test]
fn an_e_mail_reaches_a_mail_server() {
    let (server, mails) = mail_server();
    let world = world(&format!(
        "[kernel.notify.mail]\nemail = \"Ada <ada@example.com>\"\nfrom = \"mgp@example.com\"\nsmtp = \"{server}\"\nuser = \"ada\"\nsecret = \"pass\""
    ));
    let output = notify_test(&world, &["mail"], None);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "SENT mail\n");
    let mail = mails.recv_timeout(Duration::from_secs(20)).unwrap();
    // This is the name and the password of the account, in base64.
    assert!(mail.contains("AUTH PLAIN AGFkYQBwYXNz"), "{mail}");
    assert!(mail.contains("RCPT TO:<ada@example.com>"), "{mail}");
    assert!(mail.contains("Subject: mgp: a test message"), "{mail}");
    assert!(mail.contains("Message-ID: <"), "{mail}");
}

#[test]
fn a_notification_is_shown_by_the_program_of_the_desktop() {
    let world = world("[kernel.notify.desk]\ndesktop = true");
    let folder = world.folder.join("bin");
    fs::create_dir(&folder).unwrap();
    let path = folder.display().to_string();
    let output = notify_test(&world, &[], Some(&path));
    assert!(!output.status.success());
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("FAILED desk: there is no program `notify-send`"), "{shown}");

    let (tool, out) = (folder.join("notify-send"), world.folder.join("shown"));
    fs::write(&tool, format!("#!/bin/sh\nprintf '%s|' \"$@\" > {}\n", out.display())).unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let output = notify_test(&world, &[], Some(&path));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let shown = fs::read_to_string(out).unwrap();
    assert!(shown.starts_with("--app-name=mgp|--|mgp: a test message|This is"), "{shown}");

    let unknown = notify_test(&world, &["dask"], None);
    let error = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(error.contains("no place `dask` is configured; did you mean `desk`?"), "{error}");
}
