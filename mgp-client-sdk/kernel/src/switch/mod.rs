//! What becomes of a call from above (DESIGN §5).
//!
//! Applies to: inbound.

mod list;
mod names;
mod offers;
mod page;
pub(super) mod tasks;
mod tools;
mod whole;

use std::sync::Arc;

use futures_util::future::{Either, join_all};
use mgp_discovery::{Registrations, list_router};
use mgp_security::KernelToolsLayer;
use mgp_toolindex::{Endpoints, Sessions};
use mgp_types::RpcError;
use mgp_types::method::{Request as _, ToolsCall, ToolsDiscover, ToolsList, ToolsRequest};
use mgp_types::service::{Call, Context, GateLayer, Router, Stack, gate};
use tower_layer::Layer as _;

use super::again::Again;
use super::callers::Noted;
use super::fleet::{Fleet, Node, Shown};
use super::hops;
use super::log;
use super::seen::Seen;
use super::watch::Watching;

pub(super) use offers::Offers;

/// What all calls from above need.
#[derive(Clone)]
pub(super) struct Switch(Arc<Parts>);

/// The same, in parts.
pub(super) struct Parts {
    pub(super) fleet: Fleet,
    pub(super) seen: Seen,
    pub(super) sessions: Sessions,
    pub(super) search: Endpoints,
    pub(super) offers: Offers,
    pub(super) registrations: Registrations,
}

impl Switch {
    pub(super) fn new(
        fleet: Fleet,
        seen: Seen,
        sessions: Sessions,
        offers: Offers,
        registrations: Registrations,
    ) -> Self {
        let index = fleet.ground().index.clone();
        let (versions, herald) = (seen.clone(), fleet.ground().herald.clone());
        let search = Endpoints::new(index, sessions.clone())
            .visibility(seen.clone())
            .version(move || versions.version())
            .standing(seen.clone())
            .create(offers.clone())
            // Hosts that honour it list what was asked for from now on.
            .on_change(move |cx| herald.tools_changed(|other| *other == cx.principal));
        Self(Arc::new(Parts { fleet, seen, sessions, search, offers, registrations }))
    }

    /// Everything that is answered; `admin` is what only operators may ask.
    pub(super) fn router(&self, admin: Router) -> Router {
        let Parts { fleet, seen, registrations, .. } = &*self.0;
        let governance = &fleet.ground().governance;
        let methods = governance
            .router()
            .merge(list_router(registrations.fleet(), Arc::new(seen.clone())))
            .merge(registrations.router())
            .merge(self.searches())
            .merge(admin);
        let (calls, lists) = (self.clone(), self.clone());
        // A method of ours that is called as a tool is decided like the method.
        let own = KernelToolsLayer::new(methods.clone());
        let called = Stack::new(own.clone().layer(Router::new()));
        let tools = own.layer(Stack::from_fn(move |mut call| {
            if tools::is_of_kernel(&mut call) {
                Either::Left(called.send(call))
            } else {
                Either::Right(tools::call(calls.clone(), call))
            }
        }));
        let lists = Stack::from_fn(move |call| std::future::ready(list::tools(&lists, &call)));
        methods
            .route(ToolsCall::METHOD, Stack::new(tools))
            .route(ToolsList::METHOD, lists)
            .merge(whole::router(self))
    }

    /// What searches tools waits for servers that nobody has met yet.
    fn searches(&self) -> Router {
        let all = self.parts().search.router();
        let inner = Stack::new(all.clone());
        [ToolsDiscover::METHOD, ToolsRequest::METHOD].into_iter().fold(all, |all, method| {
            let (switch, inner) = (self.clone(), inner.clone());
            let waits = Stack::from_fn(move |call: Call| {
                let (switch, inner) = (switch.clone(), inner.clone());
                async move {
                    switch.met(call.cx(), switch.parts().fleet.all().values()).await;
                    inner.send(call).await
                }
            });
            all.route(method, waits)
        })
    }

    /// Whether there are servers that nobody has met yet.
    fn has_new(&self) -> bool {
        self.parts().fleet.all().values().any(|node| node.is_new())
    }

    /// Waits until it is known what servers have; not long, where one is slow.
    async fn met(&self, cx: &Context, nodes: impl Iterator<Item = &Arc<Node>> + Send) {
        // Two kernels behind each other would wait for each other.
        if !hops::is_from_kernel(cx) {
            join_all(nodes.map(|node| node.met())).await;
        }
    }

    /// The layer that notes who is connected, and what they want to hear.
    pub(super) fn notes(
        &self,
    ) -> GateLayer<impl Fn(&Call) -> Result<(), RpcError> + Clone + Send + Sync + 'static> {
        let switch = self.clone();
        gate(move |call| {
            let ground = switch.parts().fleet.ground();
            match ground.callers.note(call) {
                Noted::Level => switch.ask_levels(call.cx()),
                // Servers that asked for roots before anybody was there ask again.
                Noted::Joined if call.cx().caller.asks.roots => switch.tell_roots(call.cx()),
                Noted::Joined | Noted::Nothing => {}
            }
            Ok(())
        })
    }

    /// Asks servers for the log messages that are wanted now; of one caller that changes its mind, once at a time.
    fn ask_levels(&self, cx: &Context) {
        #[derive(Default)]
        struct Levels;
        let switch = self.clone();
        cx.scope.state::<Again<Levels>>().ask(move || {
            let switch = switch.clone();
            async move {
                let fleet = &switch.parts().fleet;
                for node in fleet.all().values() {
                    log::ask(node, fleet.ground()).await;
                }
            }
        });
    }

    /// What is watched below.
    pub(super) fn watching(&self) -> &Watching {
        &self.0.fleet.ground().watching
    }

    /// The servers as callers see them.
    pub(super) fn shown(&self) -> Arc<Shown> {
        let Parts { fleet, seen, .. } = &*self.0;
        Arc::new(Shown { fleet: fleet.clone(), seen: seen.clone() })
    }

    pub(super) fn parts(&self) -> &Parts {
        &self.0
    }
}
