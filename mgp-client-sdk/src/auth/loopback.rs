//! A browser on this machine: a listener that waits for the login to come back (RFC 8252 §7.3).
//!
//! Applies to: inbound.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use mgp_types::service::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use url::Url;

use super::browser::Browser;
use super::error::AuthError;

/// How long a person may take.
const PATIENCE: Duration = Duration::from_mins(5);
/// How long a connection may take to say what it wants, and to take the answer.
const TALK: Duration = Duration::from_secs(10);
/// How long is waited after a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the head of a request may be.
const LONGEST: usize = 16 * 1024;
/// How many connections are talked to at once; a browser opens some that it never uses.
const MOST: usize = 16;

const PATH: &str = "/callback";
const DONE: &str = "The login came back to the program. You can close this window.";
const OTHER: &str = "There is nothing here.";

/// Listens on 127.0.0.1 for the person to come back; how they get to the login is the user's to say.
///
/// An answer with another state than that of the login is turned away, and the wait goes on: any page a browser shows
/// can send requests here.
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
    /// A browser that is shown an address by a function, which prints or opens it.
    pub fn new(open: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { open: Box::new(open), port: 0, listener: Mutex::new(None) }
    }

    /// The port to listen on, for authorization servers that insist on the one that was registered.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    fn take(&self) -> Option<TcpListener> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A listener: on the port that was registered if it is free, else on any.
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

impl Browser for LoopbackBrowser {
    async fn redirect_uri(&self, registered: Option<&str>) -> Result<String, AuthError> {
        let failed =
            |error: io::Error| AuthError::browser(format!("no port to listen on: {error}"));
        let listener = self.bind(registered).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
        Ok(format!("http://127.0.0.1:{port}{PATH}"))
    }

    /// # Cancel safety
    /// The listener closes; the next login opens another.
    async fn authorize(&self, url: &str) -> Result<String, AuthError> {
        let listener = self.take().ok_or_else(|| AuthError::browser("nothing listens"))?;
        let port = listener.local_addr().map_err(|e| AuthError::browser(e.to_string()))?.port();
        let asked = Url::parse(url).map_err(|_| AuthError::browser("the login has no address"))?;
        let state = parameter(&asked, "state").unwrap_or_default();
        (self.open)(url);
        let back = timeout(PATIENCE, wait(&listener, port, &state)).await;
        back.map_err(|_| AuthError::browser("nobody came back within five minutes"))
    }
}

impl fmt::Debug for LoopbackBrowser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopbackBrowser").field("port", &self.port).finish_non_exhaustive()
    }
}

/// Talks to whoever connects, until one of them brings the answer.
async fn wait(listener: &TcpListener, port: u16, state: &str) -> String {
    let mut talks: FuturesUnordered<BoxFuture<'_, Option<String>>> = FuturesUnordered::new();
    poll_fn(|cx| {
        loop {
            while talks.len() < MOST
                && let Poll::Ready(accepted) = listener.poll_accept(cx)
            {
                let Ok((stream, _)) = accepted else {
                    // Out of descriptors, or a connection that is gone: others may follow.
                    talks.push(Box::pin(sleep(PAUSE).map(|()| None)));
                    break;
                };
                let talk = timeout(TALK, talk(stream, port, state));
                talks.push(Box::pin(talk.map(|talked| talked.ok()?.ok()?)));
            }
            match talks.poll_next_unpin(cx) {
                Poll::Ready(Some(Some(back))) => return Poll::Ready(back),
                Poll::Ready(Some(None)) => {}
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}

/// Reads one request and answers it; gives the URL if it is the answer to the login.
async fn talk(mut stream: TcpStream, port: u16, state: &str) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        if head.len() > LONGEST || stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let back = answer(&head, port).filter(|url| is_answer(url, state));
    let (status, text) = if back.is_some() { ("200 OK", DONE) } else { ("404 Not Found", OTHER) };
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}"
    );
    // The login has come back, whether or not the browser waits for the words.
    let written = stream.write_all(answer.as_bytes()).await;
    let closed = stream.shutdown().await;
    if back.is_none() {
        written.and(closed)?;
    }
    Ok(back.map(String::from))
}

/// The URL of a request for our path.
fn answer(head: &[u8], port: u16) -> Option<Url> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let url = Url::parse(&format!("http://127.0.0.1:{port}{target}")).ok()?;
    let ours = url.path() == PATH && url.port_or_known_default() == Some(port);
    (method == "GET" && target.starts_with('/') && ours).then_some(url)
}

/// Whether a URL answers the login with this state.
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
    async fn only_the_answer_to_the_login_ends_the_wait() {
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
        // A connection that says nothing, as browsers make them, holds nobody up.
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
    async fn the_port_that_was_registered_is_taken_again_if_it_is_free() {
        let first = LoopbackBrowser::new(|_| ());
        let uri = first.redirect_uri(None).await.unwrap();
        let second = LoopbackBrowser::new(|_| ());
        assert_ne!(second.redirect_uri(Some(&uri)).await.unwrap(), uri);
        drop(first);
        let third = LoopbackBrowser::new(|_| ());
        assert_eq!(third.redirect_uri(Some(&uri)).await.unwrap(), uri);
    }

    #[tokio::test(start_paused = true)]
    async fn a_person_who_does_not_come_back_is_not_waited_for_forever() {
        let browser = LoopbackBrowser::new(|_| ());
        browser.redirect_uri(None).await.unwrap();
        let error = browser.authorize("https://a.example/?state=s").await.unwrap_err();
        assert!(error.to_string().contains("five minutes"), "{error}");
    }
}
