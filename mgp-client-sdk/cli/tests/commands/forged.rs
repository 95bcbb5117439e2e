//! Tests of records that an attacker adds to the audit log with the right hash chain.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::kernel::Kernel;
use crate::world::Home;

/// Returns the newest file of the audit log.
fn log_file(home: &Home) -> PathBuf {
    let folder = home.path(".local/state/mgp/audit");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).max().unwrap()
}

/// Appends a record with the right hash chain, which anybody can compute from the file alone.
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

/// Checks that the commands name the first forged record.
#[track_caller]
fn is_found(home: &Home) {
    let (verified, code) = home.any_json("audit-verify", &["audit", "verify"]);
    assert_eq!(code, Some(1), "{verified}");
    let (report, _) = home.any_json("doctor", &["doctor", "--no-start"]);
    let checks = report["checks"].as_array().unwrap();
    let audit = checks.iter().find(|check| check["about"] == "audit").unwrap();
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

    // A grant to the agent `eve`, as an operator would have made it.
    let mut event = granted[0].clone();
    event["target"]["agent_id"] = json!("eve");
    forge(&home, &event);
    is_found(&home);
    forge(&home, &event);
    is_found(&home);

    // The next kernel adopts none of the forged records, and records that it found them.
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

    // A record that is forged while the kernel runs is found too, even after the kernel has added further records.
    forge(home, &event);
    is_found(home);
    home.succeed(&["access", "grant", "bob", "bench"]);
    is_found(home);
}
