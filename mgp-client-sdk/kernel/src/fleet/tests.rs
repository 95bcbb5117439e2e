//! Beginnings and ends of servers that come in the wrong moment.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_discovery::{Isolation, ServerMgp};
use mgp_lifecycle::EraChoice;
use mgp_server_sdk::{Resource, Resources, Server, Tool};
use mgp_transport::{Connection, duplex};
use mgp_types::RpcError;
use mgp_types::method::{Request as _, ToolsList};
use mgp_types::mgp::{DefaultPolicy, RiskLevel, ServerState, ShutdownReason};
use mgp_types::service::Stack;
use tower_layer::layer_fn;

use super::Node;
use crate::Kernel;
use mgp_client_sdk::{Changed, Client, TestClient};

/// A kernel with a server whose instances are numbered.
struct World {
    kernel: Kernel,
    client: TestClient,
    made: Arc<AtomicUsize>,
    /// The resources of each.
    resources: Arc<Mutex<Vec<Resources>>>,
}

impl World {
    async fn new(isolation: Isolation) -> Self {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let resources: Arc<Mutex<Vec<Resources>>> = Arc::default();
        let kept = Arc::clone(&resources);
        let numbered = move || {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let which = Tool::new("which", "Which one", move || async move { number.to_string() });
            let slow = Tool::new("slow", "Takes a while", || async {
                tokio::time::sleep(Duration::from_secs(5)).await;
                "done"
            });
            let news = Resource::text("test://news", "news", "none");
            let server = Server::new("clock", "1").tool(which).tool(slow).resource(news);
            kept.lock().unwrap().push(server.resources());
            server
        };
        let mut mgp = ServerMgp::default();
        mgp.default_policy = DefaultPolicy::OptOut;
        mgp.isolation = isolation;
        mgp.risk = ["which", "slow"].map(|tool| (tool.to_owned(), RiskLevel::Safe)).into();
        let kernel = Kernel::builder().local_as("clock", mgp, numbered).build().await.unwrap();
        let client = TestClient::new(kernel.server()).await;
        let world = Self { kernel, client, made, resources };
        world.becomes(ServerState::Connected).await;
        while world.kernel.index().tools_of("clock").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        world
    }

    fn node(&self) -> Arc<Node> {
        self.kernel.0.fleet.get("clock").unwrap()
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }

    /// A host that counts what it hears of the news.
    async fn watcher(&self) -> (Client, Arc<AtomicUsize>) {
        let heard = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&heard);
        let (here, there) = duplex();
        let stack = self.kernel.server().into_stack().unwrap();
        tokio::spawn(Connection::new(there.reader, there.writer, stack).run());
        let builder = Client::builder("host", "1").era(EraChoice::Legacy).on_change(move |what| {
            if *what == Changed::Resource("test://news".to_owned()) {
                counts.fetch_add(1, Ordering::SeqCst);
            }
        });
        let host = builder.connect(here.reader, here.writer).await.unwrap();
        host.subscribe("test://news").await.unwrap();
        (host, heard)
    }

    /// The server that was made last has news: somebody hears of them.
    async fn is_heard(&self, heard: &AtomicUsize) {
        // What is still on its way is of a server before.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = heard.load(Ordering::SeqCst);
        for _ in 0..1000 {
            self.resources.lock().unwrap().last().unwrap().updated("test://news");
            tokio::time::sleep(Duration::from_millis(5)).await;
            if heard.load(Ordering::SeqCst) > before {
                return;
            }
        }
        panic!("nobody heard of it");
    }

    /// Takes all turns to start, and gives them back with what is returned.
    async fn nobody_starts(&self) -> tokio::sync::OwnedSemaphorePermit {
        let starts = Arc::clone(&self.kernel.0.fleet.ground().starts);
        let all = u32::try_from(starts.available_permits()).unwrap();
        starts.acquire_many_owned(all).await.unwrap()
    }

    /// Waits until the server is in a state.
    async fn becomes(&self, state: ServerState) {
        for _ in 0..1000 {
            if self.kernel.servers()[0].status == state {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it never became {state}: {:?}", self.kernel.servers());
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_waited_for_its_turn_starts_nothing_that_was_stopped_meanwhile() {
    let world = World::new(Isolation::Shared).await;
    let (id, made) = ("clock".into(), world.made());
    world.kernel.stop_server(&id).await;
    let turns = world.nobody_starts().await;
    let kernel = world.kernel.clone();
    let start = tokio::spawn(async move { kernel.start_server(&"clock".into()).await });
    let client = world.client.clone();
    let call = tokio::spawn(async move { client.call("which").await.map(drop) });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.kernel.stop_server(&id).await;
    drop(turns);
    assert_eq!(start.await.unwrap(), Some(ServerState::Disconnected));
    assert!(call.await.unwrap().is_err(), "nor does a call");
    assert_eq!(world.made(), made);

    // One that was taken out stays out.
    let node = world.node();
    let turns = world.nobody_starts().await;
    let starting = Arc::clone(&node);
    let start = tokio::spawn(async move { super::Fleet::start(&starting, None).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.kernel.0.fleet.remove(&id, ShutdownReason::OperatorRequest).await;
    drop(turns);
    assert_eq!(start.await.unwrap(), ServerState::Disconnected);
    assert_eq!(world.made(), made);
}

#[tokio::test(start_paused = true)]
async fn instances_of_agents_are_stopped_and_renewed_like_their_server() {
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
    assert_ne!(world.client.text("which", ()).await, second, "it was started anew");
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_server_ends_no_instance_in_use() {
    let world = World::new(Isolation::PerAgent).await;
    let mine = world.client.text("which", ()).await;
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_mins(3)).await;
        assert_eq!(world.client.text("which", ()).await, mine);
    }
    world.becomes(ServerState::Disconnected).await;
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_while_a_server_goes_to_rest_starts_it_again() {
    let world = World::new(Isolation::Shared).await;
    let first = world.client.text("which", ()).await;
    let client = world.client.clone();
    let slow = tokio::spawn(async move { client.text("slow", ()).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let node = world.node();
    let rest = tokio::spawn(async move { node.rest().await });
    world.becomes(ServerState::Draining).await;
    assert_ne!(world.client.text("which", ()).await, first, "the next one answers");
    assert_eq!(slow.await.unwrap(), "done");
    drop(rest);

    // Where an operator stops it, it does not come back.
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
async fn what_is_watched_is_watched_at_the_server_that_takes_the_place_of_another() {
    let world = World::new(Isolation::Shared).await;
    let (_host, heard) = world.watcher().await;
    world.is_heard(&heard).await;
    let fleet = &world.kernel.0.fleet;
    let config = mgp_discovery::Server::clone(&world.node().config());
    fleet.remove(&"clock".into(), ShutdownReason::OperatorRequest).await;
    fleet.add(config).unwrap();
    world.becomes(ServerState::Connected).await;
    world.is_heard(&heard).await;

    // Whoever comes now watches that one too.
    let (_other, heard) = world.watcher().await;
    world.is_heard(&heard).await;
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_watched_stays_and_is_watched_again() {
    let world = World::new(Isolation::PerAgent).await;
    let (host, heard) = world.watcher().await;
    let made = world.made();
    tokio::time::sleep(Duration::from_mins(20)).await;
    world.is_heard(&heard).await;
    assert_eq!(world.made(), made, "it is the same one");

    world.kernel.stop_server(&"clock".into()).await;
    world.kernel.start_server(&"clock".into()).await;
    host.call("which").await.unwrap();
    world.is_heard(&heard).await;
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_say_what_it_lists_is_asked_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&asked);
    let fails_at_first = move || {
        let counts = Arc::clone(&counts);
        let fails = layer_fn(move |inner: Stack| {
            let counts = Arc::clone(&counts);
            Stack::from_fn(move |call| {
                let lists = call.method().as_str() == ToolsList::METHOD;
                let fails = lists && counts.fetch_add(1, Ordering::SeqCst) < 3;
                let sent = inner.send(call);
                async move { if fails { Err(RpcError::internal("not yet")) } else { sent.await } }
            })
        });
        Server::new("late", "1")
            .tool(Tool::new("late", "Says so", || async { "late" }))
            .layer(fails)
    };
    let kernel = Kernel::builder().local("late", fails_at_first).build().await.unwrap();
    let known = async {
        while kernel.index().tools_of("late").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), known).await.expect("it is asked no more");
    assert!(asked.load(Ordering::SeqCst) > 3);
    kernel.stop().await;
}
