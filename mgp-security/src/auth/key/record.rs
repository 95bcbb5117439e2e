//! What is kept of a key, and what it lets its holder do.
//!
//! Applies to: inbound.

use std::fmt;
use std::time::SystemTime;

use mgp_types::service::{Authority, Principal};
use mgp_types::{Timestamp, to_hex};
use serde::{Deserialize, Serialize};

use super::text::{Hash, hash_from_hex};

/// For whom a key is made, and what it permits.
///
/// Members that are not known are refused when a record is read: a misspelt expiry would be none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyGrant {
    tenant: String,
    subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    operator: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    permissions: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<Timestamp>,
}

impl KeyGrant {
    /// A grant for a subject of a tenant: no permissions, no administrative authority, no expiry.
    #[must_use]
    pub fn new(tenant: impl Into<String>, subject: impl Into<String>) -> Self {
        Self {
            tenant: tenant.into(),
            subject: subject.into(),
            agent: None,
            operator: false,
            permissions: Vec::new(),
            expires: None,
        }
    }

    /// Says through which agent the subject acts.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Gives administrative authority.
    #[must_use]
    pub fn operator(mut self) -> Self {
        self.operator = true;
        self
    }

    /// Adds a permission; see [`Authenticated::grants`](crate::auth::Authenticated::grants).
    #[must_use]
    pub fn permission(mut self, permission: impl Into<String>) -> Self {
        self.permissions.push(permission.into());
        self
    }

    /// Ends the key at a time.
    #[must_use]
    pub fn expires(mut self, at: SystemTime) -> Self {
        self.expires = Some(at.into());
        self
    }

    /// The principal of those who show the key.
    #[must_use]
    pub fn principal(&self) -> Principal {
        let mut principal = Principal::new(self.tenant.as_str(), self.subject.as_str());
        if let Some(agent) = &self.agent {
            principal = principal.agent(agent.as_str());
        }
        if self.operator { principal.operator() } else { principal }
    }

    /// What it may administer.
    #[must_use]
    pub fn authority(&self) -> Authority {
        if self.operator { Authority::Operator } else { Authority::User }
    }

    /// The permissions.
    #[must_use]
    pub fn permissions(&self) -> &[String] {
        &self.permissions
    }

    /// When the key ends.
    #[must_use]
    pub fn as_expires(&self) -> Option<&Timestamp> {
        self.expires.as_ref()
    }
}

/// A key as it is kept: everything but the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    id: String,
    #[serde(with = "hexadecimal")]
    sha256: Hash,
    grant: KeyGrant,
    created: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked: Option<Timestamp>,
}

impl KeyRecord {
    pub(super) fn new(id: &str, sha256: Hash, grant: KeyGrant) -> Self {
        Self { id: id.to_owned(), sha256, grant, created: Timestamp::now(), revoked: None }
    }

    pub(super) fn revoke(&mut self) {
        self.revoked.get_or_insert_with(Timestamp::now);
    }

    pub(super) fn hash(&self) -> &Hash {
        &self.sha256
    }

    /// The id, which stands in the key and is no secret.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// For whom it was made.
    #[must_use]
    pub fn grant(&self) -> &KeyGrant {
        &self.grant
    }

    /// When it was made.
    #[must_use]
    pub fn created(&self) -> &Timestamp {
        &self.created
    }

    /// When it was revoked.
    #[must_use]
    pub fn revoked(&self) -> Option<&Timestamp> {
        self.revoked.as_ref()
    }
}

/// Hashes stay out of logs.
impl fmt::Debug for KeyRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRecord")
            .field("id", &self.id)
            .field("grant", &self.grant)
            .field("revoked", &self.revoked)
            .finish_non_exhaustive()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// A hash as text.
mod hexadecimal {
    use std::borrow::Cow;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Hash, hash_from_hex, to_hex};

    pub(super) fn serialize<S: Serializer>(hash: &Hash, serializer: S) -> Result<S::Ok, S::Error> {
        to_hex(hash).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Hash, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        hash_from_hex(&text)
            .ok_or_else(|| D::Error::custom("64 lower-case hexadecimal digits are needed"))
    }
}
