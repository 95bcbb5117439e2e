//! An example with a tool that streams its answer word by word, and a client that prints each word when it arrives. The
//! client calls the tool directly or through kernels.
//!
//! ```text
//! token_stream                      # prints an answer word by word
//! token_stream --kernels 1 --quiet 5000
//! token_stream --calls 1024         # calls of 1 MiB through two kernels to a slow reader; prints the memory
//! ```
//!
//! The tool, the kernels and the client run in this process, so a profiler sees the whole path of a chunk.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use mgp_client_sdk::{Client, StreamItem};
use mgp_discovery::{Config, GovernanceConfig};
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

/// Returns a server for the tool. Its calls pass through `kernels` kernels, each of which checks the call.
fn behind(kernels: usize) -> BoxFuture<'static, Result<Server, Failure>> {
    Box::pin(async move {
        if kernels == 0 {
            return Ok(server());
        }
        let mut open = GovernanceConfig::default();
        open.default_policy = DefaultPolicy::OptOut;
        open.risk.insert("think".to_owned(), RiskLevel::Safe);
        // By default an agent gets only the first 32 KiB of a result, and must request the rest. The value 0 switches
        // this limit off.
        let config = Config::parse("mgp.toml", "[kernel.results]\nmax_text = 0")?.config;
        let builder = Kernel::builder().config(config);
        let kernel = if kernels == 1 {
            builder.local_with("model", open, server).build().await?
        } else {
            // Build the next kernel of the chain first, because it is the server of this kernel.
            let below = behind(kernels - 1).await?;
            let below = std::sync::Mutex::new(Some(below));
            let take = move || below.lock().ok().and_then(|mut below| below.take());
            let make = move || take().unwrap_or_else(server);
            builder.local_with("model", open, make).build().await?
        };
        while kernel.index().tools_of("model").is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let served = kernel.server();
        // Leak the kernel, because it runs to the end of the process.
        Box::leak(Box::new(kernel));
        Ok(served)
    })
}

/// Calls the tool and reads its answer to the end. Without `pause` it prints the pieces as they come. With `pause` it
/// pauses after each piece, and returns how many pieces came.
async fn read(
    client: &Client,
    answer: [usize; 3],
    pause: Option<Duration>,
) -> Result<usize, Failure> {
    let [pieces, bytes, pause_ms] = answer;
    let call = client.call("think").arg("pieces", pieces).arg("bytes", bytes);
    let mut stream = call.arg("pause_ms", pause_ms).stream();
    let mut count = 0;
    while let Some(item) = stream.next().await {
        match (item?, pause) {
            (StreamItem::Chunk(_), Some(pause)) => {
                count += 1;
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
            }
            (StreamItem::Chunk(block), None) => show(block.as_text().unwrap_or_default()),
            (StreamItem::Result(_), None) => show("\n"),
            _ => {}
        }
    }
    Ok(count)
}

fn show(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    // Ignore an error: the reader of the output has disconnected.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Returns the value of a line of `/proc/self/status` in KiB, e.g. of `VmHWM`.
fn memory(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Makes calls with answers of 1 MiB, eight at a time, and pauses after each piece that it reads. Then prints by how
/// much the memory of this process has grown.
async fn bulk(client: &Client, calls: usize) -> Result<(), Failure> {
    let one = || read(client, [64, 16 << 10, 0], Some(Duration::from_micros(100)));
    let all = |calls: usize| async move {
        let running = futures_util::stream::iter(0..calls).map(|_| one()).buffer_unordered(8);
        running.collect::<Vec<_>>().await.into_iter().collect::<Result<Vec<_>, _>>()
    };
    all(calls.div_ceil(8)).await?;
    let before = memory("VmHWM");
    let pieces: usize = all(calls).await?.into_iter().sum();
    let growth = memory("VmHWM").saturating_sub(before) / 1024;
    show(&format!("{calls} calls, {pieces} pieces, growth {growth} MiB\n"));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |flag: &str| {
        let at = words.iter().position(|word| word == flag)?;
        words.get(at + 1)?.parse::<usize>().ok()
    };
    let calls = number("--calls");
    let kernels = number("--kernels").unwrap_or(if calls.is_some() { 2 } else { 0 });
    let client = connect(behind(kernels).await?.into_stack()?).await?;
    match (calls, number("--quiet")) {
        (Some(calls), _) => bulk(&client, calls).await?,
        (None, Some(pieces)) => {
            let count = read(&client, [pieces, 12, 0], Some(Duration::ZERO)).await?;
            show(&format!("{count} pieces\n"));
        }
        (None, None) => drop(read(&client, [24, 1, 80], None).await?),
    }
    client.close().await;
    Ok(())
}
