//! The setup that all tests of registrations share. The tests are in the modules of this folder.

mod bounds;
mod creation;
mod decisions;
mod persistence;
mod program;
mod removal;
mod requests;

use std::collections::HashSet;
use std::fs;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use mgp_testkit::{TempDir, temp_dir};
use mgp_types::method::{DiscoveryDeregister, DiscoveryRegister, Request as _};
use mgp_types::mgp::{AuditEvent, ServerState, ServerSummary};
use mgp_types::service::{
    BoxFuture, Context, Hidden, MemoryAudit, Principal, Reply, ServerId, Stack, mock, visibility,
};
use mgp_types::store::{MemoryStore, Store};
use mgp_types::{ErrorCode, RpcError};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::*;
use crate::config::RegistrationAllowList;
use crate::error::DiscoveryError;
use crate::expand::ExpandedTarget;
use crate::registry::{KnownServer, ServerCatalog};

/// A fake of the kernel's servers: it starts nothing, and writes each call as a line into a log.
#[derive(Default)]
pub(super) struct Fake {
    log: Mutex<Vec<String>>,
    running: Mutex<Vec<ApprovedRegistration>>,
    configured: Mutex<HashSet<String>>,
    /// The number of starts that will fail, beginning with the next start.
    broken: AtomicU32,
    /// The number of removals that will fail, beginning with the next removal.
    stuck: AtomicU32,
    /// If set, draining a server waits for a permit of this semaphore.
    held: Mutex<Option<Arc<Semaphore>>>,
}

impl Fake {
    pub(super) fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    fn log_line(&self, words: String) {
        self.log.lock().unwrap().push(words);
    }

    pub(super) fn running(&self) -> Vec<ApprovedRegistration> {
        self.running.lock().unwrap().clone()
    }

    pub(super) fn configure(&self, id: &str) {
        self.configured.lock().unwrap().insert(id.to_owned());
    }
}

/// A handle to the shared fake, for code that needs ownership.
pub(super) struct Shared(pub(super) Arc<Fake>);

impl ServerCatalog for Shared {
    fn known(&self) -> Vec<KnownServer> {
        let of = |id: &str| {
            let mut summary = ServerSummary::new(id, ServerState::Connected);
            summary.tools = vec!["work".to_owned()].into();
            KnownServer::new(summary, [])
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

impl ServerRunner for Shared {
    fn allow_list(&self) -> RegistrationAllowList {
        RegistrationAllowList::new(["count"], ["KEY", "MODE", "LD_ALLOWED"])
    }

    fn is_configured(&self, server: &ServerId) -> bool {
        self.0.configured.lock().unwrap().contains(server.as_str())
    }

    fn start(&self, server: ApprovedRegistration) -> BoxFuture<'static, Result<(), RpcError>> {
        let fake = Arc::clone(&self.0);
        Box::pin(async move {
            let launch = server.launch().await?;
            if fails(&fake.broken) {
                return Err(RpcError::new(ErrorCode::SERVER_NOT_READY, "no answer"));
            }
            let ExpandedTarget::Program { args, .. } = launch.target else { panic!("a program") };
            let args: Vec<_> = args.iter().map(crate::expand::Expanded::as_str).collect();
            fake.log_line(format!("start {} {}", server.id(), args.join(" ")).trim().to_owned());
            let mut running = fake.running.lock().unwrap();
            running.retain(|it| it.id() != server.id());
            running.push(server);
            Ok(())
        })
    }

    fn drain(&self, server: &ServerId, within: Duration) -> BoxFuture<'static, ()> {
        let (fake, server) = (Arc::clone(&self.0), server.clone());
        Box::pin(async move {
            fake.log_line(format!("drain {server} {}", within.as_secs()));
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
            fake.log_line(format!("remove {server}"));
            let is_stuck = fails(&fake.stuck);
            if is_stuck { Err(RpcError::internal("not yet")) } else { Ok(()) }
        })
    }
}

/// The environment of a test: a folder with a program, an interpreter and a script that registrations may use, and the
/// registrations with their store, audit log and fake servers.
pub(super) struct World {
    _guard: TempDir,
    pub(super) folder: PathBuf,
    pub(super) store: MemoryStore,
    pub(super) audit: MemoryAudit,
    pub(super) fake: Arc<Fake>,
    pub(super) registrations: Registrations,
}

pub(super) fn config(folder: &Path) -> RegistrationConfig {
    RegistrationConfig {
        folder: folder.to_owned(),
        path: vec![folder.join("bin")],
        scripts: Some(folder.join("scripts")),
        ..RegistrationConfig::default()
    }
}

/// Creates an executable file with this content.
pub(super) fn program(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// The access rule of the tests: only agents whose names begin with `maker` may use the discovery methods and the
/// servers whose names begin with `made`.
fn granted(cx: &Context, server: Option<&ServerId>, tool: &str) -> Result<(), Hidden> {
    let is_maker = cx.principal.as_agent().is_some_and(|agent| agent.as_str().starts_with("maker"));
    let is_method = tool.starts_with("mgp.discovery.") && server.is_none();
    let is_made = server.is_some_and(|server| server.as_str().starts_with("made"));
    if is_maker && (is_method || is_made) { Ok(()) } else { Err(Hidden::new("no entry")) }
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(|_| {}, |builder| builder)
    }

    pub(super) fn with(
        bounds: impl FnOnce(&mut RegistrationConfig),
        more: impl FnOnce(RegistrationsBuilder) -> RegistrationsBuilder,
    ) -> Self {
        let guard = temp_dir();
        let folder = guard.path().to_owned();
        program(&folder.join("bin/count"), "\u{7f}ELF");
        program(&folder.join("bin/python3.11"), "\u{7f}ELF of another kind");
        fs::write(folder.join("made.py"), "print('made')").unwrap();
        let (store, audit, fake) = (MemoryStore::new(), MemoryAudit::new(), Arc::default());
        let mut config = config(&folder);
        bounds(&mut config);
        let registrations = more(build(&store, &audit, &fake, config)).build();
        Self { _guard: guard, folder, store, audit, fake, registrations }
    }

    /// Simulates a crash of the kernel: replaces the registrations by new registrations with the same store and the
    /// same configured ids.
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

    pub(super) async fn waiting(&self) -> Vec<PendingRegistration> {
        self.registrations.pending(&operator()).await.unwrap()
    }

    /// Approves the first waiting registration as an operator.
    pub(super) async fn approve(&self) -> Result<Value, DiscoveryError> {
        let waiting = self.waiting().await.remove(0);
        let (server, fingerprint) = (&waiting.server, &waiting.fingerprint);
        let reply = self.registrations.approve(&operator(), server, fingerprint, &[]).await?;
        Ok(serde_json::to_value(reply).unwrap())
    }

    pub(super) async fn stored(&self) -> usize {
        self.store.load("registrations").await.unwrap().records.len()
    }

    /// Returns the type, the result and the actor of all audit events so far.
    pub(super) fn new_events(&self) -> Vec<String> {
        let word = |event: &AuditEvent| {
            let name = event.event_type.as_str();
            let name = name.strip_prefix("dev.cloto.").unwrap_or(name);
            format!("{name} {} by {}", event.result, event.actor.id)
        };
        self.audit.events().iter().map(word).collect()
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
        .authorized_by(Arc::new(visibility(granted)))
        .config(config)
}

pub(super) fn operator() -> Principal {
    Principal::new("local", "ada").operator()
}

pub(super) fn maker() -> Principal {
    Principal::local().agent("maker")
}

pub(super) fn count(id: &str) -> Value {
    json!({ "id": id, "command": "count", "args": ["--all"] })
}

/// Returns the params of an operator's registration with a script.
pub(super) fn script(id: &str) -> Value {
    json!({
        "id": id, "command": "python3.11", "args": ["made.py", "x"],
        "mgp": { "trust_level": "standard" },
    })
}

pub(super) fn mgp_of(server: &ApprovedRegistration) -> &crate::config::GovernanceConfig {
    server.server.mgp.as_ref().unwrap()
}

#[track_caller]
pub(super) fn refused(answer: Result<Value, RpcError>, code: i32, words: &str) -> RpcError {
    let error = answer.unwrap_err();
    assert_eq!(error.code().0, code, "{error}");
    assert!(error.message().contains(words), "`{words}` is not in `{error}`");
    error
}

/// Sleeps for a moment, so that spawned tasks run until they wait.
pub(super) async fn settle() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// Polls a reply at most this number of times; returns whether it arrived.
pub(super) async fn polled(
    request: &mut BoxFuture<'static, Result<Reply, RpcError>>,
    polls: u32,
) -> bool {
    for _ in 0..polls {
        let polled = poll_fn(|task| Poll::Ready(request.as_mut().poll(task).is_ready()));
        if polled.await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    false
}
