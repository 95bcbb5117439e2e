//! The rule about sending a request again after its connection broke before an answer began.
//!
//! A server can close an idle connection at the moment at which a request is written to it. The client then cannot know
//! whether the server read the request. It therefore sends the request again, once and on another connection, only if a
//! repetition changes nothing at the server: lists, reads, a handshake that leaves nothing behind, pings, `GET`, and
//! the `DELETE` of a session. Any other request, above all a tool call, could run twice, so the pool sends it on
//! another connection only if hyper reports that it was never written. After the head of a response has arrived, this
//! rule does not apply.

use std::error::Error as StdError;
use std::io;

use mgp_types::method::{
    CompletionComplete, DiscoveryList, HealthPing, HealthStatusGet, Ping, PromptsGet, PromptsList,
    Request, ResourcesList, ResourcesRead, ResourcesTemplatesList, ServerDiscover, TasksGet,
    TasksList, ToolsDiscover, ToolsList,
};

use super::pool::PoolError;

/// The rule about sending a request again after its connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResendPolicy {
    /// The request can be sent once more, because a second one changes nothing more at the server.
    Once,
    /// The request must not be sent again: the server might have run it, or it was sent again already.
    Never,
}

/// Methods that change nothing at a server, however often they are called.
const SAFE_METHODS: [&str; 15] = [
    CompletionComplete::METHOD,
    DiscoveryList::METHOD,
    HealthPing::METHOD,
    HealthStatusGet::METHOD,
    Ping::METHOD,
    PromptsGet::METHOD,
    PromptsList::METHOD,
    ResourcesList::METHOD,
    ResourcesRead::METHOD,
    ResourcesTemplatesList::METHOD,
    ServerDiscover::METHOD,
    TasksGet::METHOD,
    TasksList::METHOD,
    ToolsDiscover::METHOD,
    ToolsList::METHOD,
];

impl ResendPolicy {
    /// Returns the rule for a method.
    pub(super) fn for_method(method: &str) -> Self {
        if SAFE_METHODS.contains(&method) { Self::Once } else { Self::Never }
    }

    /// Returns whether the request can be sent again after this error. From the second call of this method on, always
    /// returns `false`.
    pub(super) fn allows(&mut self, error: &PoolError) -> bool {
        let allowed = *self == Self::Once && !error.is_connect() && is_broken(error);
        *self = Self::Never;
        allowed
    }
}

/// Returns whether the error means that the connection ended, as opposed to an invalid response.
fn is_broken(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper::Error>()
            && (error.is_incomplete_message() || error.is_closed() || error.is_canceled())
        {
            return true;
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            use io::ErrorKind::{
                BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof,
            };
            return matches!(
                error.kind(),
                BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof
            );
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use mgp_types::method::{Initialize, SubscriptionsListen, ToolsCall};

    use super::*;

    #[test]
    fn only_requests_that_change_nothing_are_sent_again() {
        assert_eq!(ResendPolicy::for_method(ToolsList::METHOD), ResendPolicy::Once);
        for method in [ToolsCall::METHOD, Initialize::METHOD, SubscriptionsListen::METHOD] {
            assert_eq!(ResendPolicy::for_method(method), ResendPolicy::Never, "{method}");
        }
    }
}
