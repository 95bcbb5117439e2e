//! URIs of resources in the results of servers.
//!
//! A host reads a linked resource through the kernel, so a URI that the host could not read from the same server is
//! replaced by one that has the server's id.

use std::cell::Cell;
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use mgp_types::service::{Context, Reply};
use mgp_types::{Object, Payload, RpcError};

use super::dispatcher::Dispatcher;
use super::names::qualify;
use super::server_features::leads_to;
use crate::fleet::{ListKind, ManagedServer};

/// The schemes of URIs that clients can also read without the kernel.
const PUBLIC_SCHEMES: [&str; 3] = ["https:", "http:", "data:"];

/// The maximum number of URIs that are looked up in one result, because each may be compared with all entries of all
/// lists. Further ones stay as they are.
const MAX_URIS: usize = 1_000;

/// The names under which a caller reads the resources of one server.
pub(super) struct ResourceLinks<'a> {
    cx: &'a Context,
    server: &'a ManagedServer,
    visible: Vec<Arc<ManagedServer>>,
    /// The number of URIs that may still be looked up.
    left: Cell<usize>,
}

impl<'a> ResourceLinks<'a> {
    /// Returns the names of a caller for the resources of a server; `None` if each URI of the server leads to it, or
    /// if the caller cannot read the server's resources.
    pub(super) fn new(
        dispatcher: &Dispatcher,
        cx: &'a Context,
        server: &'a ManagedServer,
    ) -> Option<Self> {
        let offers = |one: &ManagedServer| {
            one.lists().capabilities().is_some_and(|offered| offered.resources.is_some())
        };
        if !offers(server) {
            return None;
        }
        let visible = dispatcher.visible_servers(cx);
        let is_visible = visible.iter().any(|one| one.id() == server.id());
        let has_others = visible.iter().any(|one| one.id() != server.id() && offers(one));
        let left = Cell::new(MAX_URIS);
        (is_visible && has_others).then_some(Self { cx, server, visible, left })
    }

    /// Returns the URI under which the caller reads a resource of the server; `None` if it is the server's own URI.
    pub(super) fn shown_uri(&self, uri: &str) -> Option<String> {
        let is_public = PUBLIC_SCHEMES.iter().any(|scheme| uri.starts_with(*scheme));
        if is_public && !self.server.lists().list(ListKind::Resources).contains(uri) {
            return None;
        }
        self.left.set(self.left.get().checked_sub(1)?);
        let leads_back = leads_to(self.cx, uri, &self.visible, self.server.id());
        (!leads_back).then(|| qualify(ListKind::Resources, self.server.id(), uri))
    }

    /// Returns a content block with the caller's URI; `None` if the block remains as it is.
    fn rename_block(&self, block: &Payload) -> Option<Payload> {
        let mut members: Object = block.get().ok()?;
        let kind: String = members.decode("type").ok()??;
        match kind.as_str() {
            "resource_link" => self.rename_uri(&mut members)?,
            "resource" => {
                let mut resource: Object = members.decode("resource").ok()??;
                self.rename_uri(&mut resource)?;
                members.encode("resource", &resource).ok()?;
            }
            _ => return None,
        }
        Payload::of(&members).ok()
    }

    /// Replaces the URI of an object; returns `None` if it remains as it is.
    fn rename_uri(&self, members: &mut Object) -> Option<()> {
        let uri: String = members.decode("uri").ok()??;
        let shown = self.shown_uri(&uri)?;
        members.encode("uri", &shown).ok()
    }
}

/// Replaces the URIs of resources in the result of a tool.
///
/// # Errors
/// Returns −32603 if the result cannot be written as JSON.
pub(super) fn in_result(
    dispatcher: &Dispatcher,
    cx: &Context,
    server: &ManagedServer,
    reply: Reply,
) -> Result<Reply, RpcError> {
    if !may_have_resources(&reply) {
        return Ok(reply);
    }
    match ResourceLinks::new(dispatcher, cx, server) {
        Some(links) => change_list(reply, "content", |block| links.rename_block(block)),
        None => Ok(reply),
    }
}

/// Replaces the URIs of resources in the messages of a prompt.
///
/// # Errors
/// Returns −32603 if the result cannot be written as JSON.
pub(super) fn in_prompt(
    dispatcher: &Dispatcher,
    cx: &Context,
    server: &ManagedServer,
    reply: Reply,
) -> Result<Reply, RpcError> {
    if !may_have_resources(&reply) {
        return Ok(reply);
    }
    let Some(links) = ResourceLinks::new(dispatcher, cx, server) else { return Ok(reply) };
    change_list(reply, "messages", |message| {
        let mut members: Object = message.get().ok()?;
        let renamed = links.rename_block(members.get("content")?)?;
        members.insert("content", renamed);
        Payload::of(&members).ok()
    })
}

/// Returns whether a result might have blocks with URIs of resources. Few results do, and the others are not parsed.
fn may_have_resources(reply: &Reply) -> bool {
    static KIND: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\"resource"));
    let Reply::Complete(body) = reply else { return false };
    KIND.find(body.as_raw().as_str().as_bytes()).is_some()
}

/// Changes the elements of a list in a result. A result whose list cannot be read is returned unchanged.
fn change_list(
    mut reply: Reply,
    name: &str,
    change: impl Fn(&Payload) -> Option<Payload>,
) -> Result<Reply, RpcError> {
    let Some(body) = reply.as_body_mut() else { return Ok(reply) };
    let Ok(mut members) = body.as_raw().get::<Object>() else { return Ok(reply) };
    let Ok(Some(mut elements)) = members.decode::<Vec<Payload>>(name) else { return Ok(reply) };
    let mut is_changed = false;
    for element in &mut elements {
        if let Some(changed) = change(element) {
            *element = changed;
            is_changed = true;
        }
    }
    if is_changed {
        members.encode(name, &elements)?;
        body.replace_raw(Payload::of(&members)?);
    }
    Ok(reply)
}
