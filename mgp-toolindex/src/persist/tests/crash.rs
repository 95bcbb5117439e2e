//! Kills a process while it writes an index, and checks that the file then contains only complete changes, in order.

use mgp_testkit::{ChildTest, child_role, report, temp_dir};
use mgp_types::store::Db;

use super::{FILE, put, read, versions_of};
use crate::persist::IndexStore;

/// The number of processes that are started and killed, one after the other.
const KILLS: u32 = 12;

const SERVERS: u32 = 7;

/// Returns the server that the change with this version writes, and the number of its tools.
fn shape(version: u32) -> (String, u32) {
    (format!("server{}", version % SERVERS), 1 + version % 40)
}

/// Writes changes until the process is killed. Does nothing unless the other test has started the process.
#[tokio::test]
async fn a_process_that_can_be_killed() {
    let Some((_, file)) = child_role() else { return };
    let (store, opened) = IndexStore::open(Db::open(file).await.unwrap()).await.unwrap();
    let last = versions_of(&opened.servers).iter().flat_map(|(_, versions)| versions.clone()).max();
    for version in last.map_or(0, |last| last + 1).. {
        let (server, tools) = shape(version);
        store.push(put(&server, tools, version));
        if version % 50 == 49 {
            store.flush().await.unwrap();
            report("flushed", version.into());
        }
    }
}

#[tokio::test]
async fn after_a_kill_the_file_has_whole_changes_in_order() {
    let folder = temp_dir();
    for round in 0..KILLS {
        let test = "persist::tests::crash::a_process_that_can_be_killed";
        let mut child = ChildTest::start(test, "writer", &folder.path().join(FILE));
        // Wait for more lines in later rounds, so that the process is killed at different moments.
        let mut last = child.wait_for("flushed");
        for _ in 0..round % 4 {
            last = child.wait_for("flushed");
        }
        let [flushed] = child.kill_and_read(["flushed"]);
        let flushed = u32::try_from(flushed.unwrap_or(last)).unwrap();

        let all = versions_of(&read(&Db::open(folder.path().join(FILE)).await.unwrap()).await);
        let newest = *all.iter().flat_map(|(_, versions)| versions).max().unwrap();
        assert!(newest >= flushed, "version {flushed} was flushed but is lost");
        for (server, versions) in all {
            let of_server = |version: &u32| shape(*version).0 == server;
            let last = (0..=newest).rev().find(of_server).unwrap();
            let tools = shape(last).1 as usize;
            assert_eq!(versions, vec![last; tools], "{server} when {newest} was the newest");
        }
    }
}
