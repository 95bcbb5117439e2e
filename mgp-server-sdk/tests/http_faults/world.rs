//! A server over HTTP with tools that a test can observe and control.

use std::net::SocketAddr;
use std::sync::Arc;

use mgp_security::auth::{ApiKeys, AuthLayer, KeyGrant};
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{ContextExt, Elicited, HttpServer, ServerMonitor, Tools};
use mgp_testkit::{Alive, Life, until_shown};
use mgp_transport::http::HttpService;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A server over HTTP that runs until this value is dropped.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) service: HttpService,
    pub(crate) monitor: ServerMonitor,
    pub(crate) hold: Hold,
    pub(crate) keys: ApiKeys,
    pub(crate) tools: Tools,
    run: JoinHandle<()>,
}

/// The number of running tool functions, and the permits that allow them further steps.
#[derive(Clone)]
pub(crate) struct Hold {
    alive: Alive,
    steps: Arc<Semaphore>,
}

impl Default for Hold {
    fn default() -> Self {
        Self { alive: Alive::default(), steps: Arc::new(Semaphore::new(0)) }
    }
}

impl Hold {
    fn begin(&self) -> Life {
        self.alive.begin()
    }

    /// Returns the number of running tool functions.
    pub(crate) fn alive(&self) -> usize {
        self.alive.now()
    }

    /// Allows the running tool functions to take this number of further steps, all together.
    pub(crate) fn step(&self, steps: usize) {
        self.steps.add_permits(steps);
    }
}

#[derive(Deserialize, JsonSchema)]
struct Amount {
    #[serde(default)]
    n: u32,
    #[serde(default)]
    bytes: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Guest {
    name: String,
}

/// Returns a server whose tools return immediately, return or send much data, take permitted steps, ask, stream, or
/// hang.
pub(crate) fn server(hold: &Hold) -> Server {
    let (steps, flood, think, hang) = (hold.clone(), hold.clone(), hold.clone(), hold.clone());
    let steps = Tool::new(
        "steps",
        "Takes n steps when it is let, and tells of each",
        move |Args(amount): Args<Amount>, outlet: Outlet| {
            let (life, hold) = (steps.begin(), steps.clone());
            async move {
                let _life = life;
                for step in 1..=amount.n {
                    hold.steps.acquire().await.map_err(|_| RpcError::internal("closed"))?.forget();
                    // Ignore the error, because the tool continues even if the caller has disconnected.
                    let _ = outlet.progress(f64::from(step), f64::from(amount.n)).await;
                }
                Ok::<_, RpcError>(format!("took {}", amount.n))
            }
        },
    );
    let flood = Tool::new(
        "flood",
        "Tells n times so many bytes",
        move |Args(amount): Args<Amount>, outlet: Outlet| {
            let life = flood.begin();
            async move {
                let _life = life;
                for step in 1..=amount.n {
                    let messages = Progress {
                        progress: f64::from(step),
                        message: Some("x".repeat(amount.bytes)),
                        ..Progress::default()
                    };
                    if outlet.send(OutletItem::Progress(messages)).await.is_err() {
                        return "no listener";
                    }
                }
                "flooded"
            }
        },
    );
    let think = Tool::new("think", "Thinks aloud, then hangs", move |outlet: Outlet| {
        let life = think.begin();
        async move {
            let _life = life;
            for word in ["to ", "be"] {
                let _ = outlet.text(word).await;
            }
            std::future::pending::<()>().await;
        }
    });
    let hang = Tool::new("hang", "Never ends", move || {
        let life = hang.begin();
        async move {
            let _life = life;
            std::future::pending::<()>().await;
        }
    });
    Server::new("faults", "1")
        .tool(Tool::new("now", "Ends at once", || async { "noon" }))
        .tool(Tool::new(
            "large",
            "Returns so many bytes",
            |Args(amount): Args<Amount>| async move { "x".repeat(amount.bytes) },
        ))
        .tool(steps)
        .tool(flood)
        .tool(think)
        .tool(hang)
        .tool(Tool::new("close", "Closes the session", |cx: Context| async move {
            cx.peer.close("enough");
            "closed"
        }))
        .tool(ask("ask"))
        .tool(ask("ask_too"))
}

pub(crate) fn ask(name: &str) -> Tool {
    Tool::new(name, "Asks who comes", |cx: Context, Args(_): Args<Amount>| async move {
        Ok::<_, RpcError>(match cx.elicit::<Guest>("Who comes?").await? {
            Elicited::Accepted(guest) => guest.name,
            _ => "no name".to_owned(),
        })
    })
}

impl World {
    /// Starts a server without authentication.
    pub(crate) async fn open(change: impl FnOnce(HttpServer) -> HttpServer) -> Self {
        Self::start(ApiKeys::new(), |server, _| change(server.no_auth())).await
    }

    /// Starts a server that requires keys.
    pub(crate) async fn guarded() -> Self {
        let guard = |server: HttpServer, keys: ApiKeys| server.auth(AuthLayer::new().keys(keys));
        Self::start(ApiKeys::new(), guard).await
    }

    async fn start(keys: ApiKeys, change: impl FnOnce(HttpServer, ApiKeys) -> HttpServer) -> Self {
        let hold = Hold::default();
        let server = server(&hold);
        let (monitor, tools) = (server.monitor(), server.tools());
        let bound = change(server.http("127.0.0.1:0"), keys.clone()).bind().await.unwrap();
        let (address, service) = (bound.local_addr(), bound.service());
        let run = tokio::spawn(bound.run());
        Self { address, service, monitor, hold, keys, tools, run }
    }

    /// Starts a server that the test configured itself; its tools cannot be observed.
    pub(crate) async fn of(server: HttpServer, keys: ApiKeys) -> Self {
        let idle = Server::new("idle", "1");
        let (monitor, tools) = (idle.monitor(), idle.tools());
        let bound = server.bind().await.unwrap();
        let (address, service) = (bound.local_addr(), bound.service());
        let run = tokio::spawn(bound.run());
        Self { address, service, monitor, hold: Hold::default(), keys, tools, run }
    }

    /// Creates an API key, and returns the value of the header `Authorization` for it.
    pub(crate) async fn key(&self, tenant: &str, subject: &str) -> String {
        let key = self.keys.issue(KeyGrant::new(tenant, subject)).await.unwrap();
        format!("Bearer {}", key.reveal())
    }

    /// Waits until nothing runs and the server holds no bodies.
    #[track_caller]
    pub(crate) fn quiet(&self) -> impl Future<Output = ()> + '_ {
        until_shown(|| {
            let service = &self.service;
            let left = (
                self.hold.alive(),
                self.monitor.running(),
                service.running(),
                service.held_bytes(),
            );
            (left == (0, 0, 0, 0), left)
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.run.abort();
    }
}
