//! Extensions beyond MGP that the author of a server chooses, and the members that they add to calls.

use mgp_lifecycle::{Idempotency, IdempotencyLayer};
use mgp_stream::CheckpointLayer;
use mgp_types::RpcError;
use mgp_types::mgp::Extension;
use mgp_types::proposal::Member;

use crate::server::Server;
use crate::tool::{FromCall, ToolRequest};

/// An extension to add to a server with [`Server::extension`].
///
/// An [`Extension`] itself is one too: it is offered, and handlers use its members.
pub trait ServerExtension {
    /// Returns the extension to offer.
    fn extension(&self) -> Extension;

    /// Adds what the extension needs to the server, e.g. a layer, endpoints or tools.
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

/// Runs tool calls with an idempotency key once, inside all gates of the server.
///
/// ```
/// use mgp_lifecycle::Idempotency;
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

    fn install(self, server: Server) -> Server {
        server.inner_layer(IdempotencyLayer::new(self))
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
    /// Offers an extension and adds its parts; a server without MGP offers none.
    ///
    /// ```
    /// use mgp_server_sdk::FromCaller;
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_types::mgp::Extension;
    /// use mgp_types::proposal::{Intent, Suggestion};
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

/// A member of an extension that the caller sent with the call; `None` if it sent none or did not negotiate the
/// extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromCaller<M>(pub Option<M>);

impl<M: Member> FromCall for FromCaller<M> {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        request.cx().member().map(Self)
    }
}
