//! The part of `sdk.lifecycle` that checks our types against the messages in the document of the base protocol.

use crate::{
    accept::{Options, Verdict, shared},
    run::{Context, Failure, Outcome},
    spec::check_example,
};
use std::fs;

/// A file name for each message in the document, in order: the request and the reply of the handshake, and an error
/// reply. The file name selects the Rust type that reads the message.
const MESSAGES: &[&str] = &["mcp_initialize.json", "mcp_initialize_result.json", "mcp_error.json"];

/// Reads the messages of the document with our types, writes them again, and compares them.
pub(in crate::accept) fn document(options: &Options) -> Outcome<Verdict> {
    let Some(folder) = shared("spec") else {
        return options.skip("the document's messages", "it does not lie beside the repository");
    };
    let document = fs::read_dir(&folder)?
        .filter_map(Result::ok)
        .find(|entry| entry.file_name().to_string_lossy().starts_with("002_"))
        .context("the document of the base protocol")?;
    // The document is a saved web page with no-break spaces, which JSON does not allow as white space.
    let text = fs::read_to_string(document.path())?.replace('\u{a0}', " ");
    let found = objects(&text);
    if found.len() != MESSAGES.len() {
        return Err(Failure::new(format!("{} messages in the document", found.len())));
    }
    for (file, message) in MESSAGES.iter().zip(found) {
        println!("{file}: {}", check_example(file, message)?);
    }
    Ok(Verdict {
        pass: true,
        figure: format!("{} messages re-serialise", MESSAGES.len()),
        bound: "all".to_owned(),
    })
}

/// Returns the JSON objects in a text by counting braces; strings in these objects must not contain braces.
fn objects(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            '}' if depth == 1 => {
                depth = 0;
                found.push(&text[start..=at]);
            }
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_between_words() {
        assert_eq!(objects("a {\"b\": {}} c {1} }"), ["{\"b\": {}}", "{1}"]);
    }
}
