//! What a server offers besides tools: resources, prompts, completion, logging, and word of changes.
//!
//! Applies to: inbound.

use std::sync::Arc;

use mgp_lifecycle::{Drain, ServerOffer};
use mgp_types::mcp::{Completion, ListChanged, ResourcesCapability};
use mgp_types::method::Initialized;
use mgp_types::mgp::Extension;
use mgp_types::service::{Extensions, Router};

use crate::audience::{Audience, Lists};
use crate::complete::Completing;
use crate::error::Flaw;
use crate::furnish::Logging;
use crate::herald::{Herald, Watched, Watches};
use crate::listen::Told;
use crate::prompt::{Prompt, Prompts};
use crate::request::{Function, RequestHandler, Serving};
use crate::resource::{Resource, ResourceSet, Resources};
use crate::server::Server;
use crate::tool::Tools;
use crate::{herald, listen, log};

/// What a server offers besides tools.
#[derive(Debug)]
pub(crate) struct Features {
    resources: Resources,
    prompts: Prompts,
    completer: Option<Function<Completion>>,
    logging: Logging,
    audience: Audience,
    /// Who sees to it that resources are watched, where that is not the server itself.
    watches: Option<Arc<dyn Watches>>,
    /// What was put together wrongly.
    flaws: Vec<Flaw>,
}

/// How the server ends.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) drain: Drain,
    /// Whether those who negotiated it are told (MGP §11.4).
    pub(crate) are_told: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self::told(Audience::default())
    }
}

impl Features {
    /// Nothing yet, and who is told of it.
    fn told(audience: Audience) -> Self {
        Self {
            resources: Resources::new(audience.clone()),
            prompts: Prompts::new(audience.clone()),
            completer: None,
            logging: Logging::Off,
            audience,
            watches: None,
            flaws: Vec::new(),
        }
    }

    /// What keeps a server from being built.
    pub(crate) fn flaws(&mut self, state: &Extensions) -> Vec<Flaw> {
        let mut flaws = std::mem::take(&mut self.flaws);
        flaws.extend(self.prompts.flaws(state));
        flaws.extend(self.resources.flaws(state));
        let completer = self.completer.as_ref();
        flaws.extend(completer.and_then(|function| function.flaw("the completion", state)));
        flaws
    }

    /// Puts what there is into the offer, and answers it.
    pub(crate) fn assemble(
        self,
        offer: &mut ServerOffer,
        tools: &Tools,
        serving: &Serving,
        ends: Ends,
    ) -> (Router, Logging) {
        let can_complete = self.completer.is_some()
            || self.prompts.can_complete()
            || self.resources.can_complete();
        let resources = self.resources;
        let offered = &mut offer.capabilities;
        if !tools.is_empty() {
            offered.tools.get_or_insert_with(told);
        }
        if !self.prompts.is_empty() {
            offered.prompts.get_or_insert_with(told);
        }
        if !resources.is_empty() {
            offered.resources.get_or_insert_with(|| {
                let mut capability = ResourcesCapability::new();
                capability.subscribe = Some(true);
                capability.list_changed = Some(true);
                capability
            });
        }
        if can_complete {
            offered.completions.get_or_insert_default();
        }
        if self.logging == Logging::On {
            offered.logging.get_or_insert_default();
        }

        // What is offered is served, whoever put it into the offer.
        let mut router = Router::new();
        if offered.prompts.is_some() {
            router = router.merge(self.prompts.routes(serving));
        }
        if offered.resources.is_some() {
            router = router.merge(resources.routes(serving));
        }
        if offered.completions.is_some() {
            let (prompts, fallback) = (self.prompts, self.completer);
            let resources = resources.clone();
            router = router.merge(Completing { prompts, resources, fallback }.routes(serving));
        }
        let logging = if offered.logging.is_some() { Logging::On } else { Logging::Off };
        if logging == Logging::On {
            router = router.merge(log::routes());
        }
        let lists = Lists::announced(offered);
        let watches = offered.resources.as_ref().is_some_and(|one| one.subscribe == Some(true));
        self.audience.announce(lists);
        tools.tell(self.audience.clone());
        let tells_changes = lists != Lists::default() || watches;
        if ends.are_told {
            let audience = self.audience.clone();
            ends.drain.tell(move |change| audience.tell_state(&change));
        }
        if tells_changes || ends.are_told {
            let by = self.watches.map_or(Watched::Own(resources), Watched::By);
            let resources = watches.then_some(by);
            if let Some(resources @ Watched::By(_)) = &resources {
                router = router.merge(herald::routes(self.audience.clone(), resources.clone()));
            }
            let told = Told { audience: self.audience.clone(), resources, tells_changes };
            router = router.merge(listen::routes(told, ends.drain));
            let audience = self.audience;
            router = router.on_notification::<Initialized, _, _>(move |cx, _| {
                if tells_changes || cx.caller.has(Extension::Lifecycle) {
                    audience.join(&cx);
                }
                async { Ok(()) }
            });
        }
        (router, logging)
    }
}

/// A list whose changes are told.
fn told() -> ListChanged {
    let mut capability = ListChanged::new();
    capability.list_changed = Some(true);
    capability
}

impl Server {
    /// Adds a resource, or a family of them; a second one of the same URI is an error of [`Server::into_stack`].
    pub fn resource(mut self, resource: Resource) -> Self {
        let declared = self.features.resources.declare(resource);
        self.features.flaws.extend(declared.err());
        self
    }

    /// Adds a set of resources that is looked up when somebody asks.
    pub fn resource_set(self, set: impl ResourceSet) -> Self {
        self.features.resources.add_set(set);
        self
    }

    /// Adds a prompt; a second one of the same name is an error of [`Server::into_stack`].
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        let declared = self.features.prompts.declare(prompt);
        self.features.flaws.extend(declared.err());
        self
    }

    /// Proposes values for arguments of prompts and templates that have no function of their own for it.
    pub fn complete<H, M>(mut self, handler: H) -> Self
    where
        H: RequestHandler<Completion, M>,
    {
        self.features.completer = Some(Function::new(handler));
        self
    }

    /// Lets tools, prompts and resources send log messages to their callers; without it their messages go nowhere.
    pub fn logging(mut self) -> Self {
        self.features.logging = Logging::On;
        self
    }

    /// Has a [`Herald`] tell what changes, which may serve several servers at once; put it before resources and prompts.
    ///
    /// `watches` sees to it that resources are watched.
    pub fn herald(mut self, herald: &Herald, watches: impl Watches) -> Self {
        self.features = Features::told(herald.audience().clone());
        self.features.watches = Some(Arc::new(watches));
        self
    }

    /// Sets how many prompts, resources and templates a page of their lists has. 500.
    pub fn page_size(self, entries: usize) -> Self {
        self.features.prompts.page_size(entries);
        self.features.resources.page_size(entries);
        self
    }

    /// The resources, to change them while the server runs, and to tell who watches them.
    ///
    /// A server that begins without any offers none; to add the first while it runs, put the capability into the
    /// [offer](Server::offer).
    #[must_use]
    pub fn resources(&self) -> Resources {
        self.features.resources.clone()
    }

    /// The prompts, to change them while the server runs.
    ///
    /// A server that begins without any offers none; to add the first while it runs, put the capability into the
    /// [offer](Server::offer).
    #[must_use]
    pub fn prompts(&self) -> Prompts {
        self.features.prompts.clone()
    }
}
