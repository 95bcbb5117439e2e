//! Metadata of protected resources and authorization servers (RFC 9728 §2, RFC 8414 §2).

use serde::Deserialize;

use super::dpop::ProofSupport;
use super::scope::Scopes;

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
    pub(super) device_authorization_endpoint: Option<String>,
    #[serde(default)]
    pub(super) revocation_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    grant_types_supported: Option<Vec<String>>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: Option<bool>,
    #[serde(default)]
    client_id_metadata_document_supported: Option<bool>,
    #[serde(default)]
    pub(super) dpop_signing_alg_values_supported: Option<Vec<String>>,
}

/// An authorization server's support for naming itself in responses to logins (RFC 9207).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IssSupport {
    /// The server declares that its responses name the issuer.
    Promised,
    /// Responses can name the issuer, but the server does not promise it.
    Optional,
}

impl AuthServer {
    /// Creates the default metadata for a server of revision 2025-03-26 that publishes none.
    pub(super) fn without_metadata(origin: &str) -> Self {
        let at = |path: &str| Some(format!("{origin}{path}"));
        Self {
            issuer: origin.to_owned(),
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: at("/register"),
            device_authorization_endpoint: None,
            revocation_endpoint: None,
            scopes_supported: None,
            // This server supports PKCE, because revision 2025-03-26 requires it of every authorization server.
            code_challenge_methods_supported: Some(vec![super::pkce::METHOD.to_owned()]),
            grant_types_supported: None,
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

    /// Returns whether clients may use a grant type. A server that lists no grant types may offer any.
    pub(super) fn offers_grant(&self, grant: &str) -> bool {
        let grants = self.grant_types_supported.as_ref();
        grants.is_none() || lists(grants, grant)
    }

    /// Returns whether clients may authenticate with a method, or `None` if the metadata does not declare methods.
    pub(super) fn has_method(&self, method: &str) -> Option<bool> {
        let methods = self.token_endpoint_auth_methods_supported.as_ref()?;
        Some(methods.iter().any(|known| known == method))
    }

    pub(super) fn iss(&self) -> IssSupport {
        match self.authorization_response_iss_parameter_supported {
            Some(true) => IssSupport::Promised,
            _ => IssSupport::Optional,
        }
    }

    pub(super) fn takes_documents(&self) -> bool {
        self.client_id_metadata_document_supported == Some(true)
    }

    /// Returns the declared support for this client's proofs of possession.
    pub(super) fn proofs(&self) -> ProofSupport {
        signs(self.dpop_signing_alg_values_supported.as_ref())
    }
}

impl Resource {
    pub(super) fn scopes(&self) -> Option<Scopes> {
        scopes(self.scopes_supported.as_ref())
    }

    /// Returns the declared support for this client's proofs of possession.
    pub(super) fn proofs(&self) -> ProofSupport {
        signs(self.dpop_signing_alg_values_supported.as_ref())
    }

    /// Returns whether the server accepts only tokens that are bound to a key.
    pub(super) fn requires_dpop(&self) -> bool {
        self.dpop_bound_access_tokens_required == Some(true)
    }
}

fn signs(list: Option<&Vec<String>>) -> ProofSupport {
    ProofSupport::of(list.map(|list| list.iter().map(String::as_str)))
}

fn scopes(list: Option<&Vec<String>>) -> Option<Scopes> {
    list.map(|list| list.iter().map(String::as_str).collect())
}

fn lists(list: Option<&Vec<String>>, word: &str) -> bool {
    list.is_some_and(|list| list.iter().any(|known| known == word))
}
