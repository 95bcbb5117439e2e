//! What a server offers besides tools: resources, prompts, completion, logging, and word of changes.
//!
//! Applies to: inbound.

use std::time::Duration;

use mgp_lifecycle::ServerOffer;
use mgp_types::RpcError;
use mgp_types::mcp::{Completion, ListChanged, ResourcesCapability};
use mgp_types::method::Initialized;
use mgp_types::service::Router;

use crate::audience::{Audience, Lists};
use crate::complete::Completing;
use crate::furnish::Logging;
use crate::prompt::{Prompt, Prompts};
use crate::request::{Function, RequestHandler};
use crate::resource::{Resource, ResourceSet, Resources};
use crate::server::Server;
use crate::tool::Tools;
use crate::{listen, log};

/// What a server offers besides tools.
#[derive(Debug)]
pub(crate) struct Features {
    resources: Resources,
    prompts: Prompts,
    completer: Option<Function<Completion>>,
    logging: Logging,
    audience: Audience,
    /// The first thing that was put together wrongly.
    wrong: Option<RpcError>,
}

impl Default for Features {
    fn default() -> Self {
        let audience = Audience::default();
        Self {
            resources: Resources::new(audience.clone()),
            prompts: Prompts::new(audience.clone()),
            completer: None,
            logging: Logging::Off,
            audience,
            wrong: None,
        }
    }
}

impl Features {
    /// Puts what there is into the offer, and answers it.
    pub(crate) fn assemble(
        self,
        offer: &mut ServerOffer,
        tools: &Tools,
        timeout: Duration,
    ) -> Result<(Router, Logging), RpcError> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
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
            router = router.merge(self.prompts.routes(timeout));
        }
        if offered.resources.is_some() {
            router = router.merge(resources.routes(timeout));
        }
        if offered.completions.is_some() {
            let (prompts, fallback) = (self.prompts, self.completer);
            let resources = resources.clone();
            router = router.merge(Completing { prompts, resources, fallback }.routes(timeout));
        }
        let logging = if offered.logging.is_some() { Logging::On } else { Logging::Off };
        if logging == Logging::On {
            router = router.merge(log::routes());
        }
        let lists = Lists::announced(offered);
        let watches = offered.resources.as_ref().is_some_and(|one| one.subscribe == Some(true));
        self.audience.announce(lists);
        tools.tell(self.audience.clone());
        if lists != Lists::default() || watches {
            router =
                router.merge(listen::routes(self.audience.clone(), watches.then_some(resources)));
            let audience = self.audience;
            router = router.on_notification::<Initialized, _, _>(move |cx, _| {
                audience.join(&cx);
                async { Ok(()) }
            });
        }
        Ok((router, logging))
    }
}

/// A list whose changes are told.
fn told() -> ListChanged {
    let mut capability = ListChanged::new();
    capability.list_changed = Some(true);
    capability
}

impl Server {
    /// Adds a resource, or a family of them.
    pub fn resource(mut self, resource: Resource) -> Self {
        if let Err(wrong) = self.features.resources.add(resource) {
            self.features.wrong.get_or_insert(wrong);
        }
        self
    }

    /// Adds a set of resources that is looked up when somebody asks.
    pub fn resource_set(self, set: impl ResourceSet) -> Self {
        self.features.resources.add_set(set);
        self
    }

    /// Adds a prompt.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        if let Err(wrong) = prompt.check() {
            self.features.wrong.get_or_insert(wrong);
        }
        self.features.prompts.add(prompt);
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
