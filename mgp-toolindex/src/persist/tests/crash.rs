//! A process that is killed while it writes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use mgp_types::store::Db;

use super::{Folder, brief, put, read};
use crate::persist::Keeper;

const FILE: &str = "MGP_TOOLINDEX_CRASH_FILE";

/// How many processes are killed.
const KILLS: u32 = 12;

const SERVERS: u32 = 7;

/// The server that a version is of, and how many tools it has then.
fn shape(version: u32) -> (String, u32) {
    (format!("server{}", version % SERVERS), 1 + version % 40)
}

/// Not a test of its own: it runs until it is killed, in the process that the other one starts.
#[tokio::test]
async fn a_process_that_can_be_killed() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let (keeper, opened) = Keeper::open(Db::open(file).await.unwrap()).await.unwrap();
    let last = brief(&opened.servers).iter().flat_map(|(_, versions)| versions.clone()).max();
    let mut out = std::io::stdout();
    for version in last.map_or(0, |last| last + 1).. {
        let (server, tools) = shape(version);
        keeper.give(put(&server, tools, version));
        if version % 50 == 49 {
            keeper.flush().await.unwrap();
            writeln!(out, "kept {version}").unwrap();
        }
    }
}

#[tokio::test]
async fn after_a_kill_the_file_holds_whole_puts_and_none_before_another() {
    let folder = Folder::new();
    for round in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "persist::tests::crash::a_process_that_can_be_killed", "--nocapture"])
            .env(FILE, folder.file())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let mut seen = 0;
        // A few more lines each time, so that it dies at another moment.
        while seen <= round % 4 {
            line.clear();
            assert!(told.read_line(&mut line).unwrap() > 0, "the process ended by itself");
            seen += u32::from(line.starts_with("kept"));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        told.read_to_string(&mut line).unwrap();
        let kept: u32 = line
            .lines()
            .filter_map(|line| line.strip_prefix("kept ")?.parse().ok())
            .next_back()
            .unwrap();

        let all = brief(&read(&Db::open(folder.file()).await.unwrap()).await);
        let newest = *all.iter().flat_map(|(_, versions)| versions).max().unwrap();
        assert!(newest >= kept, "{kept} was kept, and is lost");
        for (server, versions) in all {
            let of_server = |version: &u32| shape(*version).0 == server;
            let last = (0..=newest).rev().find(of_server).unwrap();
            let tools = shape(last).1 as usize;
            assert_eq!(versions, vec![last; tools], "{server} when {newest} was the newest");
        }
    }
}
