//! Tests of new versions of the program: they replace the running kernel without losing a session or a call.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use mgp_types::store::Db;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::program::program;
use crate::registering::{Hands, Registered};
use crate::world::{World, kill, text, within};

/// The number of clients that call while the program is replaced.
const CLIENTS: usize = 4;

/// The time within which the kernel must answer a call, even if program and kernel are replaced meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// The text that precedes the version in the program's file.
const MARK: &str = "mgp program version ";

/// A program file that the test can replace with another version of the program.
struct Releases {
    path: PathBuf,
    content: Vec<u8>,
    /// The position of the version in the program file.
    at: usize,
}

impl Releases {
    fn new(world: &World) -> Self {
        let stripped = world.folder.join("stripped");
        let built = env!("CARGO_BIN_EXE_mgp");
        let strip = Command::new("strip").arg("-o").arg(&stripped).arg(built).status();
        // Strip the program of its symbols, so that it is copied faster.
        let is_stripped = strip.is_ok_and(|status| status.success());
        let file = if is_stripped { stripped } else { built.into() };
        let marked = [MARK, env!("CARGO_PKG_VERSION")].concat();
        // Use `grep`, because an unoptimized test would search a file of this size for seconds.
        let found = Command::new("grep").args(["-aboF", &marked]).arg(&file).output().unwrap();
        let found = text(&found.stdout);
        let places: Vec<usize> =
            found.lines().map(|line| line.split_once(':').unwrap().0.parse().unwrap()).collect();
        assert_eq!(places.len(), 1, "the program has its version once: {found}");
        let (content, at) = (fs::read(file).unwrap(), places[0] + MARK.len());
        Self { path: world.folder.join("mgp"), content, at }
    }

    /// Returns a version text for this number. It replaces the real version text in the program file, so both must have
    /// the same length.
    fn version(number: usize) -> String {
        format!("{}.{}.{}", number / 100, number / 10 % 10, number % 10)
    }

    /// Installs a version as package managers do: a new file replaces the one that is in use.
    fn install(&mut self, number: usize) -> String {
        let version = Self::version(number);
        assert_eq!(version.len(), env!("CARGO_PKG_VERSION").len());
        self.content[self.at..self.at + version.len()].copy_from_slice(version.as_bytes());
        let fresh = self.path.with_extension("new");
        fs::write(&fresh, &self.content).unwrap();
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&fresh, &self.path).unwrap();
        version
    }
}

/// Returns the version of the kernel that answers; `None` if no kernel answers.
fn serving(world: &World) -> Option<String> {
    let mut stream = UnixStream::connect(world.socket()).ok()?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
    stream.write_all(b"{\"mgp\":1,\"as\":\"agent\",\"agent\":\"looks\"}\n").ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    let reply: Value = serde_json::from_str(&line).ok()?;
    reply["version"].as_str().map(str::to_owned)
}

/// Makes calls until `ends` is set; every call must get its own result.
fn call(world: &World, client: usize, ends: &AtomicBool, answered: &AtomicUsize) -> Duration {
    let agent = format!("client-{client}");
    let mut host = world.host(&["--agent", &agent, "--linger", "30"]);
    let mut longest = Duration::ZERO;
    for number in 0.. {
        if ends.load(Ordering::Acquire) {
            assert_eq!(host.leave().code(), Some(0));
            return longest;
        }
        let word = format!("{client}-{number}");
        let begun = Instant::now();
        // Every fifth call lasts longer than an idle kernel needs to end, so it may run while the kernel is replaced.
        if number % 5 == 4 {
            let slept = host.call("sleep", &json!({ "ms": 60 }));
            assert!(slept.is_ok(), "{word}: {slept:?}");
        } else {
            let said = host.call("echo", &json!({ "message": word }));
            assert_eq!(said.as_deref(), Ok(&*word), "after {:?}", begun.elapsed());
        }
        longest = longest.max(begun.elapsed());
        answered.fetch_add(1, Ordering::Relaxed);
    }
    longest
}

#[test]
fn upgrades_under_load_lose_no_call_no_approval_and_no_grant() {
    let upgrades: usize =
        std::env::var("UPGRADES").ok().and_then(|number| number.parse().ok()).unwrap_or(4);
    let mut world = World::empty();
    let bench = world.server("bench", &format!("exec {}", program("workbench")));
    world.config(&format!(
        "{}\nrisk = {{ echo = 'safe', sleep = 'safe' }}\n[kernel.registration]\nprograms = ['/bin/cat']\nenv = ['MGP_TEST_*']\n",
        bench.trim_end()
    ));
    let mut releases = Releases::new(&world);
    world.program.clone_from(&releases.path);
    releases.install(10);
    // This host reads the tools before the first upgrade.
    let mut first = world.host(&["--linger", "30"]);
    first.echoes("ready");
    within(|| first.call("sleep", &json!({ "ms": 1 })).ok());
    let (ends, answered, registered) =
        (AtomicBool::new(false), AtomicUsize::new(0), Registered::default());
    let (mut longest, mut times) = (Duration::ZERO, Vec::new());
    thread::scope(|scope| {
        let world = &world;
        let (ends, answered) = (&ends, &answered);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| scope.spawn(move || call(world, client, ends, answered)))
            .collect();
        let upgraded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..upgrades {
                let done = registered.load(
                    world,
                    Hands::new(world),
                    round,
                    &AtomicBool::new(false),
                    |_| {},
                );
                assert_eq!(done, Some(()));
                times.push(upgrade(world, &mut releases, 11 + round));
                registered.check(world);
            }
        }));
        ends.store(true, Ordering::Release);
        for client in clients {
            longest = longest.max(client.join().unwrap());
        }
        upgraded.unwrap();
    });
    first.echoes("the session of the first host goes on");
    let query = json!({ "agent_id": "maker", "server_id": "mgp" });
    let grants = world.operator().ask("mgp/access/query", &query).unwrap();
    assert!(grants.to_string().contains("mgp.discovery.register"), "{grants}");
    times.sort();
    let (registrations, approvals) = registered.count();
    let answered = answered.load(Ordering::Relaxed);
    assert!(answered > upgrades * CLIENTS, "{answered}");
    println!(
        "{upgrades} upgrades: {answered} calls of {CLIENTS} clients, none lost or refused, the longest {longest:?}; \
         {registrations} registrations and {approvals} approvals, none lost; the next kernel serves after p50 {:?}, \
         at most {:?}",
        times[times.len() / 2],
        times[times.len() - 1],
    );
    assert!(longest < ANSWER_TIMEOUT);
}

/// Installs a version and starts a host with it; returns the time until the kernel of that version answered a call.
fn upgrade(world: &World, releases: &mut Releases, number: usize) -> Duration {
    let before = serving(world);
    let version = releases.install(number);
    let begun = Instant::now();
    let mut host = world.host(&["--agent", "newcomer", "--linger", "30"]);
    host.echoes("new");
    let took = begun.elapsed();
    let now = serving(world);
    assert_eq!(now.as_deref(), Some(&*version), "{before:?}");
    assert_eq!(host.leave().code(), Some(0));
    took
}

#[test]
fn an_older_program_uses_the_newer_kernel_and_does_not_replace_it() {
    let mut world = World::new("");
    let mut releases = Releases::new(&world);
    world.program.clone_from(&releases.path);
    let newer = releases.install(20);
    let mut first = world.host(&["--linger", "30"]);
    first.echoes("newer");
    releases.install(15);
    let mut second = world.host(&["--linger", "30"]);
    second.echoes("older");
    assert_eq!(serving(&world), Some(newer));
}

#[test]
fn a_kernel_that_runs_as_a_service_does_not_give_way_to_a_newer_program() {
    let mut world = World::new("");
    let mut releases = Releases::new(&world);
    world.program.clone_from(&releases.path);
    let older = releases.install(20);
    let mut service = world.service().spawn().unwrap();
    within(|| serving(&world));
    releases.install(30);
    let mut host = world.host(&[]);
    host.echoes("served");
    assert_eq!((serving(&world), world.kernel()), (Some(older), Some(service.id())));
    assert_eq!(host.leave().code(), Some(0));
    kill("-TERM", service.id());
    assert_eq!(service.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_state_of_a_newer_version_is_refused_in_words_and_stays_as_it_is() {
    let world = World::new("");
    let mut host = world.host(&["--linger", "0"]);
    host.echoes("before");
    assert_eq!(host.leave().code(), Some(0));
    within(|| world.kernel().is_none().then_some(()));
    let file = world.state().join("state.db");
    let db = Db::open(&file).await.unwrap();
    // Add a table, as a newer version of the program would do in a second migration step. The first step is not run,
    // because this file already has it; so its text can be empty.
    db.migrate("store", &["", "CREATE TABLE newer (a)"]).await.unwrap();
    db.close().await;
    assert!(world.state().join("state.db.store-1").exists(), "the file before the change is kept");
    let content = || {
        let named = |path: PathBuf| (path.clone(), fs::read(&path).unwrap());
        let files = fs::read_dir(world.state()).unwrap().flatten().map(|entry| entry.path());
        let is_data = |path: &PathBuf| {
            let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
            path.is_file() && !["files", "log", "lock", "db-shm"].contains(&&*ending)
        };
        let mut all: Vec<_> = files.filter(is_data).map(named).collect();
        all.sort();
        all
    };
    // Wait until the write-ahead log is merged. The connection that closes last does this. It may be a connection of
    // the kernel, which may still be ending.
    for _ in 0..100 {
        if !file.with_extension("db-wal").exists() {
            break;
        }
        // Even if `Db::open` refuses the newer state, it has opened the file, so this process may be the last that
        // closes a connection.
        if let Ok(db) = Db::open(&file).await {
            db.close().await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let before = content();
    for args in [&["--stdio"][..], &["--stdio", "--standalone"]] {
        let output = world.output(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("a newer version of this program wrote"), "{said}");
        assert!(said.contains("update this program"), "{said}");
    }
    let after = content();
    let names =
        |all: &[(PathBuf, Vec<u8>)]| all.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after));
    assert!(before == after, "a file was changed");
}

#[test]
fn a_program_that_was_removed_is_named_to_the_host_until_it_is_there_again() {
    let mut world = World::new("");
    let mut releases = Releases::new(&world);
    releases.install(100);
    world.program.clone_from(&releases.path);
    let mut host = world.host(&[]);
    host.echoes("before");
    fs::remove_file(&releases.path).unwrap();
    kill("-KILL", world.kernel().unwrap());
    let remedy = format!("`{}`: No such file or directory", releases.path.display());
    within(|| {
        let error = host.call("echo", &json!({ "message": "removed" })).err()?;
        let message = error["message"].as_str().unwrap_or_default();
        (message.contains(&remedy) && message.contains("install mgp there again")).then_some(())
    });
    releases.install(100);
    host.echoes("after");
}
