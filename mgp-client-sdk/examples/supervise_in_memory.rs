//! Restarts a server in this process with `supervise`, until it fails too often (MGP §11.5).
//!
//! `cargo run -q -p mgp-client-sdk --example supervise_in_memory`

#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::prelude::*;
use mgp_lifecycle::{StateHandle, SuperviseConfig, supervise};
use mgp_server_sdk::{Server, Tool};
use mgp_transport::{Connection, DuplexEnd, duplex};
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{BoxFuture, Exit, Spawn, SpawnError, Spawned};
use mgp_types::sync::Mutex;
use tokio::{sync::Notify, sync::watch, task::AbortHandle};

/// A [`Spawn`] that starts servers in this process, and crashes the running one when the [`Notify`] is notified.
struct Clock(Arc<Notify>);

/// A running server: a handle to abort its task, the client's end of the connection (`None` once `ready` has taken it),
/// and a receiver that reports an error when the task has ended.
struct Running(AbortHandle, Mutex<Option<DuplexEnd>>, watch::Receiver<()>);

impl Spawn for Clock {
    type Server = Running;

    fn start(&self) -> BoxFuture<'static, Result<Running, SpawnError>> {
        let crash = Arc::clone(&self.0);
        Box::pin(async move {
            let now = Tool::new("now", "The time", || async { "noon" });
            let stack = Server::new("clock", "1.0").tool(now).into_stack();
            let (stack, (here, there)) = (stack.map_err(SpawnError::new)?, duplex());
            let (alive, gone) = watch::channel(());
            let serving = tokio::spawn(async move {
                let _alive = alive;
                tokio::select! {
                    _ = Connection::new(there.reader, there.writer, stack).run() => {}
                    () = crash.notified() => {}
                }
            });
            Ok(Running(serving.abort_handle(), Mutex::new(Some(here)), gone))
        })
    }
}

impl Spawned for Running {
    type Client = Client;

    fn ready(&self) -> BoxFuture<'static, Result<Client, SpawnError>> {
        let here = self.1.lock().take();
        Box::pin(async move {
            let here = here.ok_or_else(|| SpawnError::new("it was asked for once already"))?;
            let builder = Client::builder("supervise_in_memory", "1.0");
            builder.connect(here.reader, here.writer).await.map_err(SpawnError::new)
        })
    }

    fn wait(&self) -> BoxFuture<'static, Exit> {
        let mut gone = self.2.clone();
        Box::pin(async move {
            while gone.changed().await.is_ok() {}
            Exit::failure("its task ended")
        })
    }

    fn stop(&self, _: Option<&ShutdownReason>) -> BoxFuture<'static, ()> {
        self.kill();
        let ended = self.wait();
        Box::pin(async { drop(ended.await) })
    }

    fn kill(&self) {
        self.0.abort();
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (crash, mut config) = (Arc::new(Notify::new()), SuperviseConfig::default());
    (config.max_restarts, config.backoff_base) = (2, Duration::from_millis(10));
    let state = StateHandle::new(ServerState::Registered);
    let server = supervise(Clock(Arc::clone(&crash)), config, state);
    let mut reports = server.reports();
    server.start().await;
    for _ in 0..3 {
        let client = server.ready().await.map_err(|rest| rest.reason.to_string())?;
        println!("the time: {}", client.call("now").await?.to_text());
        crash.notify_one();
        while reports.recv().await?.from != ServerState::Connected {}
    }
    let rest = server.ended().await;
    println!("{} after {} restarts: {}", rest.state, rest.restarts, rest.reason);
    assert!(rest.limit.is_some());
    Ok(())
}
