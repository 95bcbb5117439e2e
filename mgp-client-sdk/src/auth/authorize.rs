//! The authorization request and its response (OAuth 2.1 §4.1, RFC 8707, RFC 9207, RFC 9449 §10).

use url::Url;

use super::address::{self, clip_text};
use super::dpop::ProofKey;
use super::error::AuthError;
use super::metadata::{AuthServer, IssSupport};
use super::pkce::{self, Pkce};
use super::scope::Scopes;
use super::secret::Secret;
use super::token::token_endpoint;

/// The authorization request of one login. It keeps the values for checking the response.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) redirect_uri: String,
    pub(super) pkce: Pkce,
    state: Secret,
    issuer: String,
    iss: IssSupport,
}

impl Request {
    /// Creates the request for a login; fails if the authorization server does not support PKCE, or has no token
    /// endpoint to which the code may be sent.
    pub(super) fn new(server: &AuthServer, redirect_uri: String) -> Result<Self, AuthError> {
        if !server.has_pkce() {
            return Err(AuthError::NoPkce { issuer: server.issuer.clone() });
        }
        token_endpoint(server)?;
        let state = mgp_types::random_name()?.into();
        let (issuer, iss) = (server.issuer.clone(), server.iss());
        Ok(Self { redirect_uri, pkce: Pkce::new()?, state, issuer, iss })
    }

    /// Returns the URL of the authorization request, to open in the browser.
    pub(super) fn url(
        &self,
        server: &AuthServer,
        client_id: &str,
        resource: &str,
        scopes: &Scopes,
        key: Option<&ProofKey>,
    ) -> Result<String, AuthError> {
        let mut url = endpoint(server)?;
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", client_id)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("state", self.state.expose())
            .append_pair("code_challenge", &self.pkce.challenge)
            .append_pair("code_challenge_method", pkce::METHOD)
            .append_pair("resource", resource);
        if let Some(key) = key {
            // Bind the authorization code to the key, too (RFC 9449 §10).
            query.append_pair("dpop_jkt", &key.thumbprint());
        }
        if !scopes.is_empty() {
            query.append_pair("scope", &scopes.to_string());
        }
        if scopes.contains("offline_access") {
            // Request this prompt, because `offline_access` is ignored without it (OpenID Connect Core §11).
            query.append_pair("prompt", "consent");
        }
        drop(query);
        Ok(url.into())
    }

    /// Returns the authorization code in a response to this login.
    ///
    /// State and issuer are checked before anything else of the response is used or shown.
    pub(super) fn code(&self, back: &str) -> Result<Secret, AuthError> {
        let back = Url::parse(back).map_err(|_| AuthError::Response("an invalid URL"))?;
        let here =
            Url::parse(&self.redirect_uri).map_err(|_| AuthError::Response("an invalid URL"))?;
        if back.origin() != here.origin() || back.path() != here.path() {
            return Err(AuthError::Response("another address"));
        }
        let one = |name: &str| {
            let mut values = back.query_pairs().filter(|(known, _)| known == name);
            match (values.next(), values.next()) {
                (_, Some(_)) => Err(AuthError::Response("a parameter twice")),
                (value, None) => Ok(value.map(|(_, value)| value.into_owned())),
            }
        };
        if one("state")?.as_deref() != Some(self.state.expose()) {
            return Err(AuthError::Response("another state"));
        }
        self.check_issuer(one("iss")?.as_deref())?;
        if let Some(error) = one("error")? {
            let description = one("error_description")?.unwrap_or_default();
            let (error, description) = (clip_text(&error), clip_text(&description));
            return Err(AuthError::Denied { error, description });
        }
        one("code")?.map(Secret::from).ok_or(AuthError::Response("no code"))
    }

    /// Checks the issuer that a response names (RFC 9207 §2.4): it must be exactly the issuer of the login. Refuses a
    /// response without an issuer if the authorization server has promised to name it.
    fn check_issuer(&self, found: Option<&str>) -> Result<(), AuthError> {
        let refuse = |why| Err(AuthError::ResponseIssuer { issuer: self.issuer.clone(), why });
        match found {
            Some(found) if found == self.issuer => Ok(()),
            Some(_) => refuse("comes from another issuer"),
            None if self.iss == IssSupport::Promised => refuse("does not name its issuer"),
            None => Ok(()),
        }
    }
}

fn endpoint(server: &AuthServer) -> Result<Url, AuthError> {
    let endpoint = server.authorization_endpoint.as_deref().ok_or_else(|| {
        AuthError::MissingEndpoint { issuer: server.issuer.clone(), what: "authorization endpoint" }
    })?;
    address::parse_secure("the authorization endpoint", endpoint)
}

/// Returns the kind of application to which a redirect URI belongs. Accepts only URIs with `https`, URIs that refer to
/// this machine, and URIs with a private-use scheme.
pub(super) fn check_redirect(uri: &str) -> Result<ApplicationType, AuthError> {
    let refuse =
        |why| AuthError::Address { what: "the redirect URI", url: address::display_url(uri), why };
    let url = Url::parse(uri).map_err(|_| refuse("it is not an absolute URL"))?;
    match url.scheme() {
        "http" | "https" => {
            address::parse_secure("the redirect URI", uri)?;
            Ok(if address::is_loopback(&url) {
                ApplicationType::Native
            } else {
                ApplicationType::Web
            })
        }
        // RFC 8252 §7.1: a private-use scheme is a reversed domain name, so it contains a dot.
        scheme if scheme.contains('.') && url.fragment().is_none() => Ok(ApplicationType::Native),
        _ => Err(refuse(
            "its scheme must be `https`, `http` on this machine, or like `com.example.app`",
        )),
    }
}

/// The kind of application to which a redirect URI belongs (`OpenID` Connect Registration §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApplicationType {
    /// A program on a person's machine.
    Native,
    /// A web site.
    Web,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(iss: IssSupport) -> Request {
        Request {
            redirect_uri: "http://127.0.0.1:9/callback".to_owned(),
            pkce: Pkce::new().unwrap(),
            state: "right".into(),
            issuer: "https://a.example".to_owned(),
            iss,
        }
    }

    #[test]
    fn an_answer_must_belong_to_the_question() {
        #[track_caller]
        fn check(iss: IssSupport, back: &str, expected: Result<&str, &str>) {
            let code = request(iss).code(&format!("http://127.0.0.1:9/callback?{back}"));
            match (code, expected) {
                (Ok(code), Ok(expected)) => assert_eq!(code.expose(), expected),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
                (found, _) => panic!("{found:?}"),
            }
        }
        let (may, must) = (IssSupport::Optional, IssSupport::Promised);
        check(may, "code=c&state=right", Ok("c"));
        check(may, "code=c&state=wrong", Err("another state"));
        check(may, "code=c", Err("another state"));
        check(may, "code=c&code=d&state=right", Err("twice"));
        check(may, "state=right", Err("no code"));
        check(may, "error=access_denied&error_description=no%0Away&state=right", Err("no way"));
        // The message must not contain the error description if the response fails the checks.
        check(must, "error=access_denied&error_description=x&state=right", Err("does not name"));
        check(may, "error=access_denied&state=wrong", Err("another state"));
        let elsewhere = request(may).code("http://127.0.0.1:8/callback?code=c&state=right");
        assert!(matches!(elsewhere, Err(AuthError::Response("another address"))));
    }

    #[test]
    fn logins_come_back_to_this_machine_or_over_tls() {
        assert_eq!(check_redirect("http://127.0.0.1:1/callback").unwrap(), ApplicationType::Native);
        assert_eq!(check_redirect("com.example.app:/callback").unwrap(), ApplicationType::Native);
        assert_eq!(check_redirect("https://a.example/callback").unwrap(), ApplicationType::Web);
        for unfit in ["http://a.example/callback", "javascript:alert(1)", "data:,x", "/callback"] {
            assert!(check_redirect(unfit).is_err(), "{unfit}");
        }
    }
}
