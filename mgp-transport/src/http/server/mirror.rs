//! To which era a message belongs, and whether its headers say what its body says (MCP transports).
//!
//! Whoever routes or filters by header must be able to trust that the server reads the same in the body.
//!
//! Applies to: inbound.

use std::borrow::Cow;

use mgp_types::RpcError;
use mgp_types::mcp::{Era, Revision};
use mgp_types::method::{Initialize, Request as _, TasksCancel, TasksGet, TasksUpdate};
use mgp_types::service::{Kind, MetaKey, Method, Params, decode_header};
use serde::Deserialize;

use super::heads::Heads;
use super::refusal::Refusal;

impl Heads<'_> {
    /// Whether they say that the request stands alone.
    pub(super) fn is_modern(&self) -> bool {
        self.version == Some(Revision::MODERN.as_str())
    }

    /// Whether they name a revision we do not know, or another than the session settled on.
    pub(super) fn legacy(&self, settled: Option<&Revision>) -> Result<(), Refusal> {
        let Some(version) = self.version else { return Ok(()) };
        let known = Revision::LEGACY.iter().any(|revision| revision.as_str() == version);
        if !known {
            return Err(Refusal::Version(version.to_owned()));
        }
        match settled {
            Some(settled) if settled.as_str() != version => Err(Refusal::Mismatch {
                header: "MCP-Protocol-Version",
                came: quoted(version),
                body: format!("is of a session of `{settled}`"),
            }),
            _ => Ok(()),
        }
    }

    /// Decides the era of a message and holds a modern one to its headers.
    pub(super) fn era(&self, kind: Kind, method: &Method, params: &Params) -> Result<Era, Refusal> {
        let Some(inside) = revision_inside(params)? else {
            if !self.is_modern() {
                return Ok(Era::Legacy);
            }
            // A notification says nothing of itself.
            if kind == Kind::Notification {
                return self.says_method(method).map(|()| Era::Modern);
            }
            if method.as_str() == Initialize::METHOD {
                return Err(Refusal::Mismatch {
                    header: "MCP-Protocol-Version",
                    came: quoted(Revision::MODERN.as_str()),
                    body: "`initialize`, which that revision does not have".to_owned(),
                });
            }
            return Err(Refusal::NoMeta);
        };
        if self.version != Some(&*inside) {
            return Err(Refusal::Mismatch {
                header: "MCP-Protocol-Version",
                came: self.version.map_or_else(|| "missing".to_owned(), quoted),
                body: quoted(&inside),
            });
        }
        self.says_method(method)?;
        self.says_name(method, params)?;
        Ok(Era::Modern)
    }

    fn says_method(&self, method: &Method) -> Result<(), Refusal> {
        same("Mcp-Method", self.method, method.as_str(), Presence::Required)
    }

    fn says_name(&self, method: &Method, params: &Params) -> Result<(), Refusal> {
        #[derive(Deserialize)]
        struct Task {
            #[serde(rename = "taskId")]
            task_id: String,
        }
        if let Some(target) = params.target() {
            return same("Mcp-Name", self.name, target.as_str(), Presence::Required);
        }
        let is_task =
            [TasksGet::METHOD, TasksUpdate::METHOD, TasksCancel::METHOD].contains(&method.as_str());
        if !is_task {
            return Ok(());
        }
        match params.get::<Task>() {
            Ok(task) => same("Mcp-Name", self.name, &task.task_id, Presence::Optional),
            // Whoever answers the method says what is wrong with it.
            Err(_) => Ok(()),
        }
    }
}

fn same(
    header: &'static str,
    came: Option<&str>,
    body: &str,
    presence: Presence,
) -> Result<(), Refusal> {
    let mismatch = |came: String| Err(Refusal::Mismatch { header, came, body: quoted(body) });
    match came {
        None if presence == Presence::Optional => Ok(()),
        None => mismatch("missing".to_owned()),
        Some(came) if decode_header(came).as_deref() == Some(body) => Ok(()),
        Some(came) => mismatch(quoted(came)),
    }
}

/// Whether a header may be missing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    Optional,
}

/// The revision a request names in its `_meta`, which only modern ones do.
fn revision_inside(params: &Params) -> Result<Option<Cow<'_, str>>, Refusal> {
    let Some(json) = params.meta_member(MetaKey::Revision) else { return Ok(None) };
    let plain = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    if let Some(plain) = plain.filter(|plain| !plain.contains('\\')) {
        return Ok(Some(Cow::Borrowed(plain)));
    }
    let text = serde_json::from_str::<String>(json).map_err(|error| {
        Refusal::Message(RpcError::invalid_params(error).without_recovery(), None)
    })?;
    Ok(Some(Cow::Owned(text)))
}

fn quoted(text: &str) -> String {
    format!("`{}`", text.chars().take(200).collect::<String>())
}
