//! Results by which a server asks the caller for input (MCP multi round-trip, modern era).

use std::collections::BTreeMap;

use super::{CreateMessageParams, ElicitParams, EmptyParams, Meta};
use crate::record::{record, tagged};

/// The requests of a server to the client, each under a key that the server chose.
pub type InputRequests = BTreeMap<String, InputRequest>;

record! {
    /// A question to the user, sent inside a result.
    pub struct InputElicitation tagged "method" = "elicitation/create" {
        /// The params of `elicitation/create`.
        req params: ElicitParams,
    }

    /// A request for a completion by the client's model, sent inside a result.
    pub struct InputSampling tagged "method" = "sampling/createMessage" {
        /// The params of `sampling/createMessage`.
        req params: CreateMessageParams,
    }

    /// A request for the client's roots, sent inside a result.
    pub struct InputRoots tagged "method" = "roots/list" {
        /// The params of `roots/list`; they have no members of their own.
        opt params: Option<EmptyParams>,
    }

    /// A result that is not final: the caller supplies input and repeats the request.
    pub struct InputRequiredResult tagged "resultType" = "input_required" {
        /// The requests that the caller must answer.
        opt input_requests as "inputRequests": Option<InputRequests>,
        /// Opaque state of the server; the caller returns it unchanged with the repeated request.
        opt request_state as "requestState": Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}

tagged! {
    /// A request that a server sends to the client inside a result.
    pub enum InputRequest by "method" {
        /// An elicitation.
        "elicitation/create" => Elicitation(InputElicitation),
        /// A sampling request.
        "sampling/createMessage" => Sampling(InputSampling),
        /// A request for the roots.
        "roots/list" => Roots(InputRoots),
    }
}
