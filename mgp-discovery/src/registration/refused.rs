//! Why nothing was registered, started or removed (MGP §14.3, §15.4).
//!
//! Applies to: inbound.

use std::time::Duration;

use mgp_types::Object;
use mgp_types::method::{DiscoveryList, Request as _};
use mgp_types::service::{Rule, ServerId};

/// A refusal; `error.rs` gives it a code.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationRefused {
    /// Somebody called an administrative method who may not.
    #[error("only operators may call `{method}`, and those whom one granted it")]
    NotAllowed {
        /// The method.
        method: &'static str,
        /// The rule that says so.
        #[source]
        rule: Rule,
    },
    /// Credentials ended while they were in use.
    #[error("the credentials no longer hold; get new ones")]
    PassEnded,
    /// Somebody else registered it.
    #[error("only an operator, or whoever registered `{0}`, deregisters it")]
    NotCreator(ServerId),
    /// Nothing of that kind is registered here.
    #[error("`{server}` is not registered: {reason}; {remedy}")]
    Unavailable {
        /// The server.
        server: ServerId,
        /// What is missing.
        reason: String,
        /// What to do instead.
        remedy: &'static str,
    },
    /// The id is somebody's.
    #[error("there is a server `{there}`; {remedy}", remedy = .is.remedy())]
    Taken {
        /// The server that has it.
        there: ServerId,
        /// What it is.
        is: Holder,
    },
    /// The server comes from the configuration.
    #[error("`{0}` comes from the configuration; have an operator take it out of `mgp.toml`")]
    Configured(ServerId),
    /// There is no such registration, or none the caller may know of.
    #[error("no server `{0}` is registered; `{list}` has those that are there", list = DiscoveryList::METHOD)]
    Unknown(ServerId),
    /// What waits is not what was looked at.
    #[error("what waits for approval as `{0}` is something else; look again")]
    NotWaiting(ServerId),
    /// The params say something that cannot be.
    #[error("{0}")]
    Unfit(String),
    /// There is no room for one more.
    #[error("{there} {what}, and no more are possible; {remedy}")]
    TooMany {
        /// How many there are.
        there: usize,
        /// What they are.
        what: &'static str,
        /// What makes room.
        remedy: &'static str,
    },
    /// Calls come too fast.
    #[error("registrations come too fast; try again in {}s", .0.as_secs().max(1))]
    TooFast(Duration),
    /// The code of a sandboxed server is not safe.
    #[error("the script of `{server}` was rejected: {}", .violations.join(", "))]
    Rejected {
        /// The server.
        server: ServerId,
        /// Each rule that was broken.
        violations: Vec<String>,
    },
    /// What would be started is not what was approved; an operator is asked.
    #[error(
        "`{0}` is not started: its files are not those that were approved; an operator must approve them"
    )]
    Changed(ServerId),
    /// Something that was approved is not there to be started.
    #[error("`{server}` is not started: {reason}")]
    NotThere {
        /// The server.
        server: ServerId,
        /// What is missing.
        reason: String,
    },
    /// It may not run: nobody approved it, it is being removed, or the configuration took its id.
    #[error("`{0}` is not started: it is not approved, or no longer registered")]
    NotApproved(ServerId),
    /// It cannot be recorded, so it does not happen.
    #[error("nothing was changed: {0}")]
    Unaudited(#[from] mgp_types::service::Unaudited),
}

/// Who has an id that somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// The configuration, or another server that was not registered here.
    Other,
    /// A registration.
    Registered,
    /// A registration that waits for an operator.
    Waiting,
    /// A registration that is being removed.
    Leaving,
}

impl Holder {
    fn remedy(self) -> &'static str {
        match self {
            Self::Other => "choose another id",
            Self::Registered => "choose another id, or deregister that one first",
            Self::Waiting => "it waits for an operator: choose another id, or deregister it first",
            Self::Leaving => "it is being removed: try again once it is gone",
        }
    }
}

impl RegistrationRefused {
    /// The facts, for the caller.
    pub(crate) fn details(&self) -> Option<Object> {
        let mut details = Object::new();
        // Words can always be written.
        let mut put = |name: &str, word: &str| drop(details.encode(name, word));
        match self {
            Self::NotAllowed { method, .. } => {
                put("method", method);
                put("remedy", "ask an operator");
            }
            Self::NotCreator(server) => {
                put("server_id", server.as_str());
                put("remedy", "ask an operator");
            }
            Self::Unavailable { server, remedy, .. } => {
                put("server_id", server.as_str());
                put("remedy", remedy);
            }
            Self::Taken { there, is } => {
                put("server_id", there.as_str());
                put("remedy", is.remedy());
            }
            Self::Configured(server) => {
                put("server_id", server.as_str());
                put("remedy", "have an operator take it out of `mgp.toml`");
            }
            Self::Unknown(server) | Self::NotWaiting(server) => put("server_id", server.as_str()),
            Self::Rejected { server, violations } => {
                put("server_id", server.as_str());
                details.encode("violations", violations).ok()?;
            }
            _ => return None,
        }
        Some(details)
    }
}
