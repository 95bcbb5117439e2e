//! Installs the foreign SDKs, servers and tools, most of them in folders of `target/interop`. A package is installed
//! again only if the list of packages and versions for its folder has changed.

use super::pins::{ALL, Pin, Registry};
use crate::packages::{self, Node};
use crate::run::{Context, Failure, Outcome, Program, emptied, target};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The names and texts of our driver scripts, which use the foreign SDKs.
const DRIVERS: &[(&str, &str)] = &[
    ("sdk.py", include_str!("drivers/sdk.py")),
    ("python.py", include_str!("drivers/python.py")),
    ("kernel_python.py", include_str!("drivers/kernel_python.py")),
    ("server.py", include_str!("drivers/server.py")),
    ("older_server.py", include_str!("drivers/older_server.py")),
    ("older_host.py", include_str!("drivers/older_host.py")),
    ("sdk.mjs", include_str!("drivers/sdk.mjs")),
    ("typescript.mjs", include_str!("drivers/typescript.mjs")),
    ("kernel_typescript.mjs", include_str!("drivers/kernel_typescript.mjs")),
    ("loopback.cjs", include_str!("../conformance/loopback.cjs")),
];

/// The folder in which everything for `interop` is installed.
#[derive(Debug)]
pub(super) struct Places {
    root: PathBuf,
}

impl Places {
    /// Creates the folders and writes the driver scripts.
    pub(super) fn new() -> Outcome<Self> {
        let places = Self { root: target()?.join("interop") };
        for folder in ["home", "logs", "node"] {
            let folder = places.root.join(folder);
            fs::create_dir_all(&folder).context(folder.display())?;
        }
        for (name, text) in DRIVERS {
            fs::write(places.driver(name), text).context(name)?;
        }
        Ok(places)
    }

    /// Creates an empty folder for a kernel's state that only its owner can access.
    pub(super) fn emptied(&self, name: &str) -> Outcome<PathBuf> {
        emptied(self.root.join(name))
    }

    /// Returns the folder that foreign programs get as their home.
    pub(super) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Returns the path of a log file of one cell.
    pub(super) fn log(&self, cell: &str, kind: &str) -> PathBuf {
        self.root.join("logs").join(format!("{}.{kind}", cell.replace('/', "-")))
    }

    /// Returns the path of a driver script. Scripts for Node are stored beside the Node packages, so that Node finds
    /// these packages.
    pub(super) fn driver(&self, name: &str) -> PathBuf {
        let folder =
            if Path::new(name).extension().is_some_and(|end| end == "mjs") { "node" } else { "." };
        self.root.join(folder).join(name)
    }

    /// Returns the path of Python in the virtual environment of a package.
    pub(super) fn python(&self, pin: Pin) -> PathBuf {
        self.root.join(pin.folder).join("bin/python")
    }

    /// Returns a Node that is recent enough for a package.
    pub(super) fn node(pin: Pin) -> Outcome<PathBuf> {
        Ok(Node::of_at_least(pin.least_node())?.program())
    }

    /// Returns the program that a Python package installs.
    pub(super) fn script(&self, pin: Pin) -> PathBuf {
        self.root.join(pin.folder).join("bin").join(pin.package)
    }

    /// Returns the folder in which a Node package is installed.
    pub(super) fn package(&self, pin: Pin) -> PathBuf {
        self.root.join(pin.folder).join("node_modules").join(pin.package)
    }

    /// Returns the main script of a Node package.
    pub(super) fn module(&self, pin: Pin) -> PathBuf {
        self.package(pin).join("dist/index.js")
    }

    /// Returns the path of the echo server that is written with rmcp.
    pub(super) fn rmcp(&self) -> PathBuf {
        self.root.with_file_name("bench").join("release/rmcp-echo")
    }

    /// Installs a package unless it is installed already.
    pub(super) fn install(&self, pin: Pin) -> Outcome {
        let folder = self.root.join(pin.folder);
        if pin.registry == Registry::CratesIo {
            return self.build_rmcp(pin);
        }
        let wanted: Vec<String> =
            ALL.iter().filter(|other| other.folder == pin.folder).map(|pin| pin.wanted()).collect();
        if pin.registry == Registry::PyPi {
            packages::python(&folder, &wanted, &self.home())
        } else {
            Node::of_at_least(pin.least_node())?.install(&folder, &wanted, &self.home())
        }
    }

    /// Checks that the lock file of the rmcp echo server has the pinned version, and builds this server. The benchmarks
    /// use it, too.
    fn build_rmcp(&self, pin: Pin) -> Outcome {
        let lock = crate::run::root().join("xtask/peers/Cargo.lock");
        let locked = fs::read_to_string(&lock).context(lock.display())?;
        if !locked.contains(&format!("name = \"{}\"\nversion = \"{}\"", pin.package, pin.version)) {
            return Err(Failure::new(format!("{} does not have {}", lock.display(), pin.wanted())));
        }
        let folder = self.root.with_file_name(pin.folder);
        let build = ["build", "--quiet", "--release", "--locked", "--package", "rmcp-echo"];
        let build = Program::cargo(&build).args(&["--manifest-path", "xtask/peers/Cargo.toml"]);
        build.env("CARGO_TARGET_DIR", &folder).run()
    }
}
