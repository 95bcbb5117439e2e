//! The rights of a confined process, from `[servers.confine]` (MGP §15.2).

use std::fs;
use std::path::{Component, Path, PathBuf};

use mgp_types::service::ServerId;

use super::expander::{ExpandedTarget, Filling};
use super::value::Expanded;
use crate::config::PortRights;
use crate::registration::code_arguments;
use crate::source::Origin;

/// The folder inside the state folder that has the private folders of confined servers.
const PRIVATE: &str = "confined";

/// Files that mark the folder of a package, whose code is in the folders below.
const PACKAGE_FILES: &[&str] =
    &["package.json", "pyproject.toml", "setup.py", "deno.json", "Gemfile", "composer.json"];

/// The rights of a confined process, in addition to the rights that every program needs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessRights {
    /// The files and folders that the process may read.
    pub read: Vec<PathBuf>,
    /// The files and folders that the process may write.
    pub write: Vec<PathBuf>,
    /// The TCP ports to which the process may connect.
    pub connects: PortRights,
    /// The TCP ports on which the process may listen.
    pub listens: PortRights,
    /// If set, the process may connect to Unix sockets of other programs.
    pub local_sockets: bool,
    /// A private folder for temporary files and downloads, which may not exist yet; `None` for a process without one.
    pub private: Option<PathBuf>,
    /// The real paths of the folders of the kernel, e.g. the state folder, of which the process may access only what the
    /// other paths name.
    pub hidden: Vec<PathBuf>,
    /// The code of the process, which determines what the process may do in any case.
    pub code: ConfinedCode,
}

/// The code that a confined process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfinedCode {
    /// A script or a program that an agent registered.
    Registered,
    /// A package of a registry that an agent registered; a runner such as `npx` downloads it.
    Package,
    /// A server with `[servers.confine]`.
    Configured,
}

/// Returns the private folder of a confined server in a state folder.
#[must_use]
pub fn private_folder(state: &Path, server: &ServerId) -> PathBuf {
    state.join(PRIVATE).join(server.as_str())
}

impl Filling<'_> {
    /// Returns the rights of a server's process; `None` if it is not confined.
    pub(super) fn rights(&mut self, target: &ExpandedTarget) -> Option<ProcessRights> {
        let confine = self.server.confine.as_ref()?;
        let ExpandedTarget::Program { command, args, cwd, .. } = target else { return None };
        let read = self.paths("read", &confine.read);
        let write = self.paths("write", &confine.write);
        let private = self.private_folder();
        let own: Vec<_> = write.iter().chain(&private).map(|path| real(path)).collect();
        let mut read = self.real_paths("read", &read, &own);
        let write = self.real_paths("write", &write, &own);
        self.refuse_own_files(&read, &write);
        let narrow = self.narrow_folders();
        let words: Vec<&str> = args.iter().map(Expanded::as_str).collect();
        let code = code_arguments(command.as_str(), &words, cwd).into_iter();
        read.extend(code.flat_map(|file| code_folders(&cwd.join(file), &own, &narrow)));
        let program = Path::new(command.as_str());
        if program.is_absolute() {
            // The package of e.g. `.venv/bin/server` or `node_modules/.bin/server`.
            let real = safe_path(program, &own).into_iter();
            let files = real.chain([program.to_owned()]);
            let files = files.filter(|file| !own.iter().any(|own| file.starts_with(own)));
            read.extend(files.flat_map(|file| package(&file, &narrow)));
        }
        read.extend(safe_path(cwd, &own).filter(|cwd| narrow(cwd)));
        Some(ProcessRights {
            read,
            write,
            connects: confine.connect.clone(),
            listens: confine.listen.clone(),
            local_sockets: confine.local_sockets,
            private,
            hidden: self.expander.state_folder().map(real).into_iter().collect(),
            code: ConfinedCode::Configured,
        })
    }

    /// Returns the private folder of a confined server, which may not exist yet; `None` if the server is not confined.
    pub(super) fn private_folder(&self) -> Option<PathBuf> {
        self.server.confine.as_ref()?;
        Some(private_folder(self.expander.state_folder()?, &self.server.id))
    }

    /// Expands the paths of a key of the table.
    fn paths(&mut self, name: &str, texts: &[String]) -> Vec<PathBuf> {
        let paths = texts.iter().map(|text| {
            let place = format!("confine.{name}");
            let path = self.text(&place, text, &[("", text)]);
            if path.as_str().is_empty() {
                self.reasons.push(format!("`{place}`: a path is empty; remove it from the list"));
            }
            self.folder.join(self.expander.with_home(path.as_str()))
        });
        paths.collect()
    }

    /// Returns the real paths of a key of the table. A path that does not exist is an error, because a right can be
    /// given only to a file that exists, and so is a path that the server itself could lead elsewhere.
    fn real_paths(&mut self, name: &str, paths: &[PathBuf], own: &[PathBuf]) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for path in paths {
            let shown = path.display();
            match dunce::canonicalize(path) {
                Err(error) => self.reasons.push(format!(
                    "`confine.{name}`: `{shown}` cannot be used ({error}); create it, or remove it from the list"
                )),
                Ok(_) => match safe_path(path, own) {
                    Some(real) => found.push(real),
                    None => self.reasons.push(format!(
                        "`confine.{name}`: `{shown}` is a link that the server can replace; name its target"
                    )),
                },
            }
        }
        found
    }

    /// Refuses rights with which the server could approve its own calls, or read the state of the kernel.
    fn refuse_own_files(&mut self, read: &[PathBuf], write: &[PathBuf]) {
        let state = self.expander.state_folder().map(real);
        let inside = |path: &&PathBuf| state.as_ref().is_some_and(|state| path.starts_with(state));
        let mut refused: Vec<_> = read.iter().chain(write).filter(inside).collect();
        let (own, config) = (self.own_files(), self.expander.config_folders());
        let is_own = |path: &&PathBuf| {
            own.iter().chain(&config).any(|own| own.starts_with(path))
                || config.iter().any(|folder| path.starts_with(folder))
        };
        refused.extend(write.iter().filter(is_own));
        for path in refused {
            let shown = path.display();
            self.reasons.push(format!(
                "`confine`: `{shown}` contains the state, the configuration or the program of the kernel; name narrower folders"
            ));
        }
    }

    /// Returns a test whether a folder contains neither the home folder nor the state of the kernel.
    fn narrow_folders(&self) -> impl Fn(&Path) -> bool + use<> {
        let wide = [Some(self.expander.home_folder()), self.expander.state_folder()];
        let wide: Vec<_> = wide.into_iter().flatten().map(real).collect();
        move |folder| !wide.iter().any(|path| path.starts_with(folder))
    }

    /// Returns the real paths of the kernel's state, of its configuration and of its program.
    fn own_files(&self) -> Vec<PathBuf> {
        // An approval of a project covers the exact text of its file, so a change by the server has no effect.
        let file = (self.server.origin != Origin::Project).then_some(&*self.server.file);
        let files = self.expander.state_folder().into_iter().chain(file).map(real);
        files.chain(std::env::current_exe()).collect()
    }
}

/// Returns the real path of a file, or the path itself if the file does not exist.
pub(crate) fn real(path: &Path) -> PathBuf {
    dunce::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The number of links that are followed in a path; Linux follows as many.
const MAX_LINKS: usize = 40;

/// Returns the real path of a file; `None` if it does not exist, or if a link inside one of the folders `own` leads out
/// of that folder. A process that can write the folder could lead such a path, and a right for it, to any file.
#[must_use]
pub fn safe_path(path: &Path, own: &[PathBuf]) -> Option<PathBuf> {
    let mut rest: Vec<PathBuf> = parts(path);
    let (mut found, mut links, mut bounds) = (PathBuf::new(), 0, Vec::new());
    while let Some(part) = rest.pop() {
        match part.components().next() {
            Some(Component::ParentDir) => {
                found.pop();
                continue;
            }
            Some(Component::CurDir) | None => continue,
            _ => found.push(&part),
        }
        if let Ok(target) = fs::read_link(&found) {
            links += 1;
            if links > MAX_LINKS {
                return None;
            }
            found.pop();
            bounds.extend(own.iter().filter(|own| found.starts_with(own)));
            rest.extend(parts(&target));
        }
    }
    let is_bound = fs::exists(&found).unwrap_or_default()
        && bounds.iter().all(|bound| found.starts_with(bound));
    is_bound.then_some(found)
}

/// Returns the components of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|part| PathBuf::from(part.as_os_str())).collect()
}

/// Returns the folders with the code to which a file belongs: its package, or else the folder of the file, or the file
/// itself if that folder is not narrow. Returns nothing if the process can write the file, and so read it anyway.
fn code_folders(file: &Path, own: &[PathBuf], narrow: &impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let real = safe_path(file, own);
    let Some(file) = real.filter(|file| !own.iter().any(|own| file.starts_with(own))) else {
        return Vec::new();
    };
    let mut found = package(&file, narrow);
    if found.is_empty() {
        let folder = file.parent().filter(|folder| narrow(folder));
        found.push(folder.unwrap_or(&file).to_owned());
    }
    found
}

/// Returns the folder of the package to which a code file belongs, and the folders in which Node.js searches the
/// packages that it imports; nothing if the file is not in a package.
fn package(file: &Path, narrow: &impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let is_package = |folder: &&Path| {
        PACKAGE_FILES.iter().any(|name| fs::exists(folder.join(name)).unwrap_or_default())
    };
    let folders = || file.ancestors().skip(1).take_while(|folder| narrow(folder));
    let Some(package) = folders().find(is_package) else { return Vec::new() };
    let imported = folders().map(|folder| folder.join("node_modules"));
    let imported = imported.filter(|folder| fs::exists(folder).unwrap_or_default());
    [package.to_owned()].into_iter().chain(imported).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::expand::{Expander, SecretFile};

    struct Place {
        folder: mgp_testkit::TempDir,
    }

    impl Place {
        fn new(files: &[&str]) -> Self {
            let place = Self { folder: mgp_testkit::temp_dir() };
            for file in ["home/.state/x", "home/mgp.toml"].iter().chain(files) {
                fs::create_dir_all(place.at(file).parent().unwrap()).unwrap();
                fs::write(place.at(file), "").unwrap();
            }
            place
        }

        fn at(&self, path: &str) -> PathBuf {
            dunce::canonicalize(self.folder.path()).unwrap().join(path)
        }

        /// Expands the server with these lines of its entry, which may name the folder as `{DIR}`.
        fn rights(&self, entry: &str) -> Result<ProcessRights, String> {
            let folder = self.at("");
            let entry = entry.replace("{DIR}", folder.to_str().unwrap().trim_end_matches('/'));
            let text = format!("[[servers]]\nid = 'a'\n{entry}");
            let mut config = Config::parse(self.at("home/mgp.toml"), &text).unwrap().config;
            config.servers[0].origin = Origin::User;
            let expander = Expander::new(|_| None)
                .home(self.at("home"))
                .secrets(SecretFile::in_folder(&self.at("home/.state")));
            let expanded =
                expander.server(&config.servers[0]).map_err(|error| error.to_string())?;
            let ExpandedTarget::Program { cwd, .. } = &expanded.target else { unreachable!() };
            assert!(entry.contains("cwd =") || cwd.ends_with("confined/a"), "{}", cwd.display());
            Ok(expanded.rights.unwrap())
        }
    }

    #[test]
    fn a_confined_server_reads_the_package_of_its_code_and_its_folder_but_not_the_home() {
        let place = Place::new(&[
            "home/one/package.json",
            "home/one/dist/index.js",
            "home/two/dist/index.js",
            "home/script.py",
            "home/three/node_modules/a/package.json",
            "home/three/node_modules/a/index.js",
            "home/work/note",
        ]);
        let read = |entry: &str| place.rights(entry).unwrap().read;
        let node = |file: &str| {
            format!("command = 'node'\nargs = ['{{DIR}}/home/{file}']\nconfine = {{}}")
        };
        assert_eq!(read(&node("one/dist/index.js")), [place.at("home/one")]);
        assert_eq!(read(&node("two/dist/index.js")), [place.at("home/two/dist")]);
        assert_eq!(read(&node("script.py")), [place.at("home/script.py")]);
        let modules = place.at("home/three/node_modules");
        assert_eq!(read(&node("three/node_modules/a/index.js")), [modules.join("a"), modules]);
        let at = |cwd: &str| format!("command = 'a'\ncwd = '{cwd}'\nconfine = {{}}");
        assert_eq!(read(&at("~/work")), [place.at("home/work")]);
        assert_eq!(read(&at("~")), Vec::<PathBuf>::new());
    }

    #[test]
    fn paths_are_expanded_and_must_exist() {
        let place = Place::new(&["home/work/note", "data/note"]);
        let confine =
            "command = 'a'\nconfine = { read = ['~/work', '{DIR}/data'], write = ['work'] }";
        let rights = place.rights(confine).unwrap();
        assert_eq!(rights.read[..2], [place.at("home/work"), place.at("data")]);
        assert_eq!(rights.write, [place.at("home/work")]);
        let error = place.rights("command = 'a'\nconfine = { read = ['~/missing'] }").unwrap_err();
        assert!(error.contains("`confine.read`") && error.contains("create it"), "{error}");
    }

    #[test]
    fn the_state_is_hidden_from_rights_for_the_folders_above() {
        let place = Place::new(&[]);
        let rights = place.rights("command = 'a'\nconfine = { read = ['~'] }").unwrap();
        assert_eq!(rights.hidden, [place.at("home/.state")]);
        for path in ["~/.state", "~/.state/x", "${EMPTY:-}"] {
            let entry = format!("command = 'a'\nconfine = {{ read = ['{path}'] }}");
            assert!(place.rights(&entry).is_err(), "{path}");
        }
    }

    /// A server must not gain rights at its next start by links in the folders that it can write.
    #[cfg(unix)]
    #[test]
    fn links_that_a_server_can_replace_give_no_rights() {
        use std::os::unix::fs::symlink;
        let place =
            Place::new(&["home/.ssh/key", "home/work/note", "home/.state/confined/a/tmp/x"]);
        symlink(place.at("home/.ssh/key"), place.at("home/.state/confined/a/module")).unwrap();
        symlink(place.at("home/.state/x"), place.at("home/.state/confined/a/x.py")).unwrap();
        for args in ["'-m', 'module'", "'x.py'"] {
            let entry = format!("command = 'python3'\nargs = [{args}]\nconfine = {{}}");
            let read = place.rights(&entry).unwrap().read;
            assert_eq!(read, [place.at("home/.state/confined/a")], "{args}");
        }
        symlink(place.at("home/.ssh"), place.at("home/work/sub")).unwrap();
        for nested in
            ["read = ['~/work/sub'], write = ['~/work']", "write = ['~/work', '~/work/sub']"]
        {
            let error =
                place.rights(&format!("command = 'a'\nconfine = {{ {nested} }}")).unwrap_err();
            assert!(error.contains("a link that the server can replace"), "{error}");
        }
    }

    #[test]
    fn a_right_to_write_the_state_or_the_configuration_of_the_kernel_is_refused() {
        let place = Place::new(&["home/work/note", "home/.config/mgp/sub/note"]);
        let config = ["~/.config", "~/.config/mgp", "~/.config/mgp/sub"];
        let others = ["~", "/", "~/.state", "~/.state/x", "~/mgp.toml", "work/.."];
        for path in others.into_iter().chain(config) {
            let entry = format!("command = 'a'\nconfine = {{ write = ['{path}'] }}");
            let error = place.rights(&entry).unwrap_err();
            assert!(error.contains("name narrower folders"), "{path}: {error}");
        }
    }
}
