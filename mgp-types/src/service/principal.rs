//! The caller of a call: set by the transport from credentials or the configured profile, never from params (MGP §5).

use std::borrow::Borrow;
use std::fmt;
use std::sync::{Arc, LazyLock};

use bytestring::ByteString;

macro_rules! name_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(ByteString);

        impl $name {
            /// Borrows the name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self(name.into())
            }
        }

        impl From<String> for $name {
            fn from(name: String) -> Self {
                Self(name.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_newtype!(
    /// The tenant of a principal; part of every key.
    TenantId
);
name_newtype!(
    /// The authenticated subject: a user, a key, a client id.
    Subject
);
name_newtype!(
    /// The agent through which a subject acts.
    AgentId
);
name_newtype!(
    /// The configured id of a server; an id that the server claims is shown, but never used as a key.
    ServerId
);

/// The principal for whom a call is made; forwarding never changes it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Principal(Arc<Identity>);

#[derive(PartialEq, Eq, Hash)]
struct Identity {
    tenant: TenantId,
    subject: Subject,
    agent: Option<AgentId>,
    authority: Authority,
}

/// The administrative authority of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Authority {
    /// None: the principal may only call tools.
    User,
    /// May administer grants, permissions, registrations and shutdown.
    Operator,
}

impl Principal {
    /// Creates a principal without administrative authority.
    #[must_use]
    pub fn new(tenant: impl Into<TenantId>, subject: impl Into<Subject>) -> Self {
        Self(Arc::new(Identity {
            tenant: tenant.into(),
            subject: subject.into(),
            agent: None,
            authority: Authority::User,
        }))
    }

    /// Returns the principal at the other end of a local pipe: tenant `local`, subject `local`.
    #[must_use]
    pub fn local() -> Self {
        static LOCAL: LazyLock<Principal> = LazyLock::new(|| Principal::new("local", "local"));
        LOCAL.clone()
    }

    /// Returns the same principal, acting through an agent.
    #[must_use]
    pub fn agent(&self, agent: impl Into<AgentId>) -> Self {
        let Identity { tenant, subject, authority, .. } = &*self.0;
        Self(Arc::new(Identity {
            tenant: tenant.clone(),
            subject: subject.clone(),
            agent: Some(agent.into()),
            authority: *authority,
        }))
    }

    /// Returns the same principal, with administrative authority.
    #[must_use]
    pub fn operator(&self) -> Self {
        let Identity { tenant, subject, agent, .. } = &*self.0;
        Self(Arc::new(Identity {
            tenant: tenant.clone(),
            subject: subject.clone(),
            agent: agent.clone(),
            authority: Authority::Operator,
        }))
    }

    /// Returns the tenant.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.0.tenant
    }

    /// Returns the subject.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.0.subject
    }

    /// Returns the agent, if known.
    #[must_use]
    pub fn as_agent(&self) -> Option<&AgentId> {
        self.0.agent.as_ref()
    }

    /// Returns the administrative authority.
    #[must_use]
    pub fn authority(&self) -> Authority {
        self.0.authority
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { tenant, subject, agent, authority } = &*self.0;
        write!(f, "{tenant}/{subject}")?;
        if let Some(agent) = agent {
            write!(f, "/{agent}")?;
        }
        if *authority == Authority::Operator {
            f.write_str(" (operator)")?;
        }
        Ok(())
    }
}
