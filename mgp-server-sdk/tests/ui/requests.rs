//! Functions that prompts, resources and completions refuse, and the errors.
//!
//! All are named functions, because the name of a closure depends on the folder in which it is compiled.

use mgp_server_sdk::{Prompt, Resource};

fn not_async() -> &'static str {
    "text"
}

async fn a_number() -> i32 {
    5
}

async fn a_plain_value(uri: String) -> String {
    uri
}

async fn text() -> &'static str {
    ""
}

fn main() {
    let _ = Prompt::new("sync", "Is not async", not_async);
    let _ = Prompt::new("number", "Returns a number", a_number);
    let _ = Resource::new("test://raw", "raw", a_plain_value);
    let _ = Resource::template("test://{id}", "id", text).complete("id", a_number);
}
