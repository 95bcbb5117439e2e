//! Functions that prompts, resources and completions refuse, and what is said.

use mgp_server_sdk::{Prompt, Resource};

fn main() {
    let _ = Prompt::new("sync", "Is not async", || "text");
    let _ = Prompt::new("number", "Returns a number", || async { 5 });
    let _ = Resource::new("test://raw", "raw", |uri: String| async move { uri });
    let _ = Resource::template("test://{id}", "id", || async { "" }).complete("id", || async { 5 });
}
