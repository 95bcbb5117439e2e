//! What servers publish about themselves (RFC 9728 §2, RFC 8414 §2).
//!
//! Applies to: outbound.

use serde::Deserialize;

use super::dpop::Signs;
use super::scope::Scopes;

/// What a protected resource says.
#[derive(Clone, Debug, Deserialize)]
#[expect(clippy::struct_field_names, reason = "RFC 9728 names the member")]
pub(super) struct Resource {
    pub(super) resource: String,
    #[serde(default)]
    pub(super) authorization_servers: Option<Vec<String>>,
    #[serde(default)]
    pub(super) scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    dpop_signing_alg_values_supported: Option<Vec<String>>,
    #[serde(default)]
    dpop_bound_access_tokens_required: Option<bool>,
}

/// What an authorization server says.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct AuthServer {
    pub(super) issuer: String,
    #[serde(default)]
    pub(super) authorization_endpoint: Option<String>,
    #[serde(default)]
    pub(super) token_endpoint: Option<String>,
    #[serde(default)]
    pub(super) registration_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: Option<bool>,
    #[serde(default)]
    client_id_metadata_document_supported: Option<bool>,
    #[serde(default)]
    pub(super) dpop_signing_alg_values_supported: Option<Vec<String>>,
}

/// Whether the answer to a login must say who gives it (RFC 9207).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Iss {
    /// The server says that it does.
    Promised,
    /// It may.
    Possible,
}

impl AuthServer {
    /// What a server of 2025-03-26 is taken to be that publishes nothing.
    pub(super) fn unpublished(origin: &str) -> Self {
        let at = |path: &str| Some(format!("{origin}{path}"));
        Self {
            issuer: origin.to_owned(),
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: at("/register"),
            scopes_supported: None,
            // That revision requires it of every authorization server.
            code_challenge_methods_supported: Some(vec![super::pkce::METHOD.to_owned()]),
            token_endpoint_auth_methods_supported: None,
            authorization_response_iss_parameter_supported: None,
            client_id_metadata_document_supported: None,
            dpop_signing_alg_values_supported: None,
        }
    }

    pub(super) fn scopes(&self) -> Option<Scopes> {
        scopes(self.scopes_supported.as_ref())
    }

    pub(super) fn has_pkce(&self) -> bool {
        lists(self.code_challenge_methods_supported.as_ref(), super::pkce::METHOD)
    }

    /// Whether clients authenticate themselves like this; `None` where it does not say.
    pub(super) fn has_method(&self, method: &str) -> Option<bool> {
        let methods = self.token_endpoint_auth_methods_supported.as_ref()?;
        Some(methods.iter().any(|known| known == method))
    }

    pub(super) fn iss(&self) -> Iss {
        match self.authorization_response_iss_parameter_supported {
            Some(true) => Iss::Promised,
            _ => Iss::Possible,
        }
    }

    pub(super) fn takes_documents(&self) -> bool {
        self.client_id_metadata_document_supported == Some(true)
    }

    /// Which proofs of possession it takes.
    pub(super) fn proofs(&self) -> Signs {
        signs(self.dpop_signing_alg_values_supported.as_ref())
    }
}

impl Resource {
    pub(super) fn scopes(&self) -> Option<Scopes> {
        scopes(self.scopes_supported.as_ref())
    }

    /// Which proofs of possession it takes.
    pub(super) fn proofs(&self) -> Signs {
        signs(self.dpop_signing_alg_values_supported.as_ref())
    }

    /// Whether it takes no tokens that are not bound to a key.
    pub(super) fn requires_dpop(&self) -> bool {
        self.dpop_bound_access_tokens_required == Some(true)
    }
}

fn signs(list: Option<&Vec<String>>) -> Signs {
    Signs::of(list.map(|list| list.iter().map(String::as_str)))
}

fn scopes(list: Option<&Vec<String>>) -> Option<Scopes> {
    list.map(|list| list.iter().map(String::as_str).collect())
}

fn lists(list: Option<&Vec<String>>, word: &str) -> bool {
    list.is_some_and(|list| list.iter().any(|known| known == word))
}
