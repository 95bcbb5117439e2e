//! Admits browsers: a link that works once, a session cookie, a token in each form, and checks of host and origin.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use mgp_types::to_hex;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use super::form::{self, Form, Posted};
use super::texts::{self, Texts};
use super::{Console, Shared, layout};

/// The time for which a link works that was not used.
const LINK_TTL: Duration = Duration::from_mins(10);

/// The time after which a session ends that no request has used.
const SESSION_TTL: Duration = Duration::from_hours(12);

/// The bound of sessions; a link makes one, so there are few.
const MAX_SESSIONS: usize = 4;

const COOKIE: &str = "mgp_console";

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The link and the sessions.
pub(super) struct Gate {
    address: SocketAddr,
    /// The first segment of every path: a cookie of this path goes to no other server of this machine.
    base: String,
    entry: Mutex<Entry>,
}

struct Entry {
    /// The secret of the link, until it is used.
    link: Option<(String, Instant)>,
    sessions: Vec<Session>,
}

struct Session {
    secret: String,
    token: String,
    last_used: Instant,
}

/// The person behind a request: the token of their forms, and the language of their texts.
#[derive(Clone)]
pub(super) struct Viewer {
    token: Arc<str>,
    pub(super) texts: &'static Texts,
}

impl Viewer {
    /// Returns whether a form carries the token of this session.
    pub(super) fn has_token(&self, token: &str) -> bool {
        !self.token.is_empty() && self.token.as_bytes().ct_eq(token.as_bytes()).into()
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }
}

impl Gate {
    pub(super) fn new(address: SocketAddr) -> Result<Self, getrandom::Error> {
        let link = Some((random()?, Instant::now() + LINK_TTL));
        let base = format!("/{}", &random()?[..16]);
        Ok(Self { address, base, entry: Mutex::new(Entry { link, sessions: Vec::new() }) })
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Returns the link that opens the page once.
    pub(super) fn link(&self) -> String {
        let entry = self.entry.lock().unwrap_or_else(PoisonError::into_inner);
        let secret = entry.link.as_ref().map(|(secret, _)| secret.as_str());
        format!("http://{}{}/login?key={}", self.address, self.base, secret.unwrap_or_default())
    }

    /// Uses the link up, and returns the secret of a new session.
    fn open_session(&self, key: &str) -> Option<String> {
        let mut entry = self.entry.lock().unwrap_or_else(PoisonError::into_inner);
        let (secret, end) = entry.link.as_ref()?;
        if *end < Instant::now() || !bool::from(secret.as_bytes().ct_eq(key.as_bytes())) {
            return None;
        }
        let (secret, token) = (random().ok()?, random().ok()?);
        entry.link = None;
        if entry.sessions.len() >= MAX_SESSIONS {
            entry.sessions.remove(0);
        }
        let session = Session { secret: secret.clone(), token, last_used: Instant::now() };
        entry.sessions.push(session);
        Some(secret)
    }

    /// Returns the token of the forms of a session that has not ended.
    fn token_of(&self, cookie: &str) -> Option<Arc<str>> {
        let mut entry = self.entry.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        entry.sessions.retain(|session| now.duration_since(session.last_used) < SESSION_TTL);
        let mut sessions = entry.sessions.iter_mut();
        let session =
            sessions.find(|session| session.secret.as_bytes().ct_eq(cookie.as_bytes()).into())?;
        session.last_used = now;
        Some(session.token.as_str().into())
    }

    fn close_session(&self, token: &str) {
        let mut entry = self.entry.lock().unwrap_or_else(PoisonError::into_inner);
        entry.sessions.retain(|session| session.token != token);
    }

    /// Returns whether a name is that of this page: a foreign name that resolves to this machine is refused.
    fn is_own_host(&self, host: &str) -> bool {
        let port = self.address.port();
        host == format!("127.0.0.1:{port}") || host == format!("localhost:{port}")
    }

    fn is_own_origin(&self, origin: &str) -> bool {
        origin.strip_prefix("http://").is_some_and(|host| self.is_own_host(host))
    }
}

/// Returns 256 random bits as text.
fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(to_hex(&bytes))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Refuses requests that name another host, or that another site makes.
pub(super) async fn check_origin(State(console): Shared, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let site = header(headers, "sec-fetch-site");
    // A person may follow a link to the page from anywhere; nothing else of another site may load it.
    let is_navigation = header(headers, "sec-fetch-mode") == Some("navigate")
        && header(headers, "sec-fetch-dest") == Some("document");
    let is_own_site = match site {
        None | Some("same-origin" | "none") => true,
        Some(_) => is_read && is_navigation,
    };
    let is_own_origin = match header(headers, "origin") {
        Some(origin) => console.gate.is_own_origin(origin),
        None => is_read,
    };
    let is_own_host = header(headers, "host").is_some_and(|host| console.gate.is_own_host(host));
    if is_own_host && is_own_origin && is_own_site {
        return next.run(request).await;
    }
    tracing::warn!(is_own_host, is_own_origin, site, "denied a request to the console");
    (StatusCode::FORBIDDEN, "this page answers only to its own address\n").into_response()
}

/// Sets the headers that keep foreign content out of the pages, and the pages out of caches and frames.
pub(super) async fn set_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Admits requests with the cookie of a session, and adds their [`Viewer`].
pub(super) async fn require_session(
    State(console): Shared,
    mut request: Request,
    next: Next,
) -> Response {
    let cookies = request.headers().get_all(header::COOKIE).iter();
    let cookies = cookies.filter_map(|cookies| cookies.to_str().ok());
    let mut pairs = cookies
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let cookie = pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value);
    match cookie.and_then(|cookie| console.gate.token_of(cookie)) {
        Some(token) => {
            let texts = texts::of(request.headers());
            request.extensions_mut().insert(Viewer { token, texts });
            next.run(request).await
        }
        None => refused(&console, request.headers()),
    }
}

fn refused(console: &Console, headers: &HeaderMap) -> Response {
    let viewer = guest(headers);
    let body = layout::failure(&viewer, viewer.texts.login_needed);
    (StatusCode::UNAUTHORIZED, layout::bare(console, &viewer, &body)).into_response()
}

fn guest(headers: &HeaderMap) -> Viewer {
    Viewer { token: "".into(), texts: texts::of(headers) }
}

/// Shows the button that uses the link: a program that only follows links does not use it up.
pub(super) async fn login_page(
    State(console): Shared,
    headers: HeaderMap,
    query: Form,
) -> Response {
    let viewer = guest(&headers);
    layout::bare(&console, &viewer, &layout::login(&console, &viewer, query.text("key")))
}

pub(super) async fn log_in(State(console): Shared, request: Request) -> Response {
    let headers = request.headers().clone();
    let form = match form::read(request, &console).await {
        Ok(form) => form,
        Err(response) => return response,
    };
    let Some(secret) = console.gate.open_session(form.text("key")) else {
        tracing::warn!("denied a login to the console");
        return refused(&console, &headers);
    };
    let base = console.gate.base();
    let cookie = format!("{COOKIE}={secret}; Path={base}; HttpOnly; SameSite=Strict");
    let mut response = Redirect::to(base).into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

pub(super) async fn log_out(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    _: Posted,
) -> Response {
    console.gate.close_session(viewer.token());
    let body = layout::failure(&viewer, viewer.texts.logged_out);
    layout::bare(&console, &viewer, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_opens_one_session_and_no_other_host_is_this_page() {
        let gate = Gate::new(SocketAddr::from(([127, 0, 0, 1], 4000))).unwrap();
        let link = gate.link();
        let key = link.split_once("key=").unwrap().1;
        assert!(gate.open_session("wrong").is_none());
        let secret = gate.open_session(key).unwrap();
        assert!(gate.open_session(key).is_none(), "used");
        let token = gate.token_of(&secret).unwrap();
        assert!(gate.token_of(key).is_none() && gate.token_of("").is_none());
        gate.close_session(&token);
        assert!(gate.token_of(&secret).is_none());
        for (host, is_own) in [
            ("127.0.0.1:4000", true),
            ("localhost:4000", true),
            ("evil.example:4000", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(gate.is_own_host(host), is_own, "{host}");
        }
        assert!(gate.is_own_origin("http://localhost:4000"));
        assert!(!gate.is_own_origin("null") && !gate.is_own_origin("http://localhost:4001"));
    }
}
