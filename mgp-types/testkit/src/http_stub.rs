//! An HTTP server for tests, which reads one request from each connection and answers it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::Value;

/// A request that the HTTP server of a test received.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The request line and the headers, converted to lower case.
    pub head: String,
    /// The body of the request.
    pub body: String,
}

impl HttpRequest {
    /// Reads a request from a connection; returns `None` if the connection ends before the request is complete.
    #[must_use]
    pub fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while reader.read_line(&mut head).ok()? > 2 {}
        head.make_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length = length.map_or(Ok(0), |length| length.trim().parse()).ok()?;
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = String::from_utf8(body).ok()?;
        (!head.is_empty()).then_some(Self { head, body })
    }

    /// Returns the value of a header, in lower case.
    ///
    /// # Panics
    /// Panics if the request does not have the header.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.unwrap_or_else(|| panic!("{name}: {}", self.head))
    }

    /// Returns the body as JSON; null if it is not JSON.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// Returns a response after which the connection is closed; `headers` are further header lines, each with its line end.
#[must_use]
pub fn http_response(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} -\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Serves HTTP on a free port of this machine until the test ends; each connection has its own thread. Returns the URL
/// of the server, without a path. `respond` returns the whole response to a request.
///
/// # Panics
/// Panics if no port is free.
#[must_use]
pub fn serve_http<R: Into<Vec<u8>> + 'static>(
    respond: impl Fn(&HttpRequest) -> R + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let respond = Arc::new(respond);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let respond = Arc::clone(&respond);
            std::thread::spawn(move || {
                let Some(request) = HttpRequest::read(&stream) else { return };
                let response: Vec<u8> = respond(&request).into();
                let _ = stream.write_all(&response);
            });
        }
    });
    url
}
