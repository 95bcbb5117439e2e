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

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};
    use mgp_types::method::{
        Cancelled, Notification as _, Ping, PromptsGet, ResourcesRead, ToolsCall,
    };

    use super::*;

    const MODERN: &str = "2026-07-28";

    fn parts(headers: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::new(());
        for (name, value) in headers {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            request.headers_mut().append(*name, value);
        }
        request.into_parts().0
    }

    /// The era of a message, or how it is refused.
    fn era_of(
        kind: Kind,
        headers: &[(&'static str, &str)],
        method: &str,
        params: &str,
    ) -> Result<Era, String> {
        let parts = parts(headers);
        let params = Params::split(method, params.to_owned().into()).unwrap();
        let announced = Announced::read(&parts).map_err(|why| why.to_string())?;
        announced.era(kind, &Method::of(method), &params).map_err(|why| why.to_string())
    }

    #[track_caller]
    fn check(headers: &[(&'static str, &str)], method: &str, members: &str, expected: &str) {
        let params = format!(
            r#"{{{members}"_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}"}}}}"#
        );
        match era_of(Kind::Request, headers, method, &params) {
            Ok(era) => assert_eq!(format!("{era:?}"), expected),
            Err(why) => assert!(why.contains(expected), "{why}"),
        }
    }

    #[test]
    fn modern_headers_say_what_the_body_says() {
        let version = ("mcp-protocol-version", MODERN);
        let call = ("mcp-method", ToolsCall::METHOD);
        let tool = ToolsCall::METHOD;
        let name = r#""name":"look","#;
        check(&[version, call, ("mcp-name", "look")], tool, name, "Modern");
        check(&[version, call, ("mcp-name", "=?base64?bG9vaw==?=")], tool, name, "Modern");
        for (headers, expected) in [
            (&[call, ("mcp-name", "look")][..], "`MCP-Protocol-Version` is missing"),
            (
                &[("mcp-protocol-version", "2025-11-25"), call],
                "`MCP-Protocol-Version` is `2025-11-25`",
            ),
            (&[version, version, call], "`MCP-Protocol-Version` stands twice"),
            (&[version, ("mcp-name", "look")], "`Mcp-Method` is missing"),
            (&[version, ("mcp-method", "Tools/Call")], "`Mcp-Method` is `Tools/Call`"),
            (&[version, call, call, ("mcp-name", "look")], "`Mcp-Method` stands twice"),
            (&[version, call], "`Mcp-Name` is missing"),
            (&[version, call, ("mcp-name", "Look")], "`Mcp-Name` is `Look`"),
            (&[version, call, ("mcp-name", "")], "`Mcp-Name` is ``"),
            (&[version, call, ("mcp-name", "=?base64?bG9va?=")], "`Mcp-Name` is"),
            (&[version, call, ("mcp-name", "=?base64?/w==?=")], "`Mcp-Name` is"),
        ] {
            check(headers, tool, name, expected);
        }
        // A header that is no text equals nothing, not even what it is shown as.
        let odd = [version, call, ("mcp-name", "\u{fffd}")];
        check(&odd, tool, "\"name\":\"\u{fffd}\",", "`Mcp-Name` is no text");
    }

    #[test]
    fn other_targets_are_named_too() {
        let version = ("mcp-protocol-version", MODERN);
        let prompt = ("mcp-method", PromptsGet::METHOD);
        check(
            &[version, prompt, ("mcp-name", "p")],
            PromptsGet::METHOD,
            r#""name":"p","#,
            "Modern",
        );
        check(&[version, prompt], PromptsGet::METHOD, r#""name":"p","#, "`Mcp-Name` is missing");
        let read = [version, ("mcp-method", ResourcesRead::METHOD), ("mcp-name", "a:/b")];
        check(&read, ResourcesRead::METHOD, r#""uri":"a:/b","#, "Modern");
        check(&read, ResourcesRead::METHOD, r#""uri":"a:/c","#, "`Mcp-Name` is `a:/b`");
        let task = ("mcp-method", TasksGet::METHOD);
        check(&[version, task], TasksGet::METHOD, r#""taskId":"t","#, "Modern");
        let other = [version, task, ("mcp-name", "u")];
        check(&other, TasksGet::METHOD, r#""taskId":"t","#, "`Mcp-Name` is `u`");
    }

    #[test]
    fn the_body_decides_the_era_where_it_says_one() {
        let modern = [("mcp-protocol-version", MODERN)];
        let ping = |headers: &[_]| era_of(Kind::Request, headers, Ping::METHOD, "{}");
        assert_eq!(ping(&[]), Ok(Era::Legacy));
        assert_eq!(ping(&[("mcp-protocol-version", "2025-06-18")]), Ok(Era::Legacy));
        assert!(ping(&modern).unwrap_err().contains("`_meta` lacks"));
        let hello = era_of(Kind::Request, &modern, Initialize::METHOD, "{}");
        assert!(hello.unwrap_err().contains("does not have"));
        // A notification says nothing of itself.
        let cancels = [modern[0], ("mcp-method", Cancelled::METHOD)];
        let told = |headers: &[_]| era_of(Kind::Notification, headers, Cancelled::METHOD, "{}");
        assert_eq!(told(&cancels), Ok(Era::Modern));
        assert!(told(&modern).unwrap_err().contains("`Mcp-Method` is missing"));
        let odd = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}"#;
        assert!(era_of(Kind::Request, &[], Ping::METHOD, odd).is_err());
        let escaped = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026\u002d07-28"}}"#;
        let headers = [modern[0], ("mcp-method", Ping::METHOD)];
        assert_eq!(era_of(Kind::Request, &headers, Ping::METHOD, escaped), Ok(Era::Modern));
    }

    #[test]
    fn a_session_is_held_to_its_revision() {
        let legacy = |version: Option<&str>, settled: Option<&Revision>| {
            let headers: Vec<_> =
                version.map(|version| ("mcp-protocol-version", version)).into_iter().collect();
            let parts = parts(&headers);
            Announced::read(&parts).unwrap().legacy(settled).map_err(|why| why.to_string())
        };
        let settled = Some(&Revision::V2025_11_25);
        assert_eq!(legacy(None, settled), Ok(()));
        assert_eq!(legacy(Some("2025-11-25"), settled), Ok(()));
        assert_eq!(legacy(Some("2025-06-18"), None), Ok(()));
        assert!(legacy(Some("2025-06-18"), settled).unwrap_err().contains("of a session"));
        for unknown in ["", "1999-01-01", "\u{fffd}"] {
            assert!(legacy(Some(unknown), settled).unwrap_err().contains("not spoken"));
        }
    }
}
