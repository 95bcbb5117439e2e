//! The capabilities that a modern request declares. If the client forwards a call, these are the capabilities of the
//! call's caller, otherwise the client's own capabilities.

use mgp_types::mcp::{ClientCapabilities, ListChanged, key};
use mgp_types::mgp::{Extension, MgpCapability};
use mgp_types::service::{CallerAccess, Context};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError};

use super::negotiate;
use super::offer::ClientOffer;

/// Maximum number of capability sets whose encoded form is cached. A kernel's hosts declare only a few different sets.
const MAX_CACHED: usize = 16;

/// The maximum size of the capabilities of a caller whose encoded form is cached, in bytes.
const MAX_CACHED_BYTES: usize = 4 * 1024;

/// The capabilities that a request declares, encoded as JSON.
#[derive(Clone, Debug)]
pub(super) struct DeclaredCapabilities {
    pub(super) plain: Payload,
    /// The same capabilities plus the tasks extension, for calls whose caller can wait for a task.
    pub(super) with_tasks: Payload,
}

impl DeclaredCapabilities {
    pub(super) fn new(mut capabilities: ClientCapabilities) -> Result<Self, RpcError> {
        let plain = Payload::of(&capabilities)?;
        let extensions = capabilities.extensions.get_or_insert_default();
        if extensions.get(key::TASKS_EXTENSION).is_none() {
            extensions.insert(key::TASKS_EXTENSION, Payload::empty_object());
        }
        Ok(Self { plain, with_tasks: Payload::of(&capabilities)? })
    }
}

/// The client's own capabilities, and a cache of those capabilities with sampling, elicitation and roots replaced by
/// those of a caller.
#[derive(Debug)]
pub(super) struct CallerCapabilities {
    own: ClientCapabilities,
    /// The client's MGP offer without the extension `callbacks`, for callers that do not support callbacks.
    without_callbacks: Option<MgpCapability>,
    /// Cached pairs: the capabilities that a caller sent, and the capabilities that requests for this caller declare.
    cache: Mutex<Vec<(Payload, DeclaredCapabilities)>>,
}

impl CallerCapabilities {
    pub(super) fn new(own: ClientCapabilities, offer: &ClientOffer) -> Self {
        let without_callbacks = offer.mgp.as_ref().map(|offer| {
            let mut offer = offer.clone();
            offer.extensions = offer.extensions.without(Extension::Callbacks);
            negotiate::client_offer(&offer)
        });
        Self { own, without_callbacks, cache: Mutex::default() }
    }

    /// Returns the capabilities to declare for a call; `None` if its caller cannot be asked questions.
    pub(super) fn of(&self, cx: &Context) -> Option<DeclaredCapabilities> {
        if !cx.caller.accepts.any() || matches!(cx.caller_access, CallerAccess::Unavailable) {
            return None;
        }
        let none = Payload::empty_object();
        let sent = cx.caller.capabilities.as_ref().unwrap_or(&none);
        let is_same = |(other, _): &&(Payload, _)| other.as_str() == sent.as_str();
        if let Some((_, declared)) = self.cache.lock().iter().find(is_same) {
            return Some(declared.clone());
        }
        let caller: ClientCapabilities = sent.get().ok()?;
        let mut capabilities = self.own.clone();
        (capabilities.elicitation, capabilities.sampling) = (caller.elicitation, caller.sampling);
        // This caller does not support callbacks, so do not declare them. A server then asks its questions with forms,
        // in rounds.
        if let Some(mgp) = &self.without_callbacks
            && cx.caller.accepts.elicitation
            && !cx.caller.has(Extension::Callbacks)
        {
            negotiate::put_modern(&mut capabilities, mgp).ok()?;
        }
        // Omit `listChanged`, which exists only in the legacy era.
        capabilities.roots = caller.roots.map(|_| ListChanged::new());
        let declared = DeclaredCapabilities::new(capabilities).ok()?;
        if sent.as_str().len() <= MAX_CACHED_BYTES {
            let mut cache = self.cache.lock();
            if cache.len() >= MAX_CACHED {
                cache.clear();
            }
            cache.push((sent.clone(), declared.clone()));
        }
        Some(declared)
    }
}
