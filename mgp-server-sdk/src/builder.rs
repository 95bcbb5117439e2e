//! The builder methods of a server for its features, limits, health and shutdown.

use std::sync::Arc;

use mgp_lifecycle::{Drain, DrainConfig, Health, IntoCheckResult, QuotaLayer, RateLimit, Timeouts};
use mgp_types::mcp::Completion;

use crate::change_notifier::{ChangeNotifier, ResourceSubscriber};
use crate::features::Features;
use crate::prompt::{Prompt, Prompts};
use crate::request::{Function, RequestHandler};
use crate::resource::{Resource, ResourceSet, Resources};
use crate::server::Server;

// === Features ===

impl Server {
    /// Adds a resource or a resource template; a second one with the same URI makes [`Server::into_stack`] fail.
    pub fn resource(mut self, resource: Resource) -> Self {
        let declared = self.features.resources.declare(resource);
        self.features.errors.extend(declared.err());
        self
    }

    /// Adds a set of resources that is looked up for each request.
    pub fn resource_set(self, set: impl ResourceSet) -> Self {
        self.features.resources.add_set(set);
        self
    }

    /// Adds a prompt; a second one with the same name makes [`Server::into_stack`] fail.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        let declared = self.features.prompts.declare(prompt);
        self.features.errors.extend(declared.err());
        self
    }

    /// Sets the fallback that proposes values for arguments of prompts and variables of templates without a
    /// completion function of their own.
    pub fn complete<H, M>(mut self, handler: H) -> Self
    where
        H: RequestHandler<Completion, M>,
    {
        self.features.completer = Some(Function::new(handler));
        self
    }

    /// Lets tools, prompts and resources send log messages to their callers; without it their messages are dropped.
    pub fn logging(mut self) -> Self {
        self.features.logging = true;
        self
    }

    /// Sends change notifications through a [`ChangeNotifier`], which several servers may share. Call this method
    /// before adding resources and prompts.
    ///
    /// `watches` handles the subscriptions of callers to resources.
    pub fn herald(mut self, herald: &ChangeNotifier, watches: impl ResourceSubscriber) -> Self {
        let before =
            std::mem::replace(&mut self.features, Features::new(herald.subscribers().clone()));
        (self.features.events, self.features.has_channels) = (before.events, before.has_channels);
        self.features.watches = Some(Arc::new(watches));
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
    /// A server that starts without resources does not offer them; to add the first one while it runs, add the
    /// capability to the [offer](Server::offer).
    #[must_use]
    pub fn resources(&self) -> Resources {
        self.features.resources.clone()
    }

    /// Returns a handle that changes the prompts while the server runs.
    ///
    /// A server that starts without prompts does not offer them; to add the first one while it runs, add the capability
    /// to the [offer](Server::offer).
    #[must_use]
    pub fn prompts(&self) -> Prompts {
        self.features.prompts.clone()
    }
}

// === Limits ===

impl Server {
    /// Limits the rate of tool calls. If several limits are set, a call must satisfy all of them.
    ///
    /// Refused calls fail with code 3000 and the time after which to retry.
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
        self.bounds.rates.push(limit);
        self
    }

    /// Gives each caller a quota of calls in a period; once it is used up, calls fail with code 3002.
    ///
    /// A [`QuotaLayer`] reports the use of the quota. Tools may charge additional units with
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
        self.bounds.quotas.push(quota.into());
        self
    }

    /// Limits the arguments of a tool call, in bytes of JSON; larger ones fail with code 3001, and the tool does not
    /// run.
    pub fn max_arguments(mut self, bytes: usize) -> Self {
        self.bounds.max_arguments = Some(bytes);
        self
    }

    /// Limits the result of a tool call, in bytes of JSON, and separately the total size of its chunks. The caller
    /// receives code 3001 and the size in place of a result that is too large.
    pub fn max_result(mut self, bytes: usize) -> Self {
        self.bounds.max_result = Some(bytes);
        self
    }

    /// Sets the maximum size of the chunks of a call, in bytes of JSON: beyond it, the call is ended with code 3001.
    /// Default: 16 MiB.
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
        self.bounds.max_stream_bytes = Some(bytes);
        self
    }

    /// Checks arguments against the schema of their tool before the tool runs, with all constraints that the schema
    /// has; a call that does not fit is refused with code 4000.
    #[cfg(feature = "schemas")]
    pub fn check_arguments(self) -> Self {
        self.tools().check_arguments();
        self
    }

    /// Sets the time limits of each kind of call.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }
}

// === Health ===

impl Server {
    /// Adds a check that must succeed for the server to be healthy; it runs on a health request, at most once a second.
    ///
    /// A check returns a `bool`, `()`, a `HealthStatus`, one of these with any JSON value, or a `Result` of these; an
    /// error is logged and reported as `false`. It has one second, and runs on a task: see [`Health`].
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
    /// Uptime, running requests and memory are always reported by the library. So are tools and connections, unless
    /// `change` sets counters for them.
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
    /// Returns a handle that ends the server gracefully at any time: running calls finish, new calls fail with code
    /// 2001, and then [`Server::serve`] and the other serving methods return.
    ///
    /// The owner of a server can also drain it with `mgp/lifecycle/shutdown`, and the system with SIGTERM.
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

    /// Changes how the server drains: the time limit for running calls (default 30 s) and the longest limit that a
    /// client may request.
    pub fn drain(self, change: impl FnOnce(&mut DrainConfig)) -> Self {
        self.shutdown.drain.configure(change);
        self
    }

    /// Leaves SIGTERM and SIGINT to the program.
    ///
    /// By default both drain a server on stdin and stdout or at an address, and a second one ends the process.
    /// A program that handles signals by itself drains with [`Server::drain_handle`].
    pub fn without_signals(mut self) -> Self {
        self.shutdown.leaves_signals = true;
        self
    }

    /// Allows the peer of [`Server::serve`] to shut the server down. Over stdio the parent process is always
    /// allowed to.
    ///
    /// Over HTTP only callers with operator authority are allowed to.
    pub fn owned_by_peer(mut self) -> Self {
        self.shutdown.is_owned = true;
        self
    }
}
