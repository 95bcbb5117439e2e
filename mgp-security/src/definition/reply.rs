//! Processing of tool lists on their way to the caller: definitions are reviewed and pinned, and tools that the caller
//! must not see are left out.

use mgp_types::mcp::key;
use mgp_types::method::ToolsList;
use mgp_types::mgp::{Extension, RiskLevel};
use mgp_types::service::{Authority, Call, Context, Reply, ServerId};
use mgp_types::{Extras, Payload, RpcError, Sha256Hash, differs_only_in_case};
use serde::Deserialize;

use super::DefinitionState;
use super::definitions::Definitions;
use super::refused::DefinitionRefused;
use super::server_listing::ListExtent;
use crate::error::Refusal;

#[derive(Deserialize)]
pub(super) struct Page {
    pub(super) tools: Vec<Payload>,
    #[serde(rename = "nextCursor", default)]
    pub(super) next: Option<String>,
}

/// Returns [`ListExtent::Complete`] if a request asks for the first page, otherwise [`ListExtent::Page`]: only the
/// answer to a request for the first page can be the whole list. Must be called before the request is sent.
pub(crate) fn page(definitions: &Definitions, server: &ServerId, call: &Call) -> ListExtent {
    match call.params().get::<<ToolsList as mgp_types::method::Request>::Params>() {
        Ok(params) if params.cursor.is_none() => {
            ListExtent::Complete { announced: definitions.announced(server) }
        }
        _ => ListExtent::Page,
    }
}

/// Reviews and pins the tools of a list, and removes the tools that the caller must not see.
pub(crate) async fn watch(
    definitions: &Definitions,
    server: &ServerId,
    cx: &Context,
    asked: ListExtent,
    mut reply: Reply,
) -> Result<Reply, RpcError> {
    let Some(body) = reply.as_body_mut() else { return Ok(reply) };
    let whole = Payload::from_trusted(String::from_utf8_lossy(&body.to_json()).into_owned());
    let page: Page = read_page(&whole).map_err(|error| {
        let reason = RpcError::internal(format!("its list of tools cannot be read: {error}"));
        RpcError::from(Refusal::Unlisted { server: server.clone(), reason })
    })?;
    let extent = if page.next.is_none() { asked } else { ListExtent::Page };
    let taken = definitions.take(server, &page.tools, extent);
    let hashes = taken.await.map_err(Refusal::Unchanged)?;
    let shown = page.tools.iter().enumerate();
    let shown: Vec<Option<Payload>> =
        shown.map(|(at, raw)| show(definitions, server, cx, raw, hashes.get(at))).collect();
    if shown.iter().zip(&page.tools).all(|(shown, raw)| shown.as_ref() == Some(raw)) {
        return Ok(reply);
    }
    let kept: Vec<_> = shown.into_iter().flatten().collect();
    body.insert("tools", Payload::of(&kept)?);
    Ok(reply)
}

/// Reads a list. Refuses a list with a second member whose name differs only in case, because a host that ignores the
/// case of names would use that member instead.
fn read_page(list: &Payload) -> Result<Page, RpcError> {
    let members: Extras = list.get()?;
    if members.iter().any(|(name, _)| differs_only_in_case(name, "tools")) {
        return Err(RpcError::internal("a member differs from `tools` only in case"));
    }
    list.get()
}

/// Returns a tool in the form that this caller is allowed to see, or `None` if it is left out of the caller's list.
pub(super) fn show(
    definitions: &Definitions,
    server: &ServerId,
    cx: &Context,
    raw: &Payload,
    hash: Option<&Sha256Hash>,
) -> Option<Payload> {
    let tool: Extras = raw.get().ok()?;
    let name: String = tool.get("name")?.get().ok()?;
    let standing = definitions.state(Some(server), &name);
    if standing == DefinitionState::Pinned {
        // Meanwhile, a later list with another definition of the tool may have been processed. Then this definition is
        // outdated, so leave it out.
        if hash.is_some() && definitions.listed(server, &name) != hash.copied() {
            return None;
        }
        let risk = definitions.assessment(Some(server), &name).effective_risk.clone();
        return Some(annotated(cx, raw, tool, &risk));
    }
    // An operator sees that the tool exists and why it is disabled, but not the description and schema of the tool.
    if cx.principal.authority() != Authority::Operator || standing == DefinitionState::Unseen {
        return None;
    }
    let refused = DefinitionRefused::new(server, &name, standing, &cx.principal);
    let mut stub = Extras::new();
    let mut meta = Extras::new();
    let mut flagged = Extras::new();
    flagged.insert("definition", Payload::of(&refused.details()).ok()?);
    meta.insert(key::MGP, Payload::of(&flagged).ok()?);
    stub.encode("name", &super::review::visible(&name)).ok()?;
    stub.encode("description", &format!("Disabled: {refused}.")).ok()?;
    stub.insert("inputSchema", Payload::from_trusted(r#"{"type":"object"}"#));
    stub.insert("_meta", Payload::of(&meta).ok()?);
    Payload::of(&stub).ok()
}

/// Returns the definition of a tool. Its effective risk is added as a member, if the caller supports that member.
///
/// If the server itself sent a member of this name, its value is replaced, or the member is removed if the caller does
/// not support it.
fn annotated(cx: &Context, raw: &Payload, mut tool: Extras, risk: &RiskLevel) -> Payload {
    const MEMBER: &str = "effective_risk_level";
    let is_supported = cx.caller.has(Extension::ToolSecurity) || cx.caller.has(Extension::Security);
    // The member's name may be written with escapes, so a text that contains an escape must be parsed, too.
    let may_have_member = raw.as_str().contains(MEMBER) || raw.as_str().contains("\\u");
    if !is_supported && !may_have_member {
        return raw.clone();
    }
    let object = |value: Option<&Payload>| value.and_then(|value| value.get::<Extras>().ok());
    let set = |security: &mut Extras| {
        if is_supported {
            let _ = security.encode(MEMBER, risk);
        } else {
            security.remove(MEMBER);
        }
    };
    let mut meta = object(tool.get("_meta")).unwrap_or_default();
    let mut mirror = object(meta.get(key::MGP)).unwrap_or_default();
    let write = |object: &mut Extras, name: &str, member: &Extras| {
        if let Ok(member) = Payload::of(member) {
            object.insert(name, member);
        }
    };
    if let Some(mut security) = object(tool.get("security")) {
        set(&mut security);
        write(&mut tool, "security", &security);
    }
    if let Some(mut security) = object(mirror.get("security")) {
        set(&mut security);
        write(&mut mirror, "security", &security);
    } else {
        set(&mut mirror);
    }
    if !mirror.is_empty() {
        write(&mut meta, key::MGP, &mirror);
        write(&mut tool, "_meta", &meta);
    }
    Payload::of(&tool).unwrap_or_else(|_| raw.clone())
}
