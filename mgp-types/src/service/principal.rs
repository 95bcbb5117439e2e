//! Who calls: set by the transport from credentials or the configured profile, never from params (MGP §5).

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
    /// The tenant a principal belongs to; part of every key.
    TenantId
);
name_newtype!(
    /// The authenticated subject: a person, a key, a client id.
    Subject
);
name_newtype!(
    /// The agent a subject acts through.
    AgentId
);
name_newtype!(
    /// A server's configured id; what a server claims about itself is shown, never a key.
    ServerId
);

/// Who a call is made for; forwarding never changes it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Principal(Arc<Inner>);

#[derive(PartialEq, Eq, Hash)]
struct Inner {
    tenant: TenantId,
    subject: Subject,
    agent: Option<AgentId>,
    authority: Authority,
}

/// What a principal may administer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Authority {
    /// Nothing: it calls tools.
    User,
    /// Grants, permissions, registrations, shutdown.
    Operator,
}

impl Principal {
    /// Names a principal without administrative authority.
    #[must_use]
    pub fn new(tenant: impl Into<TenantId>, subject: impl Into<Subject>) -> Self {
        Self(Arc::new(Inner {
            tenant: tenant.into(),
            subject: subject.into(),
            agent: None,
            authority: Authority::User,
        }))
    }

    /// The party at the other end of a local pipe: tenant `local`, subject `local`.
    #[must_use]
    pub fn local() -> Self {
        static LOCAL: LazyLock<Principal> = LazyLock::new(|| Principal::new("local", "local"));
        LOCAL.clone()
    }

    /// The same principal acting through an agent.
    #[must_use]
    pub fn agent(&self, agent: impl Into<AgentId>) -> Self {
        let Inner { tenant, subject, authority, .. } = &*self.0;
        Self(Arc::new(Inner {
            tenant: tenant.clone(),
            subject: subject.clone(),
            agent: Some(agent.into()),
            authority: *authority,
        }))
    }

    /// The same principal with administrative authority.
    #[must_use]
    pub fn operator(&self) -> Self {
        let Inner { tenant, subject, agent, .. } = &*self.0;
        Self(Arc::new(Inner {
            tenant: tenant.clone(),
            subject: subject.clone(),
            agent: agent.clone(),
            authority: Authority::Operator,
        }))
    }

    /// The tenant.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.0.tenant
    }

    /// The subject.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.0.subject
    }

    /// The agent, where one is known.
    #[must_use]
    pub fn as_agent(&self) -> Option<&AgentId> {
        self.0.agent.as_ref()
    }

    /// What it may administer.
    #[must_use]
    pub fn authority(&self) -> Authority {
        self.0.authority
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { tenant, subject, agent, authority } = &*self.0;
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
