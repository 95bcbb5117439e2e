//! Temporary.
#![allow(missing_docs)]
use serde::{Deserialize, Serialize, de::DeserializeOwned};
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct ExtensionSet(u32);
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extension { Security, Streaming, Lifecycle }
impl ExtensionSet { pub fn contains(self, e: Extension) -> bool { self.0 & (1 << e as u32) != 0 } }
#[derive(Clone, Debug, PartialEq, Eq, Default, Hash)]
pub struct Revision(String);
pub mod method {
    use super::*;
    pub struct MethodInfo { pub name: &'static str }
    static KNOWN: [MethodInfo; 3] = [MethodInfo { name: "ping" }, MethodInfo { name: "tools/call" }, MethodInfo { name: "tools/list" }];
    pub fn lookup(name: &str) -> Option<&'static MethodInfo> { KNOWN.iter().find(|m| m.name == name) }
    pub trait Request { const METHOD: &'static str; type Params: Serialize + DeserializeOwned + Send; type Result: Serialize + DeserializeOwned + Send; }
    pub trait Notification { const METHOD: &'static str; type Params: Serialize + DeserializeOwned + Send; }
    pub struct Ping;
    #[derive(Default, Serialize, Deserialize)] pub struct Empty {}
    impl Request for Ping { const METHOD: &'static str = "ping"; type Params = Empty; type Result = Empty; }
    pub struct ToolsCall;
    impl Request for ToolsCall { const METHOD: &'static str = "tools/call"; type Params = Empty; type Result = Empty; }
}
impl Serialize for crate::RpcError { fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> { #[derive(Serialize)] struct E<'a>{code:i32,message:&'a str} E{code:self.code().0,message:self.message()}.serialize(s) } }
impl<'de> Deserialize<'de> for crate::RpcError { fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> { #[derive(Deserialize)] struct E{code:i32,message:String} let e=E::deserialize(d)?; Ok(Self::new(crate::ErrorCode(e.code), e.message)) } }
