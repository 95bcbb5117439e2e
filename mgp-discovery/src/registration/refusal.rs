//! The reasons why requests about registrations are refused (MGP §14.3, §15.4).

use std::time::Duration;

use mgp_types::Object;
use mgp_types::method::{DiscoveryList, Request as _};
use mgp_types::mgp::CodeRejection;
use mgp_types::service::{Rule, ServerId};

/// The reason why a request about registrations was refused; `error.rs` maps it to an error code.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// The caller is not allowed to call the administrative method.
    #[error("only operators may call `{method}`, and callers an operator granted it to")]
    NotAllowed {
        /// The method that the caller may not call.
        method: &'static str,
        /// The rule that led to this decision.
        #[source]
        rule: Rule,
    },
    /// The credentials expired while they were in use.
    #[error("the credentials have expired; get new ones")]
    CredentialsExpired,
    /// The server was registered by another principal.
    #[error("only an operator, or the principal who registered `{0}`, may deregister it")]
    NotCreator(ServerId),
    /// The kernel cannot register this server.
    #[error("`{server}` is not registered: {reason}; {remedy}")]
    Unavailable {
        /// The id of the server that cannot be registered.
        server: ServerId,
        /// The reason why the server cannot be registered, as a sentence.
        reason: String,
        /// The remedy, as a sentence.
        remedy: &'static str,
    },
    /// Another server already has the id.
    #[error("there is a server `{there}` already; {remedy}", remedy = .is.remedy())]
    IdTaken {
        /// The id of the existing server.
        there: ServerId,
        /// The kind of the existing server.
        is: IdHolder,
    },
    /// The server comes from the configuration, so it cannot be deregistered.
    #[error("`{0}` comes from the configuration; ask an operator to remove it from `mgp.toml`")]
    Configured(ServerId),
    /// The registration does not exist, or the caller is not allowed to see it.
    #[error("no server `{0}` is registered; `{list}` lists the servers", list = DiscoveryList::METHOD)]
    Unknown(ServerId),
    /// The waiting registration was changed since its review, or no registration waits.
    #[error("the registration of `{0}` was changed or no longer waits; review it again")]
    NotWaiting(ServerId),
    /// The params are not valid.
    #[error("{0}")]
    InvalidParams(String),
    /// A maximum number of registrations is reached.
    #[error("{there} {what}, which is the maximum; {remedy}")]
    TooMany {
        /// The number of existing registrations.
        there: usize,
        /// The phrase for the counted registrations in the message, e.g. `registrations wait`.
        what: &'static str,
        /// The action that makes room for another registration.
        remedy: &'static str,
    },
    /// The rate limit is exceeded; the value is the time until the next permitted call.
    #[error("too fast: too many registrations; try again in {} s", .0.as_secs().max(1))]
    RateLimited(Duration),
    /// The code of a sandboxed server is not safe.
    #[error("the script of `{server}` was rejected: {}", .body.violations.join(", "))]
    Rejected {
        /// The id of the server whose script was rejected.
        server: ServerId,
        /// The rules that the code breaks, and the rules that it must follow.
        body: Box<CodeRejection>,
    },
    /// The files differ from the approved files; the registration waits for a new approval.
    #[error(
        "`{0}` is not started: its files differ from the approved ones; an operator must approve them"
    )]
    Changed(ServerId),
    /// An approved file, a secret or another requirement of the server is missing.
    #[error("`{server}` is not started: {reason}")]
    MissingFile {
        /// The id of the server that cannot be started.
        server: ServerId,
        /// The description of what is missing, as a sentence.
        reason: String,
    },
    /// The server must not run, because it is not approved, it is being removed, or the configuration now uses its id.
    #[error("`{0}` is not started: it is not approved, or no longer registered")]
    NotApproved(ServerId),
    /// The change was not made, because it could not be written to the audit log.
    #[error("nothing was changed: {0}")]
    Unaudited(#[from] mgp_types::service::AuditError),
}

/// The kind of server or registration that has an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdHolder {
    /// The id belongs to a server that was not registered at run time, e.g. to a server of the configuration.
    Other,
    /// A server that was registered at run time has the id.
    Registered,
    /// A registration that waits for an operator has the id.
    Waiting,
    /// A server that is being deregistered has the id.
    Leaving,
}

impl IdHolder {
    fn remedy(self) -> &'static str {
        match self {
            Self::Other => "choose another id",
            Self::Registered => "choose another id, or deregister that one first",
            Self::Waiting => "it waits for an operator: choose another id, or deregister it first",
            Self::Leaving => "it is being removed: try again once it is gone",
        }
    }
}

impl RegistrationError {
    pub(crate) fn details(&self) -> Option<Object> {
        let about = |server: &ServerId| Object::new().with("server_id", server.as_str());
        Some(match self {
            Self::NotAllowed { method, .. } => {
                Object::new().with("method", method).with("remedy", "ask an operator")
            }
            Self::NotCreator(server) => about(server).with("remedy", "ask an operator"),
            Self::Unavailable { server, remedy, .. } => about(server).with("remedy", remedy),
            Self::IdTaken { there, is } => about(there).with("remedy", is.remedy()),
            Self::Configured(server) => {
                about(server).with("remedy", "ask an operator to remove it from `mgp.toml`")
            }
            Self::Unknown(server) | Self::NotWaiting(server) => about(server),
            Self::Rejected { server, body } => about(server)
                .with("status", "rejected")
                .with("reason", &body.reason)
                .with("violations", &body.violations)
                .with("hints", &body.hints),
            _ => return None,
        })
    }
}
