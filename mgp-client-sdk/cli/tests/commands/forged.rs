//! Tests of damaged audit logs and states: an attacker has added records without knowing the log's secret, a power cut
//! has lost records, or the state is damaged.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use mgp_testkit::until_blocking;
use mgp_types::Payload;
use mgp_types::store::{Change, Db, Store as _};
use serde_json::{Value, json};

use crate::kernel::Kernel;
use crate::world::Home;

/// Returns the newest file of the audit log.
fn log_file(home: &Home) -> PathBuf {
    let folder = home.path(".local/state/mgp/audit");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).max().unwrap()
}

/// Appends a record and links it to the last record of the file, like an attacker who has only the file: the hash lacks
/// the secret in the store.
fn forge(home: &Home, event: &Value) {
    let file = log_file(home);
    let text = fs::read_to_string(&file).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let next = |name: &str| last[name].as_u64().unwrap() + 1;
    let line = format!(r#"{{"seq":{},"no":{},"event":{event}"#, next("seq"), next("no"));
    let before = blake3::Hash::from_hex(last["hash"].as_str().unwrap()).unwrap();
    let hash = blake3::keyed_hash(before.as_bytes(), line.as_bytes());
    fs::write(file, format!("{text}{line},\"hash\":\"{hash}\"}}\n")).unwrap();
}

/// Checks that `mgp audit verify` and `mgp doctor` report the forgery.
#[track_caller]
fn is_found(home: &Home) {
    let (verified, code) = home.any_json("audit-verify", &["audit", "verify"]);
    assert_eq!(code, Some(1), "{verified}");
    let audit = doctor(home);
    assert_eq!(audit["level"], "fail", "{audit}");
    assert!(audit["what"].as_str().unwrap().contains("record"), "{audit}");
}

#[test]
fn a_record_that_was_forged_and_chained_by_hand_is_found_and_not_taken_over() {
    let kernel = Kernel::bench();
    kernel.home.succeed(&["access", "grant", "ada", "bench"]);
    let granted = kernel.home.json("audit-query", &["audit", "query", "--type", "ACCESS_GRANTED"]);
    kernel.home.silent(&["stop"]);
    let home = kernel.into_home();
    home.json("audit-verify", &["audit", "verify"]);

    // Change the record of a grant so that it looks as if an operator granted access to the agent `eve`.
    let mut event = granted[0].clone();
    event["target"]["agent_id"] = json!("eve");
    forge(&home, &event);
    is_found(&home);
    forge(&home, &event);
    is_found(&home);

    // The next kernel does not accept the forged records, and records that it rejected them.
    let _ = fs::remove_file(home.path("ready.json"));
    let config = home.path("c.toml");
    let kernel = Kernel::on(home, Some(&config));
    let home = &kernel.home;
    let rejected = ["audit", "query", "--type", "dev.cloto.records_rejected"];
    let rejected = home.json("audit-query", &rejected);
    assert_eq!(rejected[0]["details"]["count"], 2, "{rejected}");
    let left = home.json("audit-query", &["audit", "query", "--type", "ACCESS_GRANTED"]);
    assert_eq!(left, granted, "the forged grant is gone");
    home.json("audit-verify", &["audit", "verify"]);

    // The commands also find a record that is forged while the kernel runs, even after the kernel has added further
    // records.
    forge(home, &event);
    is_found(home);
    home.succeed(&["access", "grant", "bob", "bench"]);
    is_found(home);
}

/// Returns the head of the audit log, i.e. the number and the hash of its last record, from the database of the state.
fn head(home: &Home) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let db = Db::open(home.path(".local/state/mgp/state.db")).await.unwrap();
        let mut records = db.load("audit").await.unwrap().records;
        records.retain(|record| record.key == "audit");
        let head = records.remove(0).value.unwrap().get().unwrap();
        db.close().await;
        head
    })
}

/// Returns the check of `mgp doctor` about the audit log.
fn doctor(home: &Home) -> Value {
    let (report, _) = home.any_json("doctor", &["doctor", "--no-start"]);
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["about"] == "audit").unwrap().clone()
}

#[test]
fn records_that_a_power_cut_lost_are_counted_and_shown() {
    let (mut kernel, mut agents) = (Kernel::bench(), 0..);
    let (home, before) = loop {
        until_blocking("all records are synced", || head(&kernel.home).get("synced").is_none());
        until_blocking("a record is not synced", || {
            let agent = format!("agent-{}", agents.next().unwrap());
            kernel.home.succeed(&["access", "grant", &agent, "bench"]);
            kernel.home.succeed(&["audit", "query"]);
            head(&kernel.home).get("synced").is_some()
        });
        let home = kernel.killed();
        let before = head(&home);
        if before["synced"].is_u64() {
            break (home, before);
        }
        // The kernel has synced the record before it was killed.
        assert!(agents.start < 100, "each record was synced: {before}");
        fs::remove_file(home.path("ready.json")).unwrap();
        let config = home.path("c.toml");
        kernel = Kernel::on(home, Some(&config));
    };
    let file = log_file(&home);
    let text = fs::read_to_string(&file).unwrap();
    let kept = text.trim_end().rsplit_once('\n').unwrap().0;
    fs::write(&file, format!("{kept}\n")).unwrap();
    let last: Value = serde_json::from_str(kept.lines().last().unwrap()).unwrap();
    let lost = before["seq"].as_u64().unwrap() - last["seq"].as_u64().unwrap();

    let (verified, code) = home.any_json("audit-verify", &["audit", "verify"]);
    let error = verified["error"].as_str().unwrap();
    assert!(code == Some(1) && error.contains("acknowledged records are missing"), "{verified}");
    assert_eq!(doctor(&home)["level"], "warn");

    fs::remove_file(home.path("ready.json")).unwrap();
    let config = home.path("c.toml");
    let kernel = Kernel::on(home, Some(&config));
    let home = &kernel.home;
    let found = home.json("audit-query", &["audit", "query", "--type", "records_lost"]);
    assert_eq!(found[0]["details"]["count"], lost, "{found}");
    assert_eq!(home.json("audit-verify", &["audit", "verify"])["lost"], lost);
    let shown = doctor(home);
    assert_eq!(shown["level"], "warn", "{shown}");
    assert!(shown["what"].as_str().unwrap().contains("lost in the last 30 days"), "{shown}");
}

#[test]
fn a_state_with_which_no_kernel_starts_is_found() {
    let home = Home::new();
    home.succeed(&["access", "grant", "ada", "bench", "--force"]);
    let folder = home.path(".local/state/mgp");
    let fails = |about: &str, expected: &str| {
        let (report, code) = home.any_json("doctor", &["doctor", "--no-start"]);
        let checks = report["checks"].as_array().unwrap();
        let failed = checks.iter().filter(|it| it["about"] == about && it["level"] == "fail");
        let found: String = failed.map(ToString::to_string).collect();
        assert!(code == Some(1) && found.contains(expected), "{expected}: {report}");
    };
    fs::write(folder.join("secrets.json"), "{}").unwrap();
    fails("secrets", "secrets.json");
    fs::remove_file(folder.join("secrets.json")).unwrap();

    let (log, away) = (log_file(&home), folder.join("away"));
    fs::rename(&log, &away).unwrap();
    fs::remove_file(folder.join("audit/audit.lock")).unwrap();
    fails("audit", "evidence");
    fs::rename(&away, &log).unwrap();

    let damaged = || Payload::from_trusted("{}");
    commit(&home, Change::new().put("kernel.usage", "day/ada", damaged()));
    fails("state", "`day/ada` in `kernel.usage` is damaged");
    for space in ["transactions", "audit.forward"] {
        commit(&home, Change::new().put(space, "bad", damaged()));
        fails("state", &format!("`bad` in `{space}` is damaged"));
    }
    without_tables(&home, "events");
    fails("state", "the stored events are damaged");
    commit(&home, Change::new().put("access", "ada", damaged()));
    fails("state", "`ada` in `access` is damaged");
    home.fail(1, &["audit", "query"], "`ada` in `access` is damaged");

    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(folder.join(name));
    }
    for _ in 0..2 {
        fails("state", "restore it from a back-up");
    }
    home.fail(1, &["audit", "query"], "restore it from a back-up");
}

#[test]
fn a_damaged_tool_index_and_damaged_searches_are_warnings() {
    let home = Home::new();
    home.succeed(&["access", "grant", "ada", "bench", "--force"]);
    for (namespace, expected) in [
        ("toolindex", "the tool index is damaged"),
        ("toolindex_history", "the stored searches are damaged"),
    ] {
        without_tables(&home, namespace);
        let (report, _) = home.any_json("doctor", &["doctor", "--no-start"]);
        let checks = report["checks"].as_array().unwrap();
        let warns = |it: &&Value| it["about"] == "state" && it["level"] == "warn";
        let found: String = checks.iter().filter(warns).map(ToString::to_string).collect();
        assert!(found.contains(expected), "{expected}: {report}");
    }
}

#[test]
fn files_that_are_no_plain_files_and_a_damaged_head_have_a_remedy() {
    let home = Home::new();
    home.succeed(&["access", "grant", "ada", "bench", "--force"]);
    let reported = |expected: &str| {
        let (report, _) = home.any_json("doctor", &["doctor", "--no-start"]);
        assert!(report.to_string().contains(expected), "{expected}: {report}");
    };
    fs::write(home.path(".local/state/mgp/digest.key"), [b'x'; 200]).unwrap();
    reported("restore it from a back-up, or move it away");
    for (folder, file) in [
        (".local/state/mgp", "kernel.lock"),
        (".local/state/mgp", "start.lock"),
        (".local/state/mgp", "digest.key"),
        (".local/state/mgp", "keys.json"),
        (".local/state/mgp", "secrets.json"),
        (".config/mgp", "mgp.lock"),
    ] {
        let path = pipe(&home, &format!("{folder}/{file}"));
        reported(&format!("{file}` is not a "));
        fs::remove_file(path).unwrap();
    }
    commit(&home, Change::new().put("audit", "audit", Payload::from_trusted("{}")));
    reported(
        "restore `state.db` and `state.db-wal` from a back-up; without one, keep the log as evidence",
    );
}

#[test]
fn a_clock_that_is_behind_the_last_change_of_the_state_is_reported() {
    let home = Home::new();
    home.succeed(&["access", "grant", "ada", "bench", "--force"]);
    let database = home.path(".local/state/mgp/state.db");
    let is_reported = || {
        let (report, _) = home.any_json("doctor", &["doctor", "--no-start"]);
        let checks = report["checks"].as_array().unwrap();
        checks.iter().any(|check| check["about"] == "clock" && check["level"] == "warn")
    };
    assert!(!is_reported());
    let tomorrow = SystemTime::now() + Duration::from_hours(24);
    let database = fs::File::options().append(true).open(database).unwrap();
    database.set_modified(tomorrow).unwrap();
    assert!(is_reported());
    home.succeed(&["servers", "ls"]);
    let log = fs::read_to_string(home.path(".local/state/mgp/kernel.log")).unwrap();
    home.silent(&["stop"]);
    assert!(log.contains("which is in the future"), "{log}");
}

#[test]
fn files_that_keep_each_kernel_from_starting_are_reported() {
    let home = Home::new();
    home.succeed(&["access", "grant", "ada", "bench", "--force"]);
    for name in ["kernel.lock", "start.lock", "kernel.log", "digest.key.lock", "audit/audit.lock"] {
        let path = home.path(&format!(".local/state/mgp/{name}"));
        let kept = home.path("kept");
        let was_there = fs::rename(&path, &kept).is_ok();
        std::os::unix::fs::symlink("none/there", &path).unwrap();
        home.fail(1, &["servers", "ls"], &format!("{name}`"));
        let (report, code) = home.any_json("doctor", &["doctor", "--no-start"]);
        let expected = format!("{name}` cannot be opened: No such file");
        assert!(code == Some(1) && report.to_string().contains(&expected), "{name}: {report}");
        fs::remove_file(&path).unwrap();
        if was_there {
            fs::rename(&kept, &path).unwrap();
        }
    }
    home.succeed(&["servers", "ls"]);
    home.silent(&["stop"]);
}

/// Regression test: these commands waited for another process to write into the pipe.
#[test]
fn a_pipe_in_place_of_a_file_is_refused() {
    let home = Home::new();
    home.succeed(&["access", "grant", "ada", "bench", "--force"]);
    for name in ["service", "kernel.files", "kernel.log"] {
        pipe(&home, &format!(".local/state/mgp/{name}"));
    }
    let expected = "it is a pipe; move it away";
    home.fail(1, &["servers", "ls"], expected);
    home.fail(1, &["logs"], expected);
    pipe(&home, ".config/mgp/servers.toml");
    home.fail(1, &["servers", "add", "x", "--no-grant", "--", "y"], expected);
    pipe(&home, "work/desk.mcpb");
    home.fail(1, &["servers", "add", "desk.mcpb", "--yes"], expected);
}

/// Creates a pipe in place of a file, and returns its path.
fn pipe(home: &Home, name: &str) -> PathBuf {
    let path = home.path(name);
    let _ = fs::remove_file(&path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

fn commit(home: &Home, change: Change) {
    with_db(home, async move |db: &Db| {
        db.commit(change).await.unwrap();
    });
}

/// Makes the database look as if all tables of a namespace were dropped after its two migrations.
fn without_tables(home: &Home, namespace: &'static str) {
    with_db(home, async move |db: &Db| db.migrate(namespace, &["", ""]).await.unwrap());
}

fn with_db(home: &Home, change: impl AsyncFnOnce(&Db)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let db = Db::open(home.path(".local/state/mgp/state.db")).await.unwrap();
        change(&db).await;
        db.close().await;
    });
}
