//! The interface to a person's browser for logging in, and an implementation for programs on the person's machine.

use std::future::poll_fn;
use std::io;
use std::net::Ipv4Addr;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use mgp_types::service::BoxFuture;
use mgp_types::sync::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use url::Url;

use super::error::AuthError;

/// A way to open a login in a browser, and to obtain the URL to which the authorization server redirects the browser.
///
/// The client checks state, issuer and address of that URL. Implement this trait with the attribute `#[async_trait]` of
/// the crate `async-trait`, or use [`LoopbackBrowser`] in a program that runs on the person's machine.
#[async_trait]
pub trait Browser: Send + Sync + 'static {
    /// Returns the redirect URI. The client calls this before each login, so that it can register the URI at the
    /// authorization server.
    ///
    /// `registered` is the URI with which the client is registered; if the method returns another URI, the client
    /// registers again.
    ///
    /// # Errors
    /// [`AuthError::browser`] if no redirect can be received.
    async fn redirect_uri(&self, registered: Option<&str>) -> Result<String, AuthError>;

    /// Opens a login and returns the complete URL to which the browser was redirected. The client limits the time; see
    /// [`OAuth::login_timeout`](super::OAuth::login_timeout).
    ///
    /// # Errors
    /// [`AuthError::browser`] if there was no redirect.
    async fn authorize(&self, url: &str) -> Result<String, AuthError>;

    /// Returns whether the person logs in on another device, with the code that
    /// [`show_device_code`](Self::show_device_code) shows (RFC 8628). The authorization server must offer such logins
    /// to this client; otherwise [`authorize`](Self::authorize) is called. Default: `false`.
    fn is_elsewhere(&self) -> bool {
        false
    }

    /// Shows the code of a login on another device.
    fn show_device_code(&self, code: &DeviceCode<'_>) {
        let _ = code;
    }
}

/// The code of a login on another device (RFC 8628).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DeviceCode<'a> {
    /// The page where the person enters the code.
    pub page: &'a str,
    /// The code that the person enters on the page.
    pub user_code: &'a str,
    /// The page with the code in its address, if the server sent one.
    pub complete: Option<&'a str>,
}

/// The time limit for a connection to send its request and receive the answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The delay before the next attempt to accept a connection, after an attempt failed.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The maximum number of concurrent connections. Browsers open some that they never use.
const MAX_CONNECTIONS: usize = 16;

const PATH: &str = "/callback";
/// The page after a login. The authorization server can still refuse the tokens, so the page claims no success.
const DONE: &str = "You can close this window; the terminal shows the result of the login.";
const REFUSED: &str = "The login was refused; see the terminal.";
const NOT_FOUND: &str = "There is nothing here.";

/// A browser that is redirected to a listener on 127.0.0.1 (RFC 8252 §7.3). The program supplies the function that
/// opens the login.
///
/// The listener refuses a response with a wrong `state` and keeps waiting, because any page in a browser can send
/// requests to this listener.
///
/// ```no_run
/// use mgp_client_sdk::auth::LoopbackBrowser;
///
/// let browser = LoopbackBrowser::new(|url| println!("To log in, open {url}"));
/// ```
pub struct LoopbackBrowser {
    open: Box<dyn Fn(&str) + Send + Sync>,
    port: u16,
    listener: Mutex<Option<TcpListener>>,
}

impl LoopbackBrowser {
    /// Creates a browser; `open` prints or opens the URL of a login.
    pub fn new(open: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { open: Box::new(open), port: 0, listener: Mutex::new(None) }
    }

    /// Sets the port to listen on, for authorization servers that accept only the registered port. Default: any
    /// free port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    fn take(&self) -> Option<TcpListener> {
        self.listener.lock().take()
    }

    /// Returns the listener that is already open, or opens one on the configured port. If no port is configured, uses
    /// the registered port if it is free, or else any free port.
    async fn bind(&self, registered: Option<&str>) -> io::Result<TcpListener> {
        if let Some(listener) = self.take() {
            return Ok(listener);
        }
        let registered = registered.and_then(|uri| Url::parse(uri).ok()?.port());
        if let Some(port) = registered.filter(|_| self.port == 0)
            && let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
        {
            return Ok(listener);
        }
        TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await
    }
}

#[async_trait]
impl Browser for LoopbackBrowser {
    async fn redirect_uri(&self, registered: Option<&str>) -> Result<String, AuthError> {
        let failed = |error: io::Error| match self.port {
            0 => AuthError::browser(format!("no port to listen on: {error}")),
            port => AuthError::browser(format!("cannot listen on port {port}: {error}")),
        };
        let listener = self.bind(registered).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        *self.listener.lock() = Some(listener);
        Ok(format!("http://127.0.0.1:{port}{PATH}"))
    }

    /// # Cancel safety
    /// Dropping the future closes the listener; the next login opens another.
    async fn authorize(&self, url: &str) -> Result<String, AuthError> {
        let listener = self.take().ok_or_else(|| AuthError::browser("the listener is closed"))?;
        let port = listener.local_addr().map_err(|e| AuthError::browser(e.to_string()))?.port();
        let asked =
            Url::parse(url).map_err(|_| AuthError::browser("the URL of the login is invalid"))?;
        let state = parameter(&asked, "state").unwrap_or_default();
        (self.open)(url);
        Ok(wait(&listener, port, &state).await)
    }
}

mgp_types::opaque_debug!(LoopbackBrowser { port });

/// Accepts connections until one of them delivers the authorization server's response to the login.
async fn wait(listener: &TcpListener, port: u16, state: &str) -> String {
    let mut connections: FuturesUnordered<BoxFuture<'_, Option<String>>> = FuturesUnordered::new();
    poll_fn(|cx| {
        loop {
            while connections.len() < MAX_CONNECTIONS
                && let Poll::Ready(accepted) = listener.poll_accept(cx)
            {
                let Ok((stream, _)) = accepted else {
                    // A connection was not accepted, because no file descriptor is free or the client has already
                    // closed it. A later connection may succeed, so wait for that.
                    connections.push(Box::pin(sleep(ACCEPT_RETRY_DELAY).map(|()| None)));
                    break;
                };
                let serve = timeout(CONNECTION_TIMEOUT, serve(stream, port, state));
                connections.push(Box::pin(serve.map(|served| served.ok()?.ok()?)));
            }
            match connections.poll_next_unpin(cx) {
                Poll::Ready(Some(Some(back))) => return Poll::Ready(back),
                Poll::Ready(Some(None)) => {}
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}

/// Reads one request and answers it. Returns the requested URL if the request is the authorization server's response to
/// the login.
async fn serve(mut stream: TcpStream, port: u16, state: &str) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        if head.len() > MAX_HEAD_BYTES || stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let back = answer(&head, port).filter(|url| is_answer(url, state));
    let (status, text) = match &back {
        Some(url) if parameter(url, "error").is_some() => ("200 OK", REFUSED),
        Some(_) => ("200 OK", DONE),
        None => ("404 Not Found", NOT_FOUND),
    };
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}"
    );
    // Ignore errors: the login is complete even if the browser does not wait for the page.
    let written = stream.write_all(answer.as_bytes()).await;
    let closed = stream.shutdown().await;
    if back.is_none() {
        written.and(closed)?;
    }
    Ok(back.map(String::from))
}

/// Returns the requested URL if the request is a `GET` with the path of the redirect URI.
fn answer(head: &[u8], port: u16) -> Option<Url> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let url = Url::parse(&format!("http://127.0.0.1:{port}{target}")).ok()?;
    let ours = url.path() == PATH && url.port_or_known_default() == Some(port);
    (method == "GET" && target.starts_with('/') && ours).then_some(url)
}

fn is_answer(url: &Url, state: &str) -> bool {
    let has = |name| parameter(url, name).is_some();
    parameter(url, "state").as_deref() == Some(state) && (has("code") || has("error"))
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    async fn get(uri: &str, target: &str) -> String {
        let url = Url::parse(uri).unwrap();
        let address = (url.host_str().unwrap(), url.port().unwrap());
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn only_the_response_to_the_login_ends_the_wait() {
        let (shown, mut opened) = tokio::sync::mpsc::unbounded_channel();
        let browser = Arc::new(LoopbackBrowser::new(move |url| {
            let _ = shown.send(url.to_owned());
        }));
        let uri = browser.redirect_uri(None).await.unwrap();
        assert_eq!(browser.redirect_uri(None).await.unwrap(), uri);
        let waiting = tokio::spawn({
            let browser = Arc::clone(&browser);
            async move { browser.authorize("https://a.example/authorize?state=right").await }
        });
        assert_eq!(opened.recv().await.unwrap(), "https://a.example/authorize?state=right");
        // Browsers open connections that remain idle. An idle connection must not block the other connections.
        let idle =
            TcpStream::connect(uri.trim_start_matches("http://").trim_end_matches(PATH)).await;
        for unfit in [
            "/callback?code=c&state=wrong",
            "/callback?code=c",
            "/callback?state=right",
            "/favicon.ico?code=c&state=right",
            "http://127.0.0.1/callback?code=c&state=right",
            "@evil.example/callback?code=c&state=right",
        ] {
            assert!(get(&uri, unfit).await.starts_with("HTTP/1.1 404"), "{unfit}");
        }
        let answer = get(&uri, "/callback?code=c%20d&state=right&iss=https%3A%2F%2Fa").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let back = waiting.await.unwrap().unwrap();
        assert_eq!(back, format!("{uri}?code=c%20d&state=right&iss=https%3A%2F%2Fa"));
        drop(idle);
    }

    #[tokio::test]
    async fn a_login_that_was_refused_is_not_called_complete() {
        for (parameters, page) in
            [("code=c", DONE), ("error=access_denied", REFUSED), ("code=c&error=e", REFUSED)]
        {
            let browser = LoopbackBrowser::new(|_| ());
            let uri = browser.redirect_uri(None).await.unwrap();
            let target = format!("{PATH}?state=right&{parameters}");
            let (back, answer) = tokio::join!(
                browser.authorize("https://a.example/authorize?state=right"),
                get(&uri, &target)
            );
            assert!(back.unwrap().ends_with(&target));
            assert!(answer.ends_with(page), "{answer}");
        }
    }

    #[tokio::test]
    async fn a_port_that_is_in_use_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let browser = LoopbackBrowser::new(|_| ()).port(port);
        let error = browser.redirect_uri(None).await.unwrap_err().to_string();
        assert!(error.contains(&format!("port {port}")), "{error}");
    }

    #[tokio::test]
    async fn the_registered_port_is_used_again_if_it_is_free() {
        let first = LoopbackBrowser::new(|_| ());
        let uri = first.redirect_uri(None).await.unwrap();
        let second = LoopbackBrowser::new(|_| ());
        assert_ne!(second.redirect_uri(Some(&uri)).await.unwrap(), uri);
        drop(first);
        let third = LoopbackBrowser::new(|_| ());
        assert_eq!(third.redirect_uri(Some(&uri)).await.unwrap(), uri);
    }
}
