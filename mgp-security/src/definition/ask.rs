//! Calls that cannot go on at once: the tools must be listed, or an event must tell something, first.
//!
//! Applies to: outbound.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mgp_types::mcp::ListParams;
use mgp_types::method::ToolsList;
use mgp_types::mgp::{Actor, RiskLevel};
use mgp_types::service::{
    Asking, Call, CallKey, Context, Extensions, MgpService, Outlet, Reply, ServerId, Start, Waited,
};
use mgp_types::{Payload, RpcError};
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use super::Standing;
use super::definitions::{Definitions, Look};
use super::refused::DefinitionRefused;
use super::reply::{self, Page};
use super::seen::{Whole, refused};
use super::table::Known;
use crate::audit::Event;
use crate::error::Refusal;

/// How long listing may take, and how long is waited for others to do it; the call of a tool nobody has seen goes on
/// as one of an unlisted tool when its server does not answer in that time.
const LIST_FOR: Duration = Duration::from_secs(10);

/// How many pages are read; a server with more is taken as not answering.
const PAGES_MAX: usize = 100;

/// What a call hears whose tool changes while it waits.
const UNSETTLED: &str = "its definition is not settled; try again";

/// Why the tools of a server could not be listed.
enum Failed {
    /// The server did not answer, or not as it should.
    Server(RpcError),
    /// What it answered cannot be kept.
    Here(RpcError),
}

/// Does what must be done before a call, and then makes it.
pub(super) async fn first<S: MgpService>(
    definitions: Definitions,
    server: ServerId,
    mut inner: S,
    mut call: Call,
) -> Result<Reply, RpcError> {
    let name = call.tool().map(|tool| tool.name.to_owned()).unwrap_or_default();
    let mut look = look(&definitions, &server, &name)?;
    if matches!(look, Look::List) {
        look = listed(&definitions, &server, &mut inner, &call, &name).await?;
        note_risk(&call, &definitions.assessment(Some(&server), &name).effective_risk);
    }
    match look {
        Look::Tell(known) => tell(&definitions, &server, &name, &call, &known).await?,
        Look::Refuse(standing) => return Err(refuse(&server, &call, standing).into()),
        Look::Pass | Look::List => {}
    }
    Waited::mark(call.cx_mut());
    inner.call(call).await
}

/// Notes the risk of a call for its record, which began before anybody knew the tool.
fn note_risk(call: &Call, risk: &RiskLevel) {
    if let Some(start) = call.cx().extensions.get::<Start>()
        && start.risk.as_ref() != Some(risk)
        && let Ok(word) = Payload::of(risk)
    {
        start.note("risk_level", word);
    }
}

/// Waits until nobody else lists the tools of a server, or tells of them.
async fn turn(
    definitions: &Definitions,
    server: &ServerId,
    call: &Call,
) -> Result<OwnedMutexGuard<()>, RpcError> {
    let turn = definitions.turn(server).lock_owned();
    let Ok(turn) = timeout(patience(call), turn).await else {
        let reason = RpcError::internal("other calls still wait for them");
        return Err(Refusal::Unlisted { server: server.clone(), reason }.into());
    };
    Ok(turn)
}

/// How long a call waits.
fn patience(call: &Call) -> Duration {
    call.cx().deadline.remaining().map_or(LIST_FOR, |left| left.min(LIST_FOR))
}

fn look(definitions: &Definitions, server: &ServerId, name: &str) -> Result<Look, RpcError> {
    definitions.look(server, name).map_err(|error| Refusal::Unchanged(error.into()).into())
}

impl Definitions {
    /// Refuses a call of a tool whose definition does not stand at this moment; nothing is listed for it.
    pub(crate) fn allow(&self, server: &ServerId, call: &Call) -> Result<(), RpcError> {
        let name = call.tool().map(|tool| tool.name).unwrap_or_default();
        match look(self, server, name)? {
            Look::Refuse(standing) => Err(refuse(server, call, standing).into()),
            Look::List if self.definition(Some(server), name).is_some() => {
                Err(refuse(server, call, refused(UNSETTLED)).into())
            }
            Look::Pass | Look::Tell(_) | Look::List => Ok(()),
        }
    }
}

/// Lists the tools, once for all calls that wait for it, and looks again.
async fn listed<S: MgpService>(
    definitions: &Definitions,
    server: &ServerId,
    inner: &mut S,
    call: &Call,
    name: &str,
) -> Result<Look, RpcError> {
    let unlisted = |reason| Refusal::Unlisted { server: server.clone(), reason };
    let turn = turn(definitions, server, call).await?;
    // Whoever had the turn before may have listed them.
    let before = look(definitions, server, name)?;
    if !matches!(before, Look::List) {
        return Ok(before);
    }
    let most = patience(call);
    let listed = timeout(most, list(definitions, server, inner, call)).await;
    let late = || RpcError::internal("it did not list its tools in time");
    // That a caller was in a hurry says nothing of the server.
    if listed.is_err() && most < LIST_FOR {
        return Err(unlisted(late()).into());
    }
    let listed = listed.unwrap_or_else(|_| Err(Failed::Server(late())));
    match listed {
        Ok(()) => {}
        Err(Failed::Here(error)) => return Err(error),
        // A tool whose definition may have changed is not called on the old one.
        Err(Failed::Server(error))
            if definitions.standing(Some(server), name) != Standing::Unseen =>
        {
            return Err(unlisted(error).into());
        }
        Err(Failed::Server(error)) => {
            tracing::warn!(%server, %error, "the tools cannot be listed; those nobody knows count as dangerous");
            definitions.tried(server).await.map_err(Refusal::Unchanged)?;
        }
    }
    drop(turn);
    match look(definitions, server, name)? {
        // It changed again in this moment, or it is not pinned: whoever calls may try again.
        Look::List if definitions.definition(Some(server), name).is_some() => {
            Ok(Look::Refuse(refused(UNSETTLED)))
        }
        Look::List => Ok(Look::Pass),
        settled => Ok(settled),
    }
}

/// Reads all pages.
async fn list<S: MgpService>(
    definitions: &Definitions,
    server: &ServerId,
    inner: &mut S,
    on_behalf: &Call,
) -> Result<(), Failed> {
    let mut tools = Vec::new();
    let mut params = ListParams::new();
    for _ in 0..PAGES_MAX {
        let mut call =
            Call::ask::<ToolsList>(&params, own(on_behalf.cx())).map_err(Failed::Here)?;
        // Those who stand further out have spoken already.
        *call.hop_mut() = on_behalf.hop().speaker();
        let reply = inner.call(call).await.map_err(Failed::Server)?;
        let Page { tools: more, next } = reply::read(&reply).map_err(Failed::Server)?;
        tools.extend(more);
        params.cursor = next;
        if params.cursor.is_none() {
            let taken = definitions.take(server, &tools, Whole::Yes).await;
            return taken.map(drop).map_err(|error| Failed::Here(Refusal::Unchanged(error).into()));
        }
    }
    Err(Failed::Server(RpcError::internal(format!("it has more than {PAGES_MAX} pages of tools"))))
}

/// The surroundings of a call of our own on behalf of another.
fn own(cx: &Context) -> Context {
    let mut own = cx.clone();
    own.key = CallKey::next();
    own.wire_id = None;
    own.logical = None;
    own.outlet = Outlet::none();
    own.asking = Asking::Nobody;
    // What layers further out noted is about their call, not about this one.
    own.extensions = Extensions::default();
    own
}

/// Tells that the operator replaced the risk of a tool, once per definition and word.
async fn tell(
    definitions: &Definitions,
    server: &ServerId,
    name: &str,
    call: &Call,
    known: &Known,
) -> Result<(), RpcError> {
    let Some(before) = &known.assessment.overrides else { return Ok(()) };
    let after = &known.assessment.effective_risk;
    // One call tells it for all, and none runs before it is told.
    let _turn = turn(definitions, server, call).await?;
    if !known.untold.load(Ordering::Acquire) {
        return Ok(());
    }
    let event = Event::risk_overridden(Actor::kernel(), Some(server), name, before, after)
        .during(call.cx().trace.as_deref());
    let audit = definitions.0.pins.audit();
    audit.record(event.build()).await.map_err(Refusal::Unaudited)?;
    known.untold.store(false, Ordering::Release);
    Ok(())
}

pub(super) fn refuse(server: &ServerId, call: &Call, standing: Standing) -> Refusal {
    let tool = call.tool().map(|tool| tool.name).unwrap_or_default();
    DefinitionRefused::new(server, tool, standing, &call.cx().principal).into()
}
