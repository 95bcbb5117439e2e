//! The requests of a run, and the check that each reply belongs to its request.
use crate::options::Options;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

/// A template for the requests of a run. Each request contains its own sequence number, as its id and in its payload.
pub(crate) struct Requests {
    pub(crate) prefix: String,
    pub(crate) suffix: String,
    pub(crate) template: Vec<u8>,
    /// The position of twelve digits in the template that each request replaces by its sequence number. `None` if all
    /// requests are equal except for their ids.
    pub(crate) vary_at: Option<usize>,
    pub(crate) payload: usize,
    pub(crate) method: String,
    pub(crate) modern: bool,
    pub(crate) protocol: String,
}

/// The `_meta` member that every request of the 2026-07-28 revision must carry.
pub(crate) const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"loadgen","version":"0.1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
impl Requests {
    /// Builds the template from the options of the command line.
    pub(crate) fn new(o: &Options) -> Requests {
        let protocol = o.text("protocol", "2025-11-25");
        let modern = protocol == "2026-07-28";
        let method = o.text("method", "tools/call");
        let payload = o.number("payload-bytes", 64);
        let params = if method != "tools/call" {
            "{}".to_string()
        } else {
            // The payload is a counter of 12 digits, and a filler up to the wanted length.
            let filler: String =
                (0..payload.saturating_sub(12)).map(|i| (b'a' + (i % 26) as u8) as char).collect();
            format!(r#"{{"name":"echo","arguments":{{"message":"@@@@@@@@@@@@{filler}"}}}}"#)
        };
        let params = match params.strip_prefix('{') {
            Some("}") if modern => format!("{{{META}}}"),
            Some(rest) if modern => format!("{{{META},{rest}"),
            _ => params,
        };
        let vary_at = params.find("@@@@@@@@@@@@");
        Requests {
            prefix: r#"{"jsonrpc":"2.0","id":"#.into(),
            suffix: format!(r#","method":{},"params":"#, json!(method)),
            template: params.into_bytes(),
            vary_at,
            payload,
            method,
            modern,
            protocol,
        }
    }

    /// Returns the name of the tool that the requests call, if they call one.
    pub(crate) fn tool(&self) -> Option<&'static str> {
        (self.method == "tools/call").then_some("echo")
    }

    /// Appends the request with this id to `out`.
    pub(crate) fn write(&self, id: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.prefix.as_bytes());
        out.extend_from_slice(id.to_string().as_bytes());
        out.extend_from_slice(self.suffix.as_bytes());
        let at = out.len();
        out.extend_from_slice(&self.template);
        if let Some(v) = self.vary_at {
            let c = format!("{id:012}");
            out[at + v..at + v + 12].copy_from_slice(c.as_bytes());
        }
        out.push(b'}');
    }

    /// Returns whether a reply contains the sequence number of its request and is at least as long as the payload.
    pub(crate) fn ok(&self, id: u64, body: &[u8]) -> bool {
        if self.vary_at.is_none() {
            return true;
        }
        let c = format!("{id:012}");
        memchr::memmem::find(&body[..body.len().min(4096)], c.as_bytes()).is_some()
            && body.len() >= self.payload
    }

    /// Returns the first request of a connection: `initialize`, or `server/discover` for the revision 2026-07-28.
    pub(crate) fn init(&self, id: u64) -> Vec<u8> {
        if self.modern {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"server/discover","params":{{{META}}}}}"#
            )
            .into_bytes()
        } else {
            serde_json::to_vec(&json!({"jsonrpc":"2.0","id":id,"method":"initialize","params":{"protocolVersion":self.protocol,"capabilities":{},"clientInfo":{"name":"loadgen","version":"0.1"}}})).unwrap()
        }
    }
}

/// The notification that a client sends after the reply to `initialize`.
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
/// The envelope of a message from the server, with its contents unparsed.
#[derive(Deserialize)]
pub(crate) struct Message<'a> {
    pub(crate) id: Option<u64>,
    #[serde(borrow)]
    pub(crate) method: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
}
