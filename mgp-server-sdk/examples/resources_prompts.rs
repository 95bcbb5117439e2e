//! A notebook: its notes are resources that change, a prompt shows a note to the model, and note names are completed.
//!
//! `cargo run -q -p mgp-server-sdk --example resources_prompts`

use std::collections::BTreeMap;
use std::time::Duration;

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::types::sync::Mutex;
use mgp_server_sdk::{
    ContextExt, Elicited, LogLevel, PartialArgument, Prompt, Resource, Resources,
};

/// The URI template of the notes.
const NOTE: &str = "note://{name}";

/// The notes by name.
#[derive(Default)]
struct Notebook(Mutex<BTreeMap<String, String>>);

impl Notebook {
    fn read(&self, name: &str) -> Option<String> {
        self.0.lock().get(name).cloned()
    }

    fn write(&self, name: &str, text: String) {
        self.0.lock().insert(name.to_owned(), text);
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().keys().cloned().collect()
    }
}

/// The variable of the resource template and the argument of the prompt: both are the name of a note.
#[derive(Deserialize, JsonSchema)]
struct Named {
    /// The name of a note.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    /// The name of the note.
    name: String,
    /// The text of the note.
    text: String,
}

/// The form that the user fills in before a note is overwritten.
#[derive(Deserialize, JsonSchema)]
struct Overwrite {
    /// Overwrite the old text?
    sure: bool,
}

/// Reads a note; returns `None` if it does not exist.
async fn read(State(notebook): State<Notebook>, Args(note): Args<Named>) -> Option<String> {
    notebook.read(&note.name)
}

/// Adds a note to a prompt.
async fn summarize(
    State(notebook): State<Notebook>,
    Args(note): Args<Named>,
) -> Result<String, RpcError> {
    let no_note = || RpcError::new(ErrorCode::INVALID_PARAMS, format!("no note `{}`", note.name));
    notebook.read(&note.name).ok_or_else(no_note).map(|text| format!("Sum up in a word: {text}"))
}

/// Proposes the names of notes.
async fn names(State(notebook): State<Notebook>, typed: PartialArgument) -> Vec<String> {
    typed.matching(notebook.names())
}

/// Writes a note: asks before it overwrites one, and notifies the subscribers of the resource.
async fn write(
    State(notebook): State<Notebook>,
    State(resources): State<Resources>,
    Args(note): Args<Note>,
    cx: Context,
) -> Result<&'static str, RpcError> {
    if notebook.read(&note.name).is_some() {
        match cx.elicit::<Overwrite>(format!("`{}` exists. Overwrite it?", note.name)).await? {
            Elicited::Accepted(Overwrite { sure: true }) => {}
            _ => return Ok("kept the old text"),
        }
    }
    notebook.write(&note.name, note.text);
    cx.log(LogLevel::Info, &format!("`{}` was written", note.name)).await;
    resources.updated(&Resource::uri_of(NOTE, [("name", &*note.name)])?);
    Ok("written")
}

pub(crate) fn server() -> Server {
    let notebook = Notebook::default();
    notebook.write("groceries", "Milk, bread.".to_owned());
    let note = Resource::template(NOTE, "note", read)
        .mime("text/plain")
        .description("A note by its name")
        .complete("name", names);
    let server = Server::new("notebook", env!("CARGO_PKG_VERSION"))
        .resource(Resource::text("about://notebook", "about", "A notebook in memory."))
        .resource(note)
        .prompt(Prompt::new("summarize", "Sums up a note", summarize).complete("name", names))
        // The time limit of a call, 30 s by default, includes the time in which a person answers. So set a longer
        // limit.
        .tool(Tool::new("write", "Writes a note", write).timeout(Duration::from_mins(10)))
        .logging();
    let resources = server.resources();
    server.state(notebook).state(resources)
}

#[tokio::main]
async fn main() -> Result<(), ServeError> {
    server().serve_stdio().await
}
