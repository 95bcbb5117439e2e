//! Kills a process while it writes an index, and checks that the file then contains only complete changes, in order.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use mgp_testkit::temp_dir;
use mgp_types::store::Db;

use super::{FILE, put, read, versions_of};
use crate::persist::IndexStore;

const FILE_VARIABLE: &str = "MGP_TOOLINDEX_CRASH_FILE";

/// The number of processes that are started and killed, one after the other.
const KILLS: u32 = 12;

const SERVERS: u32 = 7;

/// Returns the server that the change with this version writes, and the number of its tools.
fn shape(version: u32) -> (String, u32) {
    (format!("server{}", version % SERVERS), 1 + version % 40)
}

/// Writes changes until the process is killed. Does nothing unless the other test, which sets `FILE_VARIABLE`, has
/// started the process.
#[tokio::test]
async fn a_process_that_can_be_killed() {
    let Some(file) = std::env::var_os(FILE_VARIABLE) else { return };
    let (store, opened) = IndexStore::open(Db::open(file).await.unwrap()).await.unwrap();
    let last = versions_of(&opened.servers).iter().flat_map(|(_, versions)| versions.clone()).max();
    let mut out = std::io::stdout();
    for version in last.map_or(0, |last| last + 1).. {
        let (server, tools) = shape(version);
        store.push(put(&server, tools, version));
        if version % 50 == 49 {
            store.flush().await.unwrap();
            writeln!(out, "flushed {version}").unwrap();
        }
    }
}

#[tokio::test]
async fn after_a_kill_the_file_has_whole_changes_in_order() {
    let folder = temp_dir();
    for round in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "persist::tests::crash::a_process_that_can_be_killed", "--nocapture"])
            .env(FILE_VARIABLE, folder.path().join(FILE))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let mut seen = 0;
        // Wait for more lines in later rounds, so that the process is killed at different moments.
        while seen <= round % 4 {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the process ended by itself");
            seen += u32::from(line.starts_with("flushed"));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        output.read_to_string(&mut line).unwrap();
        let flushed: u32 = line
            .lines()
            .filter_map(|line| line.strip_prefix("flushed ")?.parse().ok())
            .next_back()
            .unwrap();

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
