//! Loads the keys and tokens of an authentication fixture file.

use std::path::Path;

use mgp_security::auth::{ApiKeys, AuthLayer, JwkSet, KeyGrant, ResourceServer};
use mgp_types::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// The content of the fixture file; unknown members are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    keys: Vec<Known>,
    /// Keys that were revoked.
    revoked: Vec<String>,
    /// The public keys of the token issuer.
    jwks: Option<Value>,
    issuer: Option<String>,
    /// The audience of tokens: the URL of this server, as its clients write it.
    audience: Option<String>,
    /// The scopes that every token needs.
    scopes: Vec<String>,
}

/// An accepted API key, and the caller that it identifies.
#[derive(Debug, Deserialize)]
#[serde(from = "Value")]
struct Known {
    key: String,
    subject: String,
    permissions: Vec<String>,
    expires: Option<Timestamp>,
}

impl From<Value> for Known {
    /// Accepts a bare string (the key without a grant) as well as an object.
    fn from(value: Value) -> Self {
        let text = |member: &str| value[member].as_str().map(str::to_owned);
        let key = value.as_str().map(str::to_owned).or_else(|| text("key")).unwrap_or_default();
        let permissions = value["permissions"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            subject: text("subject").unwrap_or_else(|| "unknown".to_owned()),
            permissions: permissions.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            expires: serde_json::from_value(value["expires"].clone()).ok(),
            key,
        }
    }
}

/// Loads the file and returns its authentication layer.
pub(crate) async fn load(path: &Path, port: u16) -> Result<AuthLayer, Box<dyn std::error::Error>> {
    let file: File = serde_json::from_slice(&std::fs::read(path)?)?;
    let keys = ApiKeys::new();
    for Known { key, subject, permissions, expires } in file.keys {
        let grant = KeyGrant::new("conformance", subject);
        let mut grant = permissions.into_iter().fold(grant, KeyGrant::permission);
        if let Some(at) = expires {
            // An invalid time counts as expired.
            grant = grant.expires(at.to_system_time().unwrap_or(std::time::UNIX_EPOCH));
        }
        let id = keys.import(&key, grant).await?;
        if file.revoked.contains(&key) {
            keys.revoke(&id).await?;
        }
    }
    let layer = AuthLayer::new().keys(keys);
    let (Some(jwks), Some(issuer)) = (file.jwks, file.issuer) else { return Ok(layer) };
    let here = format!("http://127.0.0.1:{port}/mcp");
    let resource = ResourceServer::new(file.audience.as_deref().unwrap_or(&here), &issuer)?;
    let resource = resource.keys(JwkSet::parse(jwks.to_string())?);
    Ok(layer.tokens(file.scopes.into_iter().fold(resource, ResourceServer::require_scope)))
}
