//! Looking for what happened.

use mgp_client_sdk::security::Governance;
use mgp_client_sdk::types::Timestamp;
use mgp_client_sdk::types::mgp::{Actor, AuditEvent, AuditResult, EventType};

use crate::world::Home;

/// More than one look at the log goes through.
const MANY: usize = 17_000;

/// A log with many records of one kind, and a grant before and after them.
fn long() -> Home {
    let home = Home::new();
    let grant = |agent: &str| home.quietly(&["access", "grant", agent, "bench"]);
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
fn nothing_is_left_out_of_a_long_log() {
    let home = long();
    let agents = |text: &str| ["first", "last"].map(|agent| text.contains(&format!("\"{agent}\"")));
    let found = home.json("audit-query", &["audit", "query", "--type", "ACCESS_GRANTED"]);
    assert_eq!(agents(&found.to_string()), [true, true], "{found}");
    let found = home.well(&["audit", "export", "--type", "ACCESS_GRANTED"]);
    assert_eq!((agents(&found), found.lines().count()), ([true, true], 2), "{found}");
    assert!(home.well(&["audit", "export"]).lines().count() >= MANY + 2);
}
