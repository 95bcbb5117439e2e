//! The confinement of programs: of servers that agents registered (MGP §15.4), and of servers with
//! `[servers.confine]`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use mgp_discovery::{ConfinedCode, PortRights, ProcessRights, safe_path};
use mgp_transport::{ChildCommand, Confinement, Ports};

use super::target::folder_of;

/// The folders and files that a program must be able to read in order to run. None of them contains secrets of the
/// system.
const SYSTEM: &[&str] = &[
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/sbin",
    "/usr",
    "/gnu/store",
    "/nix/store",
    "/proc",
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/etc/timezone",
    // The folder of the file to which `/etc/resolv.conf` leads: in another network, a new file replaces that file.
    "/run/systemd/resolve",
    "/var/lib/ca-certificates",
];

/// The folders and files of an interpreter's installation, relative to the parent folder of its `bin`.
const BESIDE: &[&str] = &[
    "bin",
    "lib",
    "lib64",
    "libexec",
    "include",
    "share/uv/python",
    "share/zoneinfo",
    "pyvenv.cfg",
    // Homebrew: the programs and libraries to which the links in the other folders lead, and the settings of OpenSSL.
    "Cellar",
    "etc/ca-certificates",
    "etc/openssl@3",
];

/// The folders of version managers (programs that install interpreters); each file in them belongs to an interpreter.
const MANAGERS: &[&str] =
    &[".pyenv", ".nvm", ".asdf", ".rbenv", ".nodenv", ".volta", ".fnm", "mise"];

/// The other folders and files of the system that a server of an operator may read: programs that are not packages of
/// the system, and settings.
const SERVER_SYSTEM: &[&str] =
    &["/dev/full", "/etc", "/opt", "/run/NetworkManager", "/run/current-system", "/snap", "/sys"];

/// The variables that programs inherit with the files and folders of local certificate authorities, without which some
/// programs reach no server behind the proxy of a company.
const CERTIFICATES: &[&str] = &[
    "AWS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// The variable with which pnpm finds the folder of downloaded packages.
const PNPM_STORE: &str = "npm_config_store_dir";

/// The variables with which programs find their folders for temporary files and downloads, each with a folder inside
/// the private folder.
const PRIVATE_FOLDERS: &[(&str, &str)] = &[
    ("TMPDIR", "tmp"),
    ("XDG_CACHE_HOME", "cache"),
    ("npm_config_cache", "cache/npm"),
    (PNPM_STORE, "cache/pnpm-store"),
    ("BUN_INSTALL_CACHE_DIR", "cache/bun"),
    ("UV_TOOL_DIR", "cache/uv-tools"),
];

/// Confines a program to these rights, and to what every program needs to run; with `None`, leaves it unconfined.
/// Creates the private folder of the rights. `command` is searched in `path`. The call blocks.
///
/// # Errors
/// Returns the reason why the program cannot be confined, with the remedy.
pub fn confine(
    program: ChildCommand,
    rights: Option<ProcessRights>,
    command: &str,
    path: &OsStr,
) -> Result<ChildCommand, String> {
    let Some(mut rights) = rights else { return Ok(program) };
    if let Some(private) = &mut rights.private {
        let created = create_private(private).and_then(|()| private.canonicalize());
        *private = created.map_err(|error| {
            format!("the private folder `{}` cannot be created: {error}", private.display())
        })?;
    }
    let private = rights.private.clone();
    let mut confinement = confinement(rights, command, path);
    if let Some(obstacle) = confinement.obstacle() {
        return Err(format!(
            "`[servers.confine]` cannot be enforced: {obstacle}; give it more rights or remove it"
        ));
    }
    // An unconfined program gets no private folders, because only the confined process creates them.
    let Some(private) = private.filter(|_| Confinement::is_available()) else {
        return Ok(program.confined(confinement));
    };
    let runs_npm =
        Path::new(command).file_stem().is_some_and(|name| name == "npm" || name == "npx");
    // npm logs a warning about this variable of pnpm at each start.
    let folders = PRIVATE_FOLDERS.iter().filter(|(name, _)| !runs_npm || *name != PNPM_STORE);
    let folders: Vec<_> = folders.map(|(name, folder)| (*name, private.join(folder))).collect();
    // The confined process creates them, because the server could have put a link in their place.
    confinement.folders = folders.iter().map(|(_, folder)| folder.clone()).collect();
    Ok(program.envs(folders).confined(confinement))
}

/// Returns the value of an environment variable that names a folder inside the private folder of a confined server;
/// `None` for other variables.
pub(crate) fn private_variable(private: &Path, name: &str) -> Option<PathBuf> {
    let (_, folder) = PRIVATE_FOLDERS.iter().find(|(known, _)| *known == name)?;
    Some(private.join(folder))
}

#[cfg(unix)]
fn create_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn create_private(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)
}

/// Returns a confinement that permits a program only what these rights allow, and what every program needs to run.
fn confinement(rights: ProcessRights, command: &str, path: &OsStr) -> Confinement {
    let write: Vec<PathBuf> = rights.write.into_iter().chain(rights.private).collect();
    let own: Vec<PathBuf> = write.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    let is_configured = rights.code == ConfinedCode::Configured;
    if is_configured {
        read.extend(SERVER_SYSTEM.iter().map(PathBuf::from));
    }
    if rights.code != ConfinedCode::Registered {
        let program =
            folder_of(command, path).map_or(command.into(), |folder| folder.join(command));
        let programs = interpreters(&program, path, &own);
        read.extend(programs.iter().flat_map(|program| installations(program, &own)));
        read.push(program);
    }
    for path in &rights.read {
        read.extend(installations(path, &own));
    }
    read.extend(rights.read);
    let certificates = CERTIFICATES.iter().filter_map(std::env::var_os);
    read.extend(certificates.flat_map(|files| std::env::split_paths(&files).collect::<Vec<_>>()));
    let mut all = Confinement::new();
    all.read = read.iter().filter_map(|path| safe_path(path, &own)).collect();
    let write = write.iter().map(PathBuf::as_path).chain([Path::new("/dev/null")]);
    all.write = write.filter_map(|path| safe_path(path, &own)).collect();
    all.hidden = rights.hidden;
    (all.connects, all.listens) = (ports(rights.connects), ports(rights.listens));
    all.local_sockets = rights.local_sockets;
    // A runner downloads large files.
    all.limits_resources = rights.code == ConfinedCode::Registered;
    all.required = is_configured;
    all
}

fn ports(rights: PortRights) -> Ports {
    match rights {
        PortRights::Only(ports) => Ports::Only(ports),
        PortRights::All => Ports::All,
        _ => Ports::None,
    }
}

/// The maximum number of bytes that are read of a script, and of the settings of a virtual environment.
const MAX_HEAD_BYTES: u64 = 4096;

/// Returns a program and, if it is a script, the interpreter that its first line names, and, if one of them belongs to
/// a virtual environment of Python, the interpreter from which the environment was created. Files in the folders
/// `own`, which the program can write, are not read.
fn interpreters(program: &Path, path: &OsStr, own: &[PathBuf]) -> Vec<PathBuf> {
    let is_own = |file: &PathBuf| own.iter().any(|own| file.starts_with(own));
    let fixed = |file: &Path| safe_path(file, own).filter(|file| !is_own(file));
    let mut found = vec![program.to_owned()];
    if let Some(line) = fixed(program).and_then(|file| rest_of_line(&file, "#!", 1)) {
        let mut words = line.split_whitespace();
        let named = words.next().map(PathBuf::from);
        let is_env = named.as_ref().is_some_and(|named| named.ends_with("env"));
        let searched = words.next().filter(|_| is_env);
        found.extend(searched.and_then(|name| Some(folder_of(name, path)?.join(name))).or(named));
    }
    let settings = |program: &PathBuf| fixed(&program.parent()?.parent()?.join("pyvenv.cfg"));
    let homes = found.iter().filter_map(settings);
    let homes = homes.filter_map(|file| rest_of_line(&file, "home =", 64));
    let bases: Vec<_> = homes.map(|home| Path::new(home.trim()).join("python3")).collect();
    found.extend(bases);
    found
}

/// Returns the rest of the first line of a file that begins with this text, among its first lines; reads only the
/// beginning of the file.
fn rest_of_line(file: &Path, begin: &str, lines: usize) -> Option<String> {
    // Check this before opening the file: opening a named pipe would block until it has a writer.
    fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
    let file = File::open(file).ok()?.take(MAX_HEAD_BYTES);
    let mut lines = BufReader::new(file).lines().take(lines).map_while(Result::ok);
    lines.find_map(|line| Some(line.strip_prefix(begin)?.to_owned()))
}

/// Returns the folders of the installations of a program and, if it is a link, of its target. In a virtual environment
/// of Python, the interpreter is a link to that of another installation.
fn installations(program: &Path, own: &[PathBuf]) -> Vec<PathBuf> {
    let target = safe_path(program, own);
    let target = target.iter().flat_map(|target| installation(target));
    installation(program).into_iter().chain(target).collect()
}

/// Returns the folders of the installation to which an interpreter belongs; none if its path does not reveal an
/// installation.
fn installation(program: &Path) -> Vec<PathBuf> {
    let is_manager = |folder: &&Path| {
        folder.file_name().is_some_and(|name| MANAGERS.iter().any(|known| name == *known))
    };
    if let Some(manager) = program.ancestors().find(is_manager) {
        return vec![manager.to_owned()];
    }
    let Some(folder) = program.parent() else { return Vec::new() };
    match folder.parent().filter(|_| folder.file_name().is_some_and(|name| name == "bin")) {
        Some(prefix) => BESIDE.iter().map(|name| prefix.join(name)).collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_reads_its_own_folders_and_not_those_of_the_user() {
        let of = |path: &str| installation(Path::new(path));
        assert_eq!(of("/home/u/.pyenv/shims/python3"), [PathBuf::from("/home/u/.pyenv")]);
        assert!(of("/opt/py/bin/python3").contains(&PathBuf::from("/opt/py/lib")));
        let brew = of("/home/linuxbrew/.linuxbrew/bin/node");
        assert!(brew.contains(&PathBuf::from("/home/linuxbrew/.linuxbrew/Cellar")));
        assert!(!of("/home/u/bin/python3").contains(&PathBuf::from("/home/u")));
        assert_eq!(of("/home/u/scripts/made.py"), Vec::<PathBuf>::new());
    }

    /// Regression test: the interpreter of a virtual environment could not read its `pyvenv.cfg`, so no script of an
    /// agent started.
    #[cfg(unix)]
    #[test]
    fn an_interpreter_of_a_virtual_environment_reads_both_installations() {
        let folder = mgp_testkit::temp_dir();
        let at = |path: &str| folder.path().canonicalize().unwrap().join(path);
        for bin in ["base/bin", "venv/bin"] {
            std::fs::create_dir_all(at(bin)).unwrap();
        }
        std::fs::write(at("base/bin/python3.12"), "").unwrap();
        std::os::unix::fs::symlink(at("base/bin/python3.12"), at("venv/bin/python3")).unwrap();
        let read = installations(&at("venv/bin/python3"), &[]);
        for path in ["venv/pyvenv.cfg", "venv/lib", "base/lib"] {
            assert!(read.contains(&at(path)), "{path} {read:?}");
        }
        // A program that can write the environment could replace the link.
        let read = installations(&at("venv/bin/python3"), &[at("venv")]);
        assert!(!read.contains(&at("base/lib")), "{read:?}");
    }
}
