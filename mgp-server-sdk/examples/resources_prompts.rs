//! A notebook: its notes are resources that change, a prompt puts one before the model, and names are completed.
//!
//! `cargo run -q -p mgp-server-sdk --example resources_prompts`

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{ContextExt, Elicited, LogLevel, Prompt, Resource, Resources, Typed};

/// The notes by name, shared by everything the server offers.
#[derive(Clone, Default)]
struct Notebook(Arc<Mutex<BTreeMap<String, String>>>);

impl Notebook {
    fn read(&self, name: &str) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn write(&self, name: &str, text: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), text);
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}

/// The variable of the template, and the argument of the prompt.
#[derive(Deserialize, JsonSchema)]
struct Named {
    /// The name of a note.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    /// The name of the note.
    name: String,
    /// What it says.
    text: String,
}

/// What the person is asked before a note is overwritten.
#[derive(Deserialize, JsonSchema)]
struct Overwrite {
    /// Shall the old text go?
    sure: bool,
}

/// Proposes the names of the notes.
fn names(notebook: &Notebook) -> impl Fn(Typed) -> std::future::Ready<Vec<String>> + use<> {
    let notebook = notebook.clone();
    move |typed: Typed| std::future::ready(typed.matching(notebook.names()))
}

/// Writes a note: asks before it overwrites one, and tells everyone who watches it.
fn write(notebook: Notebook, resources: Resources) -> Tool {
    Tool::new("write", "Writes a note", move |Args(note): Args<Note>, cx: Context| {
        let (notebook, resources) = (notebook.clone(), resources.clone());
        async move {
            if notebook.read(&note.name).is_some() {
                match cx
                    .elicit::<Overwrite>(format!("`{}` exists. Overwrite it?", note.name))
                    .await?
                {
                    Elicited::Accepted(Overwrite { sure: true }) => {}
                    _ => return Ok("kept the old text"),
                }
            }
            notebook.write(&note.name, note.text);
            cx.log(LogLevel::Info, &format!("`{}` was written", note.name)).await;
            resources.updated(&format!("note://{}", note.name));
            Ok::<_, RpcError>("written")
        }
    })
}

/// The server.
pub(crate) fn server() -> Server {
    let notebook = Notebook::default();
    notebook.write("groceries", "Milk, bread.".to_owned());

    let read = notebook.clone();
    let note = Resource::template("note://{name}", "note", move |Args(note): Args<Named>| {
        // `None` tells the caller that there is no such note.
        std::future::ready(read.read(&note.name))
    })
    .mime("text/plain")
    .description("A note by its name")
    .complete("name", names(&notebook));

    let read = notebook.clone();
    let summarize = Prompt::new("summarize", "Sums up a note", move |Args(note): Args<Named>| {
        let text = read.read(&note.name);
        let no_note =
            || RpcError::new(ErrorCode::INVALID_PARAMS, format!("no note `{}`", note.name));
        std::future::ready(text.ok_or_else(no_note).map(|text| format!("Sum up in a word: {text}")))
    })
    .complete("name", names(&notebook));

    let server = Server::new("notebook", env!("CARGO_PKG_VERSION"))
        .resource(Resource::text("about://notebook", "about", "A notebook in memory."))
        .resource(note)
        .prompt(summarize)
        .logging();
    let resources = server.resources();
    server.tool(write(notebook, resources))
}

#[tokio::main]
async fn main() -> Result<(), ServeError> {
    server().serve_stdio().await
}
