//! `mgp serve` where the kernel is in this process: at an address, alone for one host, or detached for many.
//!
//! Applies to: inbound.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_discovery::Sources;
use mgp_kernel::{Carrier, Kernel};
use mgp_security::auth::{ApiKeys, AuthLayer, FileKeys};
use mgp_server_sdk::{Bound, ServeError, Server};
use mgp_transport::take_stdio;
use mgp_types::mgp::ShutdownReason;
use mgp_types::service::Principal;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::attach::House;
use crate::cli::{Detached, Global, Serve};
use crate::exit::{Ended, Failure};
use crate::launch;
use crate::lock::{self, Lock, Locked};
use crate::preface::{self, Greeting, NAMELESS};
use crate::ready::{Line, ReadyFile};
use crate::signals::Signals;
#[cfg(unix)]
use crate::socket::Listening;
use crate::state;

/// How long connections may take to be closed once everything is answered.
const CLOSES: Duration = Duration::from_secs(5);

/// How long the first host of a kernel that was started for it may take to come.
const COMES: Duration = Duration::from_secs(10);

/// How long a kernel that leaves is waited for, and how often it is looked at.
const LEAVES: Duration = Duration::from_secs(9);
const LOOK: Duration = Duration::from_millis(20);

/// How long a command may take that has the folder meanwhile.
const COMMAND: Duration = Duration::from_secs(2);

/// How a kernel is served, besides its socket.
enum Carried {
    /// To the process that started this one, which counts as this agent.
    Stdio(String),
    /// At an address, to whoever the door lets in.
    Http(Address, Door),
    /// To nobody else; it leaves once it had no client for so long.
    Alone(Duration),
}

/// Where it is served over HTTP.
struct Address {
    at: String,
    /// By which names besides.
    hosts: Vec<String>,
    /// To which web pages.
    origins: Vec<String>,
}

/// Who is let in at an address.
enum Door {
    /// Who shows a key.
    Keys,
    /// Anyone, as this agent.
    Open(String),
}

/// Why serving ends.
enum End {
    Signal(i32),
    /// The host closed its side.
    Left,
    /// There was nobody for long enough.
    Idle,
    /// An operator wants it.
    Asked(Option<Duration>),
}

/// `mgp serve` in this process.
pub(crate) async fn run(global: &Global, serve: Serve) -> Ended {
    let agent = serve.agent.unwrap_or_else(|| NAMELESS.to_owned());
    let agent = preface::named(&agent).map_err(Failure::usage)?.to_owned();
    let carried = match serve.http {
        None => Carried::Stdio(agent),
        Some(at) => {
            let address = Address { at, hosts: serve.allow_host, origins: serve.allow_origin };
            Carried::Http(address, if serve.no_auth { Door::Open(agent) } else { Door::Keys })
        }
    };
    let folder = state::made(global)?;
    kernel(&folder, serve.config, carried, serve.ready_file.as_deref(), None).await
}

/// The kernel that several hosts share, in a process of its own.
pub(crate) async fn detached(global: &Global, detached: Detached, report: launch::Report) -> Ended {
    let folder = state::made(global)?;
    let linger = Duration::from_secs(detached.linger);
    kernel(&folder, detached.config, Carried::Alone(linger), None, Some(report)).await
}

async fn kernel(
    folder: &Path,
    config: Option<PathBuf>,
    carried: Carried,
    ready_file: Option<&Path>,
    report: Option<launch::Report>,
) -> Ended {
    // From the first moment on, so that one that comes early ends in order as well.
    let mut signals = Signals::new()?;
    let _lock = hold(folder, report.is_some()).await?;
    let sources = config.map_or_else(Sources::of_process, Sources::given);
    #[cfg(unix)]
    let listening = Listening::open(folder)?;
    // From here on it follows the files by itself, with what was approved.
    let kernel = Kernel::builder().sources(sources.clone()).in_folder(folder).await?;
    let servers: Vec<String> = kernel.servers().into_iter().map(|server| server.id).collect();
    let (house, http, stdio) = match carry(&kernel, folder, carried).await {
        Ok(carried) => carried,
        Err(failure) => {
            kernel.stop().await;
            return Err(failure);
        }
    };
    let url = http.as_ref().map(|bound| format!("http://{}/mcp", bound.local_addr()));
    kernel.set_reachable(|reachable| {
        reachable.state = Some(absolute(folder));
        #[cfg(unix)]
        reachable.socket.replace(absolute(listening.path()));
        reachable.http.clone_from(&url);
        reachable.config = sources.files().filter(|file| file.exists()).map(absolute).collect();
    });
    let reachable = kernel.reachable();
    let linger = stdio.as_ref().err().copied();
    let mut serving = JoinSet::new();
    let http: Option<JoinHandle<()>> = http.map(|bound| tokio::spawn(bound.run()));
    let stdio = match stdio {
        Ok(Some(agent)) => serve_stdio(&house, &agent).map(Some),
        _ => Ok(None),
    };
    let ready = Line {
        pid: std::process::id(),
        http: url.as_deref(),
        socket: reachable.socket.as_deref(),
        servers: &servers,
    };
    let begun = stdio.and_then(|stdio| {
        Ok((stdio, ready_file.map(|file| ReadyFile::write(file, &ready)).transpose()?))
    });
    let (mut stdio, ready) = match begun {
        Ok(begun) => begun,
        Err(failure) => {
            kernel.stop().await;
            return Err(failure);
        }
    };
    if let Some(report) = report {
        report.served();
    }
    tracing::info!(http = url, servers = servers.len(), "served");
    // It ends with the runtime.
    let greeting = Greeting { config: reachable.config, http: url, servers, ..Greeting::welcome() };

    #[cfg(unix)]
    let sockets = listening.run(&house, &greeting, &mut serving);
    #[cfg(not(unix))]
    let sockets = std::future::pending::<()>();
    let end = tokio::select! {
        number = signals.next() => End::Signal(number),
        () = left(&mut stdio) => End::Left,
        () = idle(&kernel, linger) => End::Idle,
        within = kernel.asked_to_leave() => End::Asked(within),
        // Somebody who may has drained it by the protocol.
        () = house.drain.begun() => End::Asked(None),
        () = sockets => End::Idle,
    };
    drop(greeting);
    // Nobody is to find it any more: whoever comes now starts another one.
    drop(ready);
    #[cfg(unix)]
    drop(listening);
    signals.hurry();
    leave(&house, end).await;
    let closed = timeout(CLOSES, async {
        while serving.join_next().await.is_some() {}
        if let Some(stdio) = stdio {
            let _ = stdio.await;
        }
        if let Some(http) = http {
            let _ = http.await;
        }
    });
    if closed.await.is_err() {
        tracing::warn!("connections are cut: their peers do not read");
    }
    kernel.stop().await;
    let log = kernel.governance().log().cloned();
    if let Some(log) = log
        && let Err(error) = log.close().await
    {
        return Err(Failure::failed(format!("the end of the audit log was not written: {error}")));
    }
    Ok(())
}

/// Takes the folder for this process; a command that has it is waited for, and a kernel that is about to leave by one that was started for a host.
async fn hold(folder: &Path, waits: bool) -> Ended<Lock> {
    let patience = if waits { LEAVES } else { COMMAND };
    let mut waited = Duration::ZERO;
    let pid = loop {
        match lock::kernel(folder)? {
            Locked::Ours(lock) => return Ok(lock),
            Locked::Theirs(pid) if waited >= patience || answers(folder) => break pid,
            Locked::Theirs(_) => {}
        }
        sleep(LOOK).await;
        waited += LOOK;
    };
    let pid = pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
    Err(Failure::taken(format!(
        "a kernel{pid} uses `{}` already; stop it with `mgp stop`, or name another folder with --state DIR",
        folder.display()
    )))
}

/// Whether a kernel can be reached.
fn answers(folder: &Path) -> bool {
    #[cfg(unix)]
    return std::os::unix::net::UnixStream::connect(crate::socket::place(folder)).is_ok();
    #[cfg(not(unix))]
    return folder.join("mgp.sock").exists();
}

/// The stack, and what else it is served over: an address, or the standard streams to an agent, or neither for long.
type Carriers = (House, Option<Bound>, Result<Option<String>, Duration>);

async fn carry(kernel: &Kernel, folder: &Path, carried: Carried) -> Ended<Carriers> {
    let server = kernel.server().without_signals();
    let drain = server.drain_handle();
    let house = |stack| House { kernel: kernel.clone(), stack, drain };
    match carried {
        Carried::Stdio(agent) => Ok((house(built(server)?), None, Ok(Some(agent)))),
        Carried::Alone(linger) => Ok((house(built(server)?), None, Err(linger))),
        Carried::Http(address, door) => {
            let bound = bind(server, folder, address, door).await?;
            // One stack for all: what a session at the address knows, one at the socket knows.
            Ok((house(bound.stack()), Some(bound), Ok(None)))
        }
    }
}

fn built(server: Server) -> Ended<mgp_types::service::Stack> {
    server.into_stack().map_err(|error| Failure::failed(error.message()))
}

async fn bind(server: Server, folder: &Path, address: Address, door: Door) -> Ended<Bound> {
    let Address { at, hosts, origins } = address;
    let http = server.http(at).config(|config| (config.hosts, config.origins) = (hosts, origins));
    let http = match door {
        Door::Open(agent) => {
            http.no_auth().config(|config| config.anonymous = Some(Principal::local().agent(agent)))
        }
        Door::Keys => {
            let keys = ApiKeys::open(FileKeys::new(folder.join("keys.json"))).await?;
            if keys.records().await?.is_empty() {
                tracing::warn!(
                    "there are no keys yet, so nobody is let in; make one with `mgp keys add`"
                );
            }
            http.auth(AuthLayer::new().keys(keys))
        }
    };
    http.bind().await.map_err(|error| match error {
        ServeError::Exposed(address) => Failure::usage(format!(
            "`{address}` can be reached from other machines, so --no-auth is refused there; leave it out and make keys with `mgp keys add`, or listen at 127.0.0.1"
        )),
        ServeError::Listen { address, source } if source.kind() == std::io::ErrorKind::AddrInUse => {
            Failure::failed(format!(
                "`{address}` is in use by another program; name another port, or port 0 for any that is free"
            ))
        }
        ServeError::Listen { address, source } if source.kind() == std::io::ErrorKind::InvalidInput => {
            Failure::usage(format!("`{address}` is no address; write HOST:PORT, as 127.0.0.1:8900"))
        }
        error @ ServeError::Listed { .. } => Failure::usage(error),
        error => Failure::failed(error),
    })
}

/// Serves the process that started this one.
fn serve_stdio(house: &House, agent: &str) -> Ended<JoinHandle<()>> {
    launch::hint();
    let (reader, writer) = take_stdio()?;
    let (house, principal) = (house.clone(), Principal::local().agent(agent));
    Ok(tokio::spawn(async move {
        let closed = house.attach(reader, writer, principal, Carrier::Stdio).await;
        tracing::debug!(%closed, "the host has left");
    }))
}

/// Waits until the host has left; for ever where there is none.
async fn left(stdio: &mut Option<JoinHandle<()>>) {
    match stdio {
        Some(serving) => {
            let _ = serving.await;
            // It is not waited for twice.
            *stdio = None;
        }
        None => std::future::pending().await,
    }
}

/// Waits until nobody was there for so long.
async fn idle(kernel: &Kernel, linger: Option<Duration>) {
    match linger {
        Some(linger) => {
            // Whoever started it is on the way.
            let _ = timeout(COMES, kernel.clients().came()).await;
            kernel.clients().absent(linger).await;
        }
        None => std::future::pending().await,
    }
}

/// Lets what runs finish, and takes nothing new.
async fn leave(house: &House, end: End) {
    let patience = house.drain.config().timeout;
    let (reason, within) = match end {
        End::Signal(number) => {
            tracing::info!(number, "a signal: the kernel drains, a second one ends it at once");
            (ShutdownReason::OperatorRequest, patience)
        }
        End::Asked(within) => (ShutdownReason::OperatorRequest, within.unwrap_or(patience)),
        // Whoever asked has gone, and its calls with it.
        End::Left => (ShutdownReason::OperatorRequest, CLOSES),
        End::Idle => (ShutdownReason::IdleTimeout, CLOSES),
    };
    house.drain.begin(reason, within);
    house.drain.ended().await;
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
