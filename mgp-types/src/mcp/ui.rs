//! MCP Apps: pages that a host shows for the results of tools (extension `io.modelcontextprotocol/ui`, SEP-1865).

use super::{ClientCapabilities, Meta, Tool, key};
use crate::record::{List, Object, open_enum, record};
use crate::{Payload, RpcError};

open_enum! {
    /// A user of a tool: the model or a page.
    pub enum UiAudience {
        /// The model.
        Model = "model",
        /// A page of the tool's server that a host shows.
        App = "app",
    }
}

record! {
    /// `_meta.ui` of a tool.
    pub struct UiToolMeta {
        /// The URI of the page that shows the results of the tool.
        opt resource_uri as "resourceUri": Option<String>,
        /// The users who are allowed to use the tool; if absent, both the model and the page.
        list visibility: List<UiAudience>,
    }

    /// The origins that a page is allowed to use, by purpose; none by default.
    pub struct UiCsp {
        /// The origins to which the page is allowed to send requests.
        list connect_domains as "connectDomains": List<String>,
        /// The origins from which the page is allowed to load scripts, images, styles, fonts and media.
        list resource_domains as "resourceDomains": List<String>,
        /// The origins of the pages that are allowed in nested frames.
        list frame_domains as "frameDomains": List<String>,
        /// The permitted base URIs of the page.
        list base_uri_domains as "baseUriDomains": List<String>,
    }

    /// `_meta.ui` of a page.
    pub struct UiResourceMeta {
        /// The origins that the page uses.
        opt csp: Option<UiCsp>,
        /// The browser features that the page requests, e.g. `clipboardWrite`, each with an empty object.
        opt permissions: Option<Object>,
        /// The origin of the page's sandbox.
        opt domain: Option<String>,
        /// `true` if the host should draw a border.
        opt prefers_border as "prefersBorder": Option<bool>,
    }

    /// The settings of the MCP Apps extension that a client declares.
    pub struct UiCapability {
        /// The media types of pages that the client shows.
        list mime_types as "mimeTypes": List<String>,
    }
}

/// The media type of a page that a host shows for a tool.
pub const UI_MIME_TYPE: &str = "text/html;profile=mcp-app";

impl UiToolMeta {
    /// Reads `_meta.ui` of a tool, and the older member `_meta["ui/resourceUri"]`; `None` if the tool has neither.
    #[must_use]
    pub fn of(tool: &Tool) -> Option<Self> {
        let meta = tool.meta.as_ref()?;
        let mut ui: Option<Self> = meta.decode(key::UI).ok().flatten();
        if ui.as_ref().is_none_or(|ui| ui.resource_uri.is_none())
            && let Ok(Some(uri)) = meta.decode::<String>(key::UI_RESOURCE_URI)
        {
            ui.get_or_insert_default().resource_uri = Some(uri);
        }
        ui
    }

    /// Writes the metadata to `_meta.ui` of a tool. If the tool has the older member `_meta["ui/resourceUri"]`, the URI
    /// is also written there.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the members cannot be encoded.
    pub fn put(&self, tool: &mut Tool) -> Result<(), RpcError> {
        let meta = tool.meta.get_or_insert_with(Meta::new);
        meta.insert(key::UI, Payload::of(self)?);
        if let Some(uri) = &self.resource_uri
            && meta.get(key::UI_RESOURCE_URI).is_some()
        {
            meta.insert(key::UI_RESOURCE_URI, Payload::of(uri)?);
        }
        Ok(())
    }

    /// Returns whether models are allowed to use the tool.
    #[must_use]
    pub fn is_for_models(&self) -> bool {
        self.visibility.is_empty() || self.visibility.contains(&UiAudience::Model)
    }
}

impl ClientCapabilities {
    /// Returns whether the client shows pages of the media type [`UI_MIME_TYPE`].
    #[must_use]
    pub fn shows_apps(&self) -> bool {
        let ui = self.extensions.as_ref().and_then(|all| all.get(key::UI_EXTENSION));
        ui.and_then(|ui| ui.get::<UiCapability>().ok())
            .is_some_and(|ui| ui.mime_types.iter().any(|mime| mime == UI_MIME_TYPE))
    }

    /// Declares that the client shows pages of the media type [`UI_MIME_TYPE`].
    pub fn declare_apps(&mut self) {
        let settings = Payload::from_trusted(format!(r#"{{"mimeTypes":["{UI_MIME_TYPE}"]}}"#));
        self.extensions.get_or_insert_default().insert(key::UI_EXTENSION.to_owned(), settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_shows_apps_only_if_it_declares_the_media_type() {
        for (text, shows) in [
            (
                r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#,
                true,
            ),
            (r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html"]}}}"#, false),
            (r#"{"extensions":{"io.modelcontextprotocol/ui":{}}}"#, false),
            (r#"{"extensions":{"io.modelcontextprotocol/ui":5}}"#, false),
            ("{}", false),
        ] {
            let capabilities: ClientCapabilities = serde_json::from_str(text).unwrap();
            assert_eq!(capabilities.shows_apps(), shows, "{text}");
        }
        let mut own = ClientCapabilities::new();
        own.declare_apps();
        assert!(own.shows_apps());
    }

    #[test]
    fn both_members_with_the_uri_of_a_page_are_read_and_written() {
        for (meta, visible) in [
            (r#"{"ui":{"resourceUri":"ui://a","visibility":["app"]}}"#, false),
            (r#"{"ui/resourceUri":"ui://a"}"#, true),
            (r#"{"ui":{"resourceUri":"ui://a"},"ui/resourceUri":"ui://a"}"#, true),
        ] {
            let text = format!(r#"{{"name":"t","inputSchema":{{}},"_meta":{meta}}}"#);
            let mut tool: Tool = serde_json::from_str(&text).unwrap();
            let mut ui = UiToolMeta::of(&tool).unwrap();
            assert_eq!(ui.resource_uri.as_deref(), Some("ui://a"));
            assert_eq!(ui.is_for_models(), visible, "{meta}");
            ui.resource_uri = Some("ui://b".to_owned());
            ui.put(&mut tool).unwrap();
            assert!(!serde_json::to_string(&tool).unwrap().contains("ui://a"));
        }
    }
}
