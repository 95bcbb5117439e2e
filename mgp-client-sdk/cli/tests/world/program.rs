//! Finds the example servers of the workspace.

/// Returns the path of an example of `mgp-server-sdk`; builds the example if the file does not exist.
pub(crate) fn program(name: &str) -> String {
    mgp_testkit::example("mgp-server-sdk", name).to_str().unwrap().to_owned()
}
