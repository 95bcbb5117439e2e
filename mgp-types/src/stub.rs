//! Temporary.
#![allow(missing_docs)]
use serde::{Serialize, de::DeserializeOwned};
pub mod method {
    use super::*;
    use crate::mcp::*;
    pub struct MethodInfo { pub name: &'static str }
    static KNOWN: [MethodInfo; 4] = [MethodInfo { name: "ping" }, MethodInfo { name: "tools/call" }, MethodInfo { name: "tools/list" }, MethodInfo { name: "initialize" }];
    pub fn lookup(name: &str) -> Option<&'static MethodInfo> { KNOWN.iter().find(|m| m.name == name) }
    pub trait Request { const METHOD: &'static str; type Params: Serialize + DeserializeOwned + Send; type Result: Serialize + DeserializeOwned + Send; }
    pub trait Notification { const METHOD: &'static str; type Params: Serialize + DeserializeOwned + Send; }
    pub struct Ping;
    impl Request for Ping { const METHOD: &'static str = "ping"; type Params = EmptyParams; type Result = EmptyResult; }
    pub struct ToolsCall;
    impl Request for ToolsCall { const METHOD: &'static str = "tools/call"; type Params = CallToolParams; type Result = CallToolResult; }
}
