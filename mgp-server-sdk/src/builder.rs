//! The builder methods of a server for its features, limits, health and shutdown.

use std::sync::Arc;

use mgp_lifecycle::{Drain, DrainConfig, Health, IntoCheckResult, QuotaLayer, RateLimit, Timeouts};
use mgp_types::mcp::Completion;

use crate::change_notifier::{ChangeNotifier, ResourceSubscriber};
use crate::prompt::{Prompt, Prompts};
use crate::request::{Function, RequestHandler};
use crate::resource::{Resource, ResourceSet, Resources};
use crate::server::Server;
use crate::tool::MaxStreamBytes;

// === Features ===

impl Server {
    /// Adds a resource or a resource template; if another one has the same URI, [`Server::into_stack`] fails.
    pub fn resource(mut self, resource: Resource) -> Self {
        let declared = self.features.resources.declare(resource);
        self.features.errors.extend(declared.err());
        self
    }

    /// Adds a set of resources that is queried for each request.
    pub fn resource_set(self, set: impl ResourceSet) -> Self {
        self.features.resources.add_set(set);
        self
    }

    /// Adds a prompt; if another one has the same name, [`Server::into_stack`] fails.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        let declared = self.features.prompts.declare(prompt);
        self.features.errors.extend(declared.err());
        self
    }

    /// Sets the default completion function. It proposes values for the arguments of prompts and the variables of
    /// templates that have no completion function of their own.
    pub fn complete<H, M>(mut self, handler: H) -> Self
    where
        H: RequestHandler<Completion, M>,
    {
        self.features.completer = Some(Function::new(handler));
        self
    }

    /// Allows tools, prompts and resources to send log messages to their callers; without this, the messages are
    /// dropped. A caller of 2025-11-25 or before receives messages of the level `info` and above, unless it sets
    /// another level. A caller of 2026-07-28 receives messages of the level that its request names and above; if it
    /// names none, it receives no messages.
    pub fn logging(mut self) -> Self {
        self.features.logging = true;
        self
    }

    /// Makes the server send change notifications through a [`ChangeNotifier`], which several servers can share. Must
    /// be called before resources or prompts are added: if there is one already, [`Server::into_stack`] fails. Also
    /// resets their page size, so set that afterwards.
    ///
    /// `subscriber` handles the subscriptions of callers to resources.
    pub fn change_notifier(
        mut self,
        notifier: &ChangeNotifier,
        subscriber: impl ResourceSubscriber,
    ) -> Self {
        self.features.replace_subscribers(notifier.subscribers().clone());
        self.features.watches = Some(Arc::new(subscriber));
        self
    }

    /// Sets the number of prompts, resources and templates on a page of their lists. Default: 500.
    pub fn page_size(self, entries: usize) -> Self {
        self.features.prompts.page_size(entries);
        self.features.resources.page_size(entries);
        self
    }

    /// Returns a handle that changes the resources while the server runs, and notifies their subscribers.
    ///
    /// A server that starts without resources does not offer the feature. To add the first resource while the server
    /// runs, set `capabilities.resources` in the [offer](Server::offer), or add a [set](Self::resource_set).
    #[must_use]
    pub fn resources(&self) -> Resources {
        self.features.resources.clone()
    }

    /// Returns a handle that changes the prompts while the server runs.
    ///
    /// A server that starts without prompts does not offer the feature. To add the first prompt while the server runs,
    /// set `capabilities.prompts` in the [offer](Server::offer).
    #[must_use]
    pub fn prompts(&self) -> Prompts {
        self.features.prompts.clone()
    }
}

// === Limits ===

impl Server {
    /// Limits the rate of tool calls. If several limits are set, a call must satisfy all of them. Default: no limit.
    ///
    /// Refused calls fail with code 3000 (rate limited); the error contains the time after which to retry.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::{RateKey, RateLimit};
    ///
    /// let server = Server::new("clock", "1.0")
    ///     .tool(Tool::new("now", "The time", || async { "noon" }))
    ///     .rate(RateLimit::per_minute(60).burst(10).by(RateKey::Agent))
    ///     .rate(RateLimit::per_hour(1_000).by(RateKey::Subject));
    /// # drop(server);
    /// ```
    pub fn rate(mut self, limit: RateLimit) -> Self {
        self.call_limits.rates.push(limit);
        self
    }

    /// Gives each caller a quota of calls per period. When the quota is used up, further calls fail with code 3002
    /// (quota exceeded). Default: no quota.
    ///
    /// A [`QuotaLayer`] reports how much of the quota is used. Tools can charge additional units with
    /// [`Quota::charge`](mgp_lifecycle::Quota::charge).
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::{Quota, QuotaLayer};
    ///
    /// let quota = QuotaLayer::new(Quota::per_day(1_000).units(100_000));
    /// let tell = Tool::new("tell", "Tells a story", |cx: Context| async move {
    ///     Quota::charge(&cx, 250)?;
    ///     Ok::<_, RpcError>("Once upon a time")
    /// });
    /// let server = Server::new("stories", "1.0").tool(tell).quota(quota.clone());
    /// # drop(server);
    /// ```
    pub fn quota(mut self, quota: impl Into<QuotaLayer>) -> Self {
        self.call_limits.quotas.push(quota.into());
        self
    }

    /// Limits the size of the arguments of a tool call, in bytes of JSON. A call with larger arguments fails with code
    /// 3001 (resource exhausted), and the tool does not run. Default: only the limit of a message applies, which is 16
    /// MiB.
    pub fn max_arguments(mut self, bytes: usize) -> Self {
        self.call_limits.max_arguments = Some(bytes);
        self
    }

    /// Limits the size of a tool's result, in bytes of JSON, and separately the total size of its chunks. If the result
    /// is too large, the caller receives code 3001 (resource exhausted) and the size instead. Default: no limit for
    /// results; for chunks see [`max_stream_bytes`](Self::max_stream_bytes).
    pub fn max_result(mut self, bytes: usize) -> Self {
        self.call_limits.max_result = Some(bytes);
        self
    }

    /// Sets the maximum total size of a call's chunks, in bytes of JSON; a call that exceeds it ends with code 3001
    /// (resource exhausted). Default: 16 MiB.
    ///
    /// ```
    /// use mgp_server_sdk::ResultStream;
    /// use mgp_server_sdk::prelude::*;
    ///
    /// let story = Tool::new("story", "Tells a story", |stream: ResultStream| async move {
    ///     stream.send_text("Once upon a time").await?;
    ///     Ok::<_, RpcError>(())
    /// });
    /// let server = Server::new("stories", "1.0").tool(story).max_stream_bytes(1 << 20);
    /// # drop(server);
    /// ```
    pub fn max_stream_bytes(mut self, bytes: u64) -> Self {
        self.call_limits.max_stream_bytes = Some(bytes);
        self.state(MaxStreamBytes(bytes))
    }

    /// Makes the server check the arguments of each call against the schema of the tool, including all constraints,
    /// before the tool runs. If they do not fit, the server refuses the call with code 4000 (invalid arguments).
    ///
    /// If a layer asks a person about a call, e.g. on a [governed](Self::governed) server, the check comes before the
    /// question.
    #[cfg(feature = "schemas")]
    pub fn check_arguments(self) -> Self {
        self.own_tools().check_arguments();
        self
    }

    /// Sets the time limits of each kind of call; this also replaces the limit that [`timeout`](Self::timeout) has set.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }
}

// === Health ===

impl Server {
    /// Adds a health check: the server reports that it is healthy only if all its checks succeed. A check runs when the
    /// health is requested, at most once per second.
    ///
    /// A check returns a `bool`, `()`, a `HealthStatus`, a pair of a `HealthStatus` and any JSON value, or a `Result`
    /// of these; an error is logged and reported as `false`. A check has one second to finish, and runs on its own
    /// task: see [`Health`].
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    ///
    /// async fn reach_database() -> Result<(), std::io::Error> {
    ///     Ok(())
    /// }
    ///
    /// let server = Server::new("books", "1.0").check("database", || reach_database());
    /// # drop(server);
    /// ```
    pub fn check<F, Fut>(self, name: impl Into<String>, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoCheckResult> + Send + 'static,
    {
        self.health(|health| health.check(name, check))
    }

    /// Changes the health report of the server: its checks, its resources and the servers behind it.
    ///
    /// The library itself reports uptime, running requests and, on Linux, memory. It also reports the numbers of tools
    /// and connections, unless `change` sets counters for them.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    ///
    /// let server = Server::new("books", "1.0").health(|health| {
    ///     health.optional_check("search", || async { true }).resource("books", || async { 12_000 })
    /// });
    /// # drop(server);
    /// ```
    pub fn health(mut self, change: impl FnOnce(Health) -> Health) -> Self {
        self.health = change(self.health);
        self
    }
}

// === Shutdown ===

impl Server {
    /// Returns a handle that ends the server gracefully: running calls finish within a time limit, new calls fail with
    /// code 2001 (server draining), and then [`Server::serve`] and the other serving methods return.
    ///
    /// The server's owner can also drain it by calling `mgp/lifecycle/shutdown`, and a process manager by sending
    /// SIGTERM.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::types::mgp::ShutdownReason;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let server = Server::new("clock", "1.0");
    /// let drain = server.drain_handle();
    /// let (_here, there) = tokio::io::duplex(1024);
    /// let (reader, writer) = tokio::io::split(there);
    /// let serving = tokio::spawn(server.serve(reader, writer));
    ///
    /// drain.begin(ShutdownReason::IdleTimeout, Duration::from_secs(30));
    /// serving.await.unwrap().unwrap();
    /// # });
    /// ```
    #[must_use]
    pub fn drain_handle(&self) -> Drain {
        self.shutdown.drain.clone()
    }

    /// Changes how the server drains: the time limit for running calls (default 30 s), and the longest time limit that
    /// a client may request.
    pub fn drain(self, change: impl FnOnce(&mut DrainConfig)) -> Self {
        self.shutdown.drain.configure(change);
        self
    }

    /// Leaves SIGTERM and SIGINT to the program: the server itself does not handle them.
    ///
    /// By default, both signals drain a server that uses stdin and stdout or listens on an address, and a second signal
    /// ends the process. A program that handles signals itself can drain the server with [`Server::drain_handle`].
    pub fn without_signals(mut self) -> Self {
        self.shutdown.leaves_signals = true;
        self
    }

    /// Allows the peer of [`Server::serve`] to shut the server down. Over stdio, the parent process may always do this.
    ///
    /// Over HTTP, only callers with operator authority may do this.
    pub fn owned_by_peer(mut self) -> Self {
        self.shutdown.is_owned = true;
        self
    }
}
