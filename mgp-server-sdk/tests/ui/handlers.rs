//! Functions that the builder refuses, and what it says.

use mgp_server_sdk::prelude::*;

#[derive(Deserialize)]
struct NoSchema {
    name: String,
}

struct NoTool;

fn main() {
    let _ = Tool::new("sync", "Is not async", || "text");
    let _ = Tool::new("raw", "Takes a plain value", |name: String| async move { name });
    let _ = Tool::new("schema", "Has no schema", |Args(a): Args<NoSchema>| async move { a.name });
    let _ = Tool::new("result", "Returns a plain value", || async { 5 });
    let _ = Server::new("t", "1").tool(NoTool);
}
