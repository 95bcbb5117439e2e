//! Extensions that a client does not offer by default, but that its author can add.

use mgp_stream::ResumeLayer;
use mgp_types::mgp::Extension;

use crate::builder::ClientBuilder;

/// An extension to add to a client with [`ClientBuilder::extension`].
///
/// Any [`Extension`] is also a `ClientExtension`. A client with the extension offers it, and calls and results can have
/// its members.
pub trait ClientExtension {
    /// Returns the extension to offer.
    fn extension(&self) -> Extension;

    /// Adds to the client the layers or handlers that the extension needs. Default: nothing.
    fn install(self, client: ClientBuilder) -> ClientBuilder
    where
        Self: Sized,
    {
        client
    }
}

impl ClientExtension for Extension {
    fn extension(&self) -> Extension {
        *self
    }
}

/// Lets a stream whose connection is lost continue at its last checkpoint on a new connection. The new connection is
/// that of a [`SupervisedClient`](crate::SupervisedClient), or of a client for a server at a URL.
impl ClientExtension for ResumeLayer {
    fn extension(&self) -> Extension {
        Extension::Checkpoint
    }

    fn install(self, mut client: ClientBuilder) -> ClientBuilder {
        client.config.resume = Some(self);
        client
    }
}
