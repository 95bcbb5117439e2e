//! The messages of the echo tool, as the servers without a framework parse and write them.
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Deserialize)]
pub struct Req<'a> {
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
}
#[derive(Deserialize)]
pub struct Call<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub arguments: Args<'a>,
}
#[derive(Deserialize)]
pub struct Args<'a> {
    #[serde(borrow)]
    pub message: Cow<'a, str>,
}
#[derive(Serialize)]
pub struct Resp<'a, R: Serialize> {
    pub jsonrpc: &'static str,
    pub id: &'a RawValue,
    pub result: R,
}
#[derive(Serialize)]
pub struct Text<'a> {
    pub r#type: &'static str,
    pub text: &'a str,
}
#[derive(Serialize)]
pub struct CallRes<'a> {
    pub content: [Text<'a>; 1],
    #[serde(rename = "isError")]
    pub is_error: bool,
}
