//! A peer that writes lines without an SDK.

use mgp_transport::{CloseReason, Connection, ConnectionMonitor, Limits, duplex};
use mgp_types::service::{Scope, Stack};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// The peer's ends of a connection to a server, and the counters of the server's end.
pub(crate) struct Raw {
    pub(crate) reader: BufReader<ReadHalf<DuplexStream>>,
    pub(crate) writer: WriteHalf<DuplexStream>,
    pub(crate) monitor: ConnectionMonitor,
    pub(crate) scope: Scope,
    pub(crate) run: JoinHandle<CloseReason>,
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"mgp":{"version":"0.6.0","extensions":["streaming"]}},"clientInfo":{"name":"raw","version":"1"}}}"#;
const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

impl Raw {
    /// Connects to a server's stack, and completes the handshake.
    pub(crate) async fn join(to: &Stack, limits: Limits) -> Self {
        let (here, there) = duplex();
        let server = Connection::new(there.reader, there.writer, to.clone()).limits(limits);
        let mut raw = Self {
            reader: BufReader::new(here.reader),
            writer: here.writer,
            monitor: server.monitor(),
            scope: server.scope().clone(),
            run: tokio::spawn(server.run()),
        };
        raw.write(&format!("{HELLO}\n{READY}\n")).await;
        let answer = raw.line().await;
        assert!(answer.contains("\"mgp\""), "{answer}");
        raw
    }

    pub(crate) async fn write(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads the next line; an empty text at the end of the connection.
    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        line
    }
}
