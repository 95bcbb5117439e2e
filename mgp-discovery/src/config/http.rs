//! `[kernel.http]`: TLS and connections of `mgp serve --http`, and the access tokens that callers may present.

use super::addresses;
use super::table_reader::Reader;

/// The table `[kernel.http]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpAccessConfig {
    /// The files of the certificate chain and of its key; `None` for plain HTTP.
    pub tls: Option<(String, String)>,
    /// The maximum number of connections from one address; `None` for the defaults of the listener.
    pub connections_per_address: Option<u32>,
    /// The access tokens that are accepted in addition to API keys.
    pub tokens: Option<TokenConfig>,
}

/// `[kernel.http.tokens]`: access tokens (JWT) of one issuer (MCP authorization; RFC 9068).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenConfig {
    /// The issuer of the tokens.
    pub issuer: String,
    /// The URL that clients use to reach the kernel; tokens must name it as their audience.
    pub resource: String,
    /// The file or URL of the issuer's keys; `None` for the URL in the issuer's metadata.
    pub keys: Option<String>,
    /// Further names of the kernel that a token may have as its audience.
    pub audience: Vec<String>,
    /// The scopes that every token needs.
    pub scopes: Vec<String>,
    /// The scope that makes a caller an operator.
    pub operator_scope: Option<String>,
    /// The claim of the token that contains the name of the agent; `None` if the client id is the name.
    pub agent_claim: Option<String>,
    /// The tenant of the callers with access tokens.
    pub tenant: TokenTenant,
}

/// The tenant of callers with access tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenTenant {
    /// The local tenant, to which the agents of `mgp.toml` belong.
    #[default]
    Local,
    /// All callers with access tokens belong to this tenant.
    Named(String),
    /// The tenant that the claim of this name contains.
    Claim(String),
}

/// Reads the table `kernel.http`.
pub(super) fn http_access(reader: &mut Reader<'_, '_, '_>) -> HttpAccessConfig {
    let tls = match (reader.text("tls_cert"), reader.text("tls_key")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (certificate, _) => {
            let (has, lacks) = if certificate.is_some() {
                ("tls_cert", "tls_key")
            } else {
                ("tls_key", "tls_cert")
            };
            reader.error(
                has,
                format!("needs `{lacks}`"),
                Some(format!("write both, or leave out `{has}`")),
            );
            None
        }
    };
    let connections_per_address = reader.small_number("connections_per_address");
    HttpAccessConfig { tls, connections_per_address, tokens: tokens(reader) }
}

fn tokens(above: &mut Reader<'_, '_, '_>) -> Option<TokenConfig> {
    let mut reader = above.below("tokens", "kernel.http.tokens")?;
    let tenant = match (reader.text("tenant"), reader.text("tenant_claim")) {
        (None, None) => TokenTenant::Local,
        (Some(tenant), None) => TokenTenant::Named(tenant),
        (None, Some(claim)) => TokenTenant::Claim(claim),
        (Some(_), Some(_)) => {
            let remedy = "write only one of them".to_owned();
            reader.error("tenant", "conflicts with `tenant_claim`", Some(remedy));
            return None;
        }
    };
    let issuer = addresses::token_issuer(&mut reader);
    let resource = addresses::token_resource(&mut reader);
    let tokens = TokenConfig {
        issuer: issuer.clone().unwrap_or_default(),
        resource: resource.clone().unwrap_or_default(),
        keys: addresses::token_keys(&mut reader),
        audience: reader.texts("audience"),
        scopes: reader.texts("scopes"),
        operator_scope: reader.text("operator_scope"),
        agent_claim: reader.text("agent_claim"),
        tenant,
    };
    if issuer.is_none() || resource.is_none() {
        let remedy = "write both: `issuer` creates the tokens, `resource` is the URL of the kernel for its clients, e.g. `https://mgp.example/mcp`";
        above.error("tokens", "needs `issuer` and `resource`", Some(remedy.to_owned()));
        return None;
    }
    Some(tokens)
}
