//! The registry of a server's resources.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mcp::{self, ListResourceTemplatesResult, ListResourcesResult};
use mgp_types::service::Extensions;
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError};

use super::set::{AnySet, ResourceSet};
use super::template::Template;
use super::{Definition, Resource, Source};
use crate::catalog::{Catalog, Entry, PageFields};
use crate::completers::{Completers, CompletionTarget};
use crate::error::{BuildError, BuildErrors};
use crate::subscribers::{ListKind, Subscribers};

/// The resources of a server, which can change while the server runs. Cheap to clone.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::Resource;
///
/// let server = Server::new("log", "1").resource(Resource::text("log://today", "today", ""));
/// let resources = server.resources();
/// resources.add(Resource::text("log://yesterday", "yesterday", "quiet")).unwrap();
/// resources.updated("log://today");
/// assert!(resources.remove("log://yesterday"));
/// assert_eq!(resources.len(), 1);
/// ```
#[derive(Clone)]
pub struct Resources {
    pub(super) fixed: Catalog<Fixed>,
    pub(super) templates: Catalog<Family>,
    sets: Arc<Mutex<Vec<Arc<dyn AnySet>>>>,
    pub(super) subscribers: Subscribers,
}

/// A resource with a fixed URI.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(super) definition: mcp::Resource,
    pub(super) source: Source,
    pub(super) ttl: Duration,
}

/// A resource template, and the function that returns the contents of its resources.
#[derive(Debug)]
pub(crate) struct Family {
    pub(super) definition: mcp::ResourceTemplate,
    pub(super) template: Template,
    pub(super) source: Source,
    pub(super) ttl: Duration,
    pub(super) completers: Completers,
}

impl Entry for Fixed {
    const LIST: ListKind = ListKind::Resources;

    fn key(&self) -> &str {
        &self.definition.uri
    }

    fn encode(entries: &[Arc<Self>], fields: PageFields) -> Result<Payload, RpcError> {
        let page = entries.iter().map(|entry| entry.definition.clone()).collect::<Vec<_>>();
        list_of(page, fields)
    }
}

impl Entry for Family {
    const LIST: ListKind = ListKind::Resources;

    fn key(&self) -> &str {
        &self.definition.uri_template
    }

    fn encode(entries: &[Arc<Self>], fields: PageFields) -> Result<Payload, RpcError> {
        let page = entries.iter().map(|entry| entry.definition.clone()).collect::<Vec<_>>();
        templates_of(page, fields)
    }
}

pub(super) fn list_of(page: Vec<mcp::Resource>, fields: PageFields) -> Result<Payload, RpcError> {
    let mut list = ListResourcesResult::new(page);
    list.result_type = fields.result_type;
    list.next_cursor = fields.next;
    list.ttl_ms = fields.ttl_ms;
    list.cache_scope = fields.cache_scope;
    Payload::of(&list)
}

pub(super) fn templates_of(
    page: Vec<mcp::ResourceTemplate>,
    fields: PageFields,
) -> Result<Payload, RpcError> {
    let mut list = ListResourceTemplatesResult::new(page);
    list.result_type = fields.result_type;
    list.next_cursor = fields.next;
    list.ttl_ms = fields.ttl_ms;
    list.cache_scope = fields.cache_scope;
    Payload::of(&list)
}

impl Resources {
    pub(crate) fn new(subscribers: Subscribers) -> Self {
        Self {
            fixed: Catalog::new(subscribers.clone()),
            templates: Catalog::new(subscribers.clone()),
            sets: Arc::default(),
            subscribers,
        }
    }

    /// Adds a resource or a template, or replaces the entry with the same URI; subscribers of a replaced resource
    /// are notified.
    ///
    /// # Errors
    /// −32603 (internal error) if a template is invalid.
    pub fn add(&self, resource: Resource) -> Result<(), RpcError> {
        self.put(resource).map_err(|error| BuildErrors(vec![error]).into())
    }

    /// Adds a resource or a template; fails if another entry has the same URI.
    pub(crate) fn declare(&self, resource: Resource) -> Result<(), BuildError> {
        let uri = resource.uri();
        if self.fixed.get(uri).is_some() || self.templates.get(uri).is_some() {
            return Err(BuildError::Duplicate(format!("the resource `{uri}`")));
        }
        self.put(resource)
    }

    fn put(&self, resource: Resource) -> Result<(), BuildError> {
        let Resource { definition, source, ttl, completers } = resource;
        match definition {
            Definition::Fixed(definition) => {
                let uri = definition.uri.clone();
                if self.fixed.add(Fixed { definition, source, ttl }) {
                    self.updated(&uri);
                }
            }
            Definition::Template(definition) => {
                let template = Template::parse(&definition.uri_template)?;
                self.templates.add(Family { definition, template, source, ttl, completers });
            }
        }
        Ok(())
    }

    /// Returns the errors that prevent a server with these resources from being built.
    pub(crate) fn errors(&self, state: &Extensions) -> Vec<BuildError> {
        let mut errors = Vec::new();
        for fixed in self.fixed.snapshot().entries() {
            errors.extend(fixed.source.missing_state(fixed.key(), state));
        }
        for family in self.templates.snapshot().entries() {
            let what = format!("the URI template `{}`", family.key());
            let variables: Vec<_> = family.template.variables().collect();
            errors.extend(family.completers.errors(&what, &variables, state));
            errors.extend(family.source.missing_state(family.key(), state));
        }
        errors
    }

    /// Removes a resource by its URI, or a template; returns `true` if there was one.
    #[must_use]
    pub fn remove(&self, uri: &str) -> bool {
        self.fixed.remove(uri) || self.templates.remove(uri)
    }

    /// Adds a set of resources that is queried for each request.
    pub fn add_set(&self, set: impl ResourceSet) {
        self.sets.lock().push(Arc::new(set));
        let first_set = Some(set_cursor(0, None));
        self.fixed.set_paging(None, first_set.clone());
        self.templates.set_paging(None, first_set);
        self.changed();
    }

    /// Notifies all subscribers of a resource that it changed, also those whose URI differs from this URI in its
    /// escapes.
    ///
    /// For a resource of a template, [`Resource::uri_of`] returns the URI.
    pub fn updated(&self, uri: &str) {
        self.subscribers.updated(uri);
    }

    /// Notifies all clients that the list of resources changed, e.g. because a set has other resources now.
    pub fn changed(&self) {
        self.subscribers.changed(ListKind::Resources);
    }

    /// Returns the number of resources and templates. Those of sets are not counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fixed.len() + self.templates.len()
    }

    /// Returns whether there are no resources, templates or sets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.sets().is_empty()
    }

    pub(super) fn sets(&self) -> Vec<Arc<dyn AnySet>> {
        self.sets.lock().clone()
    }

    pub(super) fn set(&self, index: usize) -> Option<Arc<dyn AnySet>> {
        self.sets.lock().get(index).cloned()
    }

    /// Returns the template that matches a URI, and the values that its variables have in the URI.
    pub(super) fn family(&self, uri: &str) -> Option<(Arc<Family>, BTreeMap<String, String>)> {
        self.templates.snapshot().entries().iter().find_map(|family| {
            family.template.matches(uri).map(|variables| (Arc::clone(family), variables))
        })
    }

    pub(crate) fn knows(&self, uri: &str) -> bool {
        self.fixed.get(uri).is_some()
            || self.family(uri).is_some()
            || self.sets().iter().any(|set| set.has(uri))
    }

    #[cfg(feature = "skills")]
    pub(crate) fn media_type(&self, uri: &str) -> Option<String> {
        self.fixed.get(uri)?.definition.mime_type.clone()
    }

    /// Returns the variables and completion functions of a template; `None` if the server does not know the URI. For a
    /// URI that is not one of the server's templates, e.g. a template that only a set might have, the variables are
    /// unknown.
    pub(crate) fn completable(&self, uri: &str) -> Option<CompletionTarget> {
        if let Some(family) = self.templates.get(uri) {
            return Some(CompletionTarget {
                completers: family.completers.clone(),
                arguments: Some(family.template.variables().map(str::to_owned).collect()),
            });
        }
        self.knows(uri)
            .then(|| CompletionTarget { completers: Completers::default(), arguments: None })
    }

    pub(crate) fn can_complete(&self) -> bool {
        self.templates.snapshot().entries().iter().any(|family| !family.completers.is_empty())
    }

    pub(crate) fn page_size(&self, entries: usize) {
        self.fixed.set_paging(Some(entries), None);
        self.templates.set_paging(Some(entries), None);
    }
}

/// Returns the cursor of this server for a page of a resource set: it contains the index of the set, and the cursor
/// that the set itself returned.
pub(super) fn set_cursor(index: usize, within: Option<&str>) -> String {
    match within {
        None => format!("s{index}"),
        Some(within) => format!("s{index}.{within}"),
    }
}

mgp_types::opaque_debug!(Resources { fixed, templates });
