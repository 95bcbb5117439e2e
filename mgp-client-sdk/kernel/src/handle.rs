//! The handle of a running kernel: its parts, the starts and stops of its servers, and information about its process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mgp_discovery::{HttpAccessConfig, OperatorProof, Registrations};
use mgp_security::{EventSource, Governance};
use mgp_toolindex::ToolIndex;
use mgp_transport::http::Proxy;
use mgp_types::Timestamp;
use mgp_types::mgp::{KernelLogLine, KernelServer, ServerState};
use mgp_types::service::ServerId;

use super::active_config::ActiveConfig;
use super::audit_sinks::AuditSinks;
use super::clients::Clients;
use super::dispatch::Dispatcher;
use super::fleet::{Fleet, describe_all};
use super::process_info::{KernelEndpoints, ProcessInfo};

/// The minimum time that servers get to stop, even if the running calls took all the time of the request to stop.
const MIN_SERVER_DRAIN: Duration = Duration::from_secs(1);

/// The kernel, which offers many servers as one server and checks each call. This handle is cheap to clone.
///
/// ```
/// use mgp_kernel::Kernel;
/// use mgp_discovery::Config;
/// use mgp_types::service::{Principal, mock};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let kernel = Kernel::builder().config(Config::default()).build().await.unwrap();
/// let stack = kernel.server().into_stack().unwrap();
/// # drop(stack);
/// # kernel.stop().await;
/// # });
/// ```
#[derive(Clone)]
pub struct Kernel(pub(super) Arc<KernelParts>);

pub(super) struct KernelParts {
    pub(super) fleet: Fleet,
    pub(super) dispatcher: Dispatcher,
    pub(super) process: ProcessInfo,
    pub(super) config: ActiveConfig,
    /// The audit log, whose records about security the kernel publishes as events.
    pub(super) audit: Option<Arc<dyn EventSource>>,
    pub(super) sinks: AuditSinks,
}

mgp_types::opaque_debug!(Kernel);

impl Kernel {
    /// Returns the governance: the rules about access, permissions, approvals and tool definitions.
    #[must_use]
    pub fn governance(&self) -> &Governance {
        &self.0.fleet.context().governance
    }

    /// Returns the index of the tools of all servers.
    #[must_use]
    pub fn index(&self) -> &ToolIndex {
        &self.0.fleet.context().index
    }

    /// Returns the servers that agents registered at run time, including those that wait for an operator.
    #[must_use]
    pub fn registrations(&self) -> &Registrations {
        &self.0.dispatcher.parts().registrations
    }

    /// Returns the table of the connected clients and of the callers of the last few minutes.
    #[must_use]
    pub fn clients(&self) -> &Clients {
        self.0.fleet.context().callers.clients()
    }

    // === Servers ===

    /// Returns descriptions of all servers, ordered by id, with all details that operators may see.
    #[must_use]
    pub fn servers(&self) -> Vec<KernelServer> {
        describe_all(&self.0.fleet)
    }

    /// Starts a server unless it runs, waits for a limited time until its tools are known or it has failed, and returns
    /// its state.
    ///
    /// Returns `None` if the kernel does not have the server.
    ///
    /// # Cancel safety
    /// If the future is dropped, the start continues.
    pub async fn start_server(&self, id: &ServerId) -> Option<ServerState> {
        Some(self.0.fleet.get(id.as_str())?.operator_start(None).await)
    }

    /// Drains a server, stops it with its process tree, waits for a limited time until it has ended, and returns its
    /// state.
    ///
    /// No call starts the server until it is [started](Self::start_server) again.
    /// Returns `None` if the kernel does not have the server.
    ///
    /// # Cancel safety
    /// If the future is dropped, the stop continues.
    pub async fn stop_server(&self, id: &ServerId) -> Option<ServerState> {
        Some(self.0.fleet.get(id.as_str())?.operator_stop(None).await)
    }

    /// Drains a server and starts it again. Its earlier failures do not count any more. Returns its state.
    ///
    /// Returns `None` if the kernel does not have the server.
    ///
    /// # Cancel safety
    /// If the future is dropped, the restart continues.
    pub async fn restart_server(&self, id: &ServerId) -> Option<ServerState> {
        Some(self.0.fleet.get(id.as_str())?.operator_restart(None).await)
    }

    /// Returns the last lines that a server wrote to its standard error, the oldest first: at most 500 lines and 64
    /// KiB.
    ///
    /// Returns `None` if the kernel does not have the server.
    #[must_use]
    pub fn server_log(&self, id: &ServerId) -> Option<Vec<KernelLogLine>> {
        Some(self.0.fleet.get(id.as_str())?.log().last_lines(usize::MAX))
    }

    /// Drains all servers, stops them with their process trees, and ends the forwarding of audit events.
    ///
    /// Ends the calls that wait for answers of their callers. If the stop was [requested](Self::request_stop) with a
    /// time limit, closes the connections to the servers after the rest of this time, but not before 1 second.
    ///
    /// # Cancel safety
    /// If the future is dropped, the servers that have begun to stop continue to do so.
    pub async fn stop(&self) {
        self.ignore_files();
        self.0.fleet.context().calls.is_stopping.store(true, Ordering::Relaxed);
        self.0.dispatcher.store_saved_context().await;
        let drain = self.0.process.left_to_stop().map(|left| left.max(MIN_SERVER_DRAIN));
        self.0.fleet.stop(drain).await;
        // All calls have ended now, so this also exports the spans of the last calls.
        if let Some(exporter) = self.0.dispatcher.parts().metrics.exporter() {
            exporter.flush().await;
        }
        self.0.sinks.stop().await;
    }

    // === The program that runs the kernel ===

    /// Returns the method by which operators authenticate at the local socket, from the configuration.
    #[must_use]
    pub fn operator_proof(&self) -> OperatorProof {
        self.0.config.config().kernel.operator_proof
    }

    /// Returns the configured address of the kernel's metrics.
    #[must_use]
    pub fn metrics_address(&self) -> Option<String> {
        self.0.config.config().kernel.metrics.clone()
    }

    /// Returns the configured proxy for connections to other machines.
    #[must_use]
    pub fn proxy(&self) -> Proxy {
        crate::logins::proxy(&self.0.config.config().kernel)
    }

    /// Returns the configured TLS settings and access tokens for callers over HTTP.
    #[must_use]
    pub fn http_access(&self) -> HttpAccessConfig {
        self.0.config.config().kernel.http.clone()
    }

    /// Returns the configured address of the operators' web console.
    #[must_use]
    pub fn console_url(&self) -> Option<String> {
        self.0.config.config().kernel.console_url.clone()
    }

    /// Returns the time when the kernel was started.
    #[must_use]
    pub fn began(&self) -> &Timestamp {
        &self.0.process.started_at
    }

    /// Returns the addresses and files of the kernel, as far as the program that runs it has set them.
    #[must_use]
    pub fn endpoints(&self) -> KernelEndpoints {
        self.0.process.endpoints.lock().clone()
    }

    /// Changes the addresses and files of the kernel that [`endpoints`](Self::endpoints) returns.
    pub fn set_endpoints(&self, change: impl FnOnce(&mut KernelEndpoints)) {
        let mut endpoints = self.0.process.endpoints.lock();
        change(&mut endpoints);
        let deliveries = &self.0.fleet.context().events.deliveries;
        deliveries.set_endpoints(endpoints.console.clone(), endpoints.command_option.clone());
    }

    /// Asks the program that runs the kernel to stop it, within `timeout` if it is given. Only the first request has an
    /// effect.
    ///
    /// ```
    /// use mgp_kernel::Kernel;
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let kernel = Kernel::builder().build().await.unwrap();
    /// kernel.request_stop(Some(Duration::from_secs(5)));
    /// let within = kernel.stop_requested().await;
    /// assert_eq!(within, Some(Duration::from_secs(5)));
    /// # });
    /// ```
    pub fn request_stop(&self, timeout: Option<Duration>) {
        self.0.process.request_stop(timeout);
    }

    /// Stops watching the configuration files and the lock file: a kernel that waits for its last calls must not start
    /// added servers. [`reload`](Self::reload) still applies changes. [`stop`](Self::stop) also does this.
    ///
    /// ```
    /// use mgp_kernel::Kernel;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let kernel = Kernel::builder().build().await.unwrap();
    /// kernel.ignore_files();
    /// # kernel.stop().await;
    /// # });
    /// ```
    pub fn ignore_files(&self) {
        self.0.config.end_watches();
    }

    /// Waits until the kernel is [requested to stop](Self::request_stop), and returns the time limit of that
    /// request, if it has one.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn stop_requested(&self) -> Option<Duration> {
        self.0.process.stop_requested().await
    }
}
