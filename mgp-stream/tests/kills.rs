//! Tests of a publisher that is killed: no acknowledged event is lost, and none is read twice (MGP §13).
//!
//! The environment variable `KILLS` sets the number of kills; 30 by default.

#![cfg(all(unix, feature = "sqlite"))]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that prints its measurement, and starts itself"
)]

use std::collections::BTreeSet;
use std::io::{BufRead, Write as _};
use std::path::Path;

use mgp_stream::{EventDraft, EventHub};
use mgp_testkit::{ChildTest, child_role};
use mgp_types::store::Db;

/// The number of kills if the environment variable `KILLS` is not set.
const KILLS: u64 = 30;

/// The identity of an event in this test: the number of the publisher process, and the number of the event within that
/// process.
type Name = (u64, u64);

fn say(word: &str, name: Name) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{word} {} {}", name.0, name.1).unwrap();
    out.flush().unwrap();
}

/// In a publisher process, reads the events that earlier processes left, then publishes until the process is killed.
#[tokio::test]
async fn publisher() {
    // The role of a child process is its number as a publisher, which is a part of the names of its events.
    let Some((run, folder)) = child_role() else { return };
    let run: u64 = run.parse().unwrap();
    let hub = EventHub::new();
    hub.keep_in_db(Db::open(folder.join("events.db")).await.unwrap()).await.unwrap();
    let reader = hub.reader("kills", &["*"], None).await.unwrap();
    while reader.waiting() > 0 {
        let events = reader.read(256).await.unwrap();
        for event in &events {
            let event: serde_json::Value = event.event.get().unwrap();
            say("read", serde_json::from_value(event["data"].clone()).unwrap());
        }
        reader.acknowledge(events.last().unwrap().seq).await.unwrap();
    }
    say("ready", (run, 0));
    for number in 0.. {
        let draft = EventDraft::new("n").data(&(run, number)).unwrap();
        hub.publish(draft).unwrap().acknowledged().await.unwrap();
        say("acknowledged", (run, number));
    }
}

/// The lines that a publisher printed before it was killed.
#[derive(Default)]
struct Printed {
    read: Vec<Name>,
    acknowledged: Vec<Name>,
}

fn run(folder: &Path, run: u64, kill_at: u64) -> Printed {
    let mut child = ChildTest::start("publisher", &run.to_string(), folder);
    let mut printed = Printed::default();
    let lines = BufRead::lines(&mut child.lines);
    for line in lines.map_while(Result::ok) {
        let words: Vec<_> = line.split(' ').collect();
        let [word, run, number] = words[..] else { continue };
        let (Ok(run), Ok(number)) = (run.parse(), number.parse()) else { continue };
        match word {
            "read" => printed.read.push((run, number)),
            "acknowledged" => printed.acknowledged.push((run, number)),
            _ => {}
        }
        // After the kill, the loop goes on to read the lines that the child printed before the kill took effect.
        if (word == "ready" && kill_at == 0) || (word == "acknowledged" && number == kill_at) {
            child.child.kill().unwrap();
        }
    }
    printed
}

#[test]
fn no_acknowledged_event_is_lost_or_read_twice() {
    let kills = std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let folder = mgp_testkit::temp_dir();
    let (mut read, mut acknowledged) = (Vec::new(), BTreeSet::new());
    for number in 0..=kills {
        let printed = run(folder.path(), number, number * 7 % 23);
        read.extend(printed.read);
        acknowledged.extend(printed.acknowledged);
    }
    // No later process reads the events of the last publisher, so they do not count.
    acknowledged.retain(|(run, _)| *run < kills);
    let unique: BTreeSet<_> = read.iter().copied().collect();
    assert_eq!(unique.len(), read.len(), "an event was read twice");
    assert!(read.is_sorted(), "events changed their order");
    let lost: Vec<_> = acknowledged.difference(&unique).collect();
    assert!(lost.is_empty(), "lost {lost:?}");
    assert!(acknowledged.len() as u64 >= kills);
    println!("{kills} kills: {} events acknowledged, {} read", acknowledged.len(), read.len());
}
