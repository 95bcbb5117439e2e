//! Stored keys, and their grants.

use std::time::SystemTime;

use mgp_types::service::{Authority, Principal};
use mgp_types::{Timestamp, to_hex};
use serde::{Deserialize, Serialize};

use super::text::{Hash, hash_from_hex};

/// The principal to whom a key is issued, with the permissions and the expiry of the key.
///
/// When a record is read, unknown members are refused: a misspelled expiry must not result in a key without an expiry.
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
    /// Creates a grant for a subject in a tenant, without permissions, administrative authority or expiry.
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

    /// Sets the agent through which the subject acts.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Grants administrative authority. In a tenant other than `local`, the holder can administer only that tenant.
    #[must_use]
    pub fn operator(mut self) -> Self {
        self.operator = true;
        self
    }

    /// Adds a permission; see [`Authenticated::permissions`](crate::auth::Authenticated::permissions).
    #[must_use]
    pub fn permission(mut self, permission: impl Into<String>) -> Self {
        self.permissions.push(permission.into());
        self
    }

    /// Sets the time when the key expires.
    #[must_use]
    pub fn expires(mut self, at: SystemTime) -> Self {
        self.expires = Some(at.into());
        self
    }

    /// Returns the principal of callers that present the key.
    #[must_use]
    pub fn principal(&self) -> Principal {
        let mut principal = Principal::new(self.tenant.as_str(), self.subject.as_str());
        if let Some(agent) = &self.agent {
            principal = principal.agent(agent.as_str());
        }
        if self.operator { principal.operator() } else { principal }
    }

    /// Returns the administrative authority of the key's holder.
    #[must_use]
    pub fn authority(&self) -> Authority {
        self.principal().authority()
    }

    /// Returns the permissions of the key.
    #[must_use]
    pub fn permissions(&self) -> &[String] {
        &self.permissions
    }

    /// Returns the expiry of the key, if it has one.
    #[must_use]
    pub fn expiry(&self) -> Option<&Timestamp> {
        self.expires.as_ref()
    }
}

/// The stored record of a key, without its secret.
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

    /// Revokes the key, also if it was ended because it had expired.
    pub(super) fn revoke(&mut self) {
        if self.revoked.is_none() || self.is_expired() {
            self.revoked = Some(Timestamp::now());
        }
    }

    /// Marks the key as ended at the time of its expiry, so that it stays ended if the clock is set back.
    pub(super) fn expire(&mut self) {
        if self.revoked.is_none() {
            self.revoked = self.grant.expires.clone();
        }
    }

    /// Ends a valid key: at its expiry if it has expired, else now.
    pub(super) fn end(&mut self, now: SystemTime) {
        if self.has_expired(now) {
            self.expire();
        } else if self.revoked.is_none() {
            self.revoke();
        }
    }

    /// Returns whether the last use of the key is kept. It is deleted when the key is revoked, but not when it expires.
    pub(super) fn keeps_last_use(&self) -> bool {
        self.revoked.is_none() || self.is_expired()
    }

    /// Returns whether the key has expired and was not ended yet.
    pub(super) fn has_expired(&self, at: SystemTime) -> bool {
        let end = self.grant.expiry().and_then(Timestamp::to_system_time);
        self.revoked.is_none() && end.is_some_and(|end| end <= at)
    }

    /// Returns the time at which the key was revoked or expired; `None` if it is valid.
    pub(super) fn ended(&self, now: SystemTime) -> Option<SystemTime> {
        let ends = [self.revoked.as_ref(), self.grant.expiry()];
        let ends = ends.into_iter().flatten().filter_map(Timestamp::to_system_time);
        ends.filter(|end| *end <= now).min()
    }

    pub(super) fn hash(&self) -> &Hash {
        &self.sha256
    }

    /// Returns the id, which is part of the key and not secret.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the grant with which the key was issued.
    #[must_use]
    pub fn grant(&self) -> &KeyGrant {
        &self.grant
    }

    /// Returns the time when the key was created.
    #[must_use]
    pub fn created(&self) -> &Timestamp {
        &self.created
    }

    /// Returns the time of revocation, if the key is revoked. For a key that was ended because it had expired, this is
    /// its expiry.
    #[must_use]
    pub fn revoked(&self) -> Option<&Timestamp> {
        self.revoked.as_ref()
    }

    /// Returns whether the key was ended because it had expired; `false` for an expired key that was not ended yet.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.revoked.is_some() && self.revoked == self.grant.expires
    }
}

// Omits the hash, so that it does not appear in program logs.
mgp_types::opaque_debug!(KeyRecord { id, grant, revoked });

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

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
