//! Performs one HTTP exchange: adds credentials, renews refused credentials, and follows the only permitted kind of
//! redirect.

use std::iter::once;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_LANGUAGE, AUTHORIZATION, HOST, LOCATION, USER_AGENT, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, shown_url};
use mgp_types::sync::Mutex;

use super::broken_connection::ResendPolicy;
use super::certificates::tls_error;
use super::config::HttpClientConfig;
use super::endpoint::{Destination, Endpoint};
use super::error::{Fault, HttpClientError, causes};
use super::pool::{Message, Pool, PoolError, pool};
use super::refusal_text::server_text;
use crate::http::{CredentialRefusal, RequestCredentials, RequestTarget};

/// The maximum number of bytes of an unneeded body that are read so that its connection can be reused.
const MAX_DRAINED_BYTES: usize = 64 << 10;
/// The maximum time for which the client reads a response body that it does not need.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// The number of different values of `Authorization` that are left out of the server's texts: the last one, and the one
/// before it, with which another request may still be running.
const MAX_KEPT_AUTHORIZATIONS: usize = 2;

pub(super) struct HttpSender {
    pub(super) endpoint: Endpoint,
    pub(super) config: HttpClientConfig,
    destination: Destination,
    pool: Pool,
    /// The values of `Authorization` that were sent last, the newest first.
    authorizations: Mutex<Vec<String>>,
}

/// A function that creates the headers of a request; called each time the request is sent.
pub(super) type MakeHeaders<'a> = &'a (dyn Fn() -> HeaderMap + Sync);

struct SentRequest<'a> {
    method: &'a Method,
    headers: MakeHeaders<'a>,
    body: &'a Bytes,
    resend: ResendPolicy,
    /// The credentials with which the request was sent.
    shown: RequestCredentials,
}

impl HttpSender {
    pub(super) fn new(
        endpoint: Endpoint,
        config: HttpClientConfig,
    ) -> Result<Self, HttpClientError> {
        let is_secret = config.credentials.is_some() || config.headers.keys().any(may_be_secret);
        if is_secret && endpoint.is_in_clear() && !config.credentials_in_clear {
            return Err(HttpClientError::InClear(endpoint.to_string()));
        }
        let pool = pool(&endpoint, &config)?;
        let destination = Destination::new(endpoint.uri());
        Ok(Self { endpoint, config, destination, pool, authorizations: Mutex::default() })
    }

    /// Sends a request, and returns the response before its body is read. The request is sent again after a permitted
    /// redirect, after refused credentials were handled, and, if `resend` permits it, after a broken connection.
    ///
    /// The headers are created each time the request is sent; usually it is sent only once.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection of the request.
    pub(super) async fn send(
        &self,
        method: &Method,
        headers: MakeHeaders<'_>,
        body: &Bytes,
        resend: ResendPolicy,
    ) -> Result<Response<Incoming>, RpcError> {
        let shown = self.shown(method, &self.destination).await?;
        let sent =
            self.pool.send(self.message(method, headers(), body, &self.destination, &shown)?);
        let outcome = sent.await;
        let later = match self
            .plain_answer(outcome, SentRequest { method, headers, body, resend, shown })
        {
            Ok(response) => return Ok(response),
            Err(later) => later,
        };
        later.await
    }

    /// Returns the response if no further step is needed; otherwise returns, as the error, a future that continues the
    /// exchange.
    ///
    /// That future is boxed: few requests need it, and it would otherwise enlarge the future of every request.
    fn plain_answer<'a>(
        &'a self,
        outcome: Result<Response<Incoming>, PoolError>,
        sending: SentRequest<'a>,
    ) -> Result<Response<Incoming>, BoxFuture<'a, Result<Response<Incoming>, RpcError>>> {
        match outcome {
            Ok(response) if !self.needs_next_step(&response) => {
                self.pass_nonce(response.headers());
                Ok(response)
            }
            outcome => Err(Box::pin(self.continue_exchange(sending, outcome))),
        }
    }

    /// Continues an exchange after a redirect, a refusal of the credentials, or an error.
    async fn continue_exchange(
        &self,
        mut sending: SentRequest<'_>,
        mut outcome: Result<Response<Incoming>, PoolError>,
    ) -> Result<Response<Incoming>, RpcError> {
        let (mut refusals, mut moved) = (0, None::<Destination>);
        loop {
            match outcome {
                Ok(response) if !self.needs_next_step(&response) => {
                    self.pass_nonce(response.headers());
                    return Ok(response);
                }
                Ok(response) => {
                    if let Some(credentials) = &self.config.credentials
                        && is_refusal(&response)
                    {
                        if refusals >= self.config.max_refusals {
                            self.pass_nonce(response.headers());
                            return Ok(response);
                        }
                        refusals += 1;
                        let refusal =
                            auth_refusal(&response, sending.shown.authorization.take(), refusals);
                        drain(response.into_body()).await;
                        credentials.handle_refusal(refusal).await?;
                    } else {
                        self.pass_nonce(response.headers());
                        moved = Some(self.redirected(&response, moved.is_some())?);
                        drain(response.into_body()).await;
                    }
                }
                Err(error) if sending.resend.allows(&error) => {
                    tracing::debug!(%error, "retry: the connection broke before an answer");
                }
                Err(error) => return Err(self.failed(&error).into()),
            }
            // The credentials depend on the destination, which a redirect may have changed, so request them for the
            // current destination.
            let destination = moved.as_ref().unwrap_or(&self.destination);
            sending.shown = self.shown(sending.method, destination).await?;
            let headers = (sending.headers)();
            let message =
                self.message(sending.method, headers, sending.body, destination, &sending.shown)?;
            outcome = self.pool.send(message).await;
        }
    }

    async fn shown(
        &self,
        method: &Method,
        destination: &Destination,
    ) -> Result<RequestCredentials, RpcError> {
        let Some(credentials) = &self.config.credentials else {
            return Ok(RequestCredentials::default());
        };
        let target = RequestTarget::new(method.as_str(), &destination.url);
        let shown = credentials.for_request(target).await?;
        if let Some(value) = &shown.authorization {
            self.keep_authorization(value);
        }
        Ok(shown)
    }

    /// Keeps a value of `Authorization`, so that it can be left out of the server's texts.
    fn keep_authorization(&self, value: &str) {
        let mut kept = self.authorizations.lock();
        if kept.first().is_none_or(|newest| newest != value) {
            kept.insert(0, value.to_owned());
            kept.truncate(MAX_KEPT_AUTHORIZATIONS);
        }
    }

    /// Builds the request to a destination, with all its headers and these credentials.
    fn message(
        &self,
        method: &Method,
        mut headers: HeaderMap,
        body: &Bytes,
        destination: &Destination,
        shown: &RequestCredentials,
    ) -> Result<Message, Fault> {
        // Headers that the request itself sets take precedence over the configured headers.
        for name in self.config.headers.keys() {
            if !headers.contains_key(name) {
                for value in self.config.headers.get_all(name) {
                    headers.append(name, value.clone());
                }
            }
        }
        write_credentials(shown, &mut headers)?;
        headers.entry(HOST).or_insert_with(|| destination.host.clone());
        let mut message = Request::new(Full::new(body.clone()));
        *message.method_mut() = method.clone();
        *message.uri_mut() = destination.path.clone();
        *message.headers_mut() = headers;
        Ok(message)
    }

    /// Returns whether a response needs another step: a redirect, or a refusal of credentials.
    fn needs_next_step(&self, response: &Response<Incoming>) -> bool {
        is_redirect(response) || (self.config.credentials.is_some() && is_refusal(response))
    }

    /// Passes the nonce in a response to the credentials, for the proofs of later requests.
    fn pass_nonce(&self, headers: &HeaderMap) {
        if let Some(credentials) = &self.config.credentials
            && let Some(nonce) = nonce(headers)
        {
            credentials.handle_nonce(&nonce);
        }
    }

    /// Returns the destination of a redirect; fails if the redirect must not be followed.
    fn redirected(
        &self,
        response: &Response<Incoming>,
        is_redirected: bool,
    ) -> Result<Destination, Fault> {
        let status = response.status();
        let to = response.headers().get(LOCATION);
        let to = to.map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned());
        let to = to.unwrap_or_default();
        let keeps =
            matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        match self.endpoint.on_same_origin(&to) {
            Some(there) if keeps && !is_redirected => Ok(Destination::new(&there)),
            // Any other redirect is refused. The error shows the whole URL, even if the server sent only its path.
            there => {
                let to = there.map_or(to, |there| there.to_string());
                Err(Fault::Redirect { status, to: self.server_text(&shown_url(&to)) })
            }
        }
    }

    /// Creates the failure for an error status.
    pub(super) fn refusal(&self, status: StatusCode, headers: &HeaderMap) -> Fault {
        let challenge = headers.get(WWW_AUTHENTICATE).map_or(&b""[..], HeaderValue::as_bytes);
        let challenge = self.server_text(&String::from_utf8_lossy(challenge));
        Fault::status(status, headers, challenge, self.config.credentials.is_some())
    }

    /// Returns the server's text in a body or a header, without the keys in the URL and in the headers of this side,
    /// and without the tokens that were sent last.
    pub(super) fn server_text(&self, body: &str) -> String {
        let query = self.endpoint.uri().query().unwrap_or_default();
        let in_query = query.split('&').filter_map(|pair| Some(pair.split_once('=')?.1));
        let headers = self.config.headers.iter().filter(|(name, _)| may_be_secret(name));
        let in_headers = headers.filter_map(|(_, value)| value.to_str().ok());
        let in_headers = in_headers.flat_map(str::split_whitespace);
        let kept = self.authorizations.lock().clone();
        let tokens = kept.iter().map(String::as_str).flat_map(str::split_whitespace);
        server_text(body, once(query).chain(in_query).chain(in_headers).chain(tokens))
    }

    fn failed(&self, error: &PoolError) -> Fault {
        let (place, why) = (self.endpoint.to_string(), causes(error));
        if !error.is_connect() {
            return Fault::Broken { place, why };
        }
        match tls_error(error) {
            Some(why) => Fault::Untrusted { place, why },
            None => Fault::Unreached { place, why },
        }
    }
}

/// Returns whether an additional header can contain a secret key; only a few names are known to be harmless.
fn may_be_secret(name: &HeaderName) -> bool {
    ![USER_AGENT, ACCEPT_LANGUAGE].contains(name)
}

fn write_credentials(shown: &RequestCredentials, headers: &mut HeaderMap) -> Result<(), Fault> {
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

/// Returns the nonce in a response; `None` if there is none, or more than one (RFC 9449 §8.1).
fn nonce(headers: &HeaderMap) -> Option<String> {
    const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
    let mut found = headers.get_all(&DPOP_NONCE).iter();
    let one = found.next().filter(|_| found.next().is_none())?;
    one.to_str().ok().map(str::to_owned)
}

/// Creates the description of a refusal for the source of the credentials.
fn auth_refusal(
    response: &Response<Incoming>,
    shown: Option<String>,
    times: u32,
) -> CredentialRefusal {
    let headers = response.headers();
    let challenges = headers.get_all(WWW_AUTHENTICATE).iter();
    let challenges = challenges.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    CredentialRefusal::new(response.status().as_u16(), challenges.collect(), shown)
        .nonce(nonce(headers))
        .attempts(times)
}

/// Returns whether a response is a redirect. A redirect status without an address counts as an ordinary refusal.
fn is_redirect(response: &Response<Incoming>) -> bool {
    let status = response.status();
    status.is_redirection()
        && status != StatusCode::NOT_MODIFIED
        && response.headers().contains_key(LOCATION)
}

/// Returns whether a response refuses the credentials, so that the server might accept others: 401, or 403 with a
/// challenge.
fn is_refusal(response: &Response<Incoming>) -> bool {
    match response.status() {
        StatusCode::UNAUTHORIZED => true,
        StatusCode::FORBIDDEN => response.headers().contains_key(WWW_AUTHENTICATE),
        _ => false,
    }
}

/// Reads and discards the rest of a body, within limits.
pub(super) async fn drain(mut body: Incoming) {
    let reading = async {
        let mut left = MAX_DRAINED_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, Bytes::len);
            let Some(less) = left.checked_sub(size) else { return };
            left = less;
        }
    };
    // Ignore a timeout: it does not matter whether the whole body was read.
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, reading).await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;

    use super::*;
    use crate::http::Credentials;

    #[test]
    fn headers_that_may_be_keys_need_https_or_an_opt_in() {
        let check = |url: &str, name: HeaderName, in_clear: bool| {
            let mut config =
                HttpClientConfig { credentials_in_clear: in_clear, ..Default::default() };
            config.headers.insert(name, HeaderValue::from_static("k3y"));
            HttpSender::new(Endpoint::parse(url).unwrap(), config).map(|_| ())
        };
        let key = HeaderName::from_static("x-api-key");
        let far = "http://mcp.example/mcp";
        let error = check(far, key.clone(), false).unwrap_err();
        assert!(matches!(error, HttpClientError::InClear(_)));
        // The configuration of the kernel has no such setting, so the error also names another remedy.
        assert!(error.to_string().contains("tunnel"), "{error}");
        check(far, key.clone(), true).unwrap();
        check(far, USER_AGENT, false).unwrap();
        check("http://localhost:8000/mcp", key, false).unwrap();
    }

    /// Some web frameworks repeat the URL of the request, with its query, for status 404. The query may contain a key.
    #[test]
    fn keys_that_a_server_repeats_are_left_out_of_its_text() {
        let mut config = HttpClientConfig::default();
        config.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer t0ken-t0ken"));
        let endpoint = Endpoint::parse("http://localhost/mcp?key=s3cret-s3cret&v=1").unwrap();
        let sender = HttpSender::new(endpoint, config).unwrap();
        for (body, text) in [
            (
                r#"{"message":"Route POST:/mcp?key=s3cret-s3cret&v=1 not found","error":"Not Found"}"#,
                "Not Found: Route POST:/mcp?… not found",
            ),
            ("no such key: s3cret-s3cret", "no such key: …"),
            ("not for Bearer t0ken-t0ken", "not for Bearer …"),
        ] {
            assert_eq!(sender.server_text(body), text);
        }
    }

    #[tokio::test]
    async fn tokens_that_a_server_repeats_are_left_out_of_its_text() {
        /// A login whose token is renewed before each request.
        struct Renewed(AtomicUsize);

        #[async_trait]
        impl Credentials for Renewed {
            async fn authorization(&self) -> Result<Option<String>, RpcError> {
                let number = self.0.fetch_add(1, Ordering::Relaxed);
                Ok(Some(format!("Bearer t0ken-t0ken-{number}")))
            }

            async fn handle_refusal(&self, _: CredentialRefusal) -> Result<(), RpcError> {
                Ok(())
            }
        }

        let credentials = Some(Arc::new(Renewed(AtomicUsize::new(0))) as Arc<dyn Credentials>);
        let config = HttpClientConfig { credentials, ..Default::default() };
        let endpoint = Endpoint::parse("http://localhost/mcp").unwrap();
        let sender = HttpSender::new(endpoint, config).unwrap();
        for number in 0..3 {
            sender.shown(&Method::POST, &sender.destination).await.unwrap();
            let text = sender.server_text(&format!("not for Bearer t0ken-t0ken-{number}!"));
            assert_eq!(text, "not for Bearer …!");
        }
        assert_eq!(sender.server_text("t0ken-t0ken-1"), "…", "another request may use it");
        assert_eq!(sender.authorizations.lock().len(), MAX_KEPT_AUTHORIZATIONS);
    }

    #[test]
    fn headers_of_the_request_replace_additional_ones_of_the_same_name() {
        let mut config = HttpClientConfig::default();
        for (name, value) in [("x-two", "1"), ("x-two", "2"), ("x-own", "1"), ("x-own", "2")] {
            config.headers.append(name, HeaderValue::from_static(value));
        }
        let written = |config: HttpClientConfig| {
            let endpoint = Endpoint::parse("http://localhost:8000/mcp?a=b").unwrap();
            let sender = HttpSender::new(endpoint, config).unwrap();
            let headers = [(HeaderName::from_static("x-own"), HeaderValue::from_static("0"))];
            let (headers, shown) = (headers.into_iter().collect(), RequestCredentials::default());
            let message =
                sender.message(&Method::POST, headers, &Bytes::new(), &sender.destination, &shown);
            let message = message.unwrap();
            let all = |name: &str| {
                let values = message.headers().get_all(name).iter();
                values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
            };
            (message.uri().to_string(), all("x-two"), all("x-own"), all("host"))
        };
        let (uri, two, own, host) = written(config.clone());
        assert_eq!((uri.as_str(), host), ("/mcp?a=b", vec!["localhost:8000".to_owned()]));
        assert_eq!((two, own), (vec!["1".to_owned(), "2".to_owned()], vec!["0".to_owned()]));
        config.headers.insert(HOST, HeaderValue::from_static("other"));
        assert_eq!(written(config).3, ["other"]);
    }
}
