//! Kernels that were configured by a file, their servers, and their hosts.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::{Client, ClientBuilder, EraChoice};
use mgp_discovery::Sources;
use mgp_kernel::Kernel;
use mgp_transport::{Connection, duplex};
use mgp_types::mgp::KernelServer;
use mgp_types::service::Principal;

/// A server that tells in its tools how it was started, and on its standard error what it was offered.
const SERVER: &str = r#"
echo "$0 begins as $$" >&2
answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while IFS= read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"server/discover"'*)
      printf '%s\n' "$line" >&2
      answer '"error":{"code":-32601,"message":"unknown"}' ;;
    *'"initialize"'*)
      printf '%s\n' "$line" >&2
      answer '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*)
      schema='"inputSchema":{"type":"object"}'
      text="${TEXT:-told}"
      answer '"result":{"tools":[{"name":"look","description":"Looks around '"$(pwd) $VALUE $1"'",'"$schema"'},{"name":"wipe_disk","description":"'"$text"'",'"$schema"'},{"name":"fetch_url","description":"Fetches a URL from the network","inputSchema":{"type":"object","properties":{"url":{"type":"string"}}}}]}' ;;
    *'"tools/call"'*) answer '"result":{"content":[{"type":"text","text":"done"}]}' ;;
    *'"id"'*) [ -n "$id" ] && answer '"error":{"code":-32601,"message":"unknown"}' ;;
  esac
done
"#;

/// How long is waited for a call that may wait for a person.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// A kernel, in a folder of its own that goes with it.
pub(crate) struct World {
    folder: PathBuf,
    pub(crate) kernel: Kernel,
}

impl World {
    /// With a configuration; `{DIR}` is its folder, `{SERVER}` how the server of these stories is started.
    pub(crate) async fn new(config: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mgp-kernel-config-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join("below")).unwrap();
        fs::write(folder.join("server.sh"), SERVER).unwrap();
        write(&folder, config);
        let kernel = begin(&folder).await;
        Self { folder, kernel }
    }

    /// Writes another configuration.
    pub(crate) fn write(&self, config: &str) {
        write(&self.folder, config);
    }

    /// Stops the kernel and begins another one on the same state.
    pub(crate) async fn again(&mut self) {
        self.kernel.stop().await;
        // The folder is free once everything of the kernel is gone.
        let before = std::mem::replace(&mut self.kernel, Kernel::builder().build().await.unwrap());
        drop(before);
        let mut in_use = String::new();
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let sources = Sources::given(self.folder.join("mgp.toml"));
            let state = self.folder.join("state");
            match Kernel::builder().sources(sources).in_folder(state).await {
                Ok(kernel) => {
                    self.kernel = kernel;
                    return;
                }
                Err(error) => in_use = error.to_string(),
            }
        }
        panic!("the state of the kernel before is still in use: {in_use}");
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn server(&self, id: &str) -> KernelServer {
        self.kernel.servers().into_iter().find(|server| server.id == id).unwrap()
    }

    /// What a server wrote to its standard error.
    pub(crate) fn log(&self, id: &str) -> String {
        let lines = self.kernel.server_log(&id.into()).unwrap();
        lines.into_iter().map(|line| line.text + "\n").collect()
    }

    /// Waits until the tools of a server are known.
    pub(crate) async fn knows(&self, id: &str) {
        until("its tools are known", || !self.kernel.index().tools_of(id).is_empty()).await;
    }

    pub(crate) async fn agent(&self, name: &str) -> Client {
        self.connect(Principal::local().agent(name), Client::builder("host", "1")).await
    }

    pub(crate) async fn operator(&self) -> Client {
        self.connect(Principal::local().operator(), Client::builder("operator", "1")).await
    }

    pub(crate) async fn connect(&self, principal: Principal, builder: ClientBuilder) -> Client {
        let (here, there) = duplex();
        let stack = self.kernel.server().into_stack().unwrap();
        let connection = Connection::new(there.reader, there.writer, stack).principal(principal);
        tokio::spawn(connection.run());
        builder.era(EraChoice::Legacy).connect(here.reader, here.writer).await.unwrap()
    }

    pub(crate) async fn end(self) {
        self.kernel.stop().await;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

async fn begin(folder: &Path) -> Kernel {
    let sources = Sources::given(folder.join("mgp.toml"));
    Kernel::builder().sources(sources).in_folder(folder.join("state")).await.unwrap()
}

fn write(folder: &Path, config: &str) {
    let config = config
        .replace("{SERVER}", "command = 'sh'\nargs = ['{DIR}/server.sh']")
        .replace("{DIR}", folder.to_str().unwrap());
    fs::write(folder.join("mgp.toml"), config).unwrap();
}

/// Waits until something is so; a story that hangs fails.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}
