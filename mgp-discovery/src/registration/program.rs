//! Which program a registration runs, and the files that decide what it does (MGP §15.4).
//!
//! Everything here blocks.
//!
//! Applies to: inbound.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use mgp_types::to_hex;
use sha2::{Digest as _, Sha256};

use super::ask::{Asked, unfit};
use super::config::RegistrationConfig;
use super::record::{Bound, Proposal};
use super::refused::RegistrationRefused as Refused;

/// The longest program whose content is read.
const PROGRAM_BYTES: u64 = 256 << 20;

/// Programs that run the script that is their first argument, and how the name of such a script ends.
const INTERPRETERS: &[(&str, &str)] = &[
    ("bash", "sh"),
    ("bun", "mjs"),
    ("dash", "sh"),
    ("ksh", "sh"),
    ("lua", "lua"),
    ("luajit", "lua"),
    ("node", "mjs"),
    ("nodejs", "mjs"),
    ("perl", "pl"),
    ("php", "php"),
    ("pypy", "py"),
    ("python", "py"),
    ("ruby", "rb"),
    ("sh", "sh"),
    ("zsh", "sh"),
];

/// Programs that run what their arguments name in some other way: packages, programs, modules.
const RUNNERS: &[&str] = &[
    "awk",
    "bunx",
    "busybox",
    "cargo",
    "cmd",
    "conda",
    "corepack",
    "deno",
    "docker",
    "dotnet",
    "env",
    "expect",
    "find",
    "fish",
    "gawk",
    "gdb",
    "go",
    "groovy",
    "java",
    "julia",
    "make",
    "nice",
    "nix",
    "nohup",
    "npm",
    "npx",
    "osascript",
    "parallel",
    "pipx",
    "pnpm",
    "podman",
    "poetry",
    "powershell",
    "pwsh",
    "pythonw",
    "rscript",
    "script",
    "setsid",
    "ssh",
    "stdbuf",
    "su",
    "sudo",
    "systemd-run",
    "tclsh",
    "time",
    "timeout",
    "ts-node",
    "tsx",
    "unshare",
    "uv",
    "uvx",
    "wasmtime",
    "watch",
    "xargs",
    "yarn",
];

/// How the names of files with code end.
const CODE: &[&str] = &[
    "bash", "cjs", "cts", "jar", "js", "lua", "mjs", "mts", "php", "pl", "ps1", "py", "pyz", "rb",
    "sh", "ts", "wasm", "zsh",
];

/// What kind of program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It does what it was built to do.
    Built,
    /// It is itself a text with `#!` in front.
    Script,
    /// It runs the script that is its first argument.
    Interpreter,
    /// It runs what its arguments name.
    Runner,
}

/// The code of a registration, as a judge would have to see it.
#[derive(Debug)]
pub(super) enum Code {
    /// None: the program does what it was built to do.
    None,
    /// One text, which is all that the arguments name, and what runs it.
    Text { language: String, text: String },
    /// Something that nobody can read here.
    Unreadable,
}

/// Finds the program and the files of what is asked for.
pub(super) fn find(asked: Asked, config: &RegistrationConfig) -> Result<Proposal, Refused> {
    let cwd = config.folder.join(asked.cwd.as_deref().unwrap_or_default());
    if !cwd.is_dir() {
        return unfit(format!("there is no folder `{}`; name one in `cwd`", shown(&cwd)));
    }
    let command = program(&asked.command, &cwd, config)?;
    let real = command.canonicalize().map_err(|error| unreadable(&command, &error))?;
    let kind = kind(&command, &real)?;
    if asked.source.is_some() && !matches!(kind, Kind::Interpreter) {
        let known: Vec<&str> = INTERPRETERS.iter().map(|(name, _)| *name).collect();
        return unfit(format!(
            "`source` is run by an interpreter: make `command` one of {}",
            known.join(", ")
        ));
    }
    let (mut files, mut notes) = (Vec::new(), asked.notes);
    let metadata = fs::metadata(&real).map_err(|error| unreadable(&real, &error))?;
    if !is_of_system(&metadata) {
        files.push(bind(&command)?);
    }
    if asked.source.is_none() && matches!(kind, Kind::Interpreter | Kind::Runner) {
        files.extend(named(&asked.args, &cwd)?);
        if kind == Kind::Runner || !is_script(asked.args.first(), &cwd) {
            notes.push(format!(
                "`{}` runs what its arguments name; what that becomes may change without asking again",
                name_of(&command)
            ));
        }
    }
    Ok(Proposal {
        id: asked.id,
        command: path_text(&command)?,
        real: path_text(&real)?,
        args: asked.args,
        cwd: path_text(&cwd)?,
        env: asked.env,
        source: asked.source,
        files,
        mgp: asked.mgp,
        trust: asked.trust,
        notes,
    })
}

/// The code that a proposal runs; only the plainest form of it can be judged.
pub(super) fn code(proposal: &Proposal, config: &RegistrationConfig) -> Result<Code, Refused> {
    let (command, cwd) = (Path::new(&proposal.command), Path::new(&proposal.cwd));
    let language = name_of(command);
    Ok(match (kind(command, Path::new(&proposal.real))?, &proposal.source) {
        (_, Some(source)) => Code::Text { language, text: source.clone() },
        (Kind::Built, None) => Code::None,
        (Kind::Script, None) => {
            Code::Text { language, text: text(command, &proposal.files, config)? }
        }
        (Kind::Interpreter, None) if is_script(proposal.args.first(), cwd) => {
            let script = cwd.join(&proposal.args[0]);
            Code::Text { language, text: text(&script, &proposal.files, config)? }
        }
        (Kind::Interpreter | Kind::Runner, None) => Code::Unreadable,
    })
}

/// Whether the first argument of an interpreter is its script.
fn is_script(first: Option<&String>, cwd: &Path) -> bool {
    first.is_some_and(|first| !first.starts_with('-') && cwd.join(first).is_file())
}

/// What of a proposal is otherwise by now.
pub(super) enum Now {
    /// Nothing.
    Same,
    /// Its files; these are they now.
    Changed(Box<Proposal>),
}

/// Looks whether the files of a proposal are still those.
pub(super) fn look(proposal: &Proposal) -> Result<Now, String> {
    let said = |refused: Refused| refused.to_string();
    let command = Path::new(&proposal.command);
    let real = command.canonicalize().map_err(|error| unreadable(command, &error)).map_err(said)?;
    let mut now = proposal.clone();
    now.real = path_text(&real).map_err(said)?;
    // Another program behind the same name is another file to look at, whoever owns it.
    if now.real != proposal.real && !now.files.iter().any(|file| file.path == command) {
        now.files.push(bind(command).map_err(said)?);
    }
    for file in &mut now.files {
        *file = bind(&file.path).map_err(said)?;
    }
    if now == *proposal { Ok(Now::Same) } else { Ok(Now::Changed(Box::new(now))) }
}

/// How the file of a `source` is named.
pub(super) fn source_name(proposal: &Proposal) -> String {
    let name = name_of(Path::new(&proposal.command));
    let ending =
        INTERPRETERS.iter().find(|(known, _)| *known == name).map_or("txt", |(_, end)| end);
    format!("{}.{ending}", proposal.id)
}

/// The program by its whole path: a later change of `PATH` changes nothing.
fn program(command: &str, cwd: &Path, config: &RegistrationConfig) -> Result<PathBuf, Refused> {
    let names = || [command.to_owned(), format!("{command}{}", std::env::consts::EXE_SUFFIX)];
    let is_path = command.contains(['/', std::path::MAIN_SEPARATOR]);
    let folders: Vec<PathBuf> = if is_path {
        vec![cwd.to_owned()]
    } else {
        config.path.iter().filter(|folder| folder.is_absolute()).cloned().collect()
    };
    let places = folders.iter().flat_map(|folder| names().map(|name| folder.join(name)));
    for place in places {
        if fs::metadata(&place).is_ok_and(|metadata| metadata.is_file() && may_run(&metadata)) {
            return Ok(place);
        }
    }
    let whole = if is_path { "" } else { " on `PATH`; write its whole path" };
    unfit(format!("there is no program `{}`{whole}", command.escape_debug()))
}

fn kind(command: &Path, real: &Path) -> Result<Kind, Refused> {
    // Under either name: links are how `sh`, and every program of busybox, come to theirs.
    for name in [name_of(command), name_of(real)] {
        if RUNNERS.contains(&name.as_str()) {
            return Ok(Kind::Runner);
        }
        if INTERPRETERS.iter().any(|(known, _)| *known == name) {
            return Ok(Kind::Interpreter);
        }
    }
    let mut begin = Vec::new();
    let file = File::open(real).map_err(|error| unreadable(real, &error))?;
    file.take(2).read_to_end(&mut begin).map_err(|error| unreadable(real, &error))?;
    Ok(if begin == b"#!" { Kind::Script } else { Kind::Built })
}

/// The name of a program without folder, version and ending: `python` of `/usr/bin/python3.11`.
fn name_of(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || ".-_".contains(c));
    if plain.is_empty() { name.to_owned() } else { plain.to_owned() }
}

/// The files with code among arguments: the first that is a file, and all whose names say so.
fn named(args: &[String], cwd: &Path) -> Result<Vec<Bound>, Refused> {
    let mut files: Vec<Bound> = Vec::new();
    for arg in args {
        let place = cwd.join(arg);
        let ending = place.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let is_first = files.is_empty() && !arg.starts_with('-');
        if (is_first || CODE.contains(&ending.as_str())) && place.is_file() {
            files.push(bind(&place)?);
        }
    }
    Ok(files)
}

/// Binds a file by its content.
fn bind(path: &Path) -> Result<Bound, Refused> {
    let failed = |error: io::Error| unreadable(path, &error);
    // Looked at before it is opened: opening a pipe would wait for its other end.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return unfit(format!("`{}` is not a plain file", shown(path)));
    }
    let (mut file, mut hash) =
        (File::open(path).map_err(failed)?.take(PROGRAM_BYTES + 1), Sha256::new());
    let (mut read, mut buffer) = (0, vec![0; 64 * 1024]);
    loop {
        let bytes = file.read(&mut buffer).map_err(failed)?;
        if bytes == 0 {
            break;
        }
        read += bytes as u64;
        hash.update(&buffer[..bytes]);
    }
    if read > PROGRAM_BYTES {
        return unfit(format!("`{}` is longer than {PROGRAM_BYTES} bytes", shown(path)));
    }
    Ok(Bound { path: path.to_owned(), sha256: to_hex(&hash.finalize()) })
}

/// The text of a script, which must be the one that was bound.
fn text(path: &Path, files: &[Bound], config: &RegistrationConfig) -> Result<String, Refused> {
    let mut bytes = Vec::new();
    let failed = |error: io::Error| unreadable(path, &error);
    let file = File::open(path).map_err(failed)?;
    file.take(config.script_bytes as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > config.script_bytes {
        return unfit(format!("`{}` is longer than {} bytes", shown(path), config.script_bytes));
    }
    let sha256 = to_hex(&Sha256::digest(&bytes));
    if files.iter().any(|file| file.path == path && file.sha256 != sha256) {
        return unfit(format!("`{}` was changed meanwhile; try again", shown(path)));
    }
    String::from_utf8(bytes)
        .or_else(|_| unfit(format!("`{}` is a script that is not UTF-8 text", shown(path))))
}

fn path_text(path: &Path) -> Result<String, Refused> {
    match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => unfit(format!("`{}` is not UTF-8 text", shown(path))),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Refused {
    Refused::Unfit(format!("`{}` cannot be read: {error}", shown(path)))
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}

/// A program that only the system's administrator may change is bound by its place: updates need no approval.
#[cfg(unix)]
fn is_of_system(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    metadata.uid() == 0 && metadata.mode() & 0o022 == 0 && !rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_of_system(_: &Metadata) -> bool {
    false
}

#[cfg(unix)]
fn may_run(metadata: &Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn may_run(_: &Metadata) -> bool {
    true
}
