//! The features of a server other than tools: resources, prompts, completion, logging, and change notifications.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_lifecycle::{Drain, ServerOffer, StructuredErrorsLayer};
use mgp_stream::EventHub;
#[cfg(feature = "skills")]
use mgp_types::Payload;
#[cfg(feature = "skills")]
use mgp_types::mcp::key;
use mgp_types::mcp::{Completion, ListChanged, ResourcesCapability, ServerCapabilities};
#[cfg(feature = "schemas")]
use mgp_types::method::ToolsValidate;
use mgp_types::method::{Initialized, Notification as _};
use mgp_types::mgp::Extension;
use mgp_types::service::{Call, Extensions, Router, Stack};

use crate::change_notifier::{ResourceSubscriber, ResourceWatcher};
use crate::completion::CompletionEndpoint;
use crate::error::BuildError;
use crate::listen::ListenSources;
use crate::prompt::Prompts;
use crate::request::{Function, HandlerConfig};
use crate::resource::Resources;
use crate::subscribers::{ListSet, Subscribers};
use crate::tool::Tools;
use crate::{change_notifier, listen, log};

/// The features of a server other than tools.
#[derive(Debug)]
pub(crate) struct Features {
    /// The layer for the extension `structured_errors`, if the server offers it.
    pub(crate) structured_errors: Option<StructuredErrorsLayer>,
    pub(crate) resources: Resources,
    /// The skills; their files are served as resources.
    #[cfg(feature = "skills")]
    pub(crate) skills: Vec<mgp_types::mcp::Skill>,
    pub(crate) prompts: Prompts,
    pub(crate) completer: Option<Function<Completion>>,
    pub(crate) logging: bool,
    subscribers: Subscribers,
    /// `true` if the author obtained the handle with which tools can be added while the server runs. The server then
    /// offers tools even if it has none yet.
    expects_tools: AtomicBool,
    /// The author's handler of subscriptions to resources that are stored elsewhere; `None` if the server handles them
    /// itself.
    pub(crate) watches: Option<Arc<dyn ResourceSubscriber>>,
    pub(crate) events: EventHub,
    /// `true` if the author declared channels, so the server offers events.
    pub(crate) has_channels: bool,
    pub(crate) errors: Vec<BuildError>,
}

/// The parts that a server needs to notify its clients that it shuts down.
#[derive(Debug)]
pub(crate) struct ShutdownNotice {
    pub(crate) drain: Drain,
    /// `true` if clients that negotiated state notifications are notified of the shutdown (MGP §11.4).
    pub(crate) is_announced: bool,
}

impl Default for Features {
    fn default() -> Self {
        let subscribers = Subscribers::default();
        Self {
            structured_errors: None,
            resources: Resources::new(subscribers.clone()),
            #[cfg(feature = "skills")]
            skills: Vec::new(),
            prompts: Prompts::new(subscribers.clone()),
            completer: None,
            logging: false,
            subscribers,
            expects_tools: AtomicBool::new(false),
            watches: None,
            events: EventHub::new(),
            has_channels: false,
            errors: Vec::new(),
        }
    }
}

impl Features {
    /// Makes the server offer tools even if it starts without any.
    pub(crate) fn expect_tools(&self) {
        self.expects_tools.store(true, Ordering::Relaxed);
    }

    /// Replaces the table of clients that are notified of changes. The resources and prompts depend on the table, so
    /// this also replaces them by empty lists. All other features stay.
    pub(crate) fn replace_subscribers(&mut self, subscribers: Subscribers) {
        // Resources and prompts that the author added before would be lost, because they use the replaced table; so
        // this order of calls is a mistake of the author.
        if !self.resources.is_empty() || !self.prompts.is_empty() {
            self.errors.push(BuildError::LateChangeNotifier);
        }
        self.resources = Resources::new(subscribers.clone());
        self.prompts = Prompts::new(subscribers.clone());
        self.subscribers = subscribers;
    }

    /// Removes and returns the mistakes of the author that were found so far, in the features and in the functions that
    /// implement them. The server can be built only if there are none.
    pub(crate) fn errors(&mut self, state: &Extensions) -> Vec<BuildError> {
        let mut errors = std::mem::take(&mut self.errors);
        errors.extend(self.prompts.errors(state));
        errors.extend(self.resources.errors(state));
        let completer = self.completer.as_ref();
        errors
            .extend(completer.and_then(|function| function.missing_state("the completion", state)));
        errors
    }

    /// Adds the features to the capabilities that the server offers. Returns the router of their endpoints, and whether
    /// the server may send log messages.
    pub(crate) fn assemble(
        self,
        offer: &mut ServerOffer,
        tools: &Tools,
        config: &HandlerConfig,
        notice: ShutdownNotice,
    ) -> (Router, bool) {
        let offered = &mut offer.capabilities;
        self.offer(offered, tools);
        // Serve the endpoints of each offered capability, even if it has no entries yet, because the author might have
        // offered it explicitly.
        let mut router = Router::new();
        if offered.prompts.is_some() {
            router = router.merge(self.prompts.routes(config));
        }
        if offered.resources.is_some() {
            router = router.merge(self.resources.routes(config));
        }
        #[cfg(feature = "skills")]
        if !self.skills.is_empty() {
            let extensions = offered.extensions.get_or_insert_default();
            let settings = Payload::from_trusted(r#"{"directoryRead":true}"#);
            extensions.insert(key::SKILLS_EXTENSION, settings);
            router =
                router.merge(crate::skill::routes(self.skills.clone(), self.resources.clone()));
        }
        if offered.completions.is_some() {
            let (prompts, resources) = (self.prompts.clone(), self.resources.clone());
            let endpoint =
                CompletionEndpoint { prompts, resources, fallback: self.completer.clone() };
            router = router.merge(endpoint.routes(config));
        }
        #[cfg(feature = "schemas")]
        if offered.tools.is_some() {
            let tools = tools.clone();
            router = router.on::<ToolsValidate, _, _>(move |cx, params| {
                std::future::ready(tools.validate(&cx, &params))
            });
        }
        let offers_events =
            offer.mgp.as_ref().is_some_and(|mgp| mgp.extensions.contains(Extension::Events));
        if offers_events {
            router = router.merge(self.events.router());
        }
        let offered = &offer.capabilities;
        let logging = offered.logging.is_some();
        if logging {
            router = router.merge(log::routes());
        }
        self.subscribers.announce(ListSet::announced(offered));
        tools.set_subscribers(self.subscribers.clone());
        (router.merge(self.notifications(offered, notice, offers_events)), logging)
    }

    fn offer(&self, offered: &mut ServerCapabilities, tools: &Tools) {
        if !tools.is_empty() || self.expects_tools.load(Ordering::Relaxed) {
            offered.tools.get_or_insert_with(list_changed);
        }
        if !self.prompts.is_empty() {
            offered.prompts.get_or_insert_with(list_changed);
        }
        if !self.resources.is_empty() {
            offered.resources.get_or_insert_with(|| {
                let mut capability = ResourcesCapability::new();
                capability.subscribe = Some(true);
                capability.list_changed = Some(true);
                capability
            });
        }
        let can_complete = self.completer.is_some()
            || self.prompts.can_complete()
            || self.resources.can_complete();
        if can_complete {
            offered.completions.get_or_insert_default();
        }
        if self.logging {
            offered.logging.get_or_insert_default();
        }
    }

    /// Returns the endpoints by which clients subscribe to changes, events and the server's shutdown.
    fn notifications(
        self,
        offered: &ServerCapabilities,
        notice: ShutdownNotice,
        offers_events: bool,
    ) -> Router {
        let has_subscriptions =
            offered.resources.as_ref().is_some_and(|capability| capability.subscribe == Some(true));
        let announces_changes =
            self.subscribers.announced() != ListSet::default() || has_subscriptions;
        if notice.is_announced {
            let subscribers = self.subscribers.clone();
            notice.drain.on_transition(move |change| subscribers.notify_state(&change, |_| true));
        }
        if !announces_changes && !notice.is_announced && !offers_events {
            return Router::new();
        }
        let watcher =
            self.watches.map_or(ResourceWatcher::Own(self.resources), ResourceWatcher::External);
        let resources = has_subscriptions.then_some(watcher);
        let subscribers = self.subscribers;
        let mut router = Router::new();
        if let Some(ResourceWatcher::External(subscriber)) = &resources {
            let subscriber = Arc::clone(subscriber);
            router = router.merge(change_notifier::routes(subscribers.clone(), subscriber));
        }
        let sources = ListenSources {
            subscribers: subscribers.clone(),
            resources,
            announces_changes,
            events: offers_events.then_some(self.events),
        };
        let router = router.merge(listen::routes(sources, notice.drain));
        router.on_notification::<Initialized, _, _>(move |cx, _| {
            if announces_changes || cx.caller.has(Extension::Lifecycle) {
                subscribers.join(&cx);
            }
            async { Ok(()) }
        })
    }
}

/// Returns a capability that announces changes of a list.
fn list_changed() -> ListChanged {
    let mut capability = ListChanged::new();
    capability.list_changed = Some(true);
    capability
}

/// Merges the author's endpoints into those of this crate; an endpoint of the author takes precedence. Only
/// `Initialized` is passed to both, because this crate's handler subscribes the client to changes.
pub(crate) fn merge_endpoints(own: Router, authors: Router) -> Router {
    let handler = |router: &Router| router.get(Initialized::METHOD).cloned();
    let both = handler(&own).zip(handler(&authors));
    let merged = own.merge(authors);
    let Some((subscribe, handle)) = both else { return merged };
    let endpoint = Stack::from_fn(move |call: Call| {
        let (subscribe, handle) = (subscribe.clone(), handle.clone());
        async move {
            subscribe.send(call.clone()).await?;
            handle.send(call).await
        }
    });
    merged.route(Initialized::METHOD, endpoint)
}
