//! Kernels with servers of this process, and who talks to them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::Client;
use mgp_discovery::ServerMgp;
use mgp_kernel::Kernel;
use mgp_server_sdk::{Server, Tool};
use mgp_transport::{Connection, duplex};
use mgp_types::mgp::{DefaultPolicy, RiskLevel};
use mgp_types::service::{Pass, Principal, Stack};

/// A kernel with a clock, in a folder that goes with it.
pub(crate) struct World {
    folder: PathBuf,
    pub(crate) kernel: Kernel,
    /// Whether the clock tells something else of itself from its next start on.
    pub(crate) is_other: Arc<AtomicBool>,
}

impl World {
    pub(crate) async fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mgp-kernel-admin-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let is_other = Arc::new(AtomicBool::new(false));
        let other = Arc::clone(&is_other);
        let clock = move || {
            let text = if other.load(Ordering::Relaxed) { "The time, at last" } else { "The time" };
            let now = Tool::new("now", text, || async { "noon" });
            let slow = Tool::new("slow", "Takes a while", || async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                "done"
            });
            let wipe = Tool::new("wipe", "Wipes the disk", || async { "wiped" });
            Server::new("clock", "1.2").tool(now).tool(slow).tool(wipe)
        };
        let mut mgp = ServerMgp::default();
        mgp.default_policy = DefaultPolicy::OptOut;
        mgp.risk = [("now", RiskLevel::Safe), ("slow", RiskLevel::Safe)]
            .map(|(tool, risk)| (tool.to_owned(), risk))
            .into();
        let kernel = Kernel::builder().local_as("clock", mgp, clock);
        let kernel = kernel.in_folder(&folder).await.unwrap();
        let world = Self { folder, kernel, is_other };
        world.until("it is known", |world| world.kernel.index().tools_of("clock").len() == 3).await;
        world
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

    /// With the credentials of a key.
    pub(crate) async fn connect_with(&self, principal: Principal, pass: Option<Pass>) -> Client {
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

    /// Waits until something is so; a story that hangs fails.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..2_000 {
            if is_so(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("never: {what}");
    }

    pub(crate) async fn end(self) {
        self.kernel.stop().await;
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
