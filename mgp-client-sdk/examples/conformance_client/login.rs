//! Authorizes the client with the credentials of the scenario; without credentials, the client registers and logs in.

use std::error::Error;
use std::sync::Arc;

use mgp_client_sdk::auth::{
    AuthError, Browser, ClientCredentials, EnterpriseIdp, OAuth, Secret, SigningAlgorithm,
    SigningKey,
};
use mgp_transport::http::GuardedFetch;
use mgp_types::RawObject;
use mgp_types::service::{FetchRequest, SharedFetch};
use serde::Deserialize;

use crate::Scenario;

/// The URL of the client's metadata document. The conformance suite expects exactly this URL.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
/// The redirect URI. Nothing listens there, because the client reads the redirect instead of following it.
const REDIRECT: &str = "http://127.0.0.1:3333/callback";

/// The data that a scenario passes to its client.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Context {
    client_id: Option<String>,
    client_secret: Option<String>,
    issuer: Option<String>,
    private_key_pem: Option<String>,
    signing_algorithm: Option<String>,
    idp_client_id: Option<String>,
    idp_id_token: Option<String>,
    idp_issuer: Option<String>,
    idp_token_endpoint: Option<String>,
    valid_jwt: Option<String>,
    #[serde(rename = "toolCalls")]
    pub(crate) tool_calls: Vec<PlannedCall>,
}

/// A tool call that a scenario expects.
#[derive(Deserialize)]
pub(crate) struct PlannedCall {
    pub(crate) name: String,
    pub(crate) arguments: RawObject,
}

pub(crate) fn credentials(scenario: &Scenario) -> Result<OAuth, Box<dyn Error>> {
    let fetcher: SharedFetch = Arc::new(GuardedFetch::for_server(&scenario.url)?);
    let oauth = oauth(scenario, &fetcher)?.client_name("Conformance client");
    Ok(match &scenario.context.issuer {
        Some(issuer) => oauth.issuer(issuer),
        None => oauth,
    })
}

fn oauth(scenario: &Scenario, fetcher: &SharedFetch) -> Result<OAuth, Box<dyn Error>> {
    let (url, context) = (scenario.url.as_str(), &scenario.context);
    let person = || OAuth::new(url, Arc::clone(fetcher)).browser(Redirected(Arc::clone(fetcher)));
    let Some(id) = &context.client_id else { return Ok(person().cimd(DOCUMENT)) };
    let secret = context.client_secret.as_deref();
    if let Some(pem) = &context.private_key_pem {
        let algorithm = match context.signing_algorithm.as_deref() {
            None | Some("ES256") => SigningAlgorithm::Es256,
            Some("RS256") => SigningAlgorithm::Rs256,
            Some("EdDSA") => SigningAlgorithm::EdDsa,
            Some(other) => return Err(format!("no key can sign with `{other}` here").into()),
        };
        let key = SigningKey::from_pem(algorithm, pem.as_bytes())?;
        let credentials = ClientCredentials::key(id, key);
        return Ok(OAuth::client_credentials(url, Arc::clone(fetcher), credentials));
    }
    if let Some(statement) = &context.valid_jwt {
        let credentials = ClientCredentials::public(id);
        let statement = Secret::from(statement.as_str());
        return Ok(OAuth::assertions(url, Arc::clone(fetcher), credentials, statement));
    }
    let secret = secret.ok_or("the scenario gives a client without a secret or key")?;
    let own = ClientCredentials::secret(id, secret);
    if let (Some(idp), Some(issuer), Some(endpoint), Some(token)) = (
        &context.idp_client_id,
        &context.idp_issuer,
        &context.idp_token_endpoint,
        &context.idp_id_token,
    ) {
        let there = ClientCredentials::public(idp);
        let idp = EnterpriseIdp::new(Arc::clone(fetcher), issuer, endpoint, &there, token.as_str());
        return Ok(OAuth::assertions(url, Arc::clone(fetcher), own, idp));
    }
    if scenario.name.contains("client-credentials") {
        return Ok(OAuth::client_credentials(url, Arc::clone(fetcher), own));
    }
    Ok(person().preregistered(id, secret))
}

/// A browser whose user agrees to everything: the authorization server redirects immediately.
struct Redirected(SharedFetch);

#[async_trait::async_trait]
impl Browser for Redirected {
    async fn redirect_uri(&self, registered: Option<&str>) -> Result<String, AuthError> {
        Ok(registered.unwrap_or(REDIRECT).to_owned())
    }

    async fn authorize(&self, url: &str) -> Result<String, AuthError> {
        let answer = self.0.fetch(FetchRequest::get(url)).await;
        let answer = answer.map_err(|error| AuthError::browser(error.to_string()))?;
        let back = answer.header("location").map(str::to_owned);
        back.ok_or_else(|| {
            AuthError::browser(format!("the login answered with {} and no way back", answer.status))
        })
    }
}
