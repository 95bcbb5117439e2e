//! A scripted model in a host; it calls only tools that were in its tool list or in an answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, ToolResult as _};
use mgp_types::mcp::Era;
use serde_json::{Value, json};

use crate::world::World;

/// Configuration with which the kernel lists only the discovery tools, even if there are few other tools.
pub(crate) const SEARCH: &str = "[kernel]\nsurface = \"search\"\n";

/// The way in which a host lets its model call a tool that the model has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// The host calls the tool directly, by its name.
    ByName,
    /// The host calls the tool through `mgp_tools_call`, because it permits only calls of listed tools.
    Through,
}

/// The protocol that a host speaks: MCP only, or MCP with MGP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speaks {
    Plain,
    Mgp,
}

/// A scripted model and its host.
pub(crate) struct Model {
    pub(crate) host: Client,
    /// The tools that the model knows, with their input schemas.
    knows: BTreeMap<String, Value>,
    /// The number of list changes that the host has received.
    pub(crate) changes: Arc<AtomicUsize>,
    way: Way,
}

impl Model {
    pub(crate) async fn new(world: &World, era: Era, speaks: Speaks, way: Way) -> Self {
        let changes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&changes);
        let builder = Client::builder("host", "1").on_change(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let builder = if speaks == Speaks::Plain { builder.without_mgp() } else { builder };
        let host = world.host("ada", era, builder).await;
        let mut model = Self { host, knows: BTreeMap::new(), changes, way };
        model.look().await;
        model
    }

    /// Reads the tool list; the model then forgets all tools that are not in it.
    pub(crate) async fn look(&mut self) -> Vec<String> {
        let tools = self.host.list_tools().await.unwrap();
        let entry = |tool: &mgp_types::mcp::Tool| {
            (tool.name.clone(), serde_json::to_value(&tool.input_schema).unwrap())
        };
        self.knows = tools.iter().map(entry).collect();
        self.knows.keys().cloned().collect()
    }

    /// Calls a tool that the model knows, and returns the text of the result.
    pub(crate) async fn calls(&mut self, tool: &str, arguments: Value) -> String {
        let schema =
            self.knows.get(tool).unwrap_or_else(|| panic!("the model does not know `{tool}`"));
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for name in &required {
            assert!(!arguments[name.as_str().unwrap()].is_null(), "{tool} needs {name}");
        }
        let is_own = tool.starts_with("mgp_");
        let result = if self.way == Way::Through && !is_own {
            let call = json!({"name": tool, "arguments": arguments});
            self.host.call("mgp_tools_call").args(call).await
        } else {
            self.host.call(tool).args(arguments).await
        };
        let result = result.unwrap();
        assert_ne!(result.is_error, Some(true), "{tool}: {}", result.to_text());
        result.to_text()
    }

    /// Calls a tool whose answer contains definitions of tools under the key `reply`. From then on, the model can also
    /// call these tools.
    pub(crate) async fn learns(&mut self, tool: &str, arguments: Value, reply: &str) -> Value {
        let answer: Value = serde_json::from_str(&self.calls(tool, arguments).await).unwrap();
        for tool in answer[reply].as_array().unwrap() {
            let name = tool["name"].as_str().unwrap().to_owned();
            self.knows.insert(name, tool["inputSchema"].clone());
        }
        answer
    }
}
