//! The lists of tools that callers receive.

use mgp_security::Grants;
use mgp_types::mcp::{self, Era, ListToolsResult, ResultType, key, legacy_output_schema};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::proposal::{MediaSignature, hide_tool_members};
use mgp_types::service::{Context, Reply};
use mgp_types::{Payload, RpcError};
use serde::Serialize;

use super::super::extract::admit;
use super::{Entry, Snapshot, Tools};
use crate::catalog::LIST_TTL_MS;

impl Tools {
    /// Returns the list of tools that a caller is allowed to see. A list that depends only on the three flags of the
    /// [`Form`] is encoded only once for each combination of them.
    pub(crate) fn list(&self, cx: &Context) -> Result<Reply, RpcError> {
        let caller = &cx.caller;
        let form = Form {
            security: caller.has(Extension::ToolSecurity),
            media: caller.has(Extension::MultimodalSignatures),
            modern: caller.era == Era::Modern,
            proposals: caller.mgp.unwrap_or_default() & ExtensionSet::PROPOSALS,
        };
        let snapshot = self.snapshot();
        let grants = snapshot.settings.hides_denied.then(|| Grants::from_context(cx));
        let grants = grants.filter(Grants::is_told);
        let has_proposals = snapshot.any_proposed && !form.proposals.is_empty();
        if grants.is_some() || has_proposals || snapshot.any_audience {
            let is_shown = |entry: &Entry| {
                let (name, needed) = (&entry.definition.name, &entry.permissions);
                let is_admitted = |grants: &Grants| admit(grants, name, needed).is_ok();
                entry.is_visible_to(cx) && grants.as_ref().is_none_or(is_admitted)
            };
            return snapshot.encode(form, is_shown).map(Reply::raw);
        }
        let list = snapshot.lists[form.index()].get_or_init(|| snapshot.encode(form, |_| true));
        list.clone().map(Reply::raw)
    }
}

impl Snapshot {
    fn encode(&self, form: Form, is_shown: impl Fn(&Entry) -> bool) -> Result<Payload, RpcError> {
        let tools = self
            .entries
            .iter()
            .filter(|entry| entry.is_enabled && is_shown(entry))
            .map(|entry| shown(entry, form))
            .collect::<Result<Vec<_>, _>>()?;
        let mut list = ListToolsResult::new(tools);
        if form.modern {
            list.result_type = Some(ResultType::Complete);
            list.ttl_ms = Some(LIST_TTL_MS);
            list.cache_scope = Some(mcp::CacheScope::Private);
        }
        Payload::of(&list)
    }
}

/// The properties of a peer that determine the form in which it receives the list of tools and their definitions.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// `true` if the peer negotiated security metadata, so that definitions contain it.
    security: bool,
    /// `true` if the peer negotiated media types, so that definitions contain them.
    media: bool,
    /// `true` if the peer is a modern one, for which the list contains the fields that 2026-07-28 requires.
    modern: bool,
    /// The extensions beyond MGP whose members the definitions contain.
    proposals: ExtensionSet,
}

impl Form {
    /// The number of values of [`index`](Self::index): one for each combination of the three flags.
    pub(super) const COUNT: usize = 8;

    fn index(self) -> usize {
        usize::from(self.media) * 4 + usize::from(self.security) * 2 + usize::from(self.modern)
    }
}

/// Returns a definition as one kind of peer receives it: with security metadata in `security` and `_meta`, or without.
fn shown(entry: &Entry, form: Form) -> Result<mcp::Tool, RpcError> {
    #[derive(Serialize)]
    struct Mirror<'a, T> {
        security: &'a T,
    }
    let definition = &entry.definition;
    let mut shown = mcp::Tool::clone(definition);
    if !entry.tool.proposed.is_empty() {
        hide_tool_members(&mut shown, entry.tool.proposed.difference(form.proposals));
    }
    if !form.media {
        MediaSignature::remove(&mut shown);
    }
    if !form.modern {
        // Before 2026-07-28, structured content had to be an object, so schemas of other types are omitted.
        shown.output_schema = shown.output_schema.and_then(legacy_output_schema);
    }
    if !form.security {
        shown.security = None;
    } else if let Some(security) = &definition.security {
        shown.meta.get_or_insert_default().encode(key::MGP, &Mirror { security })?;
    }
    Ok(shown)
}
