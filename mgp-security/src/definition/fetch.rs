//! Preparations of a call: listing the server's tools if the called tool is unknown, and recording an override of the
//! tool's risk.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mgp_types::mcp::ListParams;
use mgp_types::method::ToolsList;
use mgp_types::mgp::Actor;
use mgp_types::service::{
    Call, CallKey, CallerAccess, Context, Extensions, MgpService, Outlet, ServerId,
};
use mgp_types::{Backoff, RpcError, Sha256Hash};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{sleep, timeout};

use super::DefinitionState;
use super::definitions::Definitions;
use super::reply::Page;
use super::server_listing::{BYTES_MAX, ListExtent, TOOLS_MAX};
use super::table::DefinitionRule;
use crate::audit::Event;
use crate::error::Refusal;

/// The time limit for listing the tools, and for waiting while another call lists them.
///
/// If the server does not answer in time, its unknown tools count as dangerous.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of lists that are read for a call while the server announces changes and each list differs from the list
/// before it.
const MAX_LISTS: usize = 6;

/// The delays before the third list and each later one, so that a server that is starting can finish its changes.
const LIST_AGAIN: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(200));

/// The maximum number of pages that are read; a server with more pages counts as unresponsive.
const MAX_PAGES: usize = 10_000;

/// The reason why the tools of a server could not be listed.
enum ListError {
    /// The server did not answer, or its answer is invalid.
    Server(RpcError),
    /// The tools that the server listed could not be stored.
    Local(RpcError),
}

impl Definitions {
    /// Lists the tools of a server before a call; concurrent calls share one listing. If the server announced changes
    /// during the listing, but listed the same tools twice in a row, returns the number of changes that the server had
    /// announced until then.
    ///
    /// # Errors
    /// [`Refusal::Unlisted`] if the tool is known and the server does not list its tools, or if other calls or the
    /// caller's deadline leave no time for that; [`Refusal::Unchanged`] if the pins cannot be read or stored.
    pub(crate) async fn fetch<S: MgpService>(
        &self,
        server: &ServerId,
        inner: &mut S,
        call: &Call,
        tool: &str,
    ) -> Result<Option<u64>, RpcError> {
        let unlisted = |reason| Refusal::Unlisted { server: server.clone(), reason };
        let turn = turn(self, server, call).await?;
        // Another call that held the lock before may have listed the tools already. Then do not list them again.
        if !self.must_list(server, tool)? {
            return Ok(None);
        }
        let limit = time_limit(call);
        let listed = timeout(limit, list_current(self, server, inner, call)).await;
        let late = || RpcError::internal("it did not list its tools in time");
        // The caller's own deadline was shorter than the time limit, so the server is not necessarily unresponsive.
        if listed.is_err() && limit < LIST_TIMEOUT {
            return Err(unlisted(late()).into());
        }
        let listed = listed.unwrap_or_else(|_| Err(ListError::Server(late())));
        let settled = match listed {
            Ok(settled) => settled,
            Err(ListError::Local(error)) => return Err(error),
            // The definition may have changed, so the tool must not be called on the basis of its old definition.
            Err(ListError::Server(error))
                if self.state(Some(server), tool) != DefinitionState::Unseen =>
            {
                return Err(unlisted(error).into());
            }
            Err(ListError::Server(error)) => {
                tracing::warn!(%server, %error, "listing of tools failed; unknown tools count as dangerous");
                self.tried(server).await.map_err(Refusal::Unchanged)?;
                None
            }
        };
        drop(turn);
        Ok(settled)
    }

    fn must_list(&self, server: &ServerId, tool: &str) -> Result<bool, RpcError> {
        self.readable().map_err(|error| Refusal::Unchanged(error.into()))?;
        let Some(tools) = self.tools(Some(server)) else { return Ok(true) };
        let rule = tools.rule(tools.get(tool).map(|known| &**known));
        Ok(matches!(rule, DefinitionRule::List))
    }

    /// Records that the operator overrides the risk of a tool, once per definition and policy. Calls of the tool wait
    /// for this record.
    ///
    /// # Errors
    /// [`Refusal::Unaudited`] if the override cannot be recorded.
    pub(crate) async fn record_override(
        &self,
        server: &ServerId,
        call: &Call,
        tool: &str,
    ) -> Result<(), RpcError> {
        let tools = self.tools(Some(server));
        let Some(known) = tools.as_ref().and_then(|tools| tools.get(tool)) else { return Ok(()) };
        let Some(before) = &known.assessment.overrides else { return Ok(()) };
        let after = &known.assessment.effective_risk;
        let _turn = turn(self, server, call).await?;
        if !known.is_unrecorded() {
            return Ok(());
        }
        let event = Event::risk_overridden(Actor::kernel(), Some(server), tool, before, after)
            .trace(call.cx().trace.as_deref());
        let audit = self.0.pins.audit();
        audit.record(event.build()).await.map_err(Refusal::Unaudited)?;
        known.unrecorded.store(false, Ordering::Release);
        Ok(())
    }
}

/// Acquires the lock of a server, so that only one call at a time lists its tools or records an override. Fails if
/// other calls hold the lock for longer than this call may wait for a list.
async fn turn(
    definitions: &Definitions,
    server: &ServerId,
    call: &Call,
) -> Result<OwnedMutexGuard<()>, RpcError> {
    let turn = definitions.turn(server).lock_owned();
    let Ok(turn) = timeout(time_limit(call), turn).await else {
        let reason = RpcError::internal("other calls still wait for them");
        return Err(Refusal::Unlisted { server: server.clone(), reason }.into());
    };
    Ok(turn)
}

fn time_limit(call: &Call) -> Duration {
    call.cx().deadline.remaining().map_or(LIST_TIMEOUT, |left| left.min(LIST_TIMEOUT))
}

/// Lists the tools of a server. Repeats this, up to [`MAX_LISTS`] times in total, while the server announces changes
/// during the listing, e.g. because it has just started. If the server announced changes during two listings in a row,
/// but the two lists are equal, returns the number of changes announced until the second listing. This happens because
/// some servers start a new process for each request, and each new process announces a change before it answers.
async fn list_current<S: MgpService>(
    definitions: &Definitions,
    server: &ServerId,
    inner: &mut S,
    on_behalf: &Call,
) -> Result<Option<u64>, ListError> {
    let (mut before, _) = list(definitions, server, inner, on_behalf).await?;
    let mut again = LIST_AGAIN;
    for count in 1..MAX_LISTS {
        if definitions.tools(Some(server)).is_none_or(|tools| !tools.is_outdated()) {
            break;
        }
        if count > 1 {
            sleep(again.next_delay()).await;
        }
        let (listed, announced) = list(definitions, server, inner, on_behalf).await?;
        if listed == before && definitions.is_stale(server) {
            return Ok(Some(announced));
        }
        before = listed;
    }
    Ok(None)
}

/// Reads all pages of a server's list of tools, up to the limits of definitions, and processes the list. Returns the
/// hashes of the definitions, and the number of changes that the server had announced by the end of the list.
async fn list<S: MgpService>(
    definitions: &Definitions,
    server: &ServerId,
    inner: &mut S,
    on_behalf: &Call,
) -> Result<(Vec<Sha256Hash>, u64), ListError> {
    let extent = ListExtent::Complete { announced: definitions.announced(server) };
    let (mut tools, mut bytes) = (Vec::new(), 0_usize);
    let (mut params, mut cursors) = (ListParams::new(), HashSet::new());
    for _ in 0..MAX_PAGES {
        let mut call =
            Call::ask::<ToolsList>(&params, own(on_behalf.cx())).map_err(ListError::Local)?;
        // The outer layers have already added members of their own to the original call; copy these members to this
        // request.
        *call.hop_mut() = on_behalf.hop().sender_members();
        let reply = inner.call(call).await.map_err(ListError::Server)?;
        let Page { tools: more, next } = reply.get().map_err(ListError::Server)?;
        let next = on_behalf.cx().callee.next_page(next);
        bytes += more.iter().map(|tool| tool.as_str().len()).sum::<usize>();
        bytes += next.as_ref().map_or(0, String::len);
        tools.extend(more);
        // Stop reading beyond the limits, because further tools are refused in any case. Also stop if the server
        // repeats a cursor, because it has no further tools then.
        let is_full = tools.len() > TOOLS_MAX || bytes > BYTES_MAX;
        params.cursor = next.filter(|next| !is_full && cursors.insert(next.clone()));
        if params.cursor.is_none() {
            let announced = definitions.announcements(server);
            let taken = definitions.take(server, &tools, extent).await;
            let taken = taken.map(|hashes| (hashes, announced));
            return taken.map_err(|error| ListError::Local(Refusal::Unchanged(error).into()));
        }
    }
    Err(ListError::Server(RpcError::internal(format!(
        "it has more than {MAX_PAGES} pages of tools"
    ))))
}

/// Returns the context for a request of our own that is made on behalf of a call.
fn own(cx: &Context) -> Context {
    let mut own = cx.clone();
    own.key = CallKey::next();
    own.wire_id = None;
    own.logical = None;
    own.outlet = Outlet::none();
    own.caller_access = CallerAccess::Unavailable;
    // Leave out the extensions that outer layers added, because they belong to the original call only.
    own.extensions = Extensions::default();
    own
}
