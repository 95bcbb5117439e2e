//! Extensions beyond MGP that the author of a server enables, and the members that they add to calls.

use mgp_lifecycle::{Idempotency, Transactions};
use mgp_stream::CheckpointLayer;
use mgp_types::RpcError;
use mgp_types::mgp::Extension;
use mgp_types::proposal::Member;

use crate::server::Server;
use crate::tool::{FromCall, ToolRequest};

/// An extension to add to a server with [`Server::extension`].
///
/// [`Extension`] implements this trait: the server then only offers the extension, and the author's functions read and
/// write its members themselves.
pub trait ServerExtension {
    /// Returns the extension to offer.
    fn extension(&self) -> Extension;

    /// Adds to the server the layers, endpoints or tools that the extension needs. Default: nothing.
    fn install(self, server: Server) -> Server
    where
        Self: Sized,
    {
        server
    }
}

impl ServerExtension for Extension {
    fn extension(&self) -> Extension {
        *self
    }
}

/// Makes a server run a tool call only once per idempotency key. The key of a call is checked only after all other
/// layers have admitted the call.
///
/// ```
/// use mgp_server_sdk::Idempotency;
/// use mgp_server_sdk::prelude::*;
///
/// let pay = Tool::new("pay", "Pays an order", || async { "paid" });
/// let server = Server::new("shop", "1.0").tool(pay).extension(Idempotency::in_memory());
/// # drop(server);
/// ```
impl ServerExtension for Idempotency {
    fn extension(&self) -> Extension {
        Extension::Idempotency
    }

    fn install(self, mut server: Server) -> Server {
        server.steps.keys = Some(self);
        server
    }
}

/// Turns each tool call with a transaction id into a step of that transaction. The server undoes the steps on request,
/// after a time without new steps, or at its next start if it was killed. The extension
/// [`Idempotency::open`] is required too, so that no step is undone twice.
///
/// A program whose servers share their state, e.g. one server for each connection, opens both extensions once and
/// clones them. Servers of different kinds need different stores.
///
/// The server undoes a step by calling a tool: the one that the result of the step names, or that the caller gave with
/// the step. This second call passes the author's layers like any other, e.g. those of [`Server::governed`]. The called
/// tool can neither ask the caller nor need a permission. A caller that makes a step must be allowed to call the tool
/// that undoes it. A transaction that could not be undone waits until the author's program calls
/// [`retry`](Transactions::retry) or [`resolve`](Transactions::resolve).
///
/// ```
/// use std::sync::Arc;
///
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::types::proposal::Compensation;
/// use mgp_server_sdk::types::store::{MemoryStore, Store};
/// use mgp_server_sdk::{Idempotency, Transactions};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let create = Tool::new("create_ticket", "Creates a ticket", |cx: Context| async move {
///     cx.add_to_result(&Compensation::new("delete_ticket"))?;
///     Ok::<_, RpcError>("ticket 7")
/// });
/// let delete = Tool::new("delete_ticket", "Deletes the newest ticket", || async { "deleted" });
/// // A server whose transactions must outlast its process uses a `Db` instead (feature `sqlite`).
/// let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
/// let server = Server::new("tickets", "1.0")
///     .tool(create)
///     .tool(delete)
///     .extension(Idempotency::open(Arc::clone(&store)).await.unwrap())
///     .extension(Transactions::open(store).await.unwrap());
/// server.into_stack().unwrap();
/// # });
/// ```
impl ServerExtension for Transactions {
    fn extension(&self) -> Extension {
        Extension::Transactions
    }

    fn install(self, mut server: Server) -> Server {
        let router = self.router();
        server.steps.transactions = Some(self);
        server.endpoints(router)
    }
}

impl ServerExtension for CheckpointLayer {
    fn extension(&self) -> Extension {
        Extension::Checkpoint
    }

    fn install(self, server: Server) -> Server {
        server.layer(self)
    }
}

impl Server {
    /// Offers an extension, and installs what it needs; a server without MGP offers no extension.
    ///
    /// ```
    /// use mgp_server_sdk::FromCaller;
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::types::mgp::Extension;
    /// use mgp_server_sdk::types::proposal::{Intent, Suggestion};
    ///
    /// let list = Tool::new("list", "Lists issues", |intent: FromCaller<Intent>, cx: Context| async move {
    ///     if intent.0.is_some_and(|intent| intent.0.contains("incident")) {
    ///         cx.add_to_result(&Suggestion::new("recent_incidents"))?;
    ///     }
    ///     Ok::<_, RpcError>("3 issues")
    /// });
    /// let server = Server::new("issues", "1.0").tool(list).extension(Extension::IntentHints);
    /// # drop(server);
    /// ```
    pub fn extension(mut self, extension: impl ServerExtension) -> Self {
        self.offer_also(extension.extension());
        extension.install(self)
    }
}

/// The member of an extension that the caller sent with the call; `None` if the caller sent none, or did not negotiate
/// the extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromCaller<M>(pub Option<M>);

impl<M: Member> FromCall for FromCaller<M> {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        request.cx().member().map(Self)
    }
}
