//! The servers and clients of these tests.

use std::time::Duration;

use futures_util::StreamExt as _;
use mgp_client_sdk::{
    Client, ClientBuilder, EraCache, EraChoice, Error, Hop, StreamItem, ToolRouter, ToolStream,
};
use mgp_lifecycle::{CatchPanicLayer, HandshakeLayer, MgpOffer, RoundsLayer, ServerOffer};
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{ResultStream, ServerMonitor};
use mgp_stream::{CancelLayer, EmitLayer};
pub(crate) use mgp_testkit::Alive;
use mgp_testkit::RawPeer;
use mgp_transport::{Connection, DuplexEnd, duplex};
use mgp_types::Sealer;
use mgp_types::mcp::{ContentBlock, Implementation};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::Stack;
use serde_json::Value;
use tower_layer::Layer as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Memory,
    Http,
}

/// A transport, an era, and whether a kernel is between client and server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) carrier: Carrier,
    pub(crate) era: EraChoice,
    pub(crate) is_hop: bool,
}

/// A client that is connected as a [`Cell`] describes, and the monitor of its server.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) monitor: ServerMonitor,
}

pub(crate) fn cells() -> impl Iterator<Item = Cell> {
    let eras = [EraChoice::Legacy, EraChoice::Modern];
    let carriers = [Carrier::Memory, Carrier::Http];
    carriers.into_iter().flat_map(move |carrier| {
        eras.into_iter().flat_map(move |era| {
            [false, true].into_iter().map(move |is_hop| Cell { carrier, era, is_hop })
        })
    })
}

/// The tools of [`server`], which a kernel routes.
const TOOLS: [&str; 11] = [
    "words", "more", "same", "odd", "pieces", "fails", "breaks", "plain", "blocking", "endless",
    "steps",
];

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Words {
    n: usize,
    /// The delay before each word except the first, in milliseconds.
    #[serde(default)]
    every_ms: u64,
    /// `true` if the tool waits for the next turn of the scheduler after each word.
    #[serde(default)]
    yields: bool,
}

/// Returns the text of the first `n` words that the tools `words` and `endless` send.
pub(crate) fn words(n: usize) -> String {
    (0..n).map(|word| format!("{word} ")).collect()
}

async fn send_words(words: Words, stream: ResultStream) -> Result<(), RpcError> {
    for word in 0..words.n {
        if words.every_ms > 0 && word > 0 {
            tokio::time::sleep(Duration::from_millis(words.every_ms)).await;
        }
        stream.send_text(format!("{word} ")).await?;
        if words.yields {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Creates a server with a tool for each way to send a result.
pub(crate) fn server(alive: &Alive) -> Server {
    let (worked, endless) = (alive.clone(), alive.clone());
    let send = |texts: &'static [&'static str], rest: &'static str| {
        move |outlet: Outlet| async move {
            for text in texts {
                let _ = outlet.text(text).await;
            }
            rest
        }
    };
    Server::new("writer", "1")
        .tool(Tool::new("words", "Sends n words", move |Args(args): Args<Words>, stream| {
            let life = worked.begin();
            async move {
                let _life = life;
                send_words(args, stream).await
            }
        }))
        .tool(Tool::new("more", "Returns more than it sent", send(&["to ", "be"], "to be or not")))
        .tool(Tool::new("same", "Returns what it sent", send(&["to ", "be\n"], "to be")))
        .tool(Tool::new("odd", "Returns something else", send(&["to ", "be "], "done")))
        .tool(Tool::new(
            "pieces",
            "Sends an image between texts",
            |stream: ResultStream| async move {
                stream.send_text("before ").await?;
                stream.send(&image()).await?;
                stream.send_text("after").await?;
                Ok::<_, RpcError>(())
            },
        ))
        .tool(Tool::new("fails", "Fails behind a chunk", |stream: ResultStream| async move {
            stream.send_text("half").await?;
            Err::<(), _>(ToolError("out of ink".to_owned()))
        }))
        .tool(Tool::new("breaks", "Breaks behind a chunk", |stream: ResultStream| async move {
            stream.send_text("half").await?;
            Err::<(), _>(RpcError::internal("out of paper"))
        }))
        .tool(Tool::new("plain", "Streams nothing", || async { "plain" }))
        .tool(
            Tool::new("blocking", "Blocks its thread", |Args(args): Args<Words>, stream| {
                send_words(args, stream)
            })
            .on_blocking_pool(),
        )
        .tool(Tool::new("endless", "Sends words until the caller leaves", move |stream| {
            let life = endless.begin();
            async move {
                let _life = life;
                let words = Words { n: usize::MAX, every_ms: 0, yields: true };
                send_words(words, stream).await
            }
        }))
        .tool(Tool::new("steps", "Reports progress", |outlet: Outlet| async move {
            for (progress, total, estimate) in
                [(3.0, None, None), (5.0, Some(10.0), Some(4_500)), (7.0, None, None)]
            {
                let message = Some(format!("step {progress}"));
                let step = Progress { progress, total, message, estimated_remaining_ms: estimate };
                let _ = outlet.send(OutletItem::Progress(step)).await;
            }
            "stepped"
        }))
}

pub(crate) fn image() -> ContentBlock {
    let image = r#"{"type":"image","data":"AAAA","mimeType":"image/png"}"#;
    serde_json::from_str(image).unwrap()
}

impl Cell {
    pub(crate) async fn connect(self, server: Server) -> Connected {
        let monitor = server.monitor();
        let below = Box::pin(self.connect_server(server)).await;
        if !self.is_hop {
            return Connected { client: below, monitor };
        }
        let hop = Hop::new("below", below);
        let router = TOOLS
            .into_iter()
            .fold(ToolRouter::new(), |router, tool| router.route(tool, hop.clone()));
        let end = kernel(router);
        let client = self.builder().connect(end.reader, end.writer).await.unwrap();
        Connected { client, monitor }
    }

    fn builder(self) -> ClientBuilder {
        Client::builder("reader", "1").era(self.era).http(|http| http.eras = EraCache::new())
    }

    async fn connect_server(self, server: Server) -> Client {
        if self.carrier == Carrier::Memory {
            let (here, there) = duplex();
            tokio::spawn(async move { server.serve(there.reader, there.writer).await });
            return self.builder().connect(here.reader, here.writer).await.unwrap();
        }
        let bound = server.http("127.0.0.1:0").no_auth().bind().await.unwrap();
        let url = format!("http://{}/mcp", bound.local_addr());
        tokio::spawn(bound.run());
        self.builder().connect_url(url).await.unwrap()
    }
}

/// Serves a tool router with the layers of a minimal kernel around it; returns the client's end of the connection.
fn kernel(router: ToolRouter) -> DuplexEnd {
    let mut offer = ServerOffer::new(Implementation::new("kernel", "1"));
    offer.mgp = Some(MgpOffer::new(ExtensionSet::EMPTY.with(Extension::Streaming)));
    let service = CancelLayer::default().layer(EmitLayer::new().layer(router));
    let service = RoundsLayer::new(Sealer::random().unwrap()).layer(service);
    let stack = Stack::new(CatchPanicLayer::new().layer(HandshakeLayer::new(offer).layer(service)));
    let (here, there) = duplex();
    tokio::spawn(Connection::new(there.reader, there.writer, stack).run());
    here
}

#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) blocks: Vec<ContentBlock>,
    pub(crate) steps: Vec<Progress>,
    pub(crate) result: Option<Result<Value, Error>>,
}

impl Received {
    pub(crate) async fn all(mut stream: ToolStream) -> Self {
        let mut received = Self::default();
        while let Some(item) = stream.next().await {
            received.add(item);
        }
        received
    }

    pub(crate) fn add(&mut self, item: Result<StreamItem, Error>) {
        match item {
            Ok(StreamItem::Chunk(block)) => self.blocks.push(block),
            Ok(StreamItem::Progress(step)) => self.steps.push(step),
            Ok(StreamItem::Result(result)) => {
                self.result = Some(Ok(serde_json::to_value(result).unwrap()));
            }
            Ok(_) => {}
            Err(error) => self.result = Some(Err(error)),
        }
    }

    pub(crate) fn text(&self) -> String {
        self.blocks.iter().filter_map(ContentBlock::as_text).collect()
    }

    pub(crate) fn result(&self) -> &Value {
        self.result.as_ref().unwrap().as_ref().unwrap()
    }

    pub(crate) fn result_text(&self) -> String {
        let blocks = self.result()["content"].as_array().unwrap();
        blocks.iter().filter_map(|block| block["text"].as_str()).collect()
    }
}

/// The other end of a connection, read and written as lines with any ids.
pub(crate) struct Raw(RawPeer);

impl Raw {
    pub(crate) fn new(end: DuplexEnd) -> Self {
        Self(RawPeer::new(end.reader, end.writer))
    }

    /// Connects a legacy client that negotiated streaming.
    pub(crate) async fn client(server: Server) -> Self {
        let (here, there) = duplex();
        tokio::spawn(async move { server.serve(there.reader, there.writer).await });
        let mut raw = Self::new(here);
        raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"mgp":{"version":"0.3.0","extensions":["streaming"]}},"clientInfo":{"name":"raw","version":"1"}}}"#).await;
        raw.read().await;
        raw
    }

    /// Connects our client to a legacy server with these capabilities, whose messages the test writes.
    pub(crate) async fn server(capabilities: &str) -> (Client, Self) {
        let (here, there) = duplex();
        let mut raw = Self::new(there);
        let builder = Client::builder("reader", "1").era(EraChoice::Legacy);
        let (client, ()) = tokio::join!(builder.connect(here.reader, here.writer), async {
            let hello = raw.read().await;
            raw.send(&format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{{"name":"foreign","version":"1"}}}}}}"#,
                hello["id"]
            ))
            .await;
            raw.read().await;
        });
        (client.unwrap(), raw)
    }

    pub(crate) async fn send(&mut self, line: &str) {
        self.0.line(line).await;
    }

    pub(crate) async fn call(&mut self, id: &str, tool: &str, arguments: &str) {
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_mgp":{{"stream":true}}}}}}"#
        ))
        .await;
    }

    pub(crate) async fn notify(&mut self, method: &str, params: &str) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)).await;
    }

    pub(crate) async fn read(&mut self) -> Value {
        self.0.receive().await
    }

    /// Reads up to an answer; returns the params of the chunks before it, and the answer.
    pub(crate) async fn read_answer(&mut self) -> (Vec<Value>, Value) {
        let mut chunks = Vec::new();
        loop {
            let message = self.read().await;
            match message["method"].as_str() {
                Some("notifications/mgp.stream.chunk") => chunks.push(message["params"].clone()),
                Some(_) => {}
                None => return (chunks, message),
            }
        }
    }
}
