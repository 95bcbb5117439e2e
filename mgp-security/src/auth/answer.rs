//! HTTP responses that the auth layer itself creates: challenges and the metadata document (RFC 6750 §3, RFC 9728 §3,
//! §5).

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW,
    CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use mgp_types::RpcError;

use super::metadata::{ResourceMetadata, is_root_document};
use super::refused::AuthRefused;
use crate::error::Refusal;

/// The responses that the auth layer itself creates. They contain the published metadata, if there is any.
#[derive(Debug, Default)]
pub(super) struct Answers {
    published: Option<Published>,
}

#[derive(Debug)]
struct Published {
    url: String,
    path: String,
    document: Bytes,
    scopes: String,
}

/// The HTTP methods that are allowed for the metadata document.
const READ: &str = "GET, HEAD, OPTIONS";

/// The answer to a client that tries to register. Many clients try this if their key is missing or wrong, and show
/// their user only this text.
const NO_REGISTRATION: &[u8] = br#"{"error":"access_denied","error_description":"clients cannot register here: send a valid key or token in the header `Authorization: Bearer`"}"#;

impl Answers {
    /// Creates the responses of a server that publishes this metadata; the default value is for a server that publishes
    /// none.
    pub(super) fn publishing(metadata: &ResourceMetadata) -> Self {
        let (url, path) = (metadata.document_url(), metadata.document_path());
        let document = serde_json::to_vec(metadata).expect("text can be written as JSON").into();
        let scopes = metadata.required_scopes.join(" ");
        Self { published: Some(Published { url, path, document, scopes }) }
    }

    /// Returns the answer to a client that looks for a way to log in: the metadata document, or 404 if there is none.
    /// Returns `None` for any other path.
    ///
    /// Without the 404, the client would get a challenge, mistake it for the answer of an authorization server, and
    /// report to its user a failed registration instead of a missing key.
    pub(super) fn document<R: From<Bytes>>(
        &self,
        method: &Method,
        path: &str,
    ) -> Option<Response<R>> {
        let document = self.published.as_ref();
        let document = document.filter(|one| is_root_document(path) || path == one.path);
        let Some(published) = document else {
            if path == "/register" {
                let body = Bytes::from_static(NO_REGISTRATION);
                let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
                return Some(respond(StatusCode::NOT_FOUND, body, &headers));
            }
            let is_login = path.starts_with("/.well-known/");
            return is_login.then(|| respond(StatusCode::NOT_FOUND, Bytes::new(), &[]));
        };
        Some(match *method {
            // Allow every origin, because the document is public. Allow every header, because clients in browsers send
            // additional headers.
            Method::GET | Method::HEAD => respond(
                StatusCode::OK,
                published.document.clone(),
                &[
                    (CONTENT_TYPE, "application/json"),
                    (CACHE_CONTROL, "public, max-age=300"),
                    (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
                ],
            ),
            Method::OPTIONS => respond(
                StatusCode::NO_CONTENT,
                Bytes::new(),
                &[
                    (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
                    (ACCESS_CONTROL_ALLOW_METHODS, READ),
                    (ACCESS_CONTROL_ALLOW_HEADERS, "*"),
                ],
            ),
            _ => respond(StatusCode::METHOD_NOT_ALLOWED, Bytes::new(), &[(ALLOW, READ)]),
        })
    }

    pub(super) fn refusal<R: From<Bytes>>(&self, refused: AuthRefused) -> Response<R> {
        let status = refused.status();
        let challenge = self.challenge(&refused);
        let mut headers = vec![(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
        match &challenge {
            Some(challenge) => headers.push((WWW_AUTHENTICATE, challenge)),
            None => headers.push((RETRY_AFTER, "5")),
        }
        // Omit recovery hints: the caller is unknown, so it might not support MGP.
        let error = RpcError::from(Refusal::Auth(refused)).without_recovery();
        let error = serde_json::to_string(&error).expect("code and message can be written as JSON");
        let body = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{error}}}"#);
        respond(status, body.into(), &headers)
    }

    /// Returns the value of the header `WWW-Authenticate`, or `None` if the client could not succeed with other
    /// credentials.
    fn challenge(&self, refused: &AuthRefused) -> Option<String> {
        if *refused == AuthRefused::Unavailable {
            return None;
        }
        let mut parts = Vec::new();
        match &self.published {
            Some(published) => {
                parts.push(format!(r#"resource_metadata="{}""#, quotable(&published.url)));
                let scopes = match refused {
                    AuthRefused::InsufficientScope { needed } => needed,
                    _ => &published.scopes,
                };
                if !scopes.is_empty() {
                    parts.push(format!(r#"scope="{}""#, quotable(scopes)));
                }
            }
            // A challenge must have at least one parameter.
            None => parts.push(r#"realm="mgp""#.to_owned()),
        }
        if let Some(error) = refused.challenge_error() {
            parts.push(format!(r#"error="{error}""#));
            let description = refused.to_string();
            parts.push(format!(r#"error_description="{}""#, quotable(&description)));
        }
        Some(format!("Bearer {}", parts.join(", ")))
    }
}

/// Removes the characters that a quoted string of a challenge must not contain (RFC 6750 §3).
fn quotable(text: &str) -> String {
    text.chars().filter(|c| matches!(c, ' '..='~') && !matches!(c, '"' | '\\')).collect()
}

fn respond<R: From<Bytes>>(
    status: StatusCode,
    body: Bytes,
    headers: &[(HeaderName, &str)],
) -> Response<R> {
    let mut response = Response::new(R::from(body));
    *response.status_mut() = status;
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).expect("made of plain characters above");
        response.headers_mut().insert(name, value);
    }
    response
}
