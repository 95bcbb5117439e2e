//! Tests of servers that are started, stopped or replaced while another start, a stop or a subscription is in progress.

mod access;
mod announcements;
mod first_lists;
mod lifecycle;
mod silent;
mod stops;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::{Client, ServerChange, SessionStateJar, TestClient, ToolResult as _};
use mgp_discovery::{Config, GovernanceConfig, Isolation};
use mgp_lifecycle::EraChoice;
use mgp_server_sdk::{
    CallerState, ContextExt as _, Prompt, Resource, Resources, Server, SessionStates, Tool,
};
use mgp_testkit::{until, until_shown};
use mgp_transport::{Connection, duplex};
use mgp_types::mcp::{
    ElicitParams, Era, ListChanged, ListPromptsResult, ListToolsResult, Revision,
};
use mgp_types::method::{PromptsList, Request as _, ToolsList};
use mgp_types::mgp::{DefaultPolicy, RiskLevel, ServerState, ShutdownReason};
use mgp_types::proposal::SessionState;
use mgp_types::service::{Context, Reply, Stack, around, gate};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

pub(super) use self::silent::silent_client;
use super::ManagedServer;
use super::first_start_permits::{FIRST_START_PERMIT_TIMEOUT, SLOW_START_PERMIT_TIMEOUT};
use super::first_sync::FIRST_SYNC_TIMEOUT;
use super::idle::IDLE_TIMEOUT;
use super::refresh_queue::ListGroup;
use crate::Kernel;

/// A kernel with one server, whose instances are numbered.
struct World {
    kernel: Kernel,
    client: TestClient,
    made: Arc<AtomicUsize>,
    /// The resources of each instance of the server, which the tests update.
    resources: Arc<Mutex<Vec<Resources>>>,
}

impl World {
    async fn new(isolation: Isolation) -> Self {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let resources: Arc<Mutex<Vec<Resources>>> = Arc::default();
        let handles = Arc::clone(&resources);
        let numbered = move || {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let which = Tool::new("which", "Which one", move || async move { number.to_string() });
            let slow = Tool::new("slow", "Takes a while", || async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                "done"
            });
            let news = Resource::text("test://news", "news", "none");
            let server = Server::new("clock", "1").tool(which).tool(slow).resource(news);
            handles.lock().push(server.resources());
            server
        };
        let mgp = open(isolation, &["which", "slow"]);
        let kernel = Kernel::builder().local_with("clock", mgp, numbered).build().await.unwrap();
        let client = TestClient::new(kernel.server()).await;
        let world = Self { kernel, client, made, resources };
        world.becomes(ServerState::Connected).await;
        knows(&world.kernel, "clock").await;
        world
    }

    fn server(&self) -> Arc<ManagedServer> {
        self.kernel.0.fleet.get("clock").unwrap()
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }

    /// Connects a host that is subscribed to the resource, and counts its updates.
    async fn subscriber(&self) -> (Client, Arc<AtomicUsize>) {
        let updates = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&updates);
        let (here, there) = duplex();
        let stack = self.kernel.server().into_stack().unwrap();
        tokio::spawn(Connection::new(there.reader, there.writer, stack).run());
        let builder = Client::builder("host", "1").era(EraChoice::Legacy).on_change(move |what| {
            if *what == ServerChange::Resource("test://news".to_owned()) {
                counts.fetch_add(1, Ordering::SeqCst);
            }
        });
        let host = builder.connect(here.reader, here.writer).await.unwrap();
        host.subscribe("test://news").await.unwrap();
        (host, updates)
    }

    /// Updates the resource in the newest instance of the server until the subscriber is notified.
    async fn is_notified(&self, updates: &AtomicUsize) {
        // Wait, because notifications that are still in flight may belong to a previous instance.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = updates.load(Ordering::SeqCst);
        until("a notification arrives", async || {
            self.resources.lock().last().unwrap().updated("test://news");
            updates.load(Ordering::SeqCst) > before
        })
        .await;
    }

    /// Occupies all permits for starting servers, so that neither the kernel nor a call can start one.
    async fn take_permits(&self) -> [OwnedSemaphorePermit; 2] {
        let permits = &self.kernel.0.fleet.context().start_permits;
        [take_all(&permits.other).await, take_all(&permits.calls).await]
    }

    /// Occupies all permits for starting sessions again to restore their subscriptions.
    async fn take_resume_permits(&self) -> OwnedSemaphorePermit {
        take_all(&self.kernel.0.fleet.context().start_permits.resumes).await
    }

    async fn becomes(&self, state: ServerState) {
        becomes(&self.kernel, state).await;
    }
}

/// Returns settings for a server that all callers may use, with these tools marked as safe.
fn open(isolation: Isolation, tools: &[&str]) -> GovernanceConfig {
    let mut mgp = GovernanceConfig::default();
    mgp.default_policy = DefaultPolicy::OptOut;
    mgp.isolation = isolation;
    mgp.risk = tools.iter().map(|tool| ((*tool).to_owned(), RiskLevel::Safe)).collect();
    mgp
}

/// Starts a kernel with one server, whose tool `now` all callers may use.
async fn kernel_with(id: &str, server: impl Fn() -> Server + Send + Sync + 'static) -> Kernel {
    let mgp = open(Isolation::Shared, &["now"]);
    Kernel::builder().local_with(id, mgp, server).build().await.unwrap()
}

fn clock() -> Server {
    Server::new("clock", "1").tool(Tool::new("now", "The time", || async { "noon" }))
}

fn config(text: &str) -> Config {
    Config::parse("mgp.toml", text).unwrap().config
}

async fn take_all(permits: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    let all = u32::try_from(permits.available_permits()).unwrap();
    Arc::clone(permits).acquire_many_owned(all).await.unwrap()
}

/// Waits until the only server is in a state.
async fn becomes(kernel: &Kernel, state: ServerState) {
    until_shown(|| (kernel.servers()[0].status == state, kernel.servers())).await;
}

/// Waits until the tools of a server are known.
async fn knows(kernel: &Kernel, server: &str) {
    until("the tools are known", async || !kernel.index().tools_of(server).is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_that_waited_for_its_permit_starts_nothing_that_was_stopped_meanwhile() {
    let world = World::new(Isolation::Shared).await;
    let (id, made) = ("clock".into(), world.made());
    world.kernel.stop_server(&id).await;
    let permits = world.take_permits().await;
    let kernel = world.kernel.clone();
    let start = tokio::spawn(async move { kernel.start_server(&"clock".into()).await });
    let client = world.client.clone();
    let call = tokio::spawn(async move { client.call("which").await.map(drop) });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.kernel.stop_server(&id).await;
    drop(permits);
    assert_eq!(start.await.unwrap(), Some(ServerState::Disconnected));
    assert!(call.await.unwrap().is_err(), "a call does not start it either");
    assert_eq!(world.made(), made);

    // A server that is removed while it waits for its start must not be started.
    let server = world.server();
    let permits = world.take_permits().await;
    let starting = Arc::clone(&server);
    let start = tokio::spawn(async move { starting.operator_start(None).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.kernel.0.fleet.remove(&id).await;
    drop(permits);
    assert_eq!(start.await.unwrap(), ServerState::Disconnected);
    assert_eq!(world.made(), made);
}

#[tokio::test(start_paused = true)]
async fn instances_of_agents_are_stopped_and_restarted_like_their_server() {
    let world = World::new(Isolation::PerAgent).await;
    let id = "clock".into();
    let first = world.client.text("which", ()).await;
    world.kernel.stop_server(&id).await;
    let made = world.made();
    assert!(world.client.call("which").await.is_err(), "no call starts what an operator stopped");
    assert_eq!(world.made(), made);

    world.kernel.start_server(&id).await;
    let second = world.client.text("which", ()).await;
    assert_ne!(first, second);
    world.kernel.restart_server(&id).await;
    assert_ne!(world.client.text("which", ()).await, second, "it was restarted");

    let client = world.client.clone();
    let slow = tokio::spawn(async move { client.call("slow").await.map(drop) });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.server().running(), 1, "the calls of all instances count");
    slow.await.unwrap().unwrap();
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_server_stops_no_instance_in_use() {
    let world = World::new(Isolation::PerAgent).await;
    let mine = world.client.text("which", ()).await;
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_mins(3)).await;
        assert_eq!(world.client.text("which", ()).await, mine);
    }
    world.becomes(ServerState::Disconnected).await;
    assert_eq!(world.kernel.servers()[0].instances, Some(1), "it is described");
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_states_of_sessions_pass_the_kernel_while_only_an_agents_instance_runs() {
    let counter = || {
        let count = Tool::new("count", "Counts", |state: CallerState| async move {
            let calls = state.load::<u32>()?.unwrap_or_default() + 1;
            state.store(&calls)?;
            Ok::<_, RpcError>(calls.to_string())
        });
        Server::new("counter", "1").tool(count).extension(SessionStates::with_key([7; 32]))
    };
    let mgp = open(Isolation::PerAgent, &["count"]);
    let kernel = Kernel::builder().local_with("counter", mgp, counter).build().await.unwrap();
    knows(&kernel, "counter").await;
    let builder = Client::builder("host", "1").extension(SessionStateJar::new());
    let host = TestClient::with_builder(kernel.server(), builder).await;
    let first = host.call("count").await.unwrap();
    let token = first.member::<SessionState>().unwrap().unwrap();
    for calls in 2..10 {
        tokio::time::sleep(Duration::from_mins(3)).await;
        let result = host.call("count").await.unwrap();
        assert_eq!(result.to_text(), calls.to_string());
        assert_eq!(result.member::<SessionState>().unwrap(), Some(token.clone()));
    }
    becomes(&kernel, ServerState::Disconnected).await;
    let plain = TestClient::new(kernel.server()).await;
    let result = plain.call("count").await.unwrap();
    assert_eq!((result.to_text().as_str(), result.meta.is_none()), ("1", true));
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_waits_for_its_first_start_is_not_described_as_one_to_start() {
    let world = World::new(Isolation::Shared).await;
    let permits = world.take_permits().await;
    let text = "[[servers]]\nid = 'next'\ncommand = 'no-such-program'\n";
    world.kernel.0.fleet.add(config(text).servers.remove(0)).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let servers = world.kernel.servers();
    let next = servers.iter().find(|server| server.id == "next").unwrap();
    assert_eq!(next.lacks.as_deref(), Some("its tools will be read soon"));
    drop(permits);
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_no_other_starts_and_first_starts_not_for_one_that_hangs() {
    let world = World::new(Isolation::Shared).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (permits, slow_starts) =
        world.kernel.0.fleet.context().start_permits.first_starts.semaphores();
    let all = permits.available_permits();
    let first_starts = take_all(&permits).await;
    let starts = take_all(&world.kernel.0.fleet.context().start_permits.other).await;
    let text = "[[servers]]\nid = 'next'\ncommand = 'no-such-program'\n";
    let next = world.kernel.0.fleet.add(config(text).servers.remove(0)).unwrap();
    world.server().client().stop(ShutdownReason::IdleTimeout).await;
    let made = world.made();
    world.client.text("which", ()).await;
    assert_eq!(world.made(), made + 1, "the call started its server");
    drop(starts);
    assert!(next.waits_for_first_start());
    let fleet = &world.kernel.0.fleet;
    let started = std::slice::from_ref(&next);
    fleet.synced_within(started, ListGroup::Tools, FIRST_SYNC_TIMEOUT).await;
    assert!(!fleet.context().known.is_silent(&next.config()), "it had no chance to answer");

    let (starts, slow) = (world.take_permits().await, take_all(&slow_starts).await);
    drop(first_starts);
    tokio::time::sleep(Duration::from_secs(1) + FIRST_START_PERMIT_TIMEOUT).await;
    assert_eq!(permits.available_permits(), all - 1, "too many other starts are slow");
    drop(slow);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(permits.available_permits(), all, "a start that hangs delays no others");
    assert_eq!(slow_starts.available_permits(), all - 1);
    tokio::time::sleep(SLOW_START_PERMIT_TIMEOUT).await;
    assert_eq!(slow_starts.available_permits(), all, "nor other slow ones for long");
    drop(starts);
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_while_an_idle_server_stops_starts_it_again() {
    let world = World::new(Isolation::Shared).await;
    assert_eq!(world.kernel.servers()[0].instances, None);
    let first = world.client.text("which", ()).await;
    let client = world.client.clone();
    let slow = tokio::spawn(async move { client.text("slow", ()).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let server = world.server();
    let stop = tokio::spawn(async move { server.client().stop(ShutdownReason::IdleTimeout).await });
    world.becomes(ServerState::Draining).await;
    assert_ne!(world.client.text("which", ()).await, first, "the next instance answers");
    assert_eq!(slow.await.unwrap(), "done");
    drop(stop);

    // A server that an operator stops during a call must stay stopped.
    let client = world.client.clone();
    let slow = tokio::spawn(async move { client.text("slow", ()).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let kernel = world.kernel.clone();
    let stop = tokio::spawn(async move { kernel.stop_server(&"clock".into()).await });
    world.becomes(ServerState::Draining).await;
    assert!(world.client.call("which").await.is_err());
    assert_eq!(
        (slow.await.unwrap().as_str(), stop.await.unwrap()),
        ("done", Some(ServerState::Disconnected))
    );
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_subscription_moves_to_the_server_that_replaces_another() {
    let world = World::new(Isolation::Shared).await;
    let (_host, updates) = world.subscriber().await;
    world.is_notified(&updates).await;
    let fleet = &world.kernel.0.fleet;
    let config = mgp_discovery::ServerConfig::clone(&world.server().config());
    fleet.remove(&"clock".into()).await;
    fleet.add(config).unwrap();
    world.becomes(ServerState::Connected).await;
    world.is_notified(&updates).await;

    // The new server must also notify a client that subscribes now.
    let (_other, updates) = world.subscriber().await;
    world.is_notified(&updates).await;
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_with_a_subscription_is_not_idle_and_is_resubscribed() {
    let world = World::new(Isolation::PerAgent).await;
    let (host, updates) = world.subscriber().await;
    let made = world.made();
    tokio::time::sleep(Duration::from_mins(20)).await;
    world.is_notified(&updates).await;
    assert_eq!(world.made(), made, "it is the same instance");

    world.kernel.stop_server(&"clock".into()).await;
    world.kernel.start_server(&"clock".into()).await;
    host.call("which").await.unwrap();
    world.is_notified(&updates).await;
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_a_server_fails_to_return_is_read_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&asked);
    let fails_at_first = move || {
        let counts = Arc::clone(&counts);
        let fails = gate(move |call| {
            let lists = call.method().as_str() == ToolsList::METHOD;
            let fails = lists && counts.fetch_add(1, Ordering::SeqCst) < 3;
            if fails { Err(RpcError::internal("not yet")) } else { Ok(()) }
        });
        Server::new("late", "1")
            .tool(Tool::new("late", "Says so", || async { "late" }))
            .layer(fails)
    };
    let kernel = Kernel::builder().local("late", fails_at_first).build().await.unwrap();
    until("the list is read again", async || !kernel.index().tools_of("late").is_empty()).await;
    assert!(asked.load(Ordering::SeqCst) > 3);
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_server_is_stopped_until_the_next_call() {
    let kernel = kernel_with("clock", clock).await;
    becomes(&kernel, ServerState::Connected).await;
    knows(&kernel, "clock").await;
    let client = TestClient::new(kernel.server()).await;
    tokio::time::sleep(IDLE_TIMEOUT / 2).await;
    assert_eq!(client.text("now", ()).await, "noon");
    tokio::time::sleep(Duration::from_mins(9)).await;
    assert_eq!(kernel.servers()[0].status, ServerState::Connected, "it was called in between");
    tokio::time::sleep(Duration::from_mins(2)).await;
    becomes(&kernel, ServerState::Disconnected).await;
    assert_eq!(kernel.servers()[0].tools, 1, "its tools stay known");
    assert_eq!(client.text("now", ()).await, "noon");
    becomes(&kernel, ServerState::Connected).await;
    kernel.stop().await;
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Guest {
    name: String,
}

#[tokio::test(start_paused = true)]
async fn a_server_that_waits_for_an_answer_is_not_idle() {
    let asks = |era: Era| {
        let form = Tool::new("form", "Asks", |cx: Context| async move {
            let guest = cx.elicit::<Guest>("Who comes?").await?.accepted();
            Ok::<_, RpcError>(guest.map(|guest| guest.name).unwrap_or_default())
        });
        let is_spoken = |revision: &Revision| revision.era() == era;
        let server = Server::new("asks", "1").tool(form).timeout(Duration::from_hours(1));
        server.offer(|offer| offer.revisions.retain(is_spoken))
    };
    let eras = [Era::Legacy, Era::Modern].into_iter();
    let cases = eras.flat_map(|era| [Isolation::Shared, Isolation::PerAgent].map(|of| (era, of)));
    for (era, isolation) in cases {
        let mgp = open(isolation, &["form"]);
        let builder = Kernel::builder().local_with("asks", mgp, move || asks(era));
        let kernel = builder.build().await.unwrap();
        knows(&kernel, "asks").await;
        // Answer after 14 minutes, because the kernel drops a waiting call after 15 minutes.
        let slow = |question: ElicitParams| async move {
            tokio::time::sleep(IDLE_TIMEOUT + Duration::from_mins(4)).await;
            question.accept_with(&serde_json::json!({ "name": "Ann" }))
        };
        let host = Client::builder("host", "1").era(EraChoice::Modern).on_elicitation(slow);
        let host = TestClient::with_builder(kernel.server(), host).await;
        assert_eq!(host.text("form", ()).await, "Ann", "{era:?} {isolation:?}");
        kernel.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_not_idle_while_a_client_is_subscribed_to_its_events() {
    let striking = || clock().channel("clock.struck", "An hour is over");
    let kernel = kernel_with("clock", striking).await;
    becomes(&kernel, ServerState::Connected).await;
    let client = TestClient::new(kernel.server()).await;
    let other = client.events().subscribe(["other.*"]).await.unwrap();
    let events = client.events().subscribe(["clock.*"]).await.unwrap();
    tokio::time::sleep(IDLE_TIMEOUT * 3).await;
    assert_eq!(kernel.servers()[0].status, ServerState::Connected);

    events.unsubscribe().await.unwrap();
    tokio::time::sleep(Duration::from_mins(2)).await;
    becomes(&kernel, ServerState::Disconnected).await;
    drop(other);
    kernel.stop().await;
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_delays_one_list_and_no_call_of_another() {
    let text = "[kernel]\nsurface = 'direct'\n[[servers]]\nid = 'hung'\ncommand = 'sleep'\n\
                args = ['600']\nmgp = { default_policy = 'opt-out' }\n";
    let mgp = open(Isolation::Shared, &["now"]);
    let builder = Kernel::builder().config(config(text));
    let kernel = builder.local_with("clock", mgp, clock).build().await.unwrap();
    let client = TestClient::new(kernel.server()).await;
    let begun = Instant::now();
    assert_eq!(client.call("clock.now").await.unwrap().to_text(), "noon");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());

    assert_eq!(client.tools().await.unwrap().len(), 1);
    assert!(begun.elapsed() > Duration::from_secs(7), "{:?}", begun.elapsed());
    let (fleet, hung) = (&kernel.0.fleet, kernel.0.fleet.get("hung").unwrap());
    let is_silent = || fleet.context().known.is_silent(&hung.config());
    assert!(!is_silent(), "searches still wait for it");
    let first = Instant::now();
    assert_eq!(client.tools().await.unwrap().len(), 1);
    assert!(first.elapsed() < Duration::from_secs(1), "it was waited for: {:?}", first.elapsed());

    let refused = client.call("hung.any").await.unwrap_err();
    assert_ne!(refused.code(), ErrorCode::TOOL_NOT_FOUND, "{refused}");
    assert!(refused.to_string().contains("`hung`"), "{refused}");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(is_silent(), "the next kernel waits for it again");
    kernel.stop().await;
}

/// Returns a host without MGP, whose list contains all tools if they are few. Also returns a counter of the changes of
/// one of its lists.
async fn counting_host(kernel: &Kernel, list: ServerChange) -> (TestClient, Arc<AtomicUsize>) {
    let changes = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&changes);
    let builder = Client::builder("host", "1").without_mgp().era(EraChoice::Legacy);
    let builder = builder.on_change(move |what| {
        counts.fetch_add(usize::from(*what == list), Ordering::SeqCst);
    });
    (TestClient::with_builder(kernel.server(), builder).await, changes)
}

/// Checks that the list of a host contains only the tools for searching while the tools of a server are unknown, and
/// that the host is notified when its list may contain all tools.
async fn check_announced(kernel: &Kernel) {
    let (host, changes) = counting_host(kernel, ServerChange::Tools).await;
    let names = async || {
        let tools = host.tools().await.unwrap();
        tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>()
    };
    let first = names().await;
    assert!(first.iter().any(|name| name == "mgp_tools_discover"), "{first:?}");
    let before = changes.load(Ordering::SeqCst);
    until("the change is announced", async || changes.load(Ordering::SeqCst) != before).await;
    assert_eq!(names().await, ["now"]);
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_late_answer_of_a_server_without_tools_is_announced() {
    let late = || {
        let waits = around(|call, inner: Stack| async move {
            if call.method().as_str() != ToolsList::METHOD {
                return inner.send(call).await;
            }
            tokio::time::sleep(Duration::from_secs(20)).await;
            Reply::of(&ListToolsResult::new(Vec::new()))
        });
        let server = Server::new("late", "1").layer(waits);
        server.offer(|offer| offer.capabilities.tools = Some(ListChanged::new()))
    };
    let mgp = open(Isolation::Shared, &[]);
    let builder = Kernel::builder().local_with("clock", mgp.clone(), clock);
    check_announced(&builder.local_with("late", mgp, late).build().await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_list_is_announced_although_another_server_never_answers() {
    let is_changed = Arc::new(AtomicBool::new(false));
    let listing = |id: &'static str, answers: bool| {
        let is_changed = Arc::clone(&is_changed);
        move || {
            let is_changed = Arc::clone(&is_changed);
            let changes = around(move |call, inner: Stack| {
                let lists = call.method().as_str() == PromptsList::METHOD;
                let has_changed = lists && is_changed.load(Ordering::SeqCst);
                async move {
                    if has_changed && answers {
                        Reply::of(&ListPromptsResult::new(Vec::new()))
                    } else if has_changed {
                        std::future::pending().await
                    } else {
                        inner.send(call).await
                    }
                }
            });
            let server = Server::new(id, "1").prompt(Prompt::new(id, "Asks", || async { "p" }));
            // Do not announce changes of the list: the kernel reads a list again for a client only if the server
            // announces none.
            server
                .offer(|offer| offer.capabilities.prompts = Some(ListChanged::new()))
                .layer(changes)
        }
    };
    let mgp = open(Isolation::Shared, &[]);
    let builder = Kernel::builder().local_with("quick", mgp.clone(), listing("quick", true));
    let builder = builder.local_with("hung", mgp, listing("hung", false));
    let kernel = builder.build().await.unwrap();
    let (host, changes) = counting_host(&kernel, ServerChange::Prompts).await;
    until("both servers list a prompt", async || host.prompts().await.unwrap().len() >= 2).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = changes.load(Ordering::SeqCst);
    is_changed.store(true, Ordering::SeqCst);
    // The first host requests its list again only after a notification. So let a second host request the list.
    let (other, _) = counting_host(&kernel, ServerChange::Prompts).await;
    assert_eq!(other.prompts().await.unwrap().len(), 1);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(changes.load(Ordering::SeqCst) > before, "the change was not announced");
    kernel.stop().await;
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn the_late_failure_of_a_server_is_announced() {
    let text = "[[servers]]\nid = 'hung'\ncommand = 'sleep'\nargs = ['600']\n\
                mgp = { default_policy = 'opt-out' }\n";
    let mgp = open(Isolation::Shared, &[]);
    let builder = Kernel::builder().config(config(text));
    check_announced(&builder.local_with("clock", mgp, clock).build().await.unwrap()).await;
}
