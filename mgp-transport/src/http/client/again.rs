//! Which requests are sent again when their connection breaks before an answer begins.
//!
//! A server may hang up an idle connection at the very moment a request is written on it.
//! Then nothing says whether the request was read, so only what changes nothing at the server is sent again, once, on
//! another connection: lists, reads, a handshake that leaves nothing behind, signs of life, and `GET`.
//! Of everything else, tool calls above all, a second copy might run: it is sent again only where it was never written,
//! which hyper says: the pool takes another connection then.
//! Once the head of an answer came nothing is sent again here.
//!
//! Applies to: outbound.

use std::error::Error as StdError;
use std::io;

use mgp_types::method::{
    CompletionComplete, DiscoveryList, HealthPing, HealthStatusGet, Ping, PromptsGet, PromptsList,
    Request, ResourcesList, ResourcesRead, ResourcesTemplatesList, ServerDiscover, TasksGet,
    TasksList, ToolsDiscover, ToolsList,
};

use super::pool::PoolError;

/// How often a request may be sent again after its connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// It changes nothing.
    Once,
    /// It may have run, or was sent again already.
    Never,
}

/// What changes nothing at a server, however often it comes.
const SAFE: [&str; 15] = [
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

impl Again {
    /// The rule for a method.
    pub(super) fn of(method: &str) -> Self {
        if SAFE.contains(&method) { Self::Once } else { Self::Never }
    }

    /// Whether the request is to be sent again after this error; the next time it is not.
    pub(super) fn take(&mut self, error: &PoolError) -> bool {
        let allowed = *self == Self::Once && !error.is_connect() && is_broken(error);
        *self = Self::Never;
        allowed
    }
}

/// Whether the connection ended, and not what came on it was wrong.
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
    fn only_what_changes_nothing() {
        assert_eq!(Again::of(ToolsList::METHOD), Again::Once);
        for method in [ToolsCall::METHOD, Initialize::METHOD, SubscriptionsListen::METHOD] {
            assert_eq!(Again::of(method), Again::Never, "{method}");
        }
    }
}
