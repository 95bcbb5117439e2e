//! Tests that large data move from server to server by reference, without much memory in the kernel or many bytes on
//! the client's connection. This test is a separate program, because it measures the memory of the whole process.

#![cfg(target_os = "linux")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests that print what they measured"
)]

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as Task, Poll};

use mgp_client_sdk::{Client, ToolResult};
use mgp_discovery::{Config, GovernanceConfig};
use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{DataReferences, FromCaller};
use mgp_testkit::{process_memory, temp_dir, until};
use mgp_transport::{Connection, duplex};
use mgp_types::mgp::{DefaultPolicy, Extension, RiskLevel};
use mgp_types::proposal::DataReference;
use mgp_types::service::Principal;
use tokio::io::{AsyncRead, ReadBuf};

/// Returns the size of the data in bytes: 64 MiB, or the number of MiB in the environment variable `REFERENCE_MIB`.
fn size() -> u64 {
    let mib = std::env::var("REFERENCE_MIB").ok().and_then(|mib| mib.parse().ok());
    mib.unwrap_or(64) << 20
}

/// A server whose tools `small` and `large` export the files with these names in a folder.
fn exporter(folder: &Path) -> Server {
    let tools = ["small", "large"].map(|name| {
        let path = folder.join(name);
        let export = move |references: State<DataReferences>, cx: Context| {
            let path = path.clone();
            async move {
                let reference = references.0.export_file("text/plain", path).await?;
                references.0.answer(&cx, &reference)
            }
        };
        Tool::new(name, format!("Exports the {name} file"), export)
    });
    let [small, large] = tools;
    Server::new("exporter", "1").tool(small).tool(large).extension(DataReferences::new("exporter"))
}

fn importer() -> Server {
    let import = Tool::new(
        "import",
        "Imports exported data",
        |references: State<DataReferences>, data: FromCaller<DataReference>| async move {
            let mut reader = references.0.reader(data.0.as_ref())?;
            let mut bytes = 0;
            while let Some(piece) = reader.next().await.map_err(RpcError::invalid_params)? {
                bytes += piece.len();
            }
            Ok::<_, RpcError>(bytes.to_string())
        },
    );
    let references = DataReferences::new("importer").allow_host("127.0.0.1");
    Server::new("importer", "1").tool(import).extension(references)
}

/// Counts the bytes that are read.
struct Counted<R>(R, Arc<AtomicU64>);

impl<R: AsyncRead + Unpin> AsyncRead for Counted<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.0).poll_read(task, buffer);
        self.1.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

/// Returns the peak of this process's memory in bytes.
fn peak_memory() -> u64 {
    process_memory(std::process::id(), "VmHWM").unwrap()
}

async fn export(client: &Client, tool: &str) -> DataReference {
    let result = client.call(tool).await.unwrap();
    result.member().unwrap().unwrap()
}

#[tokio::test]
async fn large_data_passes_the_kernel_without_its_memory_growing_and_the_client_not_at_all() {
    let mut open = GovernanceConfig::default();
    open.default_policy = DefaultPolicy::OptOut;
    for tool in ["small", "large", "import"] {
        open.risk.insert(tool.to_owned(), RiskLevel::Safe);
    }
    let folder = temp_dir();
    std::fs::write(folder.path().join("small"), "small").unwrap();
    let large = std::fs::File::create(folder.path().join("large")).unwrap();
    large.set_len(size()).unwrap();
    let exported = folder.path().to_owned();
    let config = Config::parse("mgp.toml", "[kernel.references]\nenabled = true").unwrap().config;
    let kernel = Kernel::builder()
        .config(config)
        .local_with("exporter", open.clone(), move || exporter(&exported))
        .local_with("importer", open, importer)
        .build()
        .await
        .unwrap();
    for server in ["exporter", "importer"] {
        let known = || async { !kernel.index().tools_of(server).is_empty() };
        until("its tools are known", known).await;
    }
    let (here, there) = duplex();
    let stack = kernel.server().into_stack().unwrap();
    let agent = Principal::local().agent("ada");
    tokio::spawn(Connection::new(there.reader, there.writer, stack).principal(agent).run());
    let received = Arc::<AtomicU64>::default();
    let client = Client::builder("host", "1").extension(Extension::DataReferences);
    let reader = Counted(here.reader, Arc::clone(&received));
    let client = client.connect(reader, here.writer).await.unwrap();

    // First transfer a small file, so that the measurement does not include what is loaded only once.
    client.call("import").with(&export(&client, "small").await).await.unwrap();
    let (memory, bytes) = (peak_memory(), received.load(Ordering::Relaxed));

    let reference = export(&client, "large").await;
    let imported = client.call("import").with(&reference).await.unwrap();
    assert_eq!(imported.to_text(), size().to_string());
    let grown = peak_memory() - memory;
    let bytes = received.load(Ordering::Relaxed) - bytes;
    println!(
        "{} MiB by reference: the kernel and both servers grew by {} KiB, the client received {bytes} bytes",
        size() >> 20,
        grown >> 10
    );
    assert!(grown < 8 << 20, "the kernel and both servers grew by {grown} bytes");
    assert!(bytes < 4096, "the client received {bytes} bytes");
    kernel.stop().await;
}
