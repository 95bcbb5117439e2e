//! One exchange over HTTP: credentials, their renewal, and the only redirect that is followed.
//!
//! Applies to: outbound.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_LANGUAGE, AUTHORIZATION, HOST, LOCATION, USER_AGENT, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, shown_url};

use super::again::Again;
use super::config::HttpClientConfig;
use super::endpoint::{Endpoint, Goal};
use super::error::{Fault, HttpClientError, causes};
use super::pool::{Message, Pool, PoolError, pool};
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
    goal: Goal,
    pool: Pool,
}

/// Makes the headers of a request, for each time it is sent.
pub(super) type Make<'a> = &'a (dyn Fn() -> HeaderMap + Sync);

/// A request that was sent.
struct Sending<'a> {
    method: &'a Method,
    headers: Make<'a>,
    body: &'a Bytes,
    again: Again,
    /// What it showed.
    shown: Shown,
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
        let goal = Goal::of(endpoint.uri());
        Ok(Self { endpoint, config, goal, pool })
    }

    /// Sends a request until the server takes or refuses it; gives the response with its body unread.
    ///
    /// Its headers are made anew for each time it is sent, which mostly is once.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection of the request.
    pub(super) async fn send(
        &self,
        method: &Method,
        headers: Make<'_>,
        body: &Bytes,
        again: Again,
    ) -> Result<Response<Incoming>, RpcError> {
        let shown = self.shown(method, &self.goal).await?;
        let sent = self.pool.send(self.message(method, headers(), body, &self.goal, &shown)?);
        let outcome = sent.await;
        let later = match self.settled(outcome, Sending { method, headers, body, again, shown }) {
            Ok(response) => return Ok(response),
            Err(later) => later,
        };
        later.await
    }

    /// The response, where it is simply an answer.
    ///
    /// What is left to do otherwise is boxed, as hardly a request comes there and each would hold the room for it.
    fn settled<'a>(
        &'a self,
        outcome: Result<Response<Incoming>, PoolError>,
        sending: Sending<'a>,
    ) -> Result<Response<Incoming>, BoxFuture<'a, Result<Response<Incoming>, RpcError>>> {
        match outcome {
            Ok(response) if !self.is_open_question(&response) => {
                self.hear(response.headers());
                Ok(response)
            }
            outcome => Err(Box::pin(self.go_on(sending, outcome))),
        }
    }

    /// What becomes of a request that was not simply answered.
    async fn go_on(
        &self,
        mut sending: Sending<'_>,
        mut outcome: Result<Response<Incoming>, PoolError>,
    ) -> Result<Response<Incoming>, RpcError> {
        let (mut refusals, mut moved) = (0, None::<Goal>);
        loop {
            match outcome {
                Ok(response) if !self.is_open_question(&response) => {
                    self.hear(response.headers());
                    return Ok(response);
                }
                Ok(response) => {
                    if let Some(credentials) = &self.config.credentials
                        && is_refusal(&response)
                    {
                        if refusals >= self.config.refusals {
                            self.hear(response.headers());
                            return Ok(response);
                        }
                        refusals += 1;
                        let refusal =
                            refused(&response, sending.shown.authorization.take(), refusals);
                        drain(response.into_body()).await;
                        credentials.refused(refusal).await?;
                    } else {
                        self.hear(response.headers());
                        moved = Some(self.redirected(&response, moved.is_some())?);
                        drain(response.into_body()).await;
                    }
                }
                Err(error) if sending.again.take(&error) => {
                    tracing::debug!(%error, "the connection broke before an answer: once more");
                }
                Err(error) => return Err(self.failed(&error).into()),
            }
            // Of the place it goes to now: after a redirect, and again after a refusal.
            let goal = moved.as_ref().unwrap_or(&self.goal);
            sending.shown = self.shown(sending.method, goal).await?;
            let headers = (sending.headers)();
            let message =
                self.message(sending.method, headers, sending.body, goal, &sending.shown)?;
            outcome = self.pool.send(message).await;
        }
    }

    async fn shown(&self, method: &Method, goal: &Goal) -> Result<Shown, RpcError> {
        match &self.config.credentials {
            Some(credentials) => credentials.shown(Target::new(method.as_str(), &goal.url)).await,
            None => Ok(Shown::default()),
        }
    }

    /// A request as it is written.
    fn message(
        &self,
        method: &Method,
        mut headers: HeaderMap,
        body: &Bytes,
        goal: &Goal,
        shown: &Shown,
    ) -> Result<Message, Fault> {
        // Those of the request go first, since they are more.
        for name in self.config.headers.keys() {
            if !headers.contains_key(name) {
                for value in self.config.headers.get_all(name) {
                    headers.append(name, value.clone());
                }
            }
        }
        show(shown, &mut headers)?;
        headers.entry(HOST).or_insert_with(|| goal.host.clone());
        let mut message = Request::new(Full::new(body.clone()));
        *message.method_mut() = method.clone();
        *message.uri_mut() = goal.path.clone();
        *message.headers_mut() = headers;
        Ok(message)
    }

    /// Whether there is more to do about a response than to read it.
    fn is_open_question(&self, response: &Response<Incoming>) -> bool {
        is_redirect(response.status())
            || (self.config.credentials.is_some() && is_refusal(response))
    }

    /// Notes what a response brings for the proofs of later requests.
    fn hear(&self, headers: &HeaderMap) {
        if let Some(credentials) = &self.config.credentials
            && let Some(nonce) = nonce(headers)
        {
            credentials.nonce(&nonce);
        }
    }

    /// Where a response sends its request, if that is followed.
    fn redirected(
        &self,
        response: &Response<Incoming>,
        is_redirected: bool,
    ) -> Result<Goal, Fault> {
        let status = response.status();
        let to = response.headers().get(LOCATION);
        let to = to.map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned());
        let to = to.unwrap_or_default();
        let keeps =
            matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        match self.endpoint.beside(&to).filter(|_| keeps && !is_redirected) {
            Some(there) => Ok(Goal::of(&there)),
            None => Err(Fault::Redirect { status, to: shown_url(&to) }),
        }
    }

    /// Words a status that says no.
    pub(super) fn refusal(&self, status: StatusCode, headers: &HeaderMap) -> Fault {
        Fault::status(status, headers, self.config.credentials.is_some())
    }

    fn failed(&self, error: &PoolError) -> Fault {
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

/// What credentials are told of a refusal.
fn refused(response: &Response<Incoming>, shown: Option<String>, times: u32) -> Refused {
    let headers = response.headers();
    let challenges = headers.get_all(WWW_AUTHENTICATE).iter();
    let challenges = challenges.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    Refused::new(response.status().as_u16(), challenges.collect(), shown)
        .nonce(nonce(headers))
        .times(times)
}

fn is_redirect(status: StatusCode) -> bool {
    status.is_redirection() && status != StatusCode::NOT_MODIFIED
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

    #[test]
    fn headers_of_ones_own_give_way_to_those_of_the_request_as_a_whole() {
        let mut config = HttpClientConfig::default();
        for (name, value) in [("x-two", "1"), ("x-two", "2"), ("x-own", "1"), ("x-own", "2")] {
            config.headers.append(name, HeaderValue::from_static(value));
        }
        let said = |config: HttpClientConfig| {
            let endpoint = Endpoint::parse("http://localhost:8000/mcp?a=b").unwrap();
            let wire = Wire::new(endpoint, config).unwrap();
            let headers = [(HeaderName::from_static("x-own"), HeaderValue::from_static("0"))];
            let (headers, shown) = (headers.into_iter().collect(), Shown::default());
            let message = wire.message(&Method::POST, headers, &Bytes::new(), &wire.goal, &shown);
            let message = message.unwrap();
            let all = |name: &str| {
                let values = message.headers().get_all(name).iter();
                values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
            };
            (message.uri().to_string(), all("x-two"), all("x-own"), all("host"))
        };
        let (uri, two, own, host) = said(config.clone());
        assert_eq!((uri.as_str(), host), ("/mcp?a=b", vec!["localhost:8000".to_owned()]));
        assert_eq!((two, own), (vec!["1".to_owned(), "2".to_owned()], vec!["0".to_owned()]));
        config.headers.insert(HOST, HeaderValue::from_static("other"));
        assert_eq!(said(config).3, ["other"]);
    }
}
