//! A peer without an SDK that reads and writes lines of JSON, in either era, with or without MGP.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use mgp_testkit::{RawPeer, hello, modern_meta};
use mgp_transport::{Connection, duplex};
use mgp_types::mcp::Era;
use mgp_types::service::{Principal, Stack};
use serde_json::{Value, json};

/// The protocol that a peer speaks: MCP only, or MCP with MGP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Mgp,
    Plain,
}

/// The four kinds of peers.
pub(crate) const PEERS: [(Era, Dialect); 4] = [
    (Era::Legacy, Dialect::Mgp),
    (Era::Legacy, Dialect::Plain),
    (Era::Modern, Dialect::Mgp),
    (Era::Modern, Dialect::Plain),
];

/// The time limit of waiting for a line. It is longer than every time-out of a server. The wait takes no real time,
/// because the clock of the tests is paused.
const LINE_TIMEOUT: Duration = Duration::from_hours(1);

pub(crate) struct Peer {
    pub(crate) era: Era,
    pub(crate) dialect: Dialect,
    raw: RawPeer,
}

impl Deref for Peer {
    type Target = RawPeer;

    fn deref(&self) -> &RawPeer {
        &self.raw
    }
}

impl DerefMut for Peer {
    fn deref_mut(&mut self) -> &mut RawPeer {
        &mut self.raw
    }
}

impl Peer {
    /// Connects as a caller that is not an operator. In the legacy era, also initializes the session.
    pub(crate) async fn join(stack: &Stack, kind: (Era, Dialect)) -> Self {
        let mut peer = Self::connect(stack, kind);
        if kind.0 == Era::Legacy {
            let answer = peer.ask("initialize", hello("2025-11-25", &capabilities(kind))).await;
            let speaks = answer["result"]["capabilities"]["mgp"].is_object();
            assert_eq!(speaks, kind.1 == Dialect::Mgp, "{answer}");
            peer.line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        }
        peer
    }

    /// Connects without sending anything.
    pub(crate) fn connect(stack: &Stack, (era, dialect): (Era, Dialect)) -> Self {
        let (here, there) = duplex();
        let connection = Connection::new(there.reader, there.writer, stack.clone());
        tokio::spawn(connection.principal(Principal::new("acme", "mallory")).run());
        let mut raw = RawPeer::new(here.reader, here.writer).with_line_timeout(Some(LINE_TIMEOUT));
        if era == Era::Modern {
            raw = raw.with_meta(modern_meta(&capabilities((era, dialect))));
        }
        Self { era, dialect, raw }
    }

    /// Calls a tool without arguments.
    pub(crate) async fn call(&mut self, tool: &str) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": {} })).await
    }
}

fn capabilities((era, dialect): (Era, Dialect)) -> Value {
    let words = "streaming tool_security permissions access_control lifecycle discovery tool_discovery \
         error_handling events callbacks manifest server_recommendations scopes transactions";
    let words: Vec<_> = words.split(' ').collect();
    let offer = json!({ "version": "0.3.0", "extensions": words });
    match (dialect, era) {
        (Dialect::Plain, _) => json!({}),
        (Dialect::Mgp, Era::Legacy) => json!({ "mgp": offer }),
        (Dialect::Mgp, Era::Modern) => json!({ "extensions": { "dev.cloto/mgp": offer } }),
    }
}
