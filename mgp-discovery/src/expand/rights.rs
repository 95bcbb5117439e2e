//! The rights of a confined process, from `[servers.confine]` (MGP §15.2).

use std::fs;
use std::path::{Path, PathBuf};

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
    /// `true` if the configuration of an operator confines the process; `false` for a script of an agent.
    pub is_configured: bool,
}

impl Filling<'_> {
    /// Returns the rights of a server's process; `None` if it is not confined.
    pub(super) fn rights(&mut self, target: &ExpandedTarget) -> Option<ProcessRights> {
        let confine = self.server.confine.as_ref()?;
        let ExpandedTarget::Program { command, args, cwd, .. } = target else { return None };
        let read = self.paths("read", &confine.read);
        let write = self.paths("write", &confine.write);
        self.refuse_own_files(&write);
        let state = self.expander.state_folder();
        let mut read: Vec<_> = read.into_iter().flat_map(|path| readable(path, state)).collect();
        let narrow = self.narrow_folders();
        let words: Vec<&str> = args.iter().map(Expanded::as_str).collect();
        let code = code_arguments(command.as_str(), &words, cwd).into_iter();
        read.extend(code.filter_map(|file| code_folder(&cwd.join(file), &narrow)));
        read.extend(Some(cwd.clone()).filter(|cwd| narrow(cwd)));
        Some(ProcessRights {
            read,
            write,
            connects: confine.connect.clone(),
            listens: confine.listen.clone(),
            local_sockets: confine.local_sockets,
            private: self.private_folder(),
            is_configured: true,
        })
    }

    /// Returns the private folder of a confined server, which may not exist yet; `None` if the server is not confined.
    pub(super) fn private_folder(&self) -> Option<PathBuf> {
        self.server.confine.as_ref()?;
        Some(self.expander.state_folder()?.join(PRIVATE).join(self.server.id.as_str()))
    }

    /// Expands the paths of a key of the table. A path that does not exist is an error, because a right can be given
    /// only to a file that exists.
    fn paths(&mut self, name: &str, texts: &[String]) -> Vec<PathBuf> {
        let paths = texts.iter().map(|text| {
            let place = format!("confine.{name}");
            let path = self.text(&place, text, &[("", text)]);
            let path = self.folder.join(self.expander.with_home(path.as_str()));
            match dunce::canonicalize(&path) {
                Ok(real) => real,
                Err(error) => {
                    let shown = path.display();
                    self.reasons.push(format!(
                        "`{place}`: `{shown}` cannot be used ({error}); create it, or remove it from the list"
                    ));
                    path
                }
            }
        });
        paths.collect()
    }

    /// Refuses rights with which the server could approve its own calls.
    fn refuse_own_files(&mut self, write: &[PathBuf]) {
        for own in self.own_files() {
            if let Some(path) = write.iter().find(|path| own.starts_with(path)) {
                self.reasons.push(format!(
                    "`confine.write`: `{}` contains `{}` of the kernel; name narrower folders",
                    path.display(),
                    own.display()
                ));
            }
        }
    }

    /// Returns a test whether a folder contains neither the home folder nor the state of the kernel.
    fn narrow_folders(&self) -> impl Fn(&Path) -> bool + use<> {
        let wide = [Some(self.expander.home_folder()), self.expander.state_folder()];
        let wide: Vec<_> = wide.into_iter().flatten().map(real).collect();
        move |folder| !wide.iter().any(|path| path.starts_with(folder))
    }

    /// Returns the real paths of the kernel's state and of its configuration.
    fn own_files(&self) -> Vec<PathBuf> {
        // An approval of a project covers the exact text of its file, so a change by the server has no effect.
        let file = (self.server.origin != Origin::Project).then_some(&*self.server.file);
        self.expander.state_folder().into_iter().chain(file).map(real).collect()
    }
}

/// Returns the real path of a file, or the path itself if the file does not exist.
fn real(path: &Path) -> PathBuf {
    dunce::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the paths with which a process can read everything below a path except the state of the kernel, i.e. the
/// user's secrets: rights hold for a whole folder, so a folder that contains the state is replaced by what is in it.
pub(crate) fn readable(path: PathBuf, state: Option<&Path>) -> Vec<PathBuf> {
    let Some(state) = state.map(real).filter(|state| state.starts_with(&path)) else {
        return vec![path];
    };
    let mut found = Vec::new();
    let mut folder = path;
    while folder != state {
        let Some(next) = state.strip_prefix(&folder).ok().and_then(|rest| rest.iter().next())
        else {
            break;
        };
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        found.extend(entries.filter(|entry| entry.file_name() != next).map(|entry| entry.path()));
        folder = folder.join(next);
    }
    found
}

/// Returns the folder of the package to which a code file belongs, or else the folder of the file; the file itself if
/// that folder is not narrow.
fn code_folder(file: &Path, narrow: &impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let file = dunce::canonicalize(file).ok()?;
    let is_package = |folder: &&Path| {
        PACKAGE_FILES.iter().any(|name| fs::exists(folder.join(name)).unwrap_or_default())
    };
    let folders = || file.ancestors().skip(1).take_while(|folder| narrow(folder));
    let found = folders().find(is_package).or_else(|| folders().next());
    Some(found.map_or_else(|| file.clone(), Path::to_owned))
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
            "home/work/note",
        ]);
        let read = |entry: &str| place.rights(entry).unwrap().read;
        let node = |file: &str| {
            format!("command = 'node'\nargs = ['{{DIR}}/home/{file}']\nconfine = {{}}")
        };
        let private = place.at("home/.state/confined/a");
        assert_eq!(read(&node("one/dist/index.js")), [place.at("home/one"), private.clone()]);
        assert_eq!(read(&node("two/dist/index.js")), [place.at("home/two/dist"), private.clone()]);
        assert_eq!(read(&node("script.py")), [place.at("home/script.py"), private]);
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
    fn a_folder_that_contains_the_state_is_read_without_it() {
        let place = Place::new(&["home/work/note", "data/note"]);
        let read = |path: &str| {
            let entry = format!("command = 'a'\nconfine = {{ read = ['{path}'] }}");
            place.rights(&entry).unwrap().read
        };
        let home = read("~");
        assert!(home.contains(&place.at("home/work")), "{home:?}");
        assert!(!home.contains(&place.at("home")), "{home:?}");
        assert!(!home.contains(&place.at("home/.state")), "{home:?}");
        let all = read("/");
        assert!(all.contains(&place.at("data")) && all.contains(&"/proc".into()), "{all:?}");
        assert!(!all.iter().any(|path| place.at("home/.state/x").starts_with(path)), "{all:?}");
    }

    #[test]
    fn a_right_to_write_the_state_or_the_configuration_of_the_kernel_is_refused() {
        let place = Place::new(&["home/work/note"]);
        for path in ["~", "/", "~/.state", "~/mgp.toml", "work/.."] {
            let entry = format!("command = 'a'\nconfine = {{ write = ['{path}'] }}");
            let error = place.rights(&entry).unwrap_err();
            assert!(error.contains("name narrower folders"), "{path}: {error}");
        }
    }
}
