//! A tool that streams its answer word by word, and a client that prints it as it comes; directly or through kernels.
//!
//! ```text
//! token_stream                      # prints an answer word by word
//! token_stream --kernels 1 --quiet 5000
//! token_stream --calls 1024         # calls of 1 MiB through two kernels to a slow reader; prints the memory
//! ```
//!
//! All ends are in this process, so a profiler counts a chunk from its tool to its reader.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use mgp_client_sdk::{Client, StreamItem};
use mgp_discovery::GovernanceConfig;
use mgp_kernel::Kernel;
use mgp_server_sdk::ResultStream;
use mgp_server_sdk::prelude::*;
use mgp_transport::{Connection, duplex};
use mgp_types::mgp::{DefaultPolicy, RiskLevel};
use mgp_types::service::{Principal, Stack};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Deserialize, JsonSchema)]
struct Answer {
    /// The number of pieces.
    pieces: usize,
    /// The size of each piece in bytes.
    bytes: usize,
    /// The pause before each piece, in milliseconds.
    #[serde(default)]
    pause_ms: u64,
}

/// Streams an answer, as a language model does.
async fn think(Args(answer): Args<Answer>, stream: ResultStream) -> Result<(), RpcError> {
    for number in 0..answer.pieces {
        if answer.pause_ms > 0 {
            tokio::time::sleep(Duration::from_millis(answer.pause_ms)).await;
        }
        let word = ["The ", "answer ", "comes ", "word ", "by ", "word. "][number % 6];
        stream.send_text(word.repeat(answer.bytes.div_ceil(word.len()))).await?;
    }
    Ok(())
}

fn server() -> Server {
    Server::new("model", "1.0").tool(Tool::new("think", "Answers word by word", think))
}

/// Serves a stack over memory, and connects a client to it.
async fn connect(stack: Stack) -> Result<Client, Failure> {
    let (here, there) = duplex();
    let agent = Principal::local().agent("reader");
    tokio::spawn(Connection::new(there.reader, there.writer, stack).principal(agent).run());
    Ok(Client::builder("reader", "1.0").connect(here.reader, here.writer).await?)
}

/// Returns a server's stack behind this many kernels, which govern each call.
fn behind(kernels: usize) -> BoxFuture<'static, Result<Stack, Failure>> {
    Box::pin(async move {
        if kernels == 0 {
            return Ok(server().into_stack()?);
        }
        let mut open = GovernanceConfig::default();
        open.default_policy = DefaultPolicy::OptOut;
        open.risk.insert("think".to_owned(), RiskLevel::Safe);
        let builder = if kernels == 1 {
            Kernel::builder().local_with("model", open, server)
        } else {
            let below = behind(kernels - 1).await?;
            Kernel::builder().local_stack("model", open, below)
        };
        let kernel = builder.build().await?;
        while kernel.index().tools_of("model").is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let stack = kernel.server().into_stack()?;
        // It runs to the end of the process.
        std::mem::forget(kernel);
        Ok(stack)
    })
}
