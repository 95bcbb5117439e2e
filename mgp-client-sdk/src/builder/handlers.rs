//! The builder methods that set handlers: for requests of the server and for notifications.

use std::future::{Future, ready};
use std::sync::Arc;

use mgp_stream::CallbackAnswer;
use mgp_types::RpcError;
use mgp_types::mcp::{
    CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, ElicitationCapability,
    ListChanged, ListRootsResult, LogMessageParams, Root, SamplingCapability,
};
use mgp_types::method::{
    ElicitationComplete, ElicitationCreate, LogMessage, Notification, RootsList,
    SamplingCreateMessage, lookup,
};
use mgp_types::mgp::{CallbackRequestParams, Extension, LifecycleParams};
use mgp_types::service::{BoxFuture, Progress, Router};

use super::ClientBuilder;
use crate::handler::{ClientHandler, ServerChange};
use crate::wire::{CallbackHandler, check_page};

/// Handlers of elicitation, one for each mode.
#[derive(Default)]
pub(super) struct ElicitationHandlers {
    form: Option<ElicitHook>,
    url: Option<ElicitHook>,
}

type ElicitHook =
    Arc<dyn Fn(ElicitParams) -> BoxFuture<'static, Result<ElicitResult, RpcError>> + Send + Sync>;

fn elicit_hook<F, Fut>(handler: F) -> ElicitHook
where
    F: Fn(ElicitParams) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ElicitResult, RpcError>> + Send + 'static,
{
    Arc::new(move |question| Box::pin(handler(question)))
}

impl ElicitationHandlers {
    /// Adds the handlers to a router. The router refuses requests in a mode that has no handler (MCP elicitation).
    pub(super) fn add_handlers(self, router: Router) -> Router {
        if self.form.is_none() && self.url.is_none() {
            return router;
        }
        router.on::<ElicitationCreate, _, _>(move |_, question| {
            let (mode, handler) =
                if question.is_url() { ("url", &self.url) } else { ("form", &self.form) };
            let page = question.url.as_deref().map_or(Ok(()), |page| check_page(page, None));
            let answer = page.map(|()| handler.as_ref().map(|handler| handler(question)));
            async move {
                if let Some(answer) = answer? {
                    return answer.await;
                }
                let message = format!("this client offers no elicitation of mode `{mode}`");
                Err(RpcError::invalid_params(message))
            }
        })
    }
}

impl ClientBuilder {
    // === Requests ===

    /// Sets the handler that shows a form to the user and returns the answer.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use mgp_client_sdk::Client;
    ///
    /// let builder = Client::builder("me", "1.0").on_elicitation(|form| async move {
    ///     println!("{}", form.message);
    ///     form.accept_with(&BTreeMap::from([("name", "Ann")]))
    /// });
    /// // A handler returns a `Result`, but `accept` cannot fail.
    /// let builder = builder.on_elicitation(|form| async move { Ok(form.accept()) });
    /// # drop(builder);
    /// ```
    ///
    /// [`ElicitParams::accept`] accepts the form with its default values. [`ElicitParams::accept_with`] sets some
    /// fields; the others get their default values.
    pub fn on_elicitation<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(ElicitParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, RpcError>> + Send + 'static,
    {
        let offered = self.offered_elicitation();
        offered.form.get_or_insert_default();
        self.elicitation.form = Some(elicit_hook(handler));
        self
    }

    /// Sets the handler that asks the user to open a page in a browser; completion is reported to
    /// [`on_elicitation_complete`](Self::on_elicitation_complete).
    ///
    /// The handler must not fetch the page: only the user may open it, after seeing its complete address. The client
    /// refuses pages that are neither at `https` nor, on this machine, at `http`.
    pub fn on_url_elicitation<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(ElicitParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, RpcError>> + Send + 'static,
    {
        let offered = self.offered_elicitation();
        offered.url.get_or_insert_default();
        self.elicitation.url = Some(elicit_hook(handler));
        self
    }

    /// Sets the handler that lets a model generate a message (MCP sampling).
    ///
    /// ```
    /// use mgp_client_sdk::Client;
    /// use mgp_client_sdk::types::mcp::CreateMessageResult;
    ///
    /// let builder = Client::builder("me", "1.0").on_sampling(|talk| async move {
    ///     let prompt = talk.messages.last().map(|message| message.to_text()).unwrap_or_default();
    ///     // A model answers here.
    ///     Ok(CreateMessageResult::text(format!("I read: {prompt}"), "model-1"))
    /// });
    /// # drop(builder);
    /// ```
    ///
    /// The client refuses conversations with tools; see [`on_sampling_with_tools`](Self::on_sampling_with_tools).
    pub fn on_sampling<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(CreateMessageParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, RpcError>> + Send + 'static,
    {
        let capabilities = &mut self.config.offer.capabilities;
        capabilities.sampling.get_or_insert_with(SamplingCapability::new).tools = None;
        self.sample(move |conversation| {
            let tools = !conversation.tools.is_empty() || conversation.tool_choice.is_some();
            let answer = (!tools).then(|| handler(conversation));
            async move {
                match answer {
                    Some(answer) => answer.await,
                    None => {
                        Err(RpcError::invalid_params("this client offers no sampling with tools"))
                    }
                }
            }
        })
    }

    /// Sets the handler that lets a model generate a message and call tools for it; the server runs these tools.
    pub fn on_sampling_with_tools<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(CreateMessageParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, RpcError>> + Send + 'static,
    {
        let capabilities = &mut self.config.offer.capabilities;
        let offered = capabilities.sampling.get_or_insert_with(SamplingCapability::new);
        offered.tools.get_or_insert_default();
        self.sample(handler)
    }

    fn sample<F, Fut>(self, handler: F) -> Self
    where
        F: Fn(CreateMessageParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, RpcError>> + Send + 'static,
    {
        self.add_handlers(|router| {
            router.on::<SamplingCreateMessage, _, _>(move |_, params| handler(params))
        })
    }

    fn offered_elicitation(&mut self) -> &mut ElicitationCapability {
        let capabilities = &mut self.config.offer.capabilities;
        capabilities.elicitation.get_or_insert_with(ElicitationCapability::new)
    }

    /// Sets the handler that returns the client's roots (its working directories).
    pub fn on_roots<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<Root>, RpcError>> + Send + 'static,
    {
        let mut roots = ListChanged::new();
        roots.list_changed = Some(true);
        self.config.offer.capabilities.roots.get_or_insert(roots);
        self.add_handlers(|router| {
            router.on::<RootsList, _, _>(move |_, _| {
                let roots = handler();
                async move { Ok(ListRootsResult::new(roots.await?)) }
            })
        })
    }

    /// Sets the client's roots (its working directories).
    ///
    /// ```
    /// use mgp_client_sdk::Client;
    /// use mgp_client_sdk::types::mcp::Root;
    ///
    /// let builder = Client::builder("me", "1.0").roots(Root::from_path("/home/ann/project"));
    /// # drop(builder);
    /// ```
    pub fn roots(self, roots: impl IntoIterator<Item = Root>) -> Self {
        let roots: Vec<_> = roots.into_iter().collect();
        self.on_roots(move || ready(Ok(roots.clone())))
    }

    /// Sets a handler object for the requests that it declares, and for the notifications that [`ClientHandler`] names.
    /// It replaces the hooks for logs and progress, and the handlers of these requests, that were set before.
    pub fn handler(mut self, handler: impl ClientHandler) -> Self {
        let handler = Arc::new(handler);
        let accepted_requests = handler.accepted_requests();
        if accepted_requests.elicitation {
            let own = Arc::clone(&handler);
            self = self.on_elicitation(move |question| {
                let own = Arc::clone(&own);
                async move { own.elicit(question).await }
            });
        }
        if handler.accepts_urls() {
            let own = Arc::clone(&handler);
            self = self.on_url_elicitation(move |question| {
                let own = Arc::clone(&own);
                async move { own.elicit_url(question).await }
            });
        }
        if accepted_requests.sampling {
            let own = Arc::clone(&handler);
            self = self.on_sampling(move |conversation| {
                let own = Arc::clone(&own);
                async move { own.sample(conversation).await }
            });
        }
        if accepted_requests.roots {
            let own = Arc::clone(&handler);
            self = self.on_roots(move || {
                let own = Arc::clone(&own);
                async move { own.roots().await }
            });
        }
        let (logs, changes) = (Arc::clone(&handler), Arc::clone(&handler));
        let states = Arc::clone(&handler);
        self.on_log(move |message| logs.log(message))
            .on_change(move |what| changes.changed(what))
            .on_lifecycle(move |change| states.state_changed(change))
            .on_progress(move |tool, step| handler.progress(tool, step))
    }

    /// Adds handlers for further methods that the server may call.
    pub fn handlers(self, router: Router) -> Self {
        self.add_handlers(|own| own.merge(router))
    }

    pub(super) fn add_handlers(mut self, add: impl FnOnce(Router) -> Router) -> Self {
        self.config.handlers = add(std::mem::take(&mut self.config.handlers));
        self
    }

    // === Notifications ===

    /// Sets a hook that receives log messages.
    ///
    /// ```
    /// use mgp_client_sdk::Client;
    ///
    /// let builder = Client::builder("me", "1.0").on_log(|message| {
    ///     println!("{:?}: {}", message.level, message.data.as_str());
    /// });
    /// # drop(builder);
    /// ```
    ///
    /// A server of 2026-07-28 sends the log messages of a call only if the call requests them with
    /// [`ToolCall::log_level`](crate::ToolCall::log_level); for older servers see
    /// [`Client::set_level`](crate::Client::set_level).
    pub fn on_log(self, hook: impl Fn(LogMessageParams) + Send + Sync + 'static) -> Self {
        self.on::<LogMessage>(hook)
    }

    /// Sets a hook that receives the id of each URL elicitation whose page the user has completed.
    ///
    /// Only servers of 2025-11-25 send this notification; a server of 2026-07-28 learns of the completion when the call
    /// is repeated.
    pub fn on_elicitation_complete(self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on::<ElicitationComplete>(move |over| hook(&over.elicitation_id))
    }

    /// Adds a hook that receives changes of lists and of subscribed resources. The client drops the affected cached
    /// lists before it calls the hook.
    ///
    /// A server of 2026-07-28 sends changes on a stream, which the client keeps open if the server announces changes;
    /// see [`ListenConfig`](crate::ListenConfig). After an interruption of the stream, all lists and resources about
    /// which the stream reports are reported as changed.
    pub fn on_change(mut self, hook: impl Fn(&ServerChange) + Send + Sync + 'static) -> Self {
        self.config.hooks.changed.push(Arc::new(hook));
        self
    }

    /// Adds a hook that receives changes of the server's state, such as draining (MGP §11.4).
    ///
    /// A server of 2026-07-28 sends these changes of its state on the stream of changes; this hook suffices for the
    /// client to keep that stream open.
    ///
    /// ```
    /// use mgp_client_sdk::Client;
    ///
    /// let builder = Client::builder("me", "1.0").on_lifecycle(|change| {
    ///     println!("{} because of {:?}", change.new_state, change.reason);
    /// });
    /// # drop(builder);
    /// ```
    pub fn on_lifecycle(mut self, hook: impl Fn(&LifecycleParams) + Send + Sync + 'static) -> Self {
        self.config.hooks.states.push(Arc::new(hook));
        self
    }

    /// Sets a hook that receives the name of the tool and the new step whenever a tool call reports progress.
    pub fn on_progress(mut self, hook: impl Fn(&str, &Progress) + Send + Sync + 'static) -> Self {
        self.config.hooks.progress = Some(Arc::new(hook));
        self
    }

    /// Sets the handler that answers the questions that a server asks while it processes a call (MGP §13.4).
    ///
    /// [`CallbackAnswer::text`] is the answer with a text or an option; an error dismisses the question. The handler
    /// can take as long as the question allows with its `timeout_ms`: by default one minute, at most 15 minutes. Then
    /// its future is dropped, and the question is dismissed. No other call waits for the handler. A question that the
    /// server repeats is asked only once.
    ///
    /// ```
    /// use mgp_client_sdk::{CallbackAnswer, Client};
    ///
    /// let builder = Client::builder("me", "1.0").on_callback(async |question| {
    ///     println!("{}", question.message.unwrap_or_default());
    ///     Ok(CallbackAnswer::Declined)
    /// });
    /// # drop(builder);
    /// ```
    pub fn on_callback<F, Fut>(self, handler: F) -> Self
    where
        F: Fn(CallbackRequestParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CallbackAnswer, RpcError>> + Send + 'static,
    {
        self.callbacks(CallbackHandler::Own(Arc::new(move |question| Box::pin(handler(question)))))
    }

    /// Sets the party that answers callbacks, and offers the extension for callbacks to the server.
    pub(crate) fn callbacks(mut self, handler: CallbackHandler) -> Self {
        self.mgp = self.mgp.map(|set| set.with(Extension::Callbacks));
        self.config.callbacks = Some(handler);
        self
    }

    /// Sets a hook for a notification, and offers the MGP extension of the notification.
    ///
    /// The hook runs on the connection's task, in the order of arrival, and must not block.
    pub fn on<N: Notification>(mut self, hook: impl Fn(N::Params) + Send + Sync + 'static) -> Self {
        if let Some(extension) = lookup(N::METHOD).and_then(|info| info.extension) {
            self.mgp = self.mgp.map(|set| set.with(extension));
        }
        self.add_handlers(|router| {
            router.on_notification::<N, _, _>(move |_, params| {
                hook(params);
                ready(Ok(()))
            })
        })
    }
}
