//! Tests of `mgp audit` with a log that is too long for one query, and with a log that another program changed.

use std::fs;
use std::io::Read as _;
#[cfg(unix)]
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
#[cfg(unix)]
use std::sync::mpsc::channel;

use mgp_security::Governance;
use mgp_testkit::until_blocking;
use mgp_types::Timestamp;
use mgp_types::mgp::{Actor, AuditEvent, AuditResult, EventType};

use crate::world::Home;

/// The number of audit records in the test's log, which is more than one query reads.
const MANY: usize = 17_000;

/// Creates a home whose audit log has `MANY` records of one kind. One record of an access grant precedes them, another
/// follows.
fn long() -> Home {
    let home = Home::new();
    let grant = |agent: &str| home.succeed(&["access", "grant", agent, "bench", "--force"]);
    grant("first");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let governance = Governance::in_folder(home.path(".local/state/mgp")).await.unwrap();
        let log = governance.log().unwrap().clone();
        let event = AuditEvent::new(
            Timestamp::now(),
            EventType::from("com.example.tick"),
            Actor::new("agent", "clock"),
            AuditResult::Success,
        );
        let mut kept = Vec::new();
        for _ in 0..MANY {
            kept.push(log.append(&event));
            if kept.len() == 1000 {
                for answer in kept.drain(..) {
                    answer.await.unwrap();
                }
            }
        }
        drop(governance);
        log.close().await.unwrap();
    });
    grant("last");
    home
}

#[test]
fn queries_read_a_long_log_to_its_end() {
    let home = long();
    let agents = |text: &str| ["first", "last"].map(|agent| text.contains(&format!("\"{agent}\"")));
    let found = home.json("audit-query", &["audit", "query", "--type", "ACCESS_GRANTED"]);
    assert_eq!(agents(&found.to_string()), [true, true], "{found}");
    let found = home.succeed(&["audit", "export", "--type", "ACCESS_GRANTED"]);
    assert_eq!((agents(&found), found.lines().count()), ([true, true], 2), "{found}");
    assert!(home.succeed(&["audit", "export"]).lines().count() >= MANY + 2);
}

#[test]
fn reading_the_log_does_not_prevent_a_kernel_from_starting() {
    let home = long();
    // The test reads only one byte of the output, so the export blocks while most of the log is unread.
    let mut reader = home.command(&["audit", "export"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0];
    reader.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let ready = home.path("ready.json");
    let arguments = ["serve", "--http", "127.0.0.1:0", "--no-auth", "--ready-file"];
    let mut kernel = home.command(&arguments).arg(&ready).stderr(Stdio::null()).spawn().unwrap();
    until_blocking("the kernel is ready", || {
        assert!(kernel.try_wait().unwrap().is_none(), "the kernel has ended");
        ready.exists()
    });
    assert!(reader.try_wait().unwrap().is_none(), "the reader has finished");
    home.silent(&["stop"]);
    let _ = (reader.kill(), reader.wait(), kernel.wait());
}

#[cfg(unix)]
#[test]
fn a_tail_without_lines_shows_only_what_is_new() {
    let kernel = crate::kernel::Kernel::new("");
    let grant = |agent: &str| kernel.home.succeed(&["access", "grant", agent, "bench", "--force"]);
    grant("first");
    let mut command = kernel.home.command(&["--json", "audit", "tail", "-n", "0", "--follow"]);
    let mut tail = command.stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(tail.stdout.take().unwrap());
    let (sender, lines) = channel();
    let reader = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let mut shown: Vec<String> = Vec::new();
    until_blocking("a new event is shown", || {
        grant("second");
        shown.extend(lines.try_iter());
        shown.iter().any(|line| line.contains("\"second\""))
    });
    let _ = (tail.kill(), tail.wait(), reader.join());
    assert!(!shown.iter().any(|line| line.contains("\"first\"")), "{shown:?}");
}

/// Opens the state folder with another directory for its audit log, as a kernel does after an operator changed
/// `kernel.audit.dir`.
fn move_log(home: &Home, dir: &'static str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let builder = Governance::builder().logging(move |mut log| {
            log.dir = dir.into();
            log
        });
        let governance = builder.in_folder(home.path(".local/state/mgp")).await.unwrap();
        let log = governance.log().unwrap().clone();
        drop(governance);
        log.close().await.unwrap();
    });
}

#[test]
fn a_log_that_was_changed_is_shown_with_a_warning() {
    let home = Home::new();
    for agent in ["first", "second"] {
        home.succeed(&["access", "grant", agent, "bench", "--force"]);
    }
    let file = home.path(".local/state/mgp/audit/audit.0000000000000001.jsonl");
    let log = fs::read_to_string(&file).unwrap();
    // Make the record of the second grant unreadable.
    fs::write(&file, log.replacen("\"second\"", "\"second_", 1)).unwrap();
    home.fail(1, &["audit", "verify"], "the log was changed");
    let shows_the_first = |arguments: &[&str]| {
        let shown = home.run(arguments);
        assert_eq!(shown.code, Some(0), "{arguments:?}: {shown:?}");
        assert!(shown.err.contains("the log does not verify"), "{arguments:?}: {shown:?}");
        assert!(shown.out.contains("first"), "{arguments:?}: {shown:?}");
        assert!(!shown.out.contains("second"), "{arguments:?}: {shown:?}");
    };
    shows_the_first(&["audit", "export"]);
    shows_the_first(&["audit", "query", "--type", "access_granted"]);
    shows_the_first(&["audit", "tail"]);
    // From here on, the state folder has another log.
    move_log(&home, "audit-2");
    home.succeed(&["access", "grant", "third", "bench", "--force"]);
    assert!(home.succeed(&["audit", "verify"]).contains("unchanged"));
    assert!(!home.succeed(&["audit", "export"]).contains("first"));
    home.fail(1, &["audit", "verify", "--log", "audit"], "the log was changed");
    shows_the_first(&["audit", "export", "--log", "audit"]);
    home.succeed(&["audit", "verify", "--log", "audit-2"]);
    home.fail(1, &["audit", "verify", "--log", "audit-3"], "cannot be read");
}

#[test]
fn filters_that_match_nothing_and_a_folder_without_records_are_explained() {
    let home = Home::new();
    let empty = home.path(".local/state/mgp");
    let empty = format!("there are no records in `{}` yet", empty.display());
    home.fail(1, &["audit", "verify"], &empty);
    for command in ["verify", "export"] {
        home.fail(1, &["audit", command, "--log", "audit"], &empty);
    }
    home.fail(2, &["audit", "query", "--since", "1h", "--until", "2h"], "--since 2h --until 1h");
    let unknown = ["audit", "query", "--type", "dev.cloto.key_add"];
    home.fail(2, &unknown, "did you mean `key_added`?");
    home.succeed(&["audit", "query", "--type", "event_unreadable"]);
    home.succeed(&["audit", "query", "--type", "com.example.tick"]);
    home.succeed(&["access", "grant", "ada", "bench", "--force"]);
    for more in [&[][..], &["--tool", "mgp.access.query"]] {
        let found = home.run(&[&["audit", "query", "--agent", "adaa"], more].concat());
        assert!(found.err.contains("did you mean `ada`?"), "{more:?}: {found:?}");
    }
    // Remove `state.db`, without which nothing proves that the log is complete.
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(home.path(".local/state/mgp").join(name));
    }
    for _ in 0..2 {
        home.fail(1, &["audit", "verify"], "state.db` is missing");
        let (report, _) = home.any_json("doctor", &["doctor", "--no-start"]);
        assert!(report.to_string().contains("state.db` is missing"), "{report}");
    }
}

#[test]
fn an_older_state_is_noticed_before_and_after_a_kernel_starts() {
    let home = Home::new();
    let grant = |agent: &str| home.succeed(&["access", "grant", agent, "bench", "--force"]);
    grant("first");
    let names = ["state.db", "state.db-wal", "state.db-shm"];
    let files = names.map(|name| home.path(".local/state/mgp").join(name));
    let copies = names.map(|name| home.path(name));
    // `fs::copy` also copies the permissions of a file, which the state files need.
    files.iter().zip(&copies).for_each(|(file, copy)| drop(fs::copy(file, copy)));
    grant("second");
    grant("third");
    for (file, copy) in files.iter().zip(&copies) {
        if copy.exists() {
            fs::copy(copy, file).unwrap();
        } else {
            let _ = fs::remove_file(file);
        }
    }
    for _ in 0..2 {
        home.fail(1, &["audit", "verify"], "the state lost 2 of the changes");
        let report = home.json("doctor", &["doctor", "--no-start"]);
        assert!(report.to_string().contains("the state lost 2 of the changes"), "{report}");
    }
    // When this command opens the log, it records the loss.
    let shown = home.succeed(&["audit", "query", "--type", "changes_lost"]);
    assert!(shown.contains("2 changes"), "{shown}");
    assert_eq!(home.json("audit-verify", &["audit", "verify"])["changes_lost"], 2);
    #[cfg(unix)]
    {
        let page = crate::console::Browser::new(&home).get("/record?verify=yes").text();
        assert!(page.contains("according to the events changes_lost: 2</p>"), "{page}");
        home.silent(&["stop"]);
    }
}

#[cfg(unix)]
#[test]
fn status_shows_that_the_file_of_the_log_was_removed() {
    let kernel = crate::kernel::Kernel::new("");
    let home = &kernel.home;
    assert!(!home.succeed(&["status"]).contains("audit log"));
    fs::remove_file(home.path(".local/state/mgp/audit/audit.0000000000000001.jsonl")).unwrap();
    let shown = home.succeed(&["status"]);
    assert!(shown.contains("the file of the audit log was removed"), "{shown}");
}

#[cfg(unix)]
#[test]
fn changes_are_refused_after_the_database_was_removed_or_replaced_and_status_and_doctor_show_it() {
    let kernel = crate::kernel::Kernel::new("");
    let home = &kernel.home;
    let (database, away) = (home.path(".local/state/mgp/state.db"), home.path("away.db"));
    fs::rename(&database, &away).unwrap();
    until_blocking("the kernel notices it", || {
        home.succeed(&["status"]).contains("`state.db` was removed or replaced")
    });
    home.fail(1, &["doctor", "--no-start"], "1 check failed");
    fs::copy(&away, &database).unwrap();
    home.fail(1, &["access", "grant", "ada", "files", "--force"], "was removed or replaced");
}

#[cfg(unix)]
#[test]
fn a_removed_write_ahead_log_is_reported_and_costs_no_change_that_a_command_confirmed() {
    let kernel = crate::kernel::Kernel::new("");
    let home = &kernel.home;
    home.succeed(&["access", "grant", "ada", "files", "--force"]);
    fs::remove_file(home.path(".local/state/mgp/state.db-wal")).unwrap();
    until_blocking("the kernel notices it", || {
        home.succeed(&["status"]).contains("`state.db-wal` was removed or replaced")
    });
    // Once the accepted changes are in the database, the kernel keeps other processes from changing it.
    until_blocking("the accepted changes are in the database", || {
        let refused = home.run(&["access", "grant", "eve", "files", "--force"]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        refused.err.contains("another process keeps its lock; if a kernel runs, see `mgp status`")
    });
    let (report, code) = home.any_json("doctor", &["doctor", "--no-start"]);
    assert!(report.to_string().contains("`state.db-wal` was removed"), "{report}");
    assert_eq!(code, Some(1));
    let home = kernel.killed();
    home.succeed(&["audit", "verify"]);
    let found = home.json("audit-query", &["audit", "query", "--type", "changes_lost"]);
    assert_eq!(found, serde_json::json!([]));
}
