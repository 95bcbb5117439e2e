//! Login and logout: with a link that works once, or with the key or token of an operator.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use mgp_security::auth::{AuthLayer, AuthRefused};
use mgp_types::service::{Authority, Principal};
use mgp_types::sync::Mutex;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use super::form::{self, Form, Posted};
use super::gate::header;
use super::grant;
use super::layout::{self, hidden, hint};
use super::operator::{self, Kernel, Operator, Viewer};
use super::sessions::random;
use super::texts::{self, Texts};
use super::{Console, Shared};

/// The lifetime of an unused link.
const LINK_TTL: Duration = Duration::from_mins(10);

/// The number of wrong logins to the console that are possible without a wait.
const MAX_WRONG_LOGINS: u32 = 10;
/// The time after which one further wrong login to the console is possible.
const WRONG_LOGIN_INTERVAL: Duration = Duration::from_secs(6);

/// The way a person gets a session of the console.
pub(super) enum Login {
    /// A link that works once; the session has the rights of the operator who runs the command.
    Link { secret: Mutex<Option<(String, Instant)>>, operator: Arc<Operator> },
    /// The key or access token of an operator.
    Credential { auth: Box<AuthLayer>, wrong: Mutex<WrongLogins> },
}

#[derive(Debug, PartialEq, Eq)]
enum Refused {
    /// The link or the credential of the login is not valid.
    Invalid,
    /// The credential does not belong to an operator of this kernel.
    NotOperator,
    /// Too many logins before this one were wrong.
    TooMany,
    /// The login cannot be checked or completed.
    Failed,
}

/// The number of recent wrong logins, which decreases by one after each [`WRONG_LOGIN_INTERVAL`].
#[derive(Debug)]
pub(super) struct WrongLogins {
    count: u32,
    since: Instant,
}

impl WrongLogins {
    fn new(now: Instant) -> Self {
        Self { count: 0, since: now }
    }

    /// Returns whether another wrong login is allowed now. If it is, the login counts as wrong until
    /// [`give_back`](Self::give_back), so that concurrent logins cannot exceed the limit.
    fn take(&mut self, now: Instant) -> bool {
        while self.count > 0 && now.duration_since(self.since) >= WRONG_LOGIN_INTERVAL {
            self.count -= 1;
            self.since += WRONG_LOGIN_INTERVAL;
        }
        if self.count >= MAX_WRONG_LOGINS {
            return false;
        }
        if self.count == 0 {
            self.since = now;
        }
        self.count += 1;
        true
    }

    /// Removes from the count a login that was counted in advance, but turned out not to be wrong.
    fn give_back(&mut self) {
        self.count = self.count.saturating_sub(1);
    }
}

/// A login whose check has begun. The login is counted as wrong from the start, so that many logins at the same time do
/// not exceed the limit. The drop of this value takes the count back, e.g. if the browser disconnects before the end of
/// the check, unless `is_wrong` is set. If the limit was already reached, the login is not counted, and `is_wrong` is
/// set from the start.
struct Turn<'a> {
    wrong: &'a Mutex<WrongLogins>,
    is_wrong: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_wrong {
            self.wrong.lock().give_back();
        }
    }
}

impl From<AuthRefused> for Refused {
    fn from(reason: AuthRefused) -> Self {
        match reason {
            AuthRefused::Unavailable => Self::Failed,
            _ => Self::Invalid,
        }
    }
}

impl Login {
    pub(super) fn link(client: mgp_client_sdk::Client) -> Result<Self, getrandom::Error> {
        let secret = Mutex::new(Some((random()?, Instant::now() + LINK_TTL)));
        Ok(Self::Link {
            secret,
            operator: Arc::new(Operator::new(client, Principal::local().operator(), None)),
        })
    }

    pub(super) fn credential(auth: AuthLayer) -> Self {
        let wrong = Mutex::new(WrongLogins::new(Instant::now()));
        Self::Credential { auth: Box::new(auth), wrong }
    }

    /// Returns the secret of the link, as long as the link is unused.
    pub(super) fn secret(&self) -> Option<String> {
        match self {
            Self::Link { secret, .. } => secret.lock().as_ref().map(|(secret, _)| secret.clone()),
            Self::Credential { .. } => None,
        }
    }

    /// Returns the operator whom `key`, the secret of a link or a credential, identifies. A link cannot be used again.
    async fn admit(&self, console: &Console, key: &str) -> Result<Arc<Operator>, Refused> {
        match self {
            Self::Link { secret, operator } => {
                let mut link = secret.lock();
                let is_it = |(secret, end): &(String, Instant)| {
                    *end >= Instant::now() && secret.as_bytes().ct_eq(key.as_bytes()).into()
                };
                link.take_if(|link| is_it(link)).ok_or(Refused::Invalid)?;
                Ok(Arc::clone(operator))
            }
            Self::Credential { auth, wrong } => counted(wrong, check(console, auth, key)).await,
        }
    }
}

/// Awaits the check of a login, and counts the login if it was wrong. Beyond the limit, a wrong login is refused as
/// `TooMany`. A right login is always admitted, so that wrong logins lock no operator out; this is safe because keys
/// and tokens cannot be guessed.
async fn counted<T>(
    wrong: &Mutex<WrongLogins>,
    check: impl Future<Output = Result<T, Refused>>,
) -> Result<T, Refused> {
    let is_counted = wrong.lock().take(Instant::now());
    let mut turn = Turn { wrong, is_wrong: !is_counted };
    let admitted = check.await;
    let is_wrong = matches!(admitted, Err(Refused::Invalid | Refused::NotOperator));
    turn.is_wrong |= is_wrong;
    if is_wrong && !is_counted { Err(Refused::TooMany) } else { admitted }
}

/// Checks the credential of an operator, and connects with their rights.
async fn check(console: &Console, auth: &AuthLayer, key: &str) -> Result<Arc<Operator>, Refused> {
    let (caller, grant) = auth.check(key).await.map_err(|reason| {
        tracing::info!(%reason, "denied a login to the console");
        Refused::from(reason)
    })?;
    let principal = caller.principal();
    // Refuse operators of other tenants, because the pages show the whole kernel, including the data of all tenants.
    let is_operator = principal.authority() == Authority::Operator
        && principal.tenant() == Principal::local().tenant();
    let Kernel::Own(served) = &console.kernel else { return Err(Refused::Failed) };
    if !is_operator {
        tracing::warn!(?principal, "denied a login to the console: not an operator");
        return Err(Refused::NotOperator);
    }
    let client = operator::connect(served, principal.clone(), grant.clone()).await;
    let client = client.map_err(|error| {
        tracing::warn!(%error, "a login to the console failed");
        Refused::Failed
    })?;
    tracing::info!(?principal, "login to the console");
    Ok(Arc::new(Operator::new(client, principal.clone(), Some(grant))))
}

/// Admits requests with the cookie of a session whose operator still has their rights, and adds their [`Viewer`].
pub(super) async fn require_session(
    State(console): Shared,
    mut request: Request,
    next: Next,
) -> Response {
    let headers = request.headers().clone();
    let cookies = headers.get_all(header::COOKIE).iter();
    let cookies = cookies.filter_map(|cookies| cookies.to_str().ok());
    let mut pairs = cookies
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let cookie = pairs.find(|(name, _)| *name == console.gate.cookie()).map(|(_, value)| value);
    let is_page = request.method() == Method::GET;
    let page = Form::page(request.uri().path(), request.uri().query());
    if let Some(found) = cookie.and_then(|cookie| console.gate.sessions.find(cookie)) {
        let viewer = Viewer::new(found, texts::of(&headers));
        let operator = Arc::clone(&viewer.operator);
        request.extensions_mut().insert(viewer);
        let response = next.run(request).await;
        // Ask for a login if the kernel noticed only at this request that the key was revoked.
        let has_ended = is_page && response.status().is_server_error() && !operator.is_valid();
        return if has_ended { refused(&console, &headers, &page) } else { response };
    }
    // The login does not repeat a request that would change something: it opens the page with the filled form, or the
    // start page, and the person must submit the form again.
    let page = if is_page { page } else { grant::page_after_login(request, &console).await };
    refused(&console, &headers, &page)
}

/// Returns the page for a browser without a session; after the login, the browser is sent to `next`.
fn refused(console: &Console, headers: &HeaderMap, next: &str) -> Response {
    // Return a page that makes the browser repeat the request. A browser that follows a link of another site, e.g. a
    // mailbox, sends no cookie with its first request.
    let is_followed = header(headers, "sec-fetch-site").is_some_and(|site| site.ends_with("-site"));
    if is_followed && header(headers, "sec-fetch-mode") == Some("navigate") {
        return layout::again(console, texts::of(headers), next);
    }
    form_page(console, texts::of(headers), "", next, None)
}

/// Returns the page with the login form, or with instructions for getting a link.
fn form_page(
    console: &Console,
    texts: &'static Texts,
    key: &str,
    next: &str,
    refused: Option<&Refused>,
) -> Response {
    let (status, reason) = match refused {
        None => (StatusCode::UNAUTHORIZED, None),
        Some(Refused::Invalid) => (StatusCode::UNAUTHORIZED, Some(texts.login_invalid)),
        Some(Refused::NotOperator) => (StatusCode::FORBIDDEN, Some(texts.login_no_operator)),
        Some(Refused::TooMany) => (StatusCode::TOO_MANY_REQUESTS, Some(texts.login_too_many)),
        Some(Refused::Failed) => (StatusCode::BAD_GATEWAY, Some(texts.login_failed)),
    };
    let is_link = matches!(console.login, Login::Link { .. });
    let field: Markup = match (is_link, key) {
        (true, "") => html! { p.failed role="alert" { (hint(texts.login_needed)) } },
        (true, key) => html! {
            p { (texts.login_text) }
            (hidden("key", key))
            button.main autofocus { (texts.log_in) }
        },
        (false, _) => html! {
            p { (texts.login_key_text) }
            label { span { (texts.login_key) }
                input type="password" name="key" required autofocus autocomplete="current-password" spellcheck="false";
            }
            button.main { (texts.log_in) }
        },
    };
    let body = html! {
        @if let Some(reason) = reason { p.failed role="alert" { (reason) } }
        form.login method="post" action=(layout::url(console, "/login")) { (hidden("next", next)) (field) }
    };
    let mut answer = (status, layout::bare(console, texts, &body)).into_response();
    if refused == Some(&Refused::TooMany) {
        let wait = HeaderValue::from(WRONG_LOGIN_INTERVAL.as_secs());
        answer.headers_mut().insert(header::RETRY_AFTER, wait);
    }
    answer
}

/// Shows the button that uses the link. A program that only requests the link does not use it up.
pub(super) async fn page(State(console): Shared, headers: HeaderMap, query: Form) -> Response {
    let texts = texts::of(&headers);
    let mut answer = form_page(&console, texts, query.text("key"), query.text("next"), None);
    *answer.status_mut() = StatusCode::OK;
    answer
}

pub(super) async fn log_in(State(console): Shared, request: Request) -> Response {
    let headers = request.headers().clone();
    let form = match form::read(request, &console).await {
        Ok(form) => form,
        Err(response) => return response,
    };
    let admitted = console.login.admit(&console, form.text("key")).await;
    let opened = admitted
        .and_then(|operator| console.gate.sessions.open(operator).map_err(|_| Refused::Failed));
    let secret = match opened {
        Ok(secret) => secret,
        Err(refused) => {
            let texts = texts::of(&headers);
            return form_page(&console, texts, "", form.text("next"), Some(&refused));
        }
    };
    let is_secure = console.gate.is_tls()
        || header(&headers, "origin").is_some_and(|origin| origin.starts_with("https://"));
    let secure = if is_secure { "; Secure" } else { "" };
    // The path begins with the console's own path, so it cannot lead to another site.
    let next = Some(form.text("next")).filter(|next| is_path(next));
    let mut response = Redirect::to(&layout::url(&console, next.unwrap_or("/"))).into_response();
    set_cookie(&console, &mut response, &secret, secure);
    response
}

/// Adds the cookie with the secret of a session to a response; `more` contains further attributes of the cookie.
fn set_cookie(console: &Console, response: &mut Response, secret: &str, more: &str) {
    let (base, name) = (console.gate.base(), console.gate.cookie());
    let cookie = format!("{name}={secret}; Path={base}; HttpOnly; SameSite=Strict{more}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}

pub(super) async fn log_out(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    _: Posted,
) -> Response {
    console.gate.sessions.close(viewer.token());
    let texts = viewer.texts;
    let is_link = matches!(console.login, Login::Link { .. });
    let body = html! {
        p.done role="status" { (hint(if is_link { texts.logged_out } else { texts.logged_out_here })) }
        @if !is_link { p { a href=(layout::url(&console, "/")) { (texts.log_in) } } }
    };
    let mut answer = layout::bare(&console, texts, &body);
    // Delete the cookie: the browser then also forgets the pages that it keeps for its Back button.
    set_cookie(&console, &mut answer, "", "; Max-Age=0");
    answer
}

/// Returns whether a text can be a path and query of this console.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn wrong_logins_close_the_form_for_a_while() {
        let mut wrong = WrongLogins::new(Instant::now());
        for _ in 0..MAX_WRONG_LOGINS {
            assert!(wrong.take(Instant::now()));
        }
        assert!(!wrong.take(Instant::now()));
        tokio::time::advance(WRONG_LOGIN_INTERVAL).await;
        assert!(wrong.take(Instant::now()), "one more is possible");
        assert!(!wrong.take(Instant::now()));
        tokio::time::advance(WRONG_LOGIN_INTERVAL * 100).await;
        assert!(wrong.take(Instant::now()) && wrong.count == 1);
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_logins_at_the_same_time_do_not_close_the_form_for_longer() {
        let mut wrong = WrongLogins::new(Instant::now());
        let admitted = (0..1000).filter(|_| wrong.take(Instant::now())).count();
        assert_eq!(u32::try_from(admitted), Ok(MAX_WRONG_LOGINS), "the others are not counted");
        tokio::time::advance(WRONG_LOGIN_INTERVAL).await;
        assert!(wrong.take(Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn logins_that_are_not_wrong_leave_the_form_open() {
        let mut wrong = WrongLogins::new(Instant::now());
        for _ in 0..=MAX_WRONG_LOGINS {
            assert!(wrong.take(Instant::now()));
            wrong.give_back();
        }
        assert_eq!(wrong.count, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_login_whose_browser_goes_away_during_the_check_does_not_count_as_wrong() {
        let wrong = Mutex::new(WrongLogins::new(Instant::now()));
        for _ in 0..=MAX_WRONG_LOGINS {
            let check = counted(&wrong, pending::<Result<(), Refused>>());
            assert!(timeout(Duration::from_millis(1), check).await.is_err(), "the form is open");
        }
        for (result, count) in [
            (Ok(()), 0),
            (Err(Refused::Failed), 0),
            (Err(Refused::Invalid), 1),
            (Err(Refused::NotOperator), 2),
        ] {
            let _ = counted(&wrong, ready(result)).await;
            assert_eq!(wrong.lock().count, count);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_logins_lock_no_operator_out() {
        let wrong = Mutex::new(WrongLogins::new(Instant::now()));
        let login = |result: Result<(), Refused>| counted(&wrong, ready(result));
        for _ in 0..MAX_WRONG_LOGINS {
            assert_eq!(login(Err(Refused::Invalid)).await, Err(Refused::Invalid));
        }
        assert_eq!(login(Err(Refused::Invalid)).await, Err(Refused::TooMany));
        assert_eq!(login(Ok(())).await, Ok(()));
        assert_eq!(wrong.lock().count, MAX_WRONG_LOGINS, "a login beyond the limit is not counted");
    }

    #[test]
    fn a_credential_that_cannot_be_checked_is_not_a_wrong_one() {
        assert_eq!(Refused::from(AuthRefused::Unavailable), Refused::Failed);
        assert_eq!(Refused::from(AuthRefused::Expired), Refused::Invalid);
    }
}
