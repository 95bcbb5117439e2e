//! Capabilities that each side declares (MCP capabilities, MGP §2.2, §2.3).

use super::key;
use crate::mgp::MgpCapability;
use crate::record::{Lenient, Object, decode, record};

record! {
    /// The capability of a peer that offers a list, e.g. of tools.
    pub struct ListChanged {
        /// `true` if the peer announces changes of the list.
        opt list_changed as "listChanged" read flag: Option<bool>,
    }

    /// Resource features of a server.
    pub struct ResourcesCapability {
        /// `true` if clients can subscribe to single resources.
        opt subscribe read flag: Option<bool>,
        /// `true` if the peer announces changes of the list of resources.
        opt list_changed as "listChanged" read flag: Option<bool>,
    }

    /// Sampling features of a client.
    pub struct SamplingCapability {
        /// Present if the client supports `includeContext`.
        opt context read capability: Option<Object>,
        /// Present if the client supports `tools` and `toolChoice`.
        opt tools read capability: Option<Object>,
    }

    /// Elicitation modes of a client; if both members are absent, the client supports forms.
    pub struct ElicitationCapability {
        /// Present if the client can show forms.
        opt form read capability: Option<Object>,
        /// Present if the client can send the user to a URL.
        opt url read capability: Option<Object>,
    }

    /// Support for tasks, which are part of the core protocol in MCP 2025-11-25.
    pub struct TasksCapability {
        /// Present if the peer serves `tasks/list`.
        opt list read capability: Option<Object>,
        /// Present if the peer serves `tasks/cancel`.
        opt cancel read capability: Option<Object>,
        /// The requests that the peer can run as tasks.
        opt requests read capability: Option<Object>,
    }

    /// Capabilities of a client.
    pub struct ClientCapabilities {
        /// Experimental capabilities.
        opt experimental read capability: Option<Object>,
        /// Present if the client serves `roots/list`.
        opt roots read capability: Option<ListChanged>,
        /// Present if the client serves `sampling/createMessage`.
        opt sampling read capability: Option<SamplingCapability>,
        /// Present if the client serves `elicitation/create`.
        opt elicitation read capability: Option<ElicitationCapability>,
        /// Present if the client supports tasks (MCP 2025-11-25).
        opt tasks read capability: Option<TasksCapability>,
        /// The supported extensions with their settings, by identifier (MCP 2026-07-28).
        opt extensions read capability: Option<Object>,
        /// The MGP capability (§2.2).
        opt mgp: Option<Lenient<MgpCapability>>,
    }

    /// Capabilities of a server.
    pub struct ServerCapabilities {
        /// Experimental capabilities.
        opt experimental read capability: Option<Object>,
        /// Present if the server sends log messages.
        opt logging read capability: Option<Object>,
        /// Present if the server completes arguments.
        opt completions read capability: Option<Object>,
        /// Present if the server offers prompts.
        opt prompts read capability: Option<ListChanged>,
        /// Present if the server offers resources.
        opt resources read capability: Option<ResourcesCapability>,
        /// Present if the server offers tools.
        opt tools read capability: Option<ListChanged>,
        /// Present if the server supports tasks (MCP 2025-11-25).
        opt tasks read capability: Option<TasksCapability>,
        /// The supported extensions with their settings, by identifier (MCP 2026-07-28).
        opt extensions read capability: Option<Object>,
        /// The MGP capability (§2.3).
        opt mgp: Option<Lenient<MgpCapability>>,
    }
}

impl ClientCapabilities {
    /// Returns the client's MGP capability: `mgp`, else `experimental.mgp`, else the extension `dev.cloto/mgp`.
    #[must_use]
    pub fn find_mgp(&self) -> Option<Lenient<MgpCapability>> {
        find_mgp(self.mgp.as_ref(), self.experimental.as_ref(), self.extensions.as_ref())
    }

    /// Returns the members in which the client declares MGP. A server declares MGP in its answer in the same members.
    #[must_use]
    pub fn mgp_places(&self) -> MgpPlaces {
        let has = |object: &Option<Object>, name| {
            object.as_ref().is_some_and(|object| object.get(name).is_some())
        };
        MgpPlaces {
            capability: self.mgp.is_some(),
            experimental: has(&self.experimental, key::MGP_SHORT),
            extension: has(&self.extensions, key::MGP),
        }
    }
}

/// The members of a client's capabilities in which the client declares MGP. A field is `true` if there is a declaration
/// in that member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MgpPlaces {
    /// The capability `mgp` (§2.2).
    pub capability: bool,
    /// The capability `experimental.mgp`, for clients whose MCP SDK cannot send unknown capabilities.
    pub experimental: bool,
    /// The extension `extensions["dev.cloto/mgp"]`, which modern clients use.
    pub extension: bool,
}

impl ServerCapabilities {
    /// Returns the server's MGP capability: `mgp`, else `experimental.mgp`, else the extension `dev.cloto/mgp`.
    #[must_use]
    pub fn find_mgp(&self) -> Option<Lenient<MgpCapability>> {
        find_mgp(self.mgp.as_ref(), self.experimental.as_ref(), self.extensions.as_ref())
    }
}

fn find_mgp(
    mgp: Option<&Lenient<MgpCapability>>,
    experimental: Option<&Object>,
    extensions: Option<&Object>,
) -> Option<Lenient<MgpCapability>> {
    let member = |object: Option<&Object>, name| {
        object?.get(name).and_then(|raw| decode::<_, serde_json::Error>(raw).ok())
    };
    mgp.cloned()
        .or_else(|| member(experimental, key::MGP_SHORT))
        .or_else(|| member(extensions, key::MGP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_that_is_an_empty_list_or_a_flag_is_read() {
        let text = r#"{"logging":[],"completions":true,"prompts":{"listChanged":1},"resources":false,
            "tools":[ ],"extensions":null}"#;
        let read: ServerCapabilities = serde_json::from_str(text).unwrap();
        assert_eq!(
            serde_json::to_string(&read).unwrap(),
            r#"{"logging":{},"completions":{},"prompts":{"listChanged":true},"tools":{}}"#
        );
        for wrong in [r#"{"tools":7}"#, r#"{"tools":[1]}"#, r#"{"tools":{"listChanged":2}}"#] {
            assert!(serde_json::from_str::<ServerCapabilities>(wrong).is_err(), "{wrong}");
        }
    }

    #[track_caller]
    fn check(text: &str, version: Option<&str>) {
        let capabilities: ServerCapabilities = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&capabilities).unwrap(), text);
        let found = capabilities.find_mgp();
        let found = found.as_ref().and_then(Lenient::valid).map(|mgp| mgp.version.as_str());
        assert_eq!(found, version, "{text}");
    }

    #[test]
    fn mgp_is_found_in_three_places() {
        check(r#"{"mgp":{"version":"0.1.0","extensions":[]}}"#, Some("0.1.0"));
        check(r#"{"experimental":{"mgp":{"version":"0.2.0","extensions":[]}}}"#, Some("0.2.0"));
        check(
            r#"{"extensions":{"dev.cloto/mgp":{"version":"0.3.0","extensions":[]}}}"#,
            Some("0.3.0"),
        );
        check(r#"{"tools":{}}"#, None);
    }

    #[test]
    fn a_malformed_mgp_does_not_break_the_handshake() {
        check(r#"{"tools":{},"mgp":7}"#, None);
        check(r#"{"tools":{},"mgp":{"version":"0.1.0"}}"#, None);
    }
}
