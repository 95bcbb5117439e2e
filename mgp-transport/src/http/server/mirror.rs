//! To which era a message belongs, and whether its headers say what its body says (MCP transports).
//!
//! Whoever routes or filters by header must be able to trust that the server reads the same in the body.
//!
//! Applies to: inbound.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::HeaderName;
use http::request::Parts;
use mgp_types::RpcError;
use mgp_types::mcp::{Era, Revision};
use mgp_types::method::{Initialize, Request as _, TasksCancel, TasksGet, TasksUpdate};
use mgp_types::service::{HeaderParams, Kind, MetaKey, Method, Params};
use serde::Deserialize;

use super::guard::{NO_TEXT, only};
use super::refusal::Refusal;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const PARAM: &str = "mcp-param-";

/// What the headers of a request say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced<'a> {
    headers: &'a HeaderMap,
    version: Option<&'a str>,
}

impl<'a> Announced<'a> {
    /// Reads the version header.
    pub(super) fn read(parts: &'a Parts) -> Result<Self, Refusal> {
        let version =
            only(&parts.headers, &VERSION).map_err(|()| Refusal::Twice("MCP-Protocol-Version"))?;
        Ok(Self { headers: &parts.headers, version })
    }

    /// Whether they say that the request stands alone.
    pub(super) fn is_modern(self) -> bool {
        self.version == Some(Revision::MODERN.as_str())
    }

    /// Whether they name a revision we do not know, or another than the session settled on.
    pub(super) fn legacy(self, settled: Option<&Revision>) -> Result<(), Refusal> {
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
    pub(super) fn era(self, kind: Kind, method: &Method, params: &Params) -> Result<Era, Refusal> {
        let Some(inside) = revision_inside(params)? else {
            if !self.is_modern() {
                return Ok(Era::Legacy);
            }
            // A notification says nothing of itself.
            if kind == Kind::Notification {
                return self.method(method).map(|()| Era::Modern);
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
        self.method(method)?;
        self.name(method, params)?;
        Ok(Era::Modern)
    }

    fn method(self, method: &Method) -> Result<(), Refusal> {
        self.same(&METHOD, "Mcp-Method", method.as_str(), Presence::Required)
    }

    fn name(self, method: &Method, params: &Params) -> Result<(), Refusal> {
        #[derive(Deserialize)]
        struct Task {
            #[serde(rename = "taskId")]
            task_id: String,
        }
        if let Some(target) = params.target() {
            return self.same(&NAME, "Mcp-Name", target.as_str(), Presence::Required);
        }
        let is_task =
            [TasksGet::METHOD, TasksUpdate::METHOD, TasksCancel::METHOD].contains(&method.as_str());
        match params.get::<Task>() {
            Ok(task) if is_task => self.same(&NAME, "Mcp-Name", &task.task_id, Presence::Optional),
            _ => Ok(()),
        }
    }

    fn same(
        self,
        header: &HeaderName,
        shown: &'static str,
        body: &str,
        presence: Presence,
    ) -> Result<(), Refusal> {
        let came = only(self.headers, header).map_err(|()| Refusal::Twice(shown))?;
        let mismatch =
            |came: String| Err(Refusal::Mismatch { header: shown, came, body: quoted(body) });
        match came {
            None if presence == Presence::Optional => Ok(()),
            None => mismatch("missing".to_owned()),
            // Bytes that are no text equal nothing, whatever stands in the body.
            Some(NO_TEXT) => mismatch("no text".to_owned()),
            Some(came) if decoded(came).as_deref() == Some(body) => Ok(()),
            Some(came) => mismatch(quoted(came)),
        }
    }

    /// The arguments that stand in headers.
    pub(super) fn params(self) -> HeaderParams {
        let mut params = HeaderParams::new();
        for (name, value) in self.headers {
            if let Some(name) = name.as_str().strip_prefix(PARAM) {
                // No reader of such a header takes it.
                params.push(name, value.to_str().unwrap_or(NO_TEXT));
            }
        }
        params
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

/// The text a header stands for: itself, or what is in `=?base64?…?=`.
fn decoded(value: &str) -> Option<Cow<'_, str>> {
    let Some(inside) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="))
    else {
        return Some(Cow::Borrowed(value));
    };
    let bytes = STANDARD.decode(inside).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn quoted(text: &str) -> String {
    format!("`{}`", text.chars().take(200).collect::<String>())
}
