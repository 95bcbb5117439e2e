//! The fixture of these tests: a kernel with a server in this process, and clients.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgp_client_sdk::Client;
use mgp_discovery::Sources;
use mgp_kernel::{Kernel, KernelBuilder};
use mgp_server_sdk::{Server, Tool};
use mgp_transport::{Connection, duplex};
use mgp_types::service::{CredentialGrant, Principal, Stack};

use crate::route::world::{open, reopen};

/// The name of the file that configures a kernel.
const FILE: &str = "mgp.toml";

/// A kernel with the server `clock`, or with the servers of a configuration file.
pub(crate) struct World {
    folder: mgp_testkit::TempDir,
    pub(crate) kernel: Kernel,
    /// `true` if the server lists the tool `now` with a different description from its next start on.
    pub(crate) has_new_text: Arc<AtomicBool>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let folder = mgp_testkit::temp_dir();
        let has_new_text = Arc::new(AtomicBool::new(false));
        let kernel = clock(&has_new_text).in_folder(folder.path()).await.unwrap();
        let world = Self { folder, kernel, has_new_text };
        world
            .until("its tools are known", |world| world.kernel.index().tools_of("clock").len() == 3)
            .await;
        world
    }

    /// Stops the kernel of a [new](Self::new) world, and starts another kernel with the same state.
    pub(crate) async fn restarted(self) -> Self {
        let Self { folder, kernel, has_new_text } = self;
        kernel.stop().await;
        drop(kernel);
        let kernel = reopen(folder.path(), || clock(&has_new_text)).await;
        Self { folder, kernel, has_new_text }
    }

    /// Starts a kernel with this configuration in a file.
    pub(crate) async fn configured(config: &str) -> Self {
        let folder = mgp_testkit::temp_dir();
        let file = folder.path().join(FILE);
        fs::write(&file, config).unwrap();
        let builder = Kernel::builder().sources(Sources::single(file));
        let kernel = builder.in_folder(folder.path().join("state")).await.unwrap();
        Self { folder, kernel, has_new_text: Arc::default() }
    }

    /// Replaces the file of a [configured](Self::configured) kernel, and makes the kernel apply it.
    pub(crate) async fn configure(&self, config: &str) {
        fs::write(self.folder.path().join(FILE), config).unwrap();
        self.kernel.reload().await.unwrap();
    }

    pub(crate) async fn operator(&self) -> Client {
        self.connect(Principal::local().operator()).await
    }

    pub(crate) async fn agent(&self) -> Client {
        self.connect(Principal::local().agent("ada")).await
    }

    async fn connect(&self, principal: Principal) -> Client {
        self.connect_with(principal, None).await
    }

    /// Connects a client with the rights of an API key.
    pub(crate) async fn connect_with(
        &self,
        principal: Principal,
        pass: Option<CredentialGrant>,
    ) -> Client {
        let (here, there) = duplex();
        let stack = self.kernel.server().into_stack().unwrap();
        let stack = Stack::from_fn(move |mut call| {
            if let Some(pass) = &pass {
                call.cx_mut().extensions.insert(pass.clone());
            }
            stack.send(call)
        });
        let connection = Connection::new(there.reader, there.writer, stack).principal(principal);
        tokio::spawn(connection.run());
        Client::builder("host", "1").connect(here.reader, here.writer).await.unwrap()
    }

    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        mgp_testkit::until(what, async || holds(self)).await;
    }
}

/// Returns the builder of a kernel with the server `clock`.
fn clock(has_new_text: &Arc<AtomicBool>) -> KernelBuilder {
    let new_text = Arc::clone(has_new_text);
    let clock = move || {
        let text = if new_text.load(Ordering::Relaxed) { "The time, at last" } else { "The time" };
        let now = Tool::new("now", text, || async { "noon" });
        let slow = Tool::new("slow", "Takes a while", || async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            "done"
        });
        let wipe = Tool::new("wipe", "Wipes the disk", || async { "wiped" });
        Server::new("clock", "1.2").tool(now).tool(slow).tool(wipe)
    };
    Kernel::builder().local_with("clock", open(&["now", "slow"]), clock)
}
