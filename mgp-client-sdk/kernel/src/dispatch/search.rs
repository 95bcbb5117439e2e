//! The methods that search for tools. They wait for servers whose tool lists the kernel has not read yet.

use mgp_types::RpcError;
use mgp_types::method::{Request as _, ToolsDiscover, ToolsRequest};
use mgp_types::mgp::DiscoverToolsParams;
use mgp_types::service::{Call, Reply, Router, Stack};

use super::dispatcher::Dispatcher;
use super::portable_names;
use crate::fleet::FIRST_SYNC_TIMEOUT;

pub(super) fn router(dispatcher: &Dispatcher) -> Router {
    let router = dispatcher.parts().search.router();
    let search = Search { dispatcher: dispatcher.clone(), index: Stack::new(router.clone()) };
    let (discover, request) = (search.clone(), search);
    let discover = Stack::from_fn(move |call| discover.clone().discover(call));
    let request = Stack::from_fn(move |call| request.clone().request(call));
    // Replace the routes of the tool index, which do not wait for lists that the kernel has not read yet.
    router.route(ToolsDiscover::METHOD, discover).route(ToolsRequest::METHOD, request)
}

#[derive(Clone)]
struct Search {
    dispatcher: Dispatcher,
    /// The methods of the tool index, which search only the lists that the kernel has read.
    index: Stack,
}

impl Search {
    /// Returns the tools that fit a query.
    async fn discover(self, call: Call) -> Result<Reply, RpcError> {
        self.dispatcher.retry_failed_starts(call.cx());
        self.dispatcher.wait_for_first_tools(call.cx(), FIRST_SYNC_TIMEOUT).await;
        let params = call.params();
        // Do not replace names by portable ones in a search with `explain`: commands that make such searches show the
        // ids of tools.
        let is_true = |params: DiscoverToolsParams| params.explain == Some(true);
        let is_explained =
            params.may_contain_member("\"explain\"") && params.get().is_ok_and(is_true);
        let cx = call.cx().clone();
        let reply = self.index.send(call).await?;
        if is_explained {
            return Ok(reply);
        }
        portable_names::fit_discovered(&self.dispatcher, &cx, reply)
    }

    /// Returns tools for a task, and recommends servers if there are none.
    async fn request(self, call: Call) -> Result<Reply, RpcError> {
        self.dispatcher.retry_failed_starts(call.cx());
        self.dispatcher.wait_for_first_tools(call.cx(), FIRST_SYNC_TIMEOUT).await;
        let cx = call.cx().clone();
        let reply = self.index.send(call).await?;
        let reply = portable_names::fit_requested(&self.dispatcher, &cx, reply)?;
        let context = self.dispatcher.parts().fleet.context();
        context.proposals.recommender.attach(&cx, reply).await
    }
}
