//! Tests of connections to children that die: every call must fail, and nothing of the child must be left (MGP §11).
//!
//! The tests look in `/proc` for processes that are still alive, so they run on Linux only.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::process::Command;
use std::time::Duration;

use mgp_testkit::until;
use mgp_transport::{ChildCommand, CloseReason, Connection};
use mgp_types::mcp::EmptyParams;
use mgp_types::method::Ping;
use mgp_types::service::{Call, Router, Stack};
use tokio::time::timeout;

use mgp_testkit::program;

const TIMEOUT: Duration = Duration::from_secs(10);

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Counts the children of this process, including zombies.
fn children() -> usize {
    let us = std::process::id().to_string();
    let mut found = 0;
    for entry in std::fs::read_dir("/proc").unwrap() {
        let stat = std::fs::read_to_string(entry.unwrap().path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        found += usize::from(parent == Some(us.as_str()));
    }
    found
}

/// This file contains only this test, because it counts the children and descriptors of its process.
#[tokio::test]
async fn a_child_killed_mid_call_fails_every_call_and_leaves_nothing() {
    let mut before = None;
    for round in 0..100 {
        // The child never answers. In the mode `hang` it reads, in the mode `never-read` it does not.
        let mode = if round % 2 == 0 { "hang" } else { "never-read" };
        let mut child = ChildCommand::new(program("child_zoo")).arg(mode).spawn().unwrap();
        let (reader, writer) = child.take_io().unwrap();
        let connection = Connection::new(reader, writer, Stack::new(Router::new()));
        let (peer, cx, monitor) = (connection.peer(), connection.context(), connection.monitor());
        let driving = tokio::spawn(connection.run());
        let ping = || Call::ask::<Ping>(&EmptyParams::new(), cx.clone()).unwrap();
        let calls: Vec<_> = (0..8).map(|_| tokio::spawn(peer.send(ping()))).collect();
        while monitor.pending() < 8 || monitor.unread_bytes() > 0 {
            tokio::task::yield_now().await;
        }
        match round % 3 {
            0 => child.kill(),
            1 => {
                let kill =
                    Command::new("kill").args(["-9", &child.pid().to_string()]).status().unwrap();
                assert!(kill.success());
            }
            // In the third case, the child is dropped below, which kills it too. Its pipes are still read to their end.
            _ => {}
        }
        let child = (round % 3 < 2).then_some(child);
        for call in calls {
            let outcome = timeout(TIMEOUT, call).await.unwrap().unwrap();
            assert_eq!(outcome.unwrap_err().code().0, 2000);
        }
        let closed = timeout(TIMEOUT, driving).await.unwrap().unwrap();
        assert!(matches!(closed, CloseReason::Eof | CloseReason::Io(_)), "{closed}");
        assert_eq!((monitor.pending(), monitor.unread_bytes()), (0, 0));
        assert_eq!(peer.send(ping()).await.unwrap_err().code().0, 2000);
        if let Some(child) = child {
            let report = timeout(TIMEOUT, child.wait()).await.unwrap();
            assert_eq!(report.signal, Some(9), "{report}");
        }
        before.get_or_insert_with(descriptors);
    }
    let before = before.unwrap();
    // The last child is dropped without a wait, so it takes a moment until it and its pipes have ended.
    let what = format!("no child and at most {before} descriptors are left");
    until(&what, async || children() == 0 && descriptors() <= before).await;
}
