//! Determines the [protocol era](Era) of a message, and checks that its headers repeat the values in its body (MCP
//! transports).
//!
//! Intermediaries that route or filter by headers must be able to rely on the server finding the
//! same values in the body.

use std::borrow::Cow;

use mgp_types::RpcError;
use mgp_types::mcp::{Era, Revision};
use mgp_types::method::{Initialize, Request as _};
use mgp_types::service::{HeaderTarget, Kind, MetaKey, Method, Params, decode_header};

use super::headers::{NOT_TEXT, RequestHeaders};
use super::refusal::{Refusal, clip_text};

impl RequestHeaders<'_> {
    /// Returns whether the headers name the modern revision, whose requests have no session.
    pub(super) fn is_modern(&self) -> bool {
        self.version == Some(Revision::MODERN.as_str())
    }

    /// Checks the revision in the headers of a legacy message; fails if it is unknown.
    ///
    /// The revision in the headers may differ from the revision that the session negotiated; the negotiated revision
    /// applies. The difference is not an error, because MCP requires status 400 for invalid and unsupported revisions
    /// only, and some clients always name the same revision.
    pub(super) fn check_legacy_revision(&self) -> Result<(), Refusal> {
        let Some(version) = self.version else { return Ok(()) };
        if Revision::LEGACY.iter().any(|revision| revision.as_str() == version) {
            return Ok(());
        }
        Err(Refusal::Version(clip_text(version)))
    }

    /// Returns the era of a message; for a modern message, also checks its headers.
    pub(super) fn era(&self, kind: Kind, method: &Method, params: &Params) -> Result<Era, Refusal> {
        let Some(inside) = revision_in_body(params)? else {
            if !self.is_modern() {
                return Ok(Era::Legacy);
            }
            // The body of a notification contains no revision, so the revision in the headers decides.
            if kind == Kind::Notification {
                return self.check_method(kind, method).map(|()| Era::Modern);
            }
            if method.as_str() == Initialize::METHOD {
                return Err(Refusal::Mismatch {
                    header: "MCP-Protocol-Version",
                    found: quoted(Revision::MODERN.as_str()),
                    body: "`initialize`, which that revision does not have".to_owned(),
                });
            }
            return Err(Refusal::NoMeta);
        };
        if self.version != Some(&*inside) {
            return Err(Refusal::Mismatch {
                header: "MCP-Protocol-Version",
                found: self.version.map_or_else(|| "missing".to_owned(), quoted),
                body: quoted(&inside),
            });
        }
        self.check_method(kind, method)?;
        self.check_name(method, params)?;
        Ok(Era::Modern)
    }

    fn check_method(&self, kind: Kind, method: &Method) -> Result<(), Refusal> {
        // MCP requires the header for requests only, and the SDK of TypeScript (2.4) sends notifications without it.
        // The methods of requests need it in any case, because intermediaries filter them by the header.
        let is_optional =
            kind == Kind::Notification && method.as_str().starts_with("notifications/");
        let presence = if is_optional { Presence::Optional } else { Presence::Required };
        check_header("Mcp-Method", self.method, method.as_str(), presence)
    }

    fn check_name(&self, method: &Method, params: &Params) -> Result<(), Refusal> {
        match HeaderTarget::of(method, params) {
            Some(HeaderTarget::Named(name)) => {
                check_header("Mcp-Name", self.name, name, Presence::Required)
            }
            Some(HeaderTarget::Task(id)) => {
                check_header("Mcp-Name", self.name, &id, Presence::Optional)
            }
            // The call has no target to compare, or its params are invalid. Invalid params are reported by the handler
            // of the method.
            None => Ok(()),
        }
    }
}

fn check_header(
    header: &'static str,
    found: Option<&str>,
    body: &str,
    presence: Presence,
) -> Result<(), Refusal> {
    let mismatch = |found: String| Err(Refusal::Mismatch { header, found, body: quoted(body) });
    match found {
        None if presence == Presence::Optional => Ok(()),
        None => mismatch("missing".to_owned()),
        // A header that is not text never matches, even if the body contains the placeholder for such a header.
        Some(NOT_TEXT) => mismatch("not text".to_owned()),
        Some(found) if decode_header(found).as_deref() == Some(body) => Ok(()),
        Some(found) => mismatch(quoted(found)),
    }
}

/// The rule whether a header must be present.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    Optional,
}

/// Returns the revision in the request's `_meta`, which only modern requests have.
fn revision_in_body(params: &Params) -> Result<Option<Cow<'_, str>>, Refusal> {
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
    format!("`{}`", clip_text(text))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use mgp_types::method::{
        Cancelled, Notification as _, Ping, PromptsGet, ResourcesRead, TasksGet, ToolsCall,
    };

    use super::*;

    const MODERN: &str = "2026-07-28";

    fn map(headers: &[(&'static str, &str)]) -> HeaderMap {
        let value = |value: &str| HeaderValue::from_bytes(value.as_bytes()).unwrap();
        let mut map = HeaderMap::new();
        for (name, text) in headers {
            map.append(*name, value(text));
        }
        map
    }

    /// Returns the era of a message, or the text of its refusal.
    fn era_of(
        kind: Kind,
        headers: &[(&'static str, &str)],
        method: &str,
        params: &str,
    ) -> Result<Era, String> {
        let map = map(headers);
        let params = Params::split(method, params.to_owned().into()).unwrap();
        let headers = RequestHeaders::read(&map).map_err(|why| why.to_string())?;
        headers.era(kind, &Method::of(method), &params).map_err(|why| why.to_string())
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
    fn modern_headers_repeat_the_body() {
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
            (&[version, version, call], "`MCP-Protocol-Version` occurs twice"),
            (&[version, ("mcp-name", "look")], "`Mcp-Method` is missing"),
            (&[version, ("mcp-method", "Tools/Call")], "`Mcp-Method` is `Tools/Call`"),
            (&[version, call, call, ("mcp-name", "look")], "`Mcp-Method` occurs twice"),
            (&[version, call], "`Mcp-Name` is missing"),
            (&[version, call, ("mcp-name", "Look")], "`Mcp-Name` is `Look`"),
            (&[version, call, ("mcp-name", "")], "`Mcp-Name` is ``"),
            (&[version, call, ("mcp-name", "=?base64?bG9va?=")], "`Mcp-Name` is"),
            (&[version, call, ("mcp-name", "=?base64?/w==?=")], "`Mcp-Name` is"),
        ] {
            check(headers, tool, name, expected);
        }
        // A header that is not text equals no value, not even the placeholder that replaces it in messages.
        let odd = [version, call, ("mcp-name", "\u{fffd}")];
        check(&odd, tool, "\"name\":\"\u{fffd}\",", "`Mcp-Name` is not text");
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
    fn the_body_decides_the_era_if_it_names_one() {
        let modern = [("mcp-protocol-version", MODERN)];
        let ping = |headers: &[_]| era_of(Kind::Request, headers, Ping::METHOD, "{}");
        assert_eq!(ping(&[]), Ok(Era::Legacy));
        assert_eq!(ping(&[("mcp-protocol-version", "2025-06-18")]), Ok(Era::Legacy));
        assert!(ping(&modern).unwrap_err().contains("`_meta` lacks"));
        let hello = era_of(Kind::Request, &modern, Initialize::METHOD, "{}");
        assert!(hello.unwrap_err().contains("does not have"));
        // The body of a notification contains no revision, so its headers decide the era.
        let cancels = [modern[0], ("mcp-method", Cancelled::METHOD)];
        let notify = |headers: &[_]| era_of(Kind::Notification, headers, Cancelled::METHOD, "{}");
        assert_eq!(notify(&cancels), Ok(Era::Modern));
        assert_eq!(notify(&modern), Ok(Era::Modern), "a notification may lack the header");
        let other = notify(&[modern[0], ("mcp-method", Ping::METHOD)]);
        assert!(other.unwrap_err().contains("`Mcp-Method` is `ping`"));
        let call = era_of(Kind::Notification, &modern, ToolsCall::METHOD, "{}");
        assert!(call.unwrap_err().contains("`Mcp-Method` is missing"));
        check(&modern, Cancelled::METHOD, "", "`Mcp-Method` is missing");
        let odd = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}"#;
        assert!(era_of(Kind::Request, &[], Ping::METHOD, odd).is_err());
        let escaped = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026\u002d07-28"}}"#;
        let headers = [modern[0], ("mcp-method", Ping::METHOD)];
        assert_eq!(era_of(Kind::Request, &headers, Ping::METHOD, escaped), Ok(Era::Modern));
    }

    #[test]
    fn a_legacy_message_may_name_any_revision_of_its_era() {
        let legacy = |version: Option<&str>| {
            let headers: Vec<_> =
                version.map(|version| ("mcp-protocol-version", version)).into_iter().collect();
            let map = map(&headers);
            let headers = RequestHeaders::read(&map).unwrap();
            headers.check_legacy_revision().map_err(|why| why.to_string())
        };
        for version in [None, Some("2025-11-25"), Some("2025-06-18"), Some("2024-11-05")] {
            assert_eq!(legacy(version), Ok(()));
        }
        for unknown in ["", "1999-01-01", "\u{fffd}"] {
            assert!(legacy(Some(unknown)).unwrap_err().contains("not supported"));
        }
    }
}
