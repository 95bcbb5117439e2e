//! MCP Apps: pages that a host shows for the results of tools (`io.modelcontextprotocol/ui`, SEP-1865).

use mgp_types::Payload;
use mgp_types::mcp::{Meta, UI_MIME_TYPE, UiAudience, UiResourceMeta, UiToolMeta, key};

use crate::resource::{Contents, Definition, Resource, Source};
use crate::tool::Tool;

impl Resource {
    /// Creates a page in HTML that a host shows for the results of tools; its URI begins with `ui://`.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::Resource;
    /// use mgp_server_sdk::types::mcp::UiResourceMeta;
    ///
    /// let page = Resource::app("ui://weather/now", "weather", "<!doctype html>…", &UiResourceMeta::new());
    /// let now = Tool::new("now", "The weather now", || async { "rain" }).app("ui://weather/now");
    /// let refresh = Tool::new("refresh", "Reads the weather again", || async { "rain" })
    ///     .app("ui://weather/now")
    ///     .app_only();
    /// let server = Server::new("weather", "1.0").resource(page).tool(now).tool(refresh);
    /// # drop(server);
    /// ```
    pub fn app(
        uri: impl Into<String>,
        name: impl Into<String>,
        html: impl Into<String>,
        settings: &UiResourceMeta,
    ) -> Self {
        let (html, mut meta) = (html.into(), Meta::new());
        if let Ok(settings) = Payload::of(settings) {
            meta.insert(key::UI, settings);
        }
        let mut page = Self::text(uri, name, html.clone()).mime(UI_MIME_TYPE);
        page.source = Source::Ready(Contents::text(html).meta(meta.clone()));
        if let Definition::Fixed(definition) = &mut page.definition {
            definition.meta = Some(meta);
        }
        page
    }
}

impl Tool {
    /// Shows the results of the tool on a page; `uri` is the URI of the resource that contains the page.
    ///
    /// A host that shows no pages shows the result as usual, so the result must be complete without the page.
    pub fn app(self, uri: impl Into<String>) -> Self {
        let uri = uri.into();
        self.change_ui(|ui| ui.resource_uri = Some(uri))
    }

    /// Offers the tool only to pages of this server, and not to models.
    pub fn app_only(self) -> Self {
        self.change_ui(|ui| ui.visibility = vec![UiAudience::App].into())
    }

    fn change_ui(self, change: impl FnOnce(&mut UiToolMeta)) -> Self {
        self.define(|tool| {
            let mut ui = UiToolMeta::of(tool).unwrap_or_default();
            change(&mut ui);
            if let Ok(ui) = Payload::of(&ui) {
                tool.meta.get_or_insert_default().insert(key::UI, ui);
            }
        })
    }
}
