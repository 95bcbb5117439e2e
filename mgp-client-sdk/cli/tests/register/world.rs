//! The fixture of these tests: kernels with a configuration file, a program to register, and clients.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::{Client, ClientBuilder, EraChoice, Error};
use mgp_discovery::{RegistrationConfig, Sources};
use mgp_kernel::{Kernel, KernelBuilder};
use mgp_testkit::{TempDir, until};
use mgp_transport::{Connection, duplex};
use mgp_types::method::KernelApprovals;
use mgp_types::mgp::{
    AccessGrantParams, AccessPermission, EntryType, KernelApproval, KernelApprovalsParams,
    KernelServer, RegisterParams, RegisterResult,
};
use mgp_types::service::Principal;

/// A shell script of a server with two tools. Each start appends a line to a file, and one tool waits for the file
/// `go`.
pub(crate) const SERVER: &str = r#"
until [ ! -e "$1/$0.late" ]; do sleep 0.02; done
echo "$$" >> "$1/$0.runs"
answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
text() { answer '"result":{"content":[{"type":"text","text":"'"$1"'"}]}'; }
while IFS= read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*)
      answer '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*)
      schema='"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}'
      answer '"result":{"tools":[{"name":"say","description":"Says a word of wisdom",'"$schema"'},{"name":"hold","description":"Holds the line",'"$schema"'}]}' ;;
    *'"tools/call"'*)
      case "$line" in
        *'"hold"'*)
          : > "$1/$0.holds"
          until [ -e "$1/go" ]; do sleep 0.02; done
          text held ;;
        *) text said ;;
      esac ;;
    *'"id"'*) [ -n "$id" ] && answer '"error":{"code":-32601,"message":"unknown"}' ;;
  esac
done
"#;

/// A kernel in a temporary folder.
pub(crate) struct World {
    pub(crate) folder: PathBuf,
    pub(crate) kernel: Kernel,
    _temp: TempDir,
}

/// Creates a folder with the program to register: a copy of the shell under another name, so that the kernel does not
/// treat it as a script interpreter.
pub(crate) fn folder() -> TempDir {
    let folder = mgp_testkit::temp_dir();
    fs::copy("/bin/sh", folder.path().join("teller")).unwrap();
    folder
}

/// Extends a configuration so that agents may register the program in the folder.
pub(crate) fn allowing(config: &str, folder: &Path) -> String {
    let teller = folder.join("teller");
    format!("{config}\n[kernel.registration]\nprograms = ['{}']\n", teller.display())
}

/// Returns a request that registers the program in the folder under this id.
pub(crate) fn asks(folder: &Path, id: &str) -> RegisterParams {
    let mut params = RegisterParams::new(id);
    params.command = Some(folder.join("teller").display().to_string());
    let folder = folder.display().to_string();
    params.args = vec!["-c".to_owned(), SERVER.to_owned(), id.to_owned(), folder].into();
    params.justification = Some("to be told things".to_owned());
    params
}

/// Makes the kernel reply only after a registered server is started or removed, even on a slow machine.
pub(crate) fn patient(builder: KernelBuilder) -> KernelBuilder {
    let mut config = RegistrationConfig::default();
    config.reply_timeout = Duration::from_secs(30);
    builder.registration(config)
}

impl World {
    /// Starts a kernel with this configuration.
    pub(crate) async fn new(config: &str) -> Self {
        Self::with(config, |builder| builder).await
    }

    pub(crate) async fn with(
        config: &str,
        more: impl FnOnce(KernelBuilder) -> KernelBuilder,
    ) -> Self {
        let temp = folder();
        let folder = temp.path().canonicalize().unwrap();
        fs::write(folder.join("mgp.toml"), allowing(config, &folder)).unwrap();
        let sources = Sources::single(folder.join("mgp.toml"));
        let builder = more(Kernel::builder().sources(sources));
        let kernel = builder.in_folder(folder.join("state")).await.unwrap();
        Self { folder, kernel, _temp: temp }
    }

    pub(crate) fn write(&self, config: &str) {
        fs::write(self.folder.join("mgp.toml"), allowing(config, &self.folder)).unwrap();
    }

    /// Stops the kernel, and releases its state folder.
    pub(crate) async fn stop(&mut self) {
        self.kernel.stop().await;
        drop(std::mem::replace(&mut self.kernel, Kernel::builder().build().await.unwrap()));
    }

    /// Stops the kernel, and starts another one with the same state.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        // The state folder stays locked until the previous kernel has ended.
        until("the state folder is free", async || {
            let builder = Kernel::builder().sources(Sources::single(self.folder.join("mgp.toml")));
            let started = builder.in_folder(self.folder.join("state")).await;
            started.map(|kernel| self.kernel = kernel).is_ok()
        })
        .await;
    }

    pub(crate) fn asks(&self, id: &str) -> RegisterParams {
        asks(&self.folder, id)
    }

    /// Returns the number of times that a server was started.
    pub(crate) fn runs(&self, id: &str) -> usize {
        let runs = fs::read_to_string(self.folder.join(format!("{id}.runs")));
        runs.map_or(0, |runs| runs.lines().count())
    }

    /// Replaces the program with a different one.
    pub(crate) fn change_program(&self) {
        let program = self.folder.join("teller");
        let mut bytes = fs::read(&program).unwrap();
        bytes.push(0);
        // The file is removed first, because the file of a running program cannot be overwritten.
        fs::remove_file(&program).unwrap();
        fs::write(&program, bytes).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn server(&self, id: &str) -> Option<KernelServer> {
        self.kernel.servers().into_iter().find(|server| server.id == id)
    }

    /// Waits until the kernel knows the tools of a server.
    pub(crate) async fn knows(&self, id: &str) {
        until("its tools are known", async || self.kernel.index().tools_of(id).len() == 2).await;
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

    /// Grants an agent access to a tool, without confirmations.
    pub(crate) async fn grant(&self, agent: &str, server: &str, tool: &str) {
        let mut grant =
            AccessGrantParams::new(EntryType::ToolGrant, agent, server, AccessPermission::Allow);
        grant.tool_name = Some(tool.to_owned());
        grant.extra.encode("confirm", "never").unwrap();
        let operator = Principal::local().operator();
        self.kernel.governance().access().grant(&operator, grant).await.unwrap();
    }

    /// Connects the agent `ada`, which may register and deregister servers.
    pub(crate) async fn registrar(&self) -> Client {
        self.grant("ada", "mgp", "mgp.discovery.register").await;
        self.grant("ada", "mgp", "mgp.discovery.deregister").await;
        self.agent("ada").await
    }

    /// Approves the pending registration of a server.
    pub(crate) async fn approve(&self, id: &str) {
        let operator = Principal::local().operator();
        let registrations = self.kernel.registrations();
        let waiting = registrations.pending(&operator).await.unwrap();
        let waits = waiting.iter().find(|waiting| waiting.server.as_str() == id).unwrap();
        let reply =
            registrations.approve(&operator, &waits.server, &waits.fingerprint, &[]).await.unwrap();
        assert_ne!(reply.status.as_str(), "error", "{reply:?}");
    }

    /// Lets an agent register a server, approves the registration, and waits until the kernel knows the server's tools.
    pub(crate) async fn add(&self, agent: &Client, id: &str) {
        register(agent, &self.asks(id)).await.unwrap();
        self.approve(id).await;
        self.knows(id).await;
    }

    pub(crate) async fn end(self) {
        self.kernel.stop().await;
    }
}

pub(crate) async fn register(
    client: &Client,
    params: &RegisterParams,
) -> Result<RegisterResult, Error> {
    client.mgp().discovery_register(params).await
}

pub(crate) async fn waiting(operator: &Client) -> Vec<KernelApproval> {
    let all = operator.request::<KernelApprovals>(&KernelApprovalsParams::new()).await.unwrap();
    all.approvals.into_iter().filter(|one| one.state == "open").collect()
}

/// Calls a tool; returns the text of the result, or the code of the refusal.
pub(crate) async fn text(client: &Client, tool: &str) -> Result<String, i32> {
    let result = client.call(tool).await.map_err(|error| error.code().0)?;
    let text = serde_json::to_value(&result).unwrap();
    Ok(text["content"][0]["text"].as_str().unwrap_or_default().to_owned())
}

/// A value that a callback changes.
pub(crate) type Shared<T> = Arc<std::sync::Mutex<T>>;
