//! The envelopes of JSON-RPC messages; they are decoded strictly, with all members (MGP §1.5).

use crate::record::{RawObject, record, string_enum};
use crate::{Id, Payload, RpcError};

string_enum! {
    /// The version of JSON-RPC.
    pub enum Version {
        /// Version 2.0.
        Two = "2.0",
    }
}

record! {
    /// A request.
    pub struct RequestEnvelope {
        /// The version of JSON-RPC.
        req jsonrpc: Version,
        /// The id of the request.
        req id: Id,
        /// The method.
        req method: String,
        /// The parameters.
        opt params: Option<RawObject>,
    }

    /// A notification.
    pub struct NotificationEnvelope {
        /// The version of JSON-RPC.
        req jsonrpc: Version,
        /// The method.
        req method: String,
        /// The parameters.
        opt params: Option<RawObject>,
    }

    /// A result.
    pub struct ResultEnvelope {
        /// The version of JSON-RPC.
        req jsonrpc: Version,
        /// The id of the answered request.
        req id: Id,
        /// The result.
        req result: Payload,
    }

    /// An error.
    pub struct ErrorEnvelope {
        /// The version of JSON-RPC.
        req jsonrpc: Version,
        /// The id of the failed request; `null` if that id could not be read.
        nul id: Option<Id>,
        /// The error.
        req error: RpcError,
    }
}
