//! Kills of the kernel and of its servers during calls with idempotency keys and transactions over three servers: no
//! key runs twice, and no transaction is forgotten.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mgp_client_sdk::{Client, Error};
use mgp_types::RawObject;
use mgp_types::method::{TransactionBegin, TransactionCommit, TransactionRollback};
use mgp_types::mgp::Extension;
use mgp_types::proposal::{
    BeginTransactionParams, Compensation, EndTransactionParams, IdempotencyKey, TransactionId,
    TransactionStatus,
};
use mgp_types::sync::Mutex;
use serde_json::{Value, json};

use crate::serving::Serving;
use crate::world::{World, kill, within, within_time};

const SERVERS: [&str; 3] = ["a", "b", "c"];
/// The number of callers with keys, and of callers with transactions.
const CALLERS: u32 = 3;
/// The seconds after which an unused transaction is rolled back.
const INACTIVE: u64 = 5;

/// Returns the number of kills, from the environment variable `KILLS`.
fn kills() -> u32 {
    std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(30)
}

/// What the callers sent, and what was acknowledged.
#[derive(Default)]
struct Sent {
    names: AtomicU32,
    /// The keys without an answer yet: the server of each, by the name of the thing, which is also the key.
    open: Mutex<BTreeMap<String, &'static str>>,
    answered: AtomicU32,
    refused: AtomicU32,
    /// The acknowledged ends of transactions.
    ended: Mutex<BTreeMap<String, TransactionStatus>>,
    begun: Mutex<Vec<String>>,
}

impl Sent {
    fn name(&self) -> (String, &'static str) {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        (format!("n{number}"), SERVERS[number as usize % 3])
    }
}

fn ledger(world: &World) -> Vec<String> {
    let mut lines = Vec::new();
    for server in SERVERS {
        let text = fs::read_to_string(world.folder.join(server)).unwrap_or_default();
        lines.extend(text.lines().map(|line| format!("{server} {line}")));
    }
    lines
}

async fn connect(url: &str) -> Result<Client, Error> {
    let builder = Client::builder("kills", "1")
        .extension(Extension::Idempotency)
        .extension(Extension::Transactions);
    builder.connect_url(url).await
}

async fn make(client: &Client, server: &str, name: &str, step: Option<&str>) -> Result<(), Error> {
    let arguments = json!({ "name": name });
    let mut call = client.call(format!("{server}.make")).args(&arguments);
    call = call.with(&IdempotencyKey(name.to_owned()));
    if let Some(id) = step {
        let mut undo = Compensation::new("remove");
        undo.arguments = Some(RawObject::of(&arguments)?);
        call = call.with(&TransactionId(id.to_owned())).with(&undo);
    }
    call.await.map(drop)
}

/// Sends calls with keys: first those that were not answered before a kill.
async fn call_with_keys(client: Client, sent: Arc<Sent>) {
    loop {
        let next = sent.open.lock().pop_first();
        let (name, server) = next.unwrap_or_else(|| sent.name());
        sent.open.lock().insert(name.clone(), server);
        match make(&client, server, &name, None).await {
            Ok(()) => {
                sent.open.lock().remove(&name);
                sent.answered.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.to_string().contains("may have had effects") => {
                sent.open.lock().remove(&name);
                sent.refused.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn run_transactions(client: Client, sent: Arc<Sent>) {
    loop {
        let (id, _) = sent.name();
        if run_transaction(&client, &sent, &id).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn run_transaction(client: &Client, sent: &Sent, id: &str) -> Result<(), Error> {
    let mut begin = BeginTransactionParams::new();
    (begin.transaction_id, begin.timeout_seconds) = (Some(id.to_owned()), Some(INACTIVE));
    client.request::<TransactionBegin>(&begin).await?;
    sent.begun.lock().push(id.to_owned());
    for server in SERVERS {
        make(client, server, &format!("{id}-{server}"), Some(id)).await?;
    }
    let end = EndTransactionParams::new(id);
    let commits = id.ends_with(['0', '2', '4', '6', '8']);
    let result = if commits {
        client.request::<TransactionCommit>(&end).await?
    } else {
        client.request::<TransactionRollback>(&end).await?
    };
    sent.ended.lock().insert(id.to_owned(), result.status);
    Ok(())
}

/// Calls until a process is killed: the kernel, or every third time one of its servers.
fn one(world: &World, sent: &Arc<Sent>, round: u32) {
    let serving = Serving::start(world, &["--no-auth"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut callers = Vec::new();
        for caller in 0..CALLERS * 2 {
            let Ok(client) = connect(&serving.url()).await else { continue };
            let sent = Arc::clone(sent);
            callers.push(if caller % 2 == 0 {
                tokio::spawn(call_with_keys(client, sent))
            } else {
                tokio::spawn(run_transactions(client, sent))
            });
        }
        tokio::time::sleep(Duration::from_millis(100 + u64::from(round * 37 % 150))).await;
        if round % 3 == 2 {
            let servers = world.marked();
            if let Some(server) = servers.get(round as usize % servers.len().max(1)) {
                kill("-KILL", *server);
            }
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
        kill("-KILL", serving.kernel.id());
        callers.iter().for_each(tokio::task::JoinHandle::abort);
    });
    drop(serving);
    world.nothing_is_left();
}

/// Returns all transactions as an operator sees them.
fn transactions(world: &World) -> BTreeMap<String, String> {
    let answer = world.operator().ask("mgp/kernel/transactions", &json!({ "all": true })).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = answer["transactions"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| (text(&one["transaction_id"]), text(&one["status"]))).collect()
}

#[test]
fn no_key_runs_twice_and_no_transaction_is_forgotten_when_kernel_and_servers_are_killed() {
    let world = World::empty();
    let mut config = String::new();
    for server in SERVERS {
        let program = mgp_testkit::program("ledger");
        let file = world.folder.join(server);
        let script = format!("exec {} {}", program.display(), file.display());
        config += world.server(server, &script).trim_end();
        config += "\nrisk = { make = \"moderate\", remove = \"moderate\" }\n\n";
    }
    world.config(&config);
    let (kills, sent) = (kills(), Arc::<Sent>::default());
    for round in 0..kills {
        one(&world, &sent, round);
    }
    // The last kernel finishes what the killed ones began.
    let _serving = Serving::start(&world, &["--no-auth"]);
    let is_open = |status: &String| matches!(&**status, "begun" | "rolling_back");
    let all = within_time(Duration::from_secs(60), || {
        std::thread::sleep(Duration::from_millis(200));
        Some(transactions(&world)).filter(|all| !all.values().any(is_open))
    });
    let lines = within(|| Some(ledger(&world)));
    let count = |line: &str| lines.iter().filter(|one| *one == line).count();
    for line in &lines {
        assert_eq!(count(line), 1, "{line} twice");
    }
    for id in sent.begun.lock().iter() {
        let status = all.get(id).unwrap_or_else(|| panic!("{id} is forgotten"));
        for server in SERVERS {
            let made = count(&format!("{server} make {id}-{server}"));
            let removed = count(&format!("{server} remove {id}-{server}"));
            match &**status {
                "committed" => assert_eq!((made, removed), (1, 0), "{id} {server}"),
                "rolled_back" => assert_eq!(made, removed, "{id} {server}"),
                other => assert_eq!(other, "partially_rolled_back", "{id}"),
            }
        }
    }
    for (id, acknowledged) in sent.ended.lock().iter() {
        assert_eq!(all[id], acknowledged.as_str(), "{id}");
    }
    let stuck = all.values().filter(|status| *status == "partially_rolled_back").count();
    let (answered, refused) = (&sent.answered, &sent.refused);
    println!(
        "{kills} kills: {} keys answered, {} interrupted ones refused, none run twice; {} transactions, \
         {stuck} of them wait for a person, none forgotten",
        answered.load(Ordering::Relaxed),
        refused.load(Ordering::Relaxed),
        all.len(),
    );
    assert!(answered.load(Ordering::Relaxed) > kills && !sent.ended.lock().is_empty());
}
