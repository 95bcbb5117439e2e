//! Test that kills the kernel and three servers with SIGKILL during calls with idempotency keys and transactions. No
//! call must run twice with the same key, and every transaction must end or wait for a person.
//!
//! The environment variable `KILLS` sets the number of kills; 6 by default.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{Client, Error, ToolCall, ToolResult as _};
use mgp_types::method::{TransactionBegin, TransactionCommit, TransactionRollback};
use mgp_types::mgp::Extension;
use mgp_types::proposal::{
    BeginTransactionParams, Compensation, EndTransactionParams, IdempotencyKey, StepStatus,
    TransactionId, TransactionRecord, TransactionStatus, WasReplay,
};
use mgp_types::{ErrorCode, RawObject};
use serde_json::json;

use crate::serving::Serving;
use crate::world::{World, kill, lives, within, within_time};

const KILLS: usize = 6;

/// The number of kills after which the test changes to a new state folder. It is high enough that recovery is also
/// tested with long logs.
const A_FOLDER: usize = 10;

const CLIENTS: usize = 4;

const KINDS: [&str; 3] = ["ticket", "page", "post"];

/// The state of a call with an idempotency key, as its client knows it.
#[derive(Clone, Debug)]
enum Key {
    /// The client sent the call, and has no answer yet.
    Sent,
    /// The client got this text as the answer of the call.
    Answered(String),
    /// The kernel answered that it does not know whether the call ran.
    Unknown,
}

/// The state of a transaction, as its client knows it.
#[derive(Clone, Debug, Default)]
struct Saga {
    is_begun: bool,
    asked_to_commit: bool,
    /// The state of the transaction in the answer to its commit or rollback; `None` if there was no answer.
    ended: Option<TransactionStatus>,
}

/// The states of all calls and transactions, as their clients know them.
#[derive(Default)]
struct Known {
    keys: Mutex<BTreeMap<String, Key>>,
    sagas: Mutex<BTreeMap<String, Saga>>,
}

impl Known {
    fn key(&self, key: &str, state: Key) {
        self.keys.lock().unwrap().insert(key.to_owned(), state);
    }

    fn saga(&self, id: &str, change: impl FnOnce(&mut Saga)) {
        change(self.sagas.lock().unwrap().entry(id.to_owned()).or_default());
    }
}

/// The totals over all state folders.
#[derive(Debug, Default)]
struct Figures {
    keys: usize,
    answered: usize,
    unknown: usize,
    committed: usize,
    rolled_back: usize,
    stuck: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_key_runs_twice_and_no_transaction_is_forgotten() {
    let kills = std::env::var("KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let mut figures = Figures::default();
    for folder in 0..kills.div_ceil(A_FOLDER) {
        one_folder(folder * A_FOLDER..kills.min((folder + 1) * A_FOLDER), &mut figures).await;
    }
    let Figures { keys, answered, unknown, committed, rolled_back, stuck } = figures;
    println!(
        "{kills} kills: {keys} calls with keys ({answered} answered, the end of {unknown} unknown), none ran twice; \
         {committed} transactions committed, {rolled_back} rolled back, {stuck} named as stuck, none forgotten"
    );
    assert!(answered > kills && committed > 0 && rolled_back > 0);
}

async fn one_folder(rounds: Range<usize>, figures: &mut Figures) {
    let world = World::empty();
    let journal = world.folder.join("journal");
    let desk = mgp_testkit::program("desk");
    let servers = KINDS.map(|kind| {
        let script = format!("exec {} things {kind} {}", desk.display(), journal.display());
        let server = world.server(kind, &script);
        let server = server.trim_end();
        format!("{server}\nrisk = {{ make_{kind} = 'moderate', remove_{kind} = 'moderate' }}\n")
    });
    world.config(&servers.join("\n"));
    let known = Arc::new(Known::default());
    let mut life = Serving::start(&world, &["--no-auth"]);
    for round in rounds {
        let ends = Arc::new(AtomicBool::new(false));
        let clients = (0..CLIENTS).map(|client| {
            let caller = Caller {
                client: None,
                name: format!("{round}-{client}"),
                known: Arc::clone(&known),
                ends: Arc::clone(&ends),
            };
            tokio::spawn(caller.load(life.url()))
        });
        let clients: Vec<_> = clients.collect();
        let own = format!("t-{round}-");
        mgp_testkit::until("a transaction of this round ends", async || {
            let sagas = known.sagas.lock().unwrap();
            sagas.iter().any(|(id, saga)| id.starts_with(&own) && saga.ended.is_some())
        })
        .await;
        // The pause differs from round to round, so that the kills come at different moments.
        tokio::time::sleep(Duration::from_millis(150 + (round as u64 * 37) % 90)).await;
        let kills_kernel = round % 2 == 1;
        if kills_kernel {
            kill("-KILL", life.kernel.id());
        } else {
            kill("-KILL", server(&world, KINDS[round / 2 % KINDS.len()]));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        ends.store(true, Ordering::Release);
        for client in clients {
            client.await.unwrap();
        }
        if kills_kernel {
            drop(life);
            world.nothing_is_left();
            life = Serving::start(&world, &["--no-auth"]);
        }
        repeat(&life.url(), &known, &format!("k-{round}-")).await;
    }
    repeat(&life.url(), &known, "k-").await;
    check(&world, &known, figures);
}

/// Returns the process id of the server of this kind.
fn server(world: &World, kind: &str) -> u32 {
    let is_server = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).skip(1);
        words.next() == Some(b"things".as_slice()) && words.next() == Some(kind.as_bytes())
    };
    within(|| world.marked().into_iter().find(|pid| is_server(pid) && lives(*pid)))
}

async fn connect(url: &str) -> Result<Client, Error> {
    let builder = Client::builder("http", "1").extension(Extension::Idempotency);
    builder.extension(Extension::Transactions).connect_url(url).await
}

fn keyed(client: &Client, key: &str) -> ToolCall {
    let kind = KINDS[key.len() % KINDS.len()];
    let call = client.call(format!("make_{kind}")).arg("name", key);
    call.with(&IdempotencyKey(key.to_owned()))
}

/// A client that calls until the round ends.
struct Caller {
    client: Option<Client>,
    name: String,
    known: Arc<Known>,
    ends: Arc<AtomicBool>,
}

impl Caller {
    async fn load(mut self, url: String) {
        // The connection fails if the kernel has already been killed.
        let Ok(client) = connect(&url).await else { return };
        self.client = Some(client);
        for call in 0.. {
            let outcome = if call % 2 == 0 {
                self.call_with_key(call).await
            } else {
                self.transaction(call).await
            };
            if self.ends.load(Ordering::Acquire) {
                return;
            }
            if outcome.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    fn client(&self) -> &Client {
        self.client.as_ref().unwrap()
    }

    async fn call_with_key(&self, call: usize) -> Result<(), Error> {
        let key = format!("k-{}-{call}", self.name);
        self.known.key(&key, Key::Sent);
        let text = keyed(self.client(), &key).await?.to_text();
        self.known.key(&key, Key::Answered(text));
        Ok(())
    }

    /// Creates a thing on each server within a transaction; then commits the transaction, rolls it back or leaves it
    /// open.
    async fn transaction(&self, call: usize) -> Result<(), Error> {
        let (client, id) = (self.client(), format!("t-{}-{call}", self.name));
        let mut begin = BeginTransactionParams::new();
        (begin.transaction_id, begin.timeout_seconds) = (Some(id.clone()), Some(2));
        self.known.saga(&id, |_| {});
        client.request::<TransactionBegin>(&begin).await?;
        self.known.saga(&id, |saga| saga.is_begun = true);
        let mut is_made = true;
        for kind in KINDS {
            let name = format!("{id}-{kind}");
            let mut undo = Compensation::new(format!("remove_{kind}"));
            undo.arguments = Some(RawObject::of(&json!({ "name": name })).unwrap());
            let step = client.call(format!("make_{kind}")).arg("name", &name);
            let mut step = step.with(&TransactionId(id.clone())).with(&undo);
            if call % 4 == 1 {
                step = step.with(&IdempotencyKey(name));
            }
            is_made = step.await.is_ok();
            if !is_made {
                break;
            }
        }
        let end = EndTransactionParams::new(id.as_str());
        let ended = match call % 6 {
            1 if is_made => {
                self.known.saga(&id, |saga| saga.asked_to_commit = true);
                client.request::<TransactionCommit>(&end).await?.status
            }
            // The client leaves this transaction open on purpose; the kernel rolls it back later.
            3 if is_made => return Ok(()),
            _ => client.request::<TransactionRollback>(&end).await?.status,
        };
        self.known.saga(&id, |saga| saga.ended = Some(ended));
        Ok(())
    }
}

/// Repeats the calls whose keys begin with `keys`, until the kernel has answered each call or reported that its outcome
/// is unknown.
async fn repeat(url: &str, known: &Known, keys: &str) {
    let client = connect(url).await.unwrap();
    let mut keys: Vec<_> = {
        let all = known.keys.lock().unwrap();
        all.iter().filter(|(key, _)| key.starts_with(keys)).map(|(key, _)| key.clone()).collect()
    };
    let until = tokio::time::Instant::now() + Duration::from_secs(30);
    while let Some(key) = keys.pop() {
        let before = known.keys.lock().unwrap()[&key].clone();
        match (keyed(&client, &key).await, before) {
            (Ok(result), Key::Answered(text)) => {
                assert_eq!(result.to_text(), text, "{key} ran again");
                assert!(result.member::<WasReplay>().unwrap().unwrap().0, "{key}");
            }
            (Ok(result), Key::Sent) => known.key(&key, Key::Answered(result.to_text())),
            (Ok(_), Key::Unknown) => panic!("{key} ran though its end was unknown"),
            (Err(error), Key::Sent | Key::Unknown)
                if error.code() == ErrorCode::UPSTREAM_ERROR
                    && error.message().contains("was interrupted") =>
            {
                known.key(&key, Key::Unknown);
            }
            // The call failed, because the server is restarting.
            (Err(error), _) => {
                assert!(tokio::time::Instant::now() < until, "{key}: {error}");
                tokio::time::sleep(Duration::from_millis(20)).await;
                keys.push(key);
            }
        }
    }
    client.close().await;
}

/// Waits until no transaction is open. Then compares the calls and transactions, as the clients know them, with what
/// the servers did.
fn check(world: &World, known: &Known, figures: &mut Figures) {
    let mut operator = world.operator();
    let sagas = within_time(Duration::from_mins(1), || {
        let listed = operator.ask("mgp/kernel/transactions", &json!({ "all": true })).unwrap();
        let sagas = listed["transactions"].clone();
        let sagas: Vec<TransactionRecord> = serde_json::from_value(sagas).unwrap_or_default();
        let is_open = |saga: &TransactionRecord| {
            matches!(saga.status, TransactionStatus::Begun | TransactionStatus::RollingBack)
        };
        (!sagas.iter().any(is_open)).then_some(sagas)
    });
    let journal = fs::read_to_string(world.folder.join("journal")).unwrap();
    let journal = Journal::read(&journal);
    for (key, state) in known.keys.lock().unwrap().iter() {
        let runs = journal.runs("make", key);
        let (text, is_right) = match state {
            Key::Answered(text) => (text.as_str(), runs == 1),
            Key::Unknown => ("unknown", runs <= 1),
            Key::Sent => ("sent", false),
        };
        assert!(is_right, "{key} ran {runs} times: {text}");
        figures.keys += 1;
        figures.answered += usize::from(matches!(state, Key::Answered(_)));
        figures.unknown += usize::from(matches!(state, Key::Unknown));
    }
    let mut sagas: HashMap<_, _> =
        sagas.into_iter().map(|saga| (saga.transaction_id.clone(), saga)).collect();
    for (id, expected) in known.sagas.lock().unwrap().iter() {
        match sagas.remove(id) {
            Some(saga) => check_saga(&saga, expected, &journal, figures),
            None => assert!(!expected.is_begun, "{id} is forgotten"),
        }
    }
    assert!(sagas.is_empty(), "unknown transactions: {sagas:?}");
}

/// Compares a transaction with the answers that its client got, and with what the servers did.
fn check_saga(
    saga: &TransactionRecord,
    expected: &Saga,
    journal: &Journal<'_>,
    figures: &mut Figures,
) {
    let at = format!("{saga:?} {expected:?}");
    if let Some(ended) = &expected.ended {
        assert_eq!(*ended, saga.status, "{at}");
    }
    let is_failed = |status: &StepStatus| *status == StepStatus::CompensationFailed;
    match saga.status {
        TransactionStatus::Committed => {
            assert!(expected.asked_to_commit, "{at}");
            assert_eq!(saga.steps.len(), KINDS.len(), "{at}");
            figures.committed += 1;
        }
        TransactionStatus::RolledBack => figures.rolled_back += 1,
        TransactionStatus::PartiallyRolledBack => {
            let mut failed = saga.steps.iter().filter(|step| is_failed(&step.status));
            assert!(failed.next().is_some_and(|step| step.error.is_some()), "{at}");
            figures.stuck += 1;
        }
        _ => panic!("{at}"),
    }
    for kind in KINDS {
        let name = format!("{}-{kind}", saga.transaction_id);
        let (made, removed) = (journal.runs("make", &name), journal.runs("remove", &name));
        let step = saga.steps.iter().find(|step| step.server_id == kind);
        let is_right = match step.map(|step| &step.status) {
            None | Some(StepStatus::Failed) => (made, removed) == (0, 0),
            Some(StepStatus::Done) => {
                (made, removed) == (1, 0) && saga.status == TransactionStatus::Committed
            }
            Some(StepStatus::Compensated) => (made, removed) == (1, 1),
            // The kernel reports this step to a person, who must find out whether the step ran and whether its undoing
            // ran.
            Some(StepStatus::CompensationFailed) => made <= 1 && removed <= made,
            Some(_) => false,
        };
        assert!(is_right, "{name} made {made}, removed {removed}: {at}");
    }
}

/// The number of times that each line occurs in the servers' journal.
struct Journal<'a>(HashMap<&'a str, usize>);

impl<'a> Journal<'a> {
    fn read(text: &'a str) -> Self {
        let mut lines = HashMap::new();
        for line in text.lines() {
            *lines.entry(line).or_default() += 1;
        }
        Self(lines)
    }

    fn runs(&self, verb: &str, name: &str) -> usize {
        KINDS.iter().filter_map(|kind| self.0.get(&*format!("{verb} {kind} {name}"))).sum()
    }
}
