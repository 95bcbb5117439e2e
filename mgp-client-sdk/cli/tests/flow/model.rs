//! A scripted model, which calls only tools that it has been listed or given.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, ToolResult as _};
use mgp_types::mcp::Era;
use serde_json::{Value, json};

use crate::world::World;

/// Lists the tools to find tools, however few tools there are.
pub(crate) const SEARCH: &str = "[kernel]\nsurface = \"search\"\n";

/// The way a host lets its model call a tool that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// By the name of the tool.
    ByName,
    /// By `mgp_tools_call`, because only listed tools may be called.
    Through,
}

/// The protocol of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speaks {
    Plain,
    Mgp,
}

/// A model in a host.
pub(crate) struct Model {
    pub(crate) host: Client,
    /// The tools it knows, with the schemas of their arguments.
    knows: BTreeMap<String, Value>,
    /// The number of list changes that its host has received.
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

    /// Reads its list of tools, and forgets all other tools.
    pub(crate) async fn look(&mut self) -> Vec<String> {
        let tools = self.host.list_tools().await.unwrap();
        let entry = |tool: &mgp_types::mcp::Tool| {
            (tool.name.clone(), serde_json::to_value(&tool.input_schema).unwrap())
        };
        self.knows = tools.iter().map(entry).collect();
        self.knows.keys().cloned().collect()
    }

    /// Calls a tool and returns its text.
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

    /// Calls a tool that returns tools, and remembers them.
    pub(crate) async fn learns(&mut self, tool: &str, arguments: Value, reply: &str) -> Value {
        let answer: Value = serde_json::from_str(&self.calls(tool, arguments).await).unwrap();
        for tool in answer[reply].as_array().unwrap() {
            let name = tool["name"].as_str().unwrap().to_owned();
            self.knows.insert(name, tool["inputSchema"].clone());
        }
        answer
    }
}
