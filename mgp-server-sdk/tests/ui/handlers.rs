//! Functions that the builder refuses, and the errors.
//!
//! All are named functions, because the name of a closure depends on the folder in which it is compiled.

use mgp_server_sdk::prelude::*;

#[derive(Deserialize)]
#[serde(crate = "mgp_server_sdk::reexports::serde")]
struct NoSchema {
    name: String,
}

struct NoTool;

fn not_async() -> &'static str {
    "text"
}

async fn a_plain_value(name: String) -> String {
    name
}

async fn no_schema(Args(a): Args<NoSchema>) -> String {
    a.name
}

async fn a_number() -> i32 {
    5
}

fn main() {
    let _ = Tool::new("sync", "Is not async", not_async);
    let _ = Tool::new("raw", "Takes a plain value", a_plain_value);
    let _ = Tool::new("schema", "Has no schema", no_schema);
    let _ = Tool::new("result", "Returns a plain value", a_number);
    let _ = Server::new("t", "1").tool(NoTool);
}
