//! Test that kills the kernel, its server and the server's keeper (the process between both) with SIGKILL during calls.
//! No acknowledged change must be lost, calls must soon work again, and no process must be left.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mgp_client_sdk::{Client, ToolResult as _};
use mgp_security::Governance;
use mgp_types::mgp::AccessQueryParams;
use mgp_types::service::{Principal, ServerId};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::registering::{Hands, OTHER, Registered};
use crate::serving::Serving;
use crate::wire::Wire;
use crate::world::{Host, World, kill, lives, stat, within};

/// The number of clients that call at the same time.
const CLIENTS: usize = 8;

/// The number of rounds after which the test changes to a new state folder. It is high enough that recovery is also
/// tested with long logs.
const A_FOLDER: usize = 20;

/// From this number of rounds on, the test is the acceptance check and enforces its time bounds. An ordinary test run
/// has fewer rounds.
pub(crate) const A_CHECK: usize = 100;

/// Further configuration of the server, which has two tools: `echo` is harmless, and `tool_00000` may write files.
const MORE: &str = "risk = { tool_00000 = \"moderate\" }\npermissions = [\"filesystem.read\", \"filesystem.write\"]\n[kernel.registration]\nprograms = [\"/bin/cat\"]\nenv = [\"MGP_TEST_*\"]\n";

/// The process that the test kills in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kill {
    Child,
    Kernel,
    Keeper,
    /// First the server, then the kernel while it handles the server's exit.
    Both,
}

impl Kill {
    /// Returns the process that the test kills in a round.
    ///
    /// In this order, each kernel restarts its server only once in its life, so every restart has the shortest delay.
    fn of(round: usize) -> Self {
        [Self::Child, Self::Kernel, Self::Keeper, Self::Both][round % 4]
    }

    fn ends_the_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::Both)
    }
}

/// The changes that the kernel has acknowledged. For each of them, the audit log must contain a word; for a call, this
/// is its trace id.
#[derive(Default)]
struct Acknowledged {
    /// Words of grants, of decisions, and of calls with side effects: the kernel records each before it sends its
    /// response.
    kept: Mutex<Vec<String>>,
    /// Words of harmless calls, in the order of each client; the kernel records them after it sends their response.
    quick: Mutex<BTreeMap<String, Vec<String>>>,
    grants: Mutex<Vec<String>>,
    /// The number of the last acknowledged decision, and of the last requested one.
    decided: Mutex<(usize, usize)>,
    registered: Registered,
}

/// The totals of all rounds.
#[derive(Default)]
struct Figures {
    kept: usize,
    quick: usize,
    behind: usize,
    grants: usize,
    registrations: usize,
    approvals: usize,
    records: u64,
    ready: Vec<Duration>,
}

/// Returns the number of rounds, from the environment variable `ROUNDS`.
pub(crate) fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4)
}

#[tokio::test]
async fn acknowledged_changes_survive_kills_and_no_process_is_left_behind() {
    let (rounds, mut figures) = (rounds(), Figures::default());
    let folders = rounds.div_ceil(A_FOLDER);
    for folder in 0..folders {
        let rounds = folder * A_FOLDER..rounds.min((folder + 1) * A_FOLDER);
        one_folder(rounds, &mut figures).await;
    }
    let Figures { kept, quick, behind, grants, registrations, approvals, records, ready } =
        &mut figures;
    ready.sort();
    let p99 = ready[(ready.len() * 99).div_ceil(100) - 1];
    println!(
        "{rounds} rounds: {kept} acknowledged ({grants} grants, {registrations} registrations, \
         {approvals} approvals), none lost; {behind} of {quick} ends of harmless \
         calls were not written yet; {records} records; ready again p50 {:?}, p99 {p99:?}; nothing left",
        ready[ready.len() / 2],
    );
    assert!(*grants > 0 && *kept > *grants && *quick > 0 && *registrations > 0 && *approvals > 0);
    let bound = Duration::from_secs(if rounds < A_CHECK { 20 } else { 2 });
    assert!(p99 <= bound, "{p99:?} of {ready:?}");
}

async fn one_folder(rounds: std::ops::Range<usize>, figures: &mut Figures) {
    let world = World::empty();
    let script = format!("exec {} --tools 1", crate::program::program("echo"));
    world.config(&(world.server("echo", &script).trim_end().to_owned() + "\n" + MORE));
    let acknowledged = Acknowledged::default();
    let mut life = None;
    let mut log = Log::default();
    let last = rounds.end - 1;
    for round in rounds {
        let killed = Kill::of(round);
        let mut lived = life.take().unwrap_or_else(|| {
            let begun = Instant::now();
            let life = Life::begin(&world, round / 2 + round / 4);
            figures.ready.push(begun.elapsed());
            acknowledged.registered.check(&world);
            life
        });
        let before = lived.descriptors(&world);
        if let Some(took) = lived.round(&world, round, killed, &acknowledged) {
            figures.ready.push(took);
        }
        if !killed.ends_the_kernel() && round != last {
            within(|| (Life::pair(&world).len() == 2).then_some(()));
            within(|| (lived.descriptors(&world) <= before).then_some(()));
            life = Some(lived);
            continue;
        }
        kill("-KILL", lived.kernel);
        lived.ends(&world);
        let (records, behind) = nothing_is_lost(&world, &acknowledged, &mut log, round).await;
        if round == last {
            figures.records += records;
            figures.behind += behind;
        }
    }
    figures.kept += acknowledged.kept.lock().unwrap().len();
    figures.quick += acknowledged.quick.lock().unwrap().values().map(Vec::len).sum::<usize>();
    figures.grants += acknowledged.grants.lock().unwrap().len();
    let (registrations, approvals) = acknowledged.registered.count();
    figures.registrations += registrations;
    figures.approvals += approvals;
}

/// A kernel from its start until it is killed, and its clients.
struct Life {
    kernel: u32,
    hosts: Vec<Host>,
    /// The host that measures the time until calls work again.
    probe: Host,
    /// `Some` if the kernel also serves HTTP; half of the clients then call over HTTP.
    serving: Option<Serving>,
}

impl Life {
    /// Starts a kernel, and waits until it answers a call.
    fn begin(world: &World, number: usize) -> Self {
        let serving = number.is_multiple_of(2).then(|| Serving::start(world, &["--no-auth"]));
        let hosts = if serving.is_some() { CLIENTS / 2 } else { CLIENTS };
        let linger = ["--linger", "30"];
        let mut hosts: Vec<Host> = (0..=hosts).map(|_| Host::start(world, &linger)).collect();
        for host in &mut hosts {
            host.hello();
        }
        let mut probe = hosts.remove(0);
        probe.echoes("ready");
        Self { kernel: world.kernel().unwrap(), hosts, probe, serving }
    }

    /// Returns the number of the kernel's open file descriptors without those of registered servers, which start and
    /// end at any time.
    fn descriptors(&self, world: &World) -> usize {
        /// The kernel's descriptors for one server: its process, its three pipes, and the socket of its keeper.
        const PER_SERVER: usize = 5;
        let mut registered = world.marked();
        registered.retain(|pid| is_registered(*pid) && self.is_parent_of(*pid));
        let all = fs::read_dir(format!("/proc/{}/fd", self.kernel));
        let all = all.map_or(usize::MAX, Iterator::count);
        all.saturating_sub(registered.len() * PER_SERVER)
    }

    fn is_parent_of(&self, pid: u32) -> bool {
        stat(pid).is_some_and(|(_, parent)| parent == self.kernel)
    }

    /// Kills a process during calls and decisions.
    ///
    /// Returns the time until a call is answered again; `None` if the kernel itself is killed.
    fn round(
        &mut self,
        world: &World,
        round: usize,
        killed: Kill,
        acknowledged: &Acknowledged,
    ) -> Option<Duration> {
        let (keeper, server) = self.child(world);
        let (ends, kernel_dies) = (&AtomicBool::new(false), &AtomicBool::new(false));
        let hosts = self.hosts.len();
        let (url, kernel, probe) =
            (self.serving.as_ref().map(Serving::url), self.kernel, &mut self.probe);
        thread::scope(|scope| {
            for (number, host) in self.hosts.iter_mut().enumerate() {
                let name = format!("w-{round}-{number}");
                scope.spawn(move || Caller { name, acknowledged, ends, kernel_dies }.load(host));
            }
            for number in hosts..CLIENTS {
                let (name, url) = (format!("w-{round}-{number}"), url.clone().unwrap());
                scope.spawn(move || {
                    Caller { name, acknowledged, ends, kernel_dies }.load_over_http(&url);
                });
            }
            let (granting, deciding) = (world.operator(), world.operator());
            let hands = Hands::new(world);
            scope.spawn(move || grant(granting, round, acknowledged, ends));
            scope.spawn(move || decide(deciding, acknowledged, ends));
            scope.spawn(move || {
                let kept = |word| acknowledged.kept.lock().unwrap().push(word);
                acknowledged.registered.load(world, hands, round, ends, kept)
            });
            // The pause differs from round to round, so that the kills come at different moments.
            thread::sleep(Duration::from_millis(60 + (round as u64 * 37) % 90));
            let begun = Instant::now();
            let ready = match killed {
                Kill::Child | Kill::Keeper => {
                    kill("-KILL", if killed == Kill::Child { server } else { keeper });
                    within(|| (!lives(server) && !lives(keeper)).then_some(()));
                    probe.echoes("again");
                    Some(begun.elapsed())
                }
                Kill::Kernel => None,
                Kill::Both => {
                    kill("-KILL", server);
                    thread::sleep(Duration::from_millis(round as u64 % 20));
                    None
                }
            };
            if killed.ends_the_kernel() {
                kernel_dies.store(true, Ordering::Release);
                kill("-KILL", kernel);
            }
            ends.store(true, Ordering::Release);
            ready
        })
    }

    /// Returns two process ids: that of the keeper (the process between kernel and server), and that of the server.
    fn child(&self, world: &World) -> (u32, u32) {
        let both = within(|| Some(Self::pair(world)).filter(|both| both.len() == 2));
        let keeper = *both.iter().find(|pid| self.is_parent_of(**pid)).unwrap();
        (keeper, *both.iter().find(|pid| **pid != keeper).unwrap())
    }

    /// Returns the processes of configured servers, without the processes of registered servers.
    fn pair(world: &World) -> Vec<u32> {
        let mut all = world.marked();
        all.retain(|pid| !is_registered(*pid));
        all
    }

    /// Checks that no process of the killed kernel is left, and only its state files.
    fn ends(mut self, world: &World) {
        world.nothing_is_left_of(self.kernel);
        for host in self.hosts.iter_mut().chain([&mut self.probe]) {
            host.end();
        }
        drop(self.serving.take());
        within(|| (!lives(self.kernel)).then_some(()));
        if let Some(next) = world.kernel() {
            kill("-KILL", next);
            within(|| (!lives(next)).then_some(()));
        }
        world.nothing_is_left();
        // Only state and lock files may be left, and a socket that the next kernel replaces.
        for entry in fs::read_dir(world.state()).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let known = ["audit", "digest.key", "kernel.", "mgp.sock", "start.lock", "state.db"];
            assert!(known.iter().any(|known| name.starts_with(known)), "{name} is left");
        }
    }
}

/// Returns whether a process belongs to a registered server.
fn is_registered(pid: u32) -> bool {
    let set = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    set.split(|byte| *byte == 0).any(|set| set == OTHER.as_bytes())
}

/// A client that calls tools until the round ends.
struct Caller<'a> {
    name: String,
    acknowledged: &'a Acknowledged,
    ends: &'a AtomicBool,
    /// Set before the test kills the kernel. After that, answers can come from the next kernel, to which a host
    /// connects again.
    kernel_dies: &'a AtomicBool,
}

impl Caller<'_> {
    fn load(&self, host: &mut Host) {
        for call in 0_u64.. {
            let word = format!("{}-{call}", self.name);
            let (tool, arguments) = asked(call, &word);
            match host.call_as(&word, tool, &arguments) {
                Ok(answer) => self.answered(call, word, &answer),
                Err(Value::Null) => return,
                // The call failed, because the server is restarting.
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
            if self.ends.load(Ordering::Acquire) {
                return;
            }
        }
    }

    fn load_over_http(&self, url: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::builder("http", "1").connect_url(url).await;
            // The connection fails if the kernel has already been killed.
            let Ok(client) = client else { return };
            for call in 0_u64.. {
                let word = format!("{}-{call}", self.name);
                let (tool, arguments) = asked(call, &word);
                let asked = client.call(tool).args(&arguments).trace(word.clone());
                match asked.send().await {
                    Ok(result) if result.is_error != Some(true) => {
                        self.answered(call, word, &result.to_text());
                    }
                    _ => tokio::time::sleep(Duration::from_millis(5)).await,
                }
                if self.ends.load(Ordering::Acquire) {
                    return;
                }
            }
        });
    }

    fn answered(&self, call: u64, word: String, answer: &str) {
        if is_quick(call) {
            assert_eq!(answer, word, "the answer to another call");
            // If the killed kernel lost the record of an earlier call, the next kernel may still record this later
            // call.
            if self.kernel_dies.load(Ordering::Acquire) {
                return;
            }
            let mut quick = self.acknowledged.quick.lock().unwrap();
            quick.entry(self.name.clone()).or_default().push(word);
        } else {
            assert_eq!(answer, "ok");
            self.acknowledged.kept.lock().unwrap().push(word);
        }
    }
}

fn is_quick(call: u64) -> bool {
    call.is_multiple_of(2)
}

fn asked(call: u64, word: &str) -> (&'static str, Value) {
    if is_quick(call) {
        return ("echo", json!({"message": word}));
    }
    ("tool_00000", json!({"path": word, "mode": "read"}))
}

/// Grants access to new agents until the round ends.
fn grant(mut operator: Wire, round: usize, acknowledged: &Acknowledged, ends: &AtomicBool) {
    for number in 0.. {
        let agent = format!("w-agent-{round}-{number}");
        let params = json!({"entry_type": "server_grant", "agent_id": agent, "server_id": "echo", "permission": "allow"});
        match operator.ask("mgp/access/grant", &params) {
            Ok(_) => {
                acknowledged.kept.lock().unwrap().push(agent.clone());
                acknowledged.grants.lock().unwrap().push(agent);
            }
            Err(Value::Null) => return,
            Err(error) => panic!("{error}"),
        }
        if ends.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Approves and denies a permission in turns until the round ends.
fn decide(mut operator: Wire, acknowledged: &Acknowledged, ends: &AtomicBool) {
    let first = acknowledged.decided.lock().unwrap().1 + 1;
    for number in first.. {
        acknowledged.decided.lock().unwrap().1 = number;
        let word = if number.is_multiple_of(2) { "approve" } else { "deny" };
        let params = json!({"server_id": "echo", "permissions": ["network.outbound"], "because": because(number)});
        match operator.ask(&format!("mgp/kernel/permissions/{word}"), &params) {
            Ok(_) => {
                acknowledged.kept.lock().unwrap().push(because(number));
                acknowledged.decided.lock().unwrap().0 = number;
            }
            Err(Value::Null) => return,
            Err(error) => panic!("{error}"),
        }
        if ends.load(Ordering::Acquire) {
            return;
        }
    }
}

fn because(number: usize) -> String {
    format!("w-because-{number}")
}

/// The words that the test has found in the audit log.
#[derive(Default)]
struct Log {
    bytes: usize,
    words: HashSet<String>,
}

impl Log {
    /// Reads the records that were added since the last read.
    fn read(&mut self, world: &World) {
        let mut files: Vec<_> =
            fs::read_dir(world.state().join("audit")).unwrap().flatten().collect();
        files.retain(|file| file.path().extension().is_some_and(|end| end == "jsonl"));
        files.sort_by_key(fs::DirEntry::path);
        let text: String =
            files.iter().map(|file| fs::read_to_string(file.path()).unwrap()).collect();
        let words = text[self.bytes..].split('"').filter(|word| word.starts_with("w-"));
        self.words.extend(words.map(str::to_owned));
        self.bytes = text.len();
    }
}

/// Checks that the state and the log contain every acknowledged change.
///
/// Returns the number of records, and the number of harmless calls without a record. Such calls must be the last calls
/// of their client.
async fn nothing_is_lost(
    world: &World,
    acknowledged: &Acknowledged,
    log: &mut Log,
    round: usize,
) -> (u64, usize) {
    let governance = Governance::in_folder(world.state()).await.unwrap();
    let operator = Principal::local().operator();
    let grants = acknowledged.grants.lock().unwrap().clone();
    for agent in &grants {
        let params = AccessQueryParams::new(agent.as_str(), "echo");
        let found = governance.access().query(&operator, params).await.unwrap();
        assert!(!found.entries.is_empty(), "round {round}: the grant of {agent} is lost");
    }
    let echo = ServerId::from("echo");
    let decisions = governance.permissions().list(&operator, Some(&echo)).await.unwrap();
    let (decided, tried) = *acknowledged.decided.lock().unwrap();
    let last = decisions.first().and_then(|decision| decision.justification.clone());
    // The kernel may have carried out a request without being able to answer it.
    let mut may = (decided..=tried).map(because);
    assert!(
        decided == 0 || may.any(|one| last.as_ref() == Some(&one)),
        "round {round}: the decision is {last:?}, not {decided} to {tried}"
    );
    let kept = governance.log().unwrap().clone();
    drop(governance);
    kept.close().await.unwrap();
    let records = Governance::verify(world.state()).await.unwrap();
    log.read(world);
    let promised = acknowledged.kept.lock().unwrap();
    let lost: Vec<_> = promised.iter().filter(|word| !log.words.contains(*word)).collect();
    assert!(lost.is_empty(), "round {round}: not on the record: {lost:?}");
    let mut behind = 0;
    for (caller, calls) in acknowledged.quick.lock().unwrap().iter() {
        let is_missing = |word: &&String| !log.words.contains(*word);
        let missing = calls.iter().filter(is_missing).count();
        let last = calls.iter().rev().take_while(is_missing).count();
        assert_eq!(missing, last, "round {round}: a gap in what {caller} called");
        behind += missing;
    }
    (records, behind)
}
