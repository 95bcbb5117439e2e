//! From a pair of streams, a program, or a URL to a connected client.
//!
//! Applies to: outbound.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use mgp_lifecycle::{CatchPanicLayer, ConnectError, EraChoice, Session, StampLayer, connect};
use mgp_transport::{Child, ChildCommand, Connection, Monitor};
use mgp_types::ErrorCode;
use mgp_types::mcp::{Era, Revision, ServerCapabilities};
use mgp_types::method::{
    LifecycleNotification, PromptsListChanged, ResourcesListChanged, ResourcesUpdated,
    SubscriptionsAcknowledged, ToolsListChanged,
};
use mgp_types::mgp::Extension;
use mgp_types::service::{Asks, Context, Facts, Peer, Router, Stack, Unaudited};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tower_layer::Layer as _;

use super::{Client, Inner, Kin};
use crate::cache::Lists;
use crate::config::ClientConfig;
use crate::error::Error;
use crate::handler::{Changed, Hooks};
use crate::listening::{Listening, Parts, Told, acknowledged};
use crate::permission::answered;
use crate::presence::Presence;
use crate::wire::{
    Allowance, Driver, Inbound, Life, Lively, MirrorLayer, PatienceLayer, Road, Watched, drive,
    inbound,
};

/// How long a child that was killed may take to be gone.
const KILLED: Duration = Duration::from_secs(5);
/// Enough for the bound of the whole handshake to be the one that is reached.
const MOMENT: Duration = Duration::from_secs(1);

/// Starts a child and connects to it.
pub(crate) async fn spawn(
    command: &ChildCommand,
    config: ClientConfig,
    gates: impl FnOnce(Road) -> Stack,
) -> Result<Client, Error> {
    let mut child = command.spawn()?;
    let Some((reader, writer)) = child.take_io() else {
        return Err(ConnectError::Refused(mgp_types::service::closed("no pipes")).into());
    };
    establish(reader, writer, config, gates, Some(Kin::Own(Arc::new(child)))).await
}

/// Connects over a pair of byte streams; `child` is the server where it is one of ours.
pub(crate) async fn establish<R, W>(
    reader: R,
    writer: W,
    config: ClientConfig,
    gates: impl FnOnce(Road) -> Stack,
    child: Option<Kin>,
) -> Result<Client, Error>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let config = placed(answered(config));
    let lists = Arc::new(Lists::of(&config));
    let (reader, eof) = Watched::new(reader);
    let connection = Connection::new(reader, writer, heard(&config, &lists))
        .limits(config.limits.clone())
        .principal(config.principal.clone());
    let (peer, cx, monitor) = (connection.peer(), connection.context(), connection.monitor());
    let own = child.as_ref().map(|kin| Arc::clone(kin.child()));
    let (life, driver) = drive(connection, eof, own);
    let mirror = MirrorLayer::none();
    let past = Past::Unknown;
    let wired = Wired { peer, cx, monitor, life, driver, child, lists, mirror, past };
    // Whoever connects holds a pointer, and not all of the handshake.
    Box::pin(shake_hands(wired, config, gates)).await
}

/// Connects to a URL.
#[cfg(feature = "http")]
pub(crate) async fn reach(
    url: &str,
    config: ClientConfig,
    gates: impl FnOnce(Road) -> Stack,
) -> Result<Client, Error> {
    let config = placed(answered(config));
    let endpoint = mgp_transport::http::Endpoint::parse(url)?;
    let past =
        Past::Origin { eras: config.http.eras.clone(), origin: endpoint.origin().to_owned() };
    let lists = Arc::new(Lists::of(&config));
    let connection = mgp_transport::http::HttpConnection::new(
        endpoint,
        heard(&config, &lists),
        config.principal.clone(),
        config.limits.clone(),
        config.http.clone(),
    )?;
    let (peer, cx, monitor) = (connection.peer(), connection.context(), connection.monitor());
    let (life, driver) = crate::wire::attend(connection.run(), None);
    let mirror = MirrorLayer::new(config.max_pages);
    let wired = Wired { peer, cx, monitor, life, driver, child: None, lists, mirror, past };
    // Whoever connects holds a pointer, and not all of the handshake.
    Box::pin(shake_hands(wired, config, gates)).await
}

/// What a client needs of whatever carries it, driven already.
struct Wired {
    peer: Peer,
    cx: Context,
    monitor: Monitor,
    life: Life,
    driver: Driver,
    child: Option<Kin>,
    lists: Arc<Lists>,
    mirror: MirrorLayer,
    past: Past,
}

/// What is known of the server from before.
enum Past {
    /// Nothing: it is new.
    Unknown,
    /// Perhaps its era, by its origin.
    #[cfg(feature = "http")]
    Origin { eras: mgp_transport::http::EraCache, origin: String },
}

impl Past {
    /// Whether the server was a legacy one when it was last met.
    fn was_legacy(&self) -> bool {
        match self {
            Self::Unknown => false,
            #[cfg(feature = "http")]
            Self::Origin { eras, origin } => eras.of(origin) == Some(Era::Legacy),
        }
    }

    fn forget(&self) {
        match self {
            Self::Unknown => {}
            #[cfg(feature = "http")]
            Self::Origin { eras, origin } => eras.forget(origin),
        }
    }

    #[cfg_attr(not(feature = "http"), expect(unused_variables, reason = "pipes have no past"))]
    fn note(&self, era: Era) {
        match self {
            Self::Unknown => {}
            #[cfg(feature = "http")]
            Self::Origin { eras, origin } => eras.note(origin, era),
        }
    }
}

/// Puts the stacks together, shakes hands, and ends what was begun when that fails.
async fn shake_hands(
    wired: Wired,
    mut config: ClientConfig,
    gates: impl FnOnce(Road) -> Stack,
) -> Result<Client, Error> {
    let Wired { peer, mut cx, monitor, life, driver, child, lists, mirror, past } = wired;
    cx.server.clone_from(&config.server_id);
    if config.hooks.audit.is_some() && config.server_id.is_none() {
        return Err(ConnectError::Nameless.into());
    }
    let session = cx.scope.state::<Session>();
    let stamp =
        StampLayer::new(Arc::clone(&session), &config.offer).map_err(ConnectError::Refused)?;
    let stamp = stamp.server(config.server_id.clone());
    let max = config.max_timeout.max(config.timeout);
    let allowance = Allowance { timeout: config.timeout, max };
    let patience = PatienceLayer::new(allowance, config.hooks.progress.clone());
    let lively = Lively::new(peer.clone(), life.clone());
    let retry = config.retry.take();
    let road = Road::new(lively, &cx.scope, retry, stamp, mirror, patience);
    let stack = gates(road);
    if config.connect.era == EraChoice::Modern {
        // There is nothing to fall back to, so the probe has all the time there is.
        config.connect.probe_timeout = config.connect.handshake_timeout + MOMENT;
    }
    let facts = match settle(&stack, &cx, &config, &past).await {
        Ok(facts) => facts,
        Err(error) => {
            peer.close("the handshake failed");
            if let Some(kin) = &child {
                end(kin.child(), &error).await;
            }
            return Err(told(error, config.connect.era));
        }
    };
    let presence = match announce(&config, &facts, &life).await {
        Ok(presence) => presence,
        Err(unaudited) => {
            peer.close("its connection cannot be recorded");
            if let Some(kin) = &child {
                kin.child().shutdown().await;
            }
            return Err(Error::Unaudited(unaudited));
        }
    };
    let following = session.permissions().map(|flow| {
        let (stack, cx, life) = (stack.clone(), cx.clone(), life.clone());
        Driver::of(async move {
            select(Box::pin(flow.follow(stack, cx)), Box::pin(life.over())).await;
        })
    });
    let capabilities: Option<ServerCapabilities> =
        facts.capabilities.as_ref().and_then(|all| all.get().ok());
    let capabilities = capabilities.unwrap_or_default();
    let listening = (facts.era == Era::Modern).then(|| {
        let parts = Parts {
            stack: config.ungated.get().unwrap_or(&stack).clone(),
            cx: cx.clone(),
            life: life.clone(),
            lists: Arc::clone(&lists),
            hooks: config.hooks,
            config: config.listen,
            patience: config.timeout,
        };
        let told = if facts.has(Extension::Lifecycle) { Told::States } else { Told::Changes };
        Listening::new(parts, &capabilities, told)
    });
    Ok(Client(Arc::new(Inner {
        listening,
        ungated: config.ungated.get().unwrap_or(&stack).clone(),
        stack,
        peer,
        cx,
        capabilities,
        facts,
        session,
        monitor,
        life,
        lists,
        asked: Stack::new(CatchPanicLayer::new().layer(config.answers.clone())),
        answers: config.answers,
        allowance,
        max_pages: config.max_pages,
        max_rounds: config.max_rounds,
        child,
        presence,
        _following: following,
        _driver: driver,
    })))
}

/// Records that the server is there, where somebody wants to know.
async fn announce(
    config: &ClientConfig,
    facts: &Facts,
    life: &Life,
) -> Result<Option<Presence>, Unaudited> {
    match (&config.hooks.audit, &config.server_id) {
        (Some(sink), Some(server)) => {
            Presence::announce(sink, server, facts, life.clone()).await.map(Some)
        }
        _ => Ok(None),
    }
}

/// Shakes hands in the era the server had before, if it is known; what it was wrong about is forgotten.
async fn settle(
    stack: &Stack,
    cx: &Context,
    config: &ClientConfig,
    past: &Past,
) -> Result<Arc<Facts>, ConnectError> {
    let is_free = config.connect.era == EraChoice::Auto;
    if is_free && past.was_legacy() {
        let mut known = config.connect.clone();
        known.era = EraChoice::Legacy;
        match connect(stack, cx, &config.offer, &known).await {
            Err(ConnectError::Refused(refusal)) => {
                tracing::debug!(%refusal, "the server is no longer a legacy one, or refuses");
                past.forget();
            }
            settled => return settled,
        }
    }
    let facts = connect(stack, cx, &config.offer, &config.connect).await?;
    // What a server is that failed or said nothing is for the next connection to find out.
    if is_free && !cx.scope.state::<Session>().is_guessed() {
        past.note(facts.era);
    }
    Ok(facts)
}

/// THE inbound stack of a client with this configuration.
fn heard(config: &ClientConfig, lists: &Arc<Lists>) -> Stack {
    inbound(Inbound {
        own: config.answers.clone(),
        notices: notices(lists, &config.hooks),
        asks: Asks::of(&config.offer.capabilities),
        unattributed: config.unattributed.clone(),
    })
}

/// A child that said nothing is killed; one that refused is asked to leave first.
async fn end(child: &Child, error: &ConnectError) {
    if matches!(error, ConnectError::TimedOut(_)) {
        child.kill();
        // Whoever reads the error finds the group gone, unless the kernel holds a process of it.
        let _ = timeout(KILLED, child.wait()).await;
    } else {
        child.shutdown().await;
    }
}

/// Words the failure of a handshake: a server without `server/discover` speaks no modern revision.
fn told(error: ConnectError, era: EraChoice) -> Error {
    match error {
        ConnectError::Refused(refusal)
            if era == EraChoice::Modern && refusal.code() == ErrorCode::METHOD_NOT_FOUND =>
        {
            Error::UnsupportedVersion { requested: Revision::MODERN, supported: Vec::new() }
        }
        other => other.into(),
    }
}

/// Tells the layer that makes calls again where it stands.
pub(crate) fn placed(mut config: ClientConfig) -> ClientConfig {
    config.retry = config.retry.map(|retry| {
        let retry = match &config.hooks.known {
            Some(known) => {
                let known = Arc::clone(known);
                retry.tools(move |server, tool| known(server, tool))
            }
            None => retry,
        };
        match &config.server_id {
            Some(id) => retry.server(id.clone()),
            None => retry,
        }
    });
    config
}

/// What is noted of each change, in wire order, before anybody else hears of it.
fn notices(lists: &Arc<Lists>, hooks: &Hooks) -> Router {
    let note = |what: fn() -> Changed| {
        let (lists, hooks) = (Arc::clone(lists), hooks.clone());
        move || {
            let what = what();
            lists.forget(&what);
            hooks.tell(&what);
            std::future::ready(Ok(()))
        }
    };
    let tools = note(|| Changed::Tools);
    let resources = note(|| Changed::Resources);
    let prompts = note(|| Changed::Prompts);
    let (hooks, states) = (hooks.clone(), hooks.clone());
    Router::new()
        .on_notification::<ToolsListChanged, _, _>(move |_, _| tools())
        .on_notification::<ResourcesListChanged, _, _>(move |_, _| resources())
        .on_notification::<PromptsListChanged, _, _>(move |_, _| prompts())
        .on_notification::<ResourcesUpdated, _, _>(move |_, params| {
            hooks.tell(&Changed::Resource(params.uri));
            std::future::ready(Ok(()))
        })
        .on_notification::<LifecycleNotification, _, _>(move |_, change| {
            states.tell_state(change);
            std::future::ready(Ok(()))
        })
        .on_notification::<SubscriptionsAcknowledged, _, _>(|cx, params| {
            acknowledged(&cx, params);
            std::future::ready(Ok(()))
        })
}
