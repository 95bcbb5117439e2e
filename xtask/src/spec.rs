//! The command `spec DIR`: checks that our types can read and rewrite a folder of example messages.

use crate::{
    flags::Flags,
    run::{Context, Failure, Outcome},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Checks the examples of a folder; fails if an example cannot be read, or changes when it is written again.
pub(crate) fn spec(flags: &Flags) -> Outcome {
    let [folder] = flags.words() else { return Err(Failure::new("give one folder")) };
    folder_of_examples(Path::new(folder)).map(|_| ())
}

/// Checks each example of a folder, prints `FILE TYPE ok` or the failure for each, and returns their number.
pub(crate) fn folder_of_examples(folder: &Path) -> Outcome<usize> {
    let files = examples(folder)?;
    let mut failed = 0;
    for (file, text) in &files {
        match mgp_types::spec::check_example(file, text) {
            Ok(name) => println!("{file} {name} ok"),
            Err(failure) => {
                failed += 1;
                println!("{file} FAILED {failure}");
            }
        }
    }
    println!("spec: {} ok, {failed} failed in {}", files.len() - failed, folder.display());
    if failed > 0 || files.is_empty() {
        return Err(Failure::new(format!("{failed} of {} examples", files.len())));
    }
    Ok(files.len())
}

/// Returns the names and texts of the JSON files of a folder, sorted by name.
fn examples(folder: &Path) -> Outcome<Vec<(String, String)>> {
    let entries = fs::read_dir(folder).context(folder.display())?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, fs::read_to_string(path).context(path.display())?))
    };
    paths.iter().map(read).collect()
}
