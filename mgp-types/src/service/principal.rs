//! The principal for whom a call is made. The transport sets it from credentials or a configured profile, never from
//! params (MGP §5).

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
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
    /// The name of the tenant to which a principal belongs.
    TenantId
);
name_newtype!(
    /// The authenticated subject: the name of a user, an API key or a client.
    Subject
);
name_newtype!(
    /// The name of the agent through which a subject acts.
    AgentId
);
name_newtype!(
    /// The id under which a server is configured or registered; an id that the server claims is shown, but never used
    /// as a key.
    ServerId
);

/// The principal for whom a call is made; forwarding never changes it.
///
/// Principals that differ only in their local [process](Self::process) are equal, because the process is only shown in
/// the audit log.
///
/// ```
/// use mgp_types::service::{PeerProcess, Principal};
///
/// let operator = Principal::local().operator();
/// let through = operator.through(PeerProcess::new(4242));
/// assert_eq!(through.process().unwrap().pid, 4242);
/// assert_eq!(through, operator);
/// ```
#[derive(Clone)]
pub struct Principal {
    identity: Arc<Identity>,
    process: Option<Arc<PeerProcess>>,
}

/// The local process at the other end of a connection, as shown in the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerProcess {
    /// The id of the process when it connected.
    pub pid: u32,
    /// The path of the process's program, if it can be read.
    pub program: Option<String>,
    /// The path of the parent process's program, if it can be read.
    pub parent: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
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
    /// No administrative authority.
    User,
    /// The authority to administer access, permissions and approvals of the principal's own tenant, but nothing that
    /// several tenants share.
    TenantOperator,
    /// The authority to administer everything, including what tenants share: servers, definitions, registrations, the
    /// audit log and the process itself. Only operators of the tenant `local` have this authority.
    Operator,
}

impl PeerProcess {
    /// Describes the process with this id; its program and its parent are not known.
    #[must_use]
    pub fn new(pid: u32) -> Self {
        Self { pid, program: None, parent: None }
    }
}

impl Principal {
    /// Creates a principal without administrative authority.
    #[must_use]
    pub fn new(tenant: impl Into<TenantId>, subject: impl Into<Subject>) -> Self {
        let (tenant, subject) = (tenant.into(), subject.into());
        let identity = Identity { tenant, subject, agent: None, authority: Authority::User };
        Self { identity: Arc::new(identity), process: None }
    }

    /// Returns the principal at the other end of a local pipe: tenant `local`, subject `local`.
    #[must_use]
    pub fn local() -> Self {
        static LOCAL: LazyLock<Principal> = LazyLock::new(|| Principal::new("local", "local"));
        LOCAL.clone()
    }

    /// Returns a copy of the principal that acts through an agent.
    #[must_use]
    pub fn agent(&self, agent: impl Into<AgentId>) -> Self {
        let agent = Some(agent.into());
        let identity = Identity { agent, ..Identity::clone(&self.identity) };
        Self { identity: Arc::new(identity), process: self.process.clone() }
    }

    /// Returns a copy of the principal with administrative authority: over everything if its tenant is `local`, else
    /// over its own tenant only.
    ///
    /// ```
    /// use mgp_types::service::{Authority, Principal};
    ///
    /// assert_eq!(Principal::new("local", "ann").operator().authority(), Authority::Operator);
    /// assert_eq!(Principal::new("acme", "ann").operator().authority(), Authority::TenantOperator);
    /// ```
    #[must_use]
    pub fn operator(&self) -> Self {
        let is_local = self.tenant() == Self::local().tenant();
        let authority = if is_local { Authority::Operator } else { Authority::TenantOperator };
        let identity = Identity { authority, ..Identity::clone(&self.identity) };
        Self { identity: Arc::new(identity), process: self.process.clone() }
    }

    /// Returns a copy of the principal that acts through a local process; the audit log names the process.
    #[must_use]
    pub fn through(&self, process: PeerProcess) -> Self {
        Self { identity: Arc::clone(&self.identity), process: Some(Arc::new(process)) }
    }

    /// Returns the local process through which the principal acts, if known.
    #[must_use]
    pub fn process(&self) -> Option<&PeerProcess> {
        self.process.as_deref()
    }

    /// Returns the tenant of the principal.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.identity.tenant
    }

    /// Returns the subject of the principal.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.identity.subject
    }

    /// Returns the agent through which the principal acts, if any.
    #[must_use]
    pub fn as_agent(&self) -> Option<&AgentId> {
        self.identity.agent.as_ref()
    }

    /// Returns the name by which access rules and audit records refer to the principal: that of its agent, else of its
    /// subject.
    #[must_use]
    pub fn name(&self) -> &str {
        self.as_agent().map_or(self.subject().as_str(), AgentId::as_str)
    }

    /// Returns the administrative authority.
    #[must_use]
    pub fn authority(&self) -> Authority {
        self.identity.authority
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity.hash(state);
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { tenant, subject, agent, authority } = &*self.identity;
        write!(f, "{tenant}/{subject}")?;
        if let Some(agent) = agent {
            write!(f, "/{agent}")?;
        }
        match authority {
            Authority::User => Ok(()),
            Authority::TenantOperator => f.write_str(" (operator of its tenant)"),
            Authority::Operator => f.write_str(" (operator)"),
        }
    }
}
