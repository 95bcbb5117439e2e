//! Finds the example servers of the workspace.

use std::path::Path;
use std::process::Command;

/// Returns the path of an example of `mgp-server-sdk`; builds the example if the file does not exist.
pub(crate) fn program(name: &str) -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_mgp")).parent().unwrap();
    let path = folder.join("examples").join(name);
    if !path.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "-q", "-p", "mgp-server-sdk", "--features", "macros"])
            .args(["--example", name])
            .args(path.iter().any(|part| part == "release").then_some("--release"))
            .status()
            .unwrap();
        assert!(built.success() && path.exists(), "{}", path.display());
    }
    path.to_str().unwrap().to_owned()
}
