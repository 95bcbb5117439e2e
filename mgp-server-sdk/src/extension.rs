//! Extensions beyond MGP that the author of a server enables, and the members that they add to calls.

use mgp_lifecycle::Idempotency;
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

/// Makes a server run only one of the tool calls that have the same idempotency key. The key of a call is checked only
/// after all other layers have admitted the call.
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
