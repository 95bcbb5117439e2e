//! Tests of registrations: what they are tested with, and the stories beside this file.
//!
//! Applies to: inbound.

mod asking;
mod bounds;
mod deciding;
mod lasting;
mod leaving;
mod program;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_types::method::{DiscoveryDeregister, DiscoveryRegister, Request as _};
use mgp_types::mgp::{AuditEvent, ServerState, ServerSummary};
use mgp_types::service::{
    BoxFuture, Context, Hidden, MemoryAudit, Principal, ServerId, Stack, mock, visibility,
};
use mgp_types::store::{MemoryStore, Store};
use mgp_types::{ErrorCode, RpcError};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::*;
use crate::error::Error;
use crate::expand::ExpandedReach;
use crate::registry::{Fleet, Known};

/// Runs servers in words: what it was told stands in its log.
#[derive(Default)]
pub(super) struct Fake {
    log: Mutex<Vec<String>>,
    running: Mutex<Vec<Approved>>,
    configured: Mutex<HashSet<String>>,
    /// How many starts fail.
    broken: AtomicU32,
    /// How many removals fail.
    stuck: AtomicU32,
    /// Set where a drain waits until a permit comes.
    held: Mutex<Option<Arc<Semaphore>>>,
}

impl Fake {
    pub(super) fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    fn say(&self, words: String) {
        self.log.lock().unwrap().push(words);
    }

    pub(super) fn running(&self) -> Vec<Approved> {
        self.running.lock().unwrap().clone()
    }

    pub(super) fn configure(&self, id: &str) {
        self.configured.lock().unwrap().insert(id.to_owned());
    }
}

/// The same servers, for whoever wants to own them.
pub(super) struct Shared(pub(super) Arc<Fake>);

impl Fleet for Shared {
    fn known(&self) -> Vec<Known> {
        let of = |id: &str| {
            let mut summary = ServerSummary::new(id, ServerState::Connected);
            summary.tools = vec!["work".to_owned()].into();
            Known::new(summary, [])
        };
        let running = self.0.running();
        let configured = self.0.configured.lock().unwrap().clone();
        running
            .iter()
            .map(|it| of(it.id().as_str()))
            .chain(configured.iter().map(|it| of(it)))
            .collect()
    }
}

fn fails(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

impl Servers for Shared {
    fn configured(&self, server: &ServerId) -> bool {
        self.0.configured.lock().unwrap().contains(server.as_str())
    }

    fn start(&self, server: Approved) -> BoxFuture<'static, Result<(), RpcError>> {
        let fake = Arc::clone(&self.0);
        Box::pin(async move {
            let launch = server.launch().await?;
            if fails(&fake.broken) {
                return Err(RpcError::new(ErrorCode::SERVER_NOT_READY, "it says nothing"));
            }
            let ExpandedReach::Program { args, .. } = launch.reach else { panic!("a program") };
            let args: Vec<_> = args.iter().map(crate::expand::Expanded::as_str).collect();
            fake.say(format!("start {} {}", server.id(), args.join(" ")).trim().to_owned());
            let mut running = fake.running.lock().unwrap();
            running.retain(|it| it.id() != server.id());
            running.push(server);
            Ok(())
        })
    }

    fn drain(&self, server: &ServerId, within: Duration) -> BoxFuture<'static, ()> {
        let (fake, server) = (Arc::clone(&self.0), server.clone());
        Box::pin(async move {
            fake.say(format!("drain {server} {}", within.as_secs()));
            let held = fake.held.lock().unwrap().clone();
            if let Some(held) = held {
                let _ = held.acquire().await;
            }
            fake.running.lock().unwrap().retain(|it| *it.id() != server);
        })
    }

    fn remove(&self, server: &ServerId) -> BoxFuture<'static, Result<(), RpcError>> {
        let (fake, server) = (Arc::clone(&self.0), server.clone());
        Box::pin(async move {
            fake.say(format!("remove {server}"));
            let is_stuck = fails(&fake.stuck);
            if is_stuck { Err(RpcError::internal("not yet")) } else { Ok(()) }
        })
    }
}

/// A folder with a program, an interpreter and a script, and registrations that run in it.
pub(super) struct World {
    pub(super) folder: PathBuf,
    pub(super) store: MemoryStore,
    pub(super) audit: MemoryAudit,
    pub(super) fake: Arc<Fake>,
    pub(super) registrations: Registrations,
}

/// The config of a world.
pub(super) fn config(folder: &Path) -> RegistrationConfig {
    RegistrationConfig {
        folder: folder.to_owned(),
        path: vec![folder.join("bin")],
        scripts: Some(folder.join("scripts")),
        ..RegistrationConfig::default()
    }
}

/// Makes a file that may run.
pub(super) fn program(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Granted to nobody but agents whose names begin with `maker`.
fn granted(cx: &Context, server: Option<&ServerId>, tool: &str) -> Result<(), Hidden> {
    let is_maker = cx.principal.as_agent().is_some_and(|agent| agent.as_str().starts_with("maker"));
    let is_method = tool.starts_with("mgp.discovery.") && server.is_none();
    let is_made = server.is_some_and(|server| server.as_str().starts_with("made"));
    if is_maker && (is_method || is_made) { Ok(()) } else { Err(Hidden::by("no entry")) }
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(|_| {}, |builder| builder)
    }

    pub(super) fn with(
        bounds: impl FnOnce(&mut RegistrationConfig),
        more: impl FnOnce(RegistrationsBuilder) -> RegistrationsBuilder,
    ) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("mgp-registration-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        program(&folder.join("bin/count"), "\u{7f}ELF, as it were");
        program(&folder.join("bin/python3.11"), "\u{7f}ELF of another kind");
        fs::write(folder.join("made.py"), "print('made')").unwrap();
        let (store, audit, fake) = (MemoryStore::new(), MemoryAudit::new(), Arc::default());
        let mut config = config(&folder);
        bounds(&mut config);
        let registrations = more(build(&store, &audit, &fake, config)).build();
        Self { folder, store, audit, fake, registrations }
    }

    /// The same store and servers after the kernel was killed.
    pub(super) fn killed(&mut self) {
        let fake = Arc::<Fake>::default();
        *fake.configured.lock().unwrap() = self.fake.configured.lock().unwrap().clone();
        self.fake = fake;
        let config = config(&self.folder);
        self.registrations = build(&self.store, &self.audit, &self.fake, config).build();
    }

    pub(super) fn client(&self, principal: Principal) -> mock::Client {
        let mut client = mock::client(Stack::new(self.registrations.router()));
        client.cx.principal = principal;
        client
    }

    pub(super) async fn register(&self, by: Principal, params: Value) -> Result<Value, RpcError> {
        let answer =
            self.client(by).request(DiscoveryRegister::METHOD, &params.to_string()).await?;
        Ok(serde_json::from_str(answer.as_str()).unwrap())
    }

    pub(super) async fn deregister(&self, by: Principal, id: &str) -> Result<Value, RpcError> {
        let params = json!({ "id": id, "reason": "done" }).to_string();
        let answer = self.client(by).request(DiscoveryDeregister::METHOD, &params).await?;
        Ok(serde_json::from_str(answer.as_str()).unwrap())
    }

    pub(super) async fn waiting(&self) -> Vec<Waiting> {
        self.registrations.waiting(&operator()).await.unwrap()
    }

    /// Has an operator approve all that waits.
    pub(super) async fn approve(&self) -> Result<Value, Error> {
        let waiting = self.waiting().await.remove(0);
        let (server, fingerprint) = (&waiting.server, &waiting.fingerprint);
        let told = self.registrations.approve(&operator(), server, fingerprint, &[]).await?;
        Ok(serde_json::to_value(told).unwrap())
    }

    pub(super) async fn stored(&self) -> usize {
        self.store.load("registrations").await.unwrap().records.len()
    }

    /// The types of the events of our own, and of refusals, since the last time.
    pub(super) fn told(&self) -> Vec<String> {
        let word = |event: &AuditEvent| {
            let name = event.event_type.as_str();
            let name = name.strip_prefix("dev.cloto.").unwrap_or(name);
            format!("{name} {} by {}", event.result, event.actor.id)
        };
        self.audit.events().iter().map(word).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn build(
    store: &MemoryStore,
    audit: &MemoryAudit,
    fake: &Arc<Fake>,
    config: RegistrationConfig,
) -> RegistrationsBuilder {
    Registrations::builder(Arc::new(store.clone()), Arc::new(Shared(Arc::clone(fake))))
        .audit(Arc::new(audit.clone()))
        .may(Arc::new(visibility(granted)))
        .config(config)
}

pub(super) fn operator() -> Principal {
    Principal::new("local", "ada").operator()
}

/// An agent that may register.
pub(super) fn maker() -> Principal {
    Principal::local().agent("maker")
}

pub(super) fn count(id: &str) -> Value {
    json!({ "id": id, "command": "count", "args": ["--all"] })
}

/// What an operator registers with a script of their own.
pub(super) fn script(id: &str) -> Value {
    json!({
        "id": id, "command": "python3.11", "args": ["made.py", "x"],
        "mgp": { "trust_level": "standard" },
    })
}

pub(super) fn mgp_of(server: &Approved) -> &crate::config::ServerMgp {
    server.server.mgp.as_ref().unwrap()
}

#[track_caller]
pub(super) fn refused(answer: Result<Value, RpcError>, code: i32, words: &str) -> RpcError {
    let error = answer.unwrap_err();
    assert_eq!(error.code().0, code, "{error}");
    assert!(error.message().contains(words), "`{words}` is not in `{error}`");
    error
}

/// Lets work that was begun come to where it waits.
pub(super) async fn settle() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}
