//! One exchange over HTTP: credentials, their renewal, and the only redirect that is followed.
//!
//! Applies to: outbound.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_LANGUAGE, AUTHORIZATION, LOCATION, USER_AGENT, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use mgp_types::RpcError;
use mgp_types::service::shown_url;

use super::again::Again;
use super::config::HttpClientConfig;
use super::endpoint::Endpoint;
use super::error::{Fault, HttpClientError};
use super::pool::{Pool, causes, pool};
use super::trust::distrust;
use crate::http::{Refused, Shown, Target};

/// What is read of a body nobody needs, so that its connection can serve again.
const REST_BYTES: usize = 64 << 10;
/// How long that may take.
const REST_TIME: Duration = Duration::from_secs(1);

/// Sends requests to one endpoint.
pub(super) struct Wire {
    pub(super) endpoint: Endpoint,
    pub(super) config: HttpClientConfig,
    pool: Pool,
}

impl Wire {
    pub(super) fn new(
        endpoint: Endpoint,
        config: HttpClientConfig,
    ) -> Result<Self, HttpClientError> {
        let is_secret = config.credentials.is_some() || config.headers.keys().any(may_be_secret);
        if is_secret && endpoint.is_in_clear() && !config.credentials_in_clear {
            return Err(HttpClientError::InClear(endpoint.to_string()));
        }
        let pool = pool(&endpoint, &config)?;
        Ok(Self { endpoint, config, pool })
    }

    /// Sends a request until the server takes or refuses it; gives the response with its body unread.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection of the request.
    pub(super) async fn send(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
        mut again: Again,
    ) -> Result<Response<Incoming>, RpcError> {
        let mut target = self.endpoint.uri().clone();
        let (mut refusals, mut is_redirected) = (0, false);
        loop {
            let shown = match &self.config.credentials {
                // Of the place it goes to now: after a redirect, and again after a refusal.
                Some(credentials) => {
                    let url = target.to_string();
                    credentials.shown(Target::new(method.as_str(), &url)).await?
                }
                None => Shown::default(),
            };
            let mut request = Request::new(Full::new(body.clone()));
            *request.method_mut() = method.clone();
            *request.uri_mut() = target.clone();
            *request.headers_mut() = headers.clone();
            // Those of the request go first, since they are more.
            for (name, value) in &self.config.headers {
                if !headers.contains_key(name) {
                    request.headers_mut().append(name, value.clone());
                }
            }
            show(&shown, request.headers_mut())?;
            let response = match self.pool.request(request).await {
                Ok(response) => response,
                Err(error) if again.take(&error) => {
                    tracing::debug!(%error, "the connection broke before an answer: once more");
                    continue;
                }
                Err(error) => return Err(self.failed(&error).into()),
            };
            let status = response.status();
            let nonce = nonce(response.headers());
            if is_refusal(&response)
                && let Some(credentials) = &self.config.credentials
                && refusals < self.config.refusals
            {
                refusals += 1;
                let challenges = response.headers().get_all(WWW_AUTHENTICATE).iter();
                let challenges =
                    challenges.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
                let shown = shown.authorization;
                let refusal = Refused::new(status.as_u16(), challenges.collect(), shown)
                    .nonce(nonce)
                    .times(refusals);
                drain(response.into_body()).await;
                credentials.refused(refusal).await?;
                continue;
            }
            if let (Some(credentials), Some(nonce)) = (&self.config.credentials, nonce) {
                credentials.nonce(&nonce);
            }
            if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
                let to = response.headers().get(LOCATION);
                let to = to.map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned());
                let to = to.unwrap_or_default();
                let keeps = matches!(
                    status,
                    StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
                );
                match self.endpoint.beside(&to).filter(|_| keeps && !is_redirected) {
                    Some(there) => {
                        is_redirected = true;
                        target = there;
                        drain(response.into_body()).await;
                        continue;
                    }
                    None => return Err(Fault::Redirect { status, to: shown_url(&to) }.into()),
                }
            }
            return Ok(response);
        }
    }

    /// Words a status that says no.
    pub(super) fn refusal(&self, status: StatusCode, headers: &HeaderMap) -> Fault {
        Fault::status(status, headers, self.config.credentials.is_some())
    }

    fn failed(&self, error: &hyper_util::client::legacy::Error) -> Fault {
        let (place, why) = (self.endpoint.to_string(), causes(error));
        if let Some(why) = distrust(error) {
            Fault::Untrusted { place, why }
        } else if error.is_connect() {
            Fault::Unreached { place, why }
        } else {
            Fault::Broken { place, why }
        }
    }
}

/// Whether a header of one's own may be a key: nobody knows the names of all keys, only some that are none.
fn may_be_secret(name: &HeaderName) -> bool {
    ![USER_AGENT, ACCEPT_LANGUAGE].contains(name)
}

/// Writes what a request shows into its headers.
fn show(shown: &Shown, headers: &mut HeaderMap) -> Result<(), Fault> {
    let authorization = shown.authorization.as_deref().map(|value| (AUTHORIZATION.as_str(), value));
    let further = shown.headers.iter().map(|(name, value)| (*name, value.as_str()));
    for (name, value) in authorization.into_iter().chain(further) {
        let wrong = || Fault::Header(name.to_owned());
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?, value);
    }
    Ok(())
}

/// What a response brings for proofs; of several nothing (RFC 9449 §8.1).
fn nonce(headers: &HeaderMap) -> Option<String> {
    let mut found = headers.get_all("dpop-nonce").iter();
    let one = found.next().filter(|_| found.next().is_none())?;
    one.to_str().ok().map(str::to_owned)
}

/// 401, or 403 with a challenge: other credentials may help.
fn is_refusal(response: &Response<Incoming>) -> bool {
    match response.status() {
        StatusCode::UNAUTHORIZED => true,
        StatusCode::FORBIDDEN => response.headers().contains_key(WWW_AUTHENTICATE),
        _ => false,
    }
}

/// Reads the rest of a body nobody needs, within bounds.
pub(super) async fn drain(mut body: Incoming) {
    let reading = async {
        let mut left = REST_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, Bytes::len);
            let Some(less) = left.checked_sub(size) else { return };
            left = less;
        }
    };
    // Whether it was read to its end or not, there is nothing more to do with it.
    let _ = tokio::time::timeout(REST_TIME, reading).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_key_needs_https_or_a_word() {
        let judged = |url: &str, name: HeaderName, in_clear: bool| {
            let mut config =
                HttpClientConfig { credentials_in_clear: in_clear, ..Default::default() };
            config.headers.insert(name, HeaderValue::from_static("k3y"));
            Wire::new(Endpoint::parse(url).unwrap(), config).map(|_| ())
        };
        let key = HeaderName::from_static("x-api-key");
        let far = "http://mcp.example/mcp";
        assert!(matches!(judged(far, key.clone(), false), Err(HttpClientError::InClear(_))));
        judged(far, key.clone(), true).unwrap();
        judged(far, USER_AGENT, false).unwrap();
        judged("http://localhost:8000/mcp", key, false).unwrap();
    }
}
