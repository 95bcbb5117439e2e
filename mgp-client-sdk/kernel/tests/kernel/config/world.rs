//! The fixture of these tests: kernels configured by a file, their servers, and their clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_client_sdk::{Client, ClientBuilder, EraChoice};
use mgp_discovery::Sources;
use mgp_kernel::{Kernel, KernelBuilder};
use mgp_testkit::TempDir;
use mgp_types::mgp::KernelServer;
use mgp_types::service::Principal;

use crate::route::world::{host_as, reopen};

/// A shell script of a server whose tools return how the server was started. It writes the client's `initialize` to
/// standard error.
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
      answer '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}'"$CAPABILITY"'},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*)
      schema='"inputSchema":{"type":"object"}'
      text="${TEXT:-told}"
      answer '"result":{"tools":[{"name":"look","description":"Looks around '"$(pwd) $VALUE $1"'",'"$schema"'},{"name":"wipe_disk","description":"'"$text"'",'"$schema"'},{"name":"fetch_url","description":"Fetches a URL from the network","inputSchema":{"type":"object","properties":{"url":{"type":"string"}}}}]}' ;;
    *'"tools/call"'*)
      token=$(printf %s "$line" | sed -n 's/.*"progressToken":\("[^"]*"\|[0-9]*\).*/\1/p')
      for step in $STEPS; do
        sleep 0.4
        [ -n "$PROGRESS" ] && printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s}}\n' "$token" "$step"
      done
      answer '"result":{"content":[{"type":"text","text":"done"}]}' ;;
    *'"id"'*) [ -n "$id" ] && answer '"error":{"code":-32601,"message":"unknown"}' ;;
  esac
done
"#;

/// The time after which a call without an answer counts as waiting for a person.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(4);

/// A kernel whose configuration and state are in a temporary folder.
pub(crate) struct World {
    folder: TempDir,
    pub(crate) kernel: Kernel,
}

impl World {
    /// Starts a kernel. In `config`, `{DIR}` is replaced by the kernel's folder, and `{SERVER}` by keys that start the
    /// script `SERVER`.
    pub(crate) async fn new(config: &str) -> Self {
        let folder = mgp_testkit::temp_dir();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("server.sh"), SERVER).unwrap();
        write(folder.path(), config);
        let kernel = builder(folder.path()).in_folder(state(folder.path())).await.unwrap();
        Self { folder, kernel }
    }

    /// Starts a kernel like [`Self::new`], and waits until it has read the tools of its server `a`.
    pub(crate) async fn with_tools(config: &str) -> Self {
        let world = Self::new(config).await;
        world.knows("a").await;
        world
    }

    /// Writes another configuration.
    pub(crate) fn write(&self, config: &str) {
        write(self.folder(), config);
    }

    /// Stops the kernel, and starts another one with the same state.
    pub(crate) async fn restart(&mut self) {
        self.kernel.stop().await;
        // Replace the stopped kernel, so that it is dropped and releases the lock of its folder.
        self.kernel = Kernel::builder().build().await.unwrap();
        self.kernel = reopen(&state(self.folder()), || builder(self.folder())).await;
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn server(&self, id: &str) -> KernelServer {
        self.kernel.servers().into_iter().find(|server| server.id == id).unwrap()
    }

    /// Returns the text that a server has written to its standard error.
    pub(crate) fn log(&self, id: &str) -> String {
        let lines = self.kernel.server_log(&id.into()).unwrap();
        lines.into_iter().map(|line| line.text + "\n").collect()
    }

    /// Waits until the kernel has read the tools of a server.
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
        host_as(&self.kernel, principal, builder.era(EraChoice::Legacy)).await
    }

    pub(crate) async fn end(self) {
        self.kernel.stop().await;
    }
}

fn builder(folder: &Path) -> KernelBuilder {
    Kernel::builder().sources(Sources::single(folder.join("mgp.toml")))
}

/// Returns the path of the kernel's state folder.
fn state(folder: &Path) -> PathBuf {
    folder.join("state")
}

fn write(folder: &Path, config: &str) {
    let config = config
        .replace("{SERVER}", "command = 'sh'\nargs = ['{DIR}/server.sh']")
        .replace("{DIR}", folder.to_str().unwrap());
    fs::write(folder.join("mgp.toml"), config).unwrap();
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    mgp_testkit::until(what, async || holds()).await;
}
