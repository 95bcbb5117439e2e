//! The form data and queries of the pages: names with values, in order.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use tokio::time::timeout;

use super::operator::Viewer;
use super::{Console, MAX_FORM_BYTES, PageError, failed};

/// The time limit for the body of a form, which has at most [`MAX_FORM_BYTES`]. Without it, a client without a session
/// could keep many connections open.
const FORM_TIMEOUT: Duration = Duration::from_secs(10);

/// Names with values, as they are in a query or a posted form.
#[derive(Clone, Debug, Default)]
pub(super) struct Form(Vec<(String, String)>);

/// A posted form whose token belongs to the session of the request, with the person who sent it.
pub(super) struct Posted(pub(super) Form, pub(super) Viewer);

impl Form {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self(form_urlencoded::parse(bytes).into_owned().collect())
    }

    /// Creates a form from names with values.
    pub(super) fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Returns the names and values as a query, without names whose value is empty.
    pub(super) fn to_query(&self) -> String {
        let given = self.0.iter().filter(|(_, value)| !value.is_empty());
        form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish()
    }

    /// Returns the first non-blank value of a name, without the white space around it.
    pub(super) fn get<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).map(str::trim).find(|value| !value.is_empty())
    }

    /// Returns the first non-blank value of a name, or an empty text.
    pub(super) fn text<'a>(&'a self, name: &'a str) -> &'a str {
        self.get(name).unwrap_or_default()
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns the path of a page with its query. Leaves out the parameters that apply to one request only, e.g. those
    /// that report the result of an action, because a link of another site could contain a forged result.
    pub(super) fn page(path: &str, query: Option<&str>) -> String {
        let all = Self::parse(query.unwrap_or_default().as_bytes()).0;
        let mut query = form_urlencoded::Serializer::new(String::new());
        let query = query.extend_pairs(all.iter().filter(|(own, _)| !is_for_once(own))).finish();
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    }

    /// Returns the query with one value replaced, to link to the same page.
    pub(super) fn with(&self, name: &str, value: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let others = self.0.iter().filter(|(own, _)| own != name && !is_for_once(own));
        query.extend_pairs(others).append_pair(name, value).finish()
    }
}

/// Returns whether a query parameter applies to one request only: it reports the result of the last action, or asks to
/// verify the record. Links to the same page leave such a parameter out.
fn is_for_once(name: &str) -> bool {
    ["done", "failed", "sign", "see", "verify"].contains(&name)
}

/// Encodes a text as one segment of a path.
pub(super) fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

impl<S: Sync> FromRequestParts<S> for Form {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default().as_bytes()))
    }
}

impl FromRequest<Arc<Console>> for Posted {
    type Rejection = Response;

    async fn from_request(request: Request, console: &Arc<Console>) -> Result<Self, Response> {
        let Entered { form, viewer, is_own } = Entered::from_request(request, console).await?;
        if is_own {
            return Ok(Self(form, viewer));
        }
        let error = PageError(StatusCode::FORBIDDEN, viewer.texts.page_expired.to_owned());
        Err(failed(console, &viewer, &error))
    }
}

/// A form that was posted by a person with a session. If `is_own` is `false`, the form has the token of another
/// session, and must have no effect.
pub(super) struct Entered {
    pub(super) form: Form,
    pub(super) viewer: Viewer,
    pub(super) is_own: bool,
}

impl FromRequest<Arc<Console>> for Entered {
    type Rejection = Response;

    async fn from_request(request: Request, console: &Arc<Console>) -> Result<Self, Response> {
        let viewer = request.extensions().get::<Viewer>().cloned();
        let viewer = viewer.ok_or_else(|| StatusCode::FORBIDDEN.into_response())?;
        let form = read(request, console).await?;
        let is_own = viewer.has_token(form.text("token"));
        Ok(Self { form, viewer, is_own })
    }
}

/// Reads a posted form, without a check of its token.
pub(super) async fn read(request: Request, console: &Arc<Console>) -> Result<Form, Response> {
    let is_form = request
        .headers()
        .get("content-type")
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
    if !is_form {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response());
    }
    let body = timeout(FORM_TIMEOUT, Bytes::from_request(request, console)).await;
    let body = body.map_err(|_| StatusCode::REQUEST_TIMEOUT.into_response())?;
    let body = body.map_err(axum::response::IntoResponse::into_response)?;
    if body.len() > MAX_FORM_BYTES {
        return Err(StatusCode::PAYLOAD_TOO_LARGE.into_response());
    }
    Ok(Form::parse(&body))
}
