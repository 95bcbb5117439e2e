//! A JSON object kept as text, e.g. arguments and schemas, which are passed on without parsing (MGP §1.5).

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Payload, RpcError};

/// A [`Payload`] whose JSON is an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct RawObject(Payload);

impl RawObject {
    /// Returns the object `{}`.
    #[must_use]
    pub const fn empty() -> Self {
        Self(Payload::empty_object())
    }

    /// Encodes a value whose JSON must be an object.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the JSON is not an object, −32603 (internal error) if the value cannot be
    /// written as JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, RpcError> {
        Payload::of(value)?.try_into()
    }

    /// Returns the object as a payload, which can be any JSON value.
    #[must_use]
    pub fn as_payload(&self) -> &Payload {
        &self.0
    }

    /// Decodes the object.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) with the serde error if a member cannot be decoded.
    pub fn get<T: DeserializeOwned>(&self) -> Result<T, RpcError> {
        self.0.get()
    }
}

impl Default for RawObject {
    fn default() -> Self {
        Self::empty()
    }
}

impl TryFrom<Payload> for RawObject {
    type Error = RpcError;

    fn try_from(payload: Payload) -> Result<Self, RpcError> {
        if is_object(&payload) {
            Ok(Self(payload))
        } else {
            Err(RpcError::invalid_params("expected an object"))
        }
    }
}

impl From<RawObject> for Payload {
    fn from(object: RawObject) -> Self {
        object.0
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let payload = Payload::deserialize(deserializer)?;
        if is_object(&payload) {
            Ok(Self(payload))
        } else {
            Err(D::Error::custom("expected an object"))
        }
    }
}

crate::record::schema_of!(RawObject as inline "Object", { "type": "object" });

fn is_object(payload: &Payload) -> bool {
    payload.as_str().trim_start().starts_with('{')
}
