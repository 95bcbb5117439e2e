//! Builds the bytes of the request that a row of the corpus describes. Adds a `Content-Length` if the request needs one
//! and the row has no header for the length of the body.

use super::{super::input::Input, row::Request};
use crate::exchange::Piece;
use std::time::Duration;

/// A request whose placeholders are filled, ready to be sent.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) method: String,
    pub(super) path: String,
    /// The header lines of the request, without their line ends.
    pub(super) lines: Vec<String>,
    pub(super) body: Input,
}

impl Wire {
    /// Creates the request of a row, whose placeholders must already be filled.
    pub(super) fn new(request: &Request) -> Result<Self, String> {
        let value = |value: &serde_json::Value| {
            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
        };
        let headers = request.headers.iter();
        let mut lines: Vec<String> = Vec::new();
        for (name, given) in headers {
            match given {
                // Add one header of this name for each value of a list.
                serde_json::Value::Array(many) => {
                    lines.extend(many.iter().map(|given| format!("{name}: {}", value(given))));
                }
                one => lines.push(format!("{name}: {}", value(one))),
            }
        }
        lines.extend(request.extra_headers_raw.iter().cloned());
        let body = match request.bytes_b64.as_ref().or(request.body_b64.as_ref()) {
            Some(text) => Input::base64(text).ok_or("its body is not base 64")?,
            None => request.body.clone().into_bytes(),
        };
        Ok(Self {
            method: request.method.clone(),
            path: request.path.clone(),
            lines,
            body: Input::Bytes(body),
        })
    }

    /// Returns whether the request has a header of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.lines.iter().any(|line| {
            line.split_once(':').is_some_and(|(known, _)| known.trim().eq_ignore_ascii_case(name))
        })
    }

    /// Sets a header; it replaces all existing headers of this name.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.lines.retain(|line| {
            line.split_once(':').is_none_or(|(known, _)| !known.trim().eq_ignore_ascii_case(name))
        });
        self.lines.push(format!("{name}: {value}"));
    }

    /// Returns the head of the request, with the length of the body unless the row sets the length or the chunks
    /// itself.
    pub(super) fn head(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path).into_bytes();
        for line in &self.lines {
            head.extend_from_slice(line.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        let framed = self.has("content-length") || self.has("transfer-encoding");
        let expected = matches!(&*self.method, "POST" | "PUT" | "PATCH");
        let length = self.body.length();
        if !framed && (expected || length > 0) {
            head.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// Returns the whole request in pieces.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Piece> + Send + '_ {
        std::iter::once((self.head(), Duration::ZERO)).chain(self.body.pieces())
    }

    /// Returns the whole request as one piece; only for small bodies.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.pieces().flat_map(|(bytes, _)| bytes).collect()
    }
}
