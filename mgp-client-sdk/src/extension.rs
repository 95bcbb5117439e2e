//! Extensions beyond MGP that the author of a client chooses.

use mgp_types::mgp::Extension;

use crate::builder::ClientBuilder;

/// An extension to add to a client with [`ClientBuilder::extension`].
///
/// An [`Extension`] itself is one too: it is offered, and calls and results may have its members.
pub trait ClientExtension {
    /// Returns the extension to offer.
    fn extension(&self) -> Extension;

    /// Adds what the extension needs to the client, e.g. a layer or handlers.
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
