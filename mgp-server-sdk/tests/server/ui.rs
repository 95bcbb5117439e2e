//! Tests of the compile errors for invalid tools: of the macros' own errors, and of the notes of the traits.
//!
//! Each program in `tests/ui` is compiled with the library of this test. The file of the same name that ends in
//! `.stderr` has the expected errors with their places, labels and notes. It has no source lines, which depend on the
//! compiler and on the build folder. `UPDATE_GOLDEN=1 cargo test -p mgp-server-sdk --test server ui` writes these
//! files.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of the programs, below that of the package.
const PROGRAMS: &str = "tests/ui";

/// A program without mistakes. It needs the features of the library that the other programs need.
const FINE: &str = "
use mgp_server_sdk::prelude::*;

/// Is fine.
#[tool]
async fn fine() -> String {
    String::new()
}

fn main() {
    let _ = Server::new(\"t\", \"1\").tool(fine());
}
";

/// Compiles a program with a library, without code generation.
fn compile(program: &Path, library: &Path) -> Output {
    // The compiler of the same toolchain is in the same folder as cargo.
    let cargo = std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
    Command::new(cargo.with_file_name("rustc"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["--edition=2024", "--crate-name=ui", "--emit=metadata", "-Adead_code"])
        .args(["--verbose", "--diagnostic-width=140", "--color=never"])
        .args(["--out-dir", env!("CARGO_TARGET_TMPDIR")])
        .arg(format!("--extern=mgp_server_sdk={}", library.display()))
        // Take all other crates from the folder of the library, which was compiled with them.
        .arg(format!("-Ldependency={}", library.parent().unwrap().display()))
        .arg(program)
        .output()
        .unwrap()
}

/// Returns the library of this test: the newest one in its folder that has the features of this test and is not newer
/// than the test. Older libraries may be from before a change, newer ones from another checkout with the same folder.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let written = |path: &Path| path.metadata().unwrap().modified().unwrap();
    let linked = written(&test);
    let files = fs::read_dir(test.parent().unwrap()).unwrap().map(|file| file.unwrap().path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libmgp_server_sdk-") && path.extension().is_some_and(|end| end == "rlib")
    };
    let mut libraries: Vec<_> = files.filter(is_library).collect();
    libraries.sort_by_key(|path| (written(path) > linked, Reverse(written(path))));
    let fine = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fine.rs");
    fs::write(&fine, FINE).unwrap();
    let mut errors = String::new();
    for library in libraries {
        let compiled = compile(&fine, &library);
        if compiled.status.success() {
            return library;
        }
        errors = String::from_utf8(compiled.stderr).unwrap();
    }
    panic!("no library compiles a program without mistakes: {errors}");
}

/// Returns the errors, places, labels and notes about a program, without the lines of its source and of other crates.
fn messages(output: &str) -> String {
    const KINDS: [&str; 5] = ["error", "= note: ", "= help: ", "note: ", "help: "];
    let (mut messages, mut is_program) = (String::new(), true);
    for line in output.lines().map(str::trim) {
        let place = line.strip_prefix("--> ").or_else(|| line.strip_prefix("::: "));
        let message = if let Some(place) = place {
            is_program = place.starts_with(PROGRAMS);
            is_program.then_some(line)
        } else if line.starts_with("error: aborting due to ") || line.starts_with("= note: `") {
            // Skip notes that begin with a type: they are lists of other implementations, whose form depends on the
            // folder.
            None
        } else if KINDS.iter().any(|kind| line.starts_with(kind)) {
            Some(line)
        } else {
            line.find('^').filter(|_| is_program).map(|label| &line[label..])
        };
        if let Some(message) = message {
            messages += message;
            messages.push('\n');
        }
    }
    messages
}

#[test]
fn mistakes_are_explained() {
    let (library, folder) = (library(), Path::new(env!("CARGO_MANIFEST_DIR")).join(PROGRAMS));
    let is_update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut wrong = Vec::new();
    for path in files.filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let name = path.file_name().unwrap().to_string_lossy();
        let compiled = compile(Path::new(&format!("{PROGRAMS}/{name}")), &library);
        let output = String::from_utf8(compiled.stderr).unwrap();
        assert!(!compiled.status.success(), "{name} compiles");
        let (found, expected) = (messages(&output), path.with_extension("stderr"));
        if is_update {
            fs::write(&expected, &found).unwrap();
        }
        if fs::read_to_string(&expected).unwrap_or_default() != found {
            wrong.push(format!("{name}:\n{output}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
