//! The envelopes of JSON-RPC, read whole (MGP §1.5).

use crate::record::{RawObject, record, string_enum};
use crate::{Id, Payload, RpcError};

string_enum! {
    /// The version of JSON-RPC.
    pub enum Version {
        /// The only one.
        Two = "2.0",
    }
}

record! {
    /// A request.
    pub struct RequestEnvelope {
        /// The version.
        req jsonrpc: Version,
        /// Names it.
        req id: Id,
        /// The method.
        req method: String,
        /// Its parameters.
        opt params: Option<RawObject>,
    }

    /// A notification.
    pub struct NotificationEnvelope {
        /// The version.
        req jsonrpc: Version,
        /// The method.
        req method: String,
        /// Its parameters.
        opt params: Option<RawObject>,
    }

    /// A result.
    pub struct ResultEnvelope {
        /// The version.
        req jsonrpc: Version,
        /// The request it answers.
        req id: Id,
        /// The result.
        req result: Payload,
    }

    /// An error.
    pub struct ErrorEnvelope {
        /// The version.
        req jsonrpc: Version,
        /// The request it answers.
        nul id: Option<Id>,
        /// The error.
        req error: RpcError,
    }
}
