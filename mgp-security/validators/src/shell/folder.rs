//! Checks commands in a working folder that the call names: relative paths lead to files below this folder.

use super::{
    argv::{Args, Refusal},
    files,
    frame::Frame,
    git,
    lex::Word,
    paths::{belongs_to_system, is_root, system_path_in},
};
use crate::{argument_values::key_words, readonly::sql, words::Words};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Keys of arguments that contain the working folder of a command.
static FOLDERS: Words = Words::new(
    "\
    cwd cwdpath currentdir currentdirectory currentfolder dir directory folder workdir workingdir \
    workingdirectory workdirectory workingfolder workfolder workingpath workpath chdir basedir \
    basedirectory basepath rootdir rootdirectory rootpath projectdir projectdirectory projectroot \
    projectpath projectfolder repodir repopath reporoot repositorypath workspace workspacedir \
    workspacefolder workspacepath workspaceroot rundir runin execdir pwd directorypath dirpath \
    folderpath targetdir targetdirectory",
);
/// The maximum number of working folders for one command.
const MAX_FOLDERS: usize = 6;
/// The maximum total length of all working folders for one command, in bytes. The check reads each word of a command as
/// a path below each of these folders.
const MAX_FOLDER: usize = 512;
/// Letters of short options whose value is the name of a file or folder to write.
const VALUED: &str = "oOPDcdCtfwar";
/// The maximum length of a group of short options with its value, in bytes; no path is longer.
const MAX_VALUE: usize = 4096;

/// Keys of arguments that name a file to which a server writes the output of a command.
static OUTPUTS: Words = Words::new(
    "\
    output outfile outputfile outputpath outputfilename outputto out outpath stdout stdoutfile \
    stdoutpath stdoutto stderr stderrfile stderrpath stderrto logfile logpath logto redirect \
    redirectto redirectstdout redirectstderr redirectoutput saveto saveas savepath saveoutput \
    saveoutputto writeto appendto tee teeto dest destination resultfile resultpath",
);

/// Commands that write no files in the folder in which they run, unless an option or operand names a file.
static READERS: Words = Words::new(
    "\
    ls dir cat tac nl head tail grep egrep fgrep zgrep zcat rg ag ack find fd tree stat file wc sort \
    uniq cut tr paste column rev diff cmp comm md5sum sha sha256sum sha512sum cksum xxd od hexdump \
    strings base64 jq yq awk gawk mawk sed du df pwd cd echo printf true false test [ date cal uptime \
    whoami id groups hostname uname arch nproc env printenv which whereis type command time timeout \
    nice xargs ps pgrep top free vmstat iostat lsof ss netstat ip ping dig nslookup host readlink \
    realpath basename dirname sleep seq expr locale getent dmesg lscpu lsblk lsusb lspci man nginx \
    openssl kill exit set export unset read shift : return chdir pushd popd dirs",
);
/// Programs with subcommands that only show something.
static SHOWERS: Words =
    Words::new("docker podman kubectl helm systemctl journalctl dpkg rpm apt apt-cache");
static SHOWS: Words = Words::new(
    "\
    ps logs images inspect get describe top stats version info status list ls show is-active \
    is-enabled history search config explain policy -u -l -q -s -qa -qi -ql -L -n -f --version",
);

/// Returns the possible working folders of the commands in an object: the folders that the objects above it name, and
/// the folder that it names itself. If its own folder is relative, it may be below each of the folders above.
///
/// # Errors
/// A description of the problem if there are too many folders, or if they are too long.
pub(super) fn folders_of<'a>(
    above: &'a [String],
    members: &Map<String, Value>,
) -> Result<Cow<'a, [String]>, String> {
    let mut all = Cow::Borrowed(above);
    let below = members.iter().filter(|(_, value)| value.is_object());
    let nested =
        below.filter(|(key, _)| key_words(key).last().is_some_and(|last| is_options(last)));
    let nested = nested.filter_map(|(_, value)| value.as_object()).flatten();
    for (key, value) in members.iter().chain(nested) {
        let Some(text) = value.as_str().map(str::trim).filter(|text| !text.is_empty()) else {
            continue;
        };
        if !FOLDERS.has(&key_words(key).concat()) {
            continue;
        }
        let is_absolute = text.starts_with(['/', '~', '$']) || text.contains(':');
        let joined = above.iter().map(|folder| format!("{folder}/{text}"));
        for folder in joined.filter(|_| !is_absolute).chain([text.to_owned()]) {
            if !all.contains(&folder) {
                all.to_mut().push(folder);
            }
        }
        if all.iter().map(String::len).sum::<usize>() > MAX_FOLDER {
            return Err(format!("the working folders are longer than {MAX_FOLDER} bytes"));
        }
        if all.len() > MAX_FOLDERS {
            return Err(format!("a command has more than {MAX_FOLDERS} working folders"));
        }
    }
    Ok(all)
}

fn is_options(word: &str) -> bool {
    matches!(word, "options" | "opts" | "config" | "settings" | "context" | "params")
}

/// Checks the files that an object names for the output of commands. The commands can be in this object or in the
/// objects above it.
pub(super) fn check_outputs(
    folders: &[String],
    members: &Map<String, Value>,
) -> Result<(), Refusal> {
    for (key, value) in members {
        let Some(text) = value.as_str().map(str::trim) else { continue };
        if !OUTPUTS.has(&key_words(key).concat()) {
            continue;
        }
        let path = text.trim_start_matches(['>', ' ']);
        // A word such as `pipe` or `json` is not a file, so it is not read as a relative path.
        let is_path = path.contains(['/', '.']) || key_words(key).len() > 1;
        let mut relative = folders.iter().filter(|_| is_path);
        if belongs_to_system(path) || relative.any(|f| system_path_in(f, path).is_some()) {
            return Err(format!("`{key}` is a file of the system"));
        }
    }
    Ok(())
}

/// Checks a command in the working folder that the call names.
pub(super) fn check(name: &str, args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    let Some(folder) = frame.folder else { return Ok(()) };
    let in_system = belongs_to_system(&format!("{folder}/x"));
    if in_system && !reads(name, args) || is_root(folder) && unpacks(name, args) {
        return Err(format!(
            "`{name}` can write to its working folder, which belongs to the system"
        ));
    }
    // Do not split the options of these programs into letters: they are long names after one dash.
    let has_groups = !matches!(name, "openssl" | "sqlite" | "sqlite3");
    let words = args.0.iter().flat_map(|word| resolved(word, folder, has_groups));
    let words: Vec<Word> = words.collect();
    files::check(name, Args(&words))
}

fn reads(name: &str, args: Args<'_>) -> bool {
    match name {
        "git" => git::reads(args),
        "sqlite" | "sqlite3" => queries(args),
        name if SHOWERS.has(name) => SHOWS.has(args.first()),
        name => READERS.has(name),
    }
}

/// Returns whether all statements and commands for `sqlite3` only read.
fn queries(args: Args<'_>) -> bool {
    const SHOWS: [&str; 7] =
        [".tables", ".schema", ".indexes", ".indices", ".databases", ".fullschema", ".dbinfo"];
    // Refuse `-A`: with this option, the program works on an archive and can write files.
    if args.texts().any(|text| text.starts_with("-A") || text.starts_with("--A")) {
        return false;
    }
    let mut own = args.operands().skip(1).peekable();
    let shows = |text: &str| {
        !text.contains(['\n', ';'])
            && text.split_whitespace().next().is_some_and(|first| SHOWS.contains(&first))
    };
    own.peek().is_some() && own.all(|text| shows(text) || sql::check(text).is_ok())
}

/// Returns whether a command writes to paths that an archive contains, and does not name an absolute folder for them.
fn unpacks(name: &str, args: Args<'_>) -> bool {
    let targets: &'static [&'static str] = match name {
        "tar" | "gtar" | "bsdtar" if files::extracts(args) => &["-C", "--directory"],
        "unzip" | "patch" => &["-d", "--directory"],
        "7z" => &["-o"],
        "cpio" | "pax" | "unrar" => &[],
        _ => return false,
    };
    !args.values(targets).any(|target| target.starts_with('/'))
}

/// Returns a word with an absolute path in place of a relative path that leads to a system file. If `has_groups` is
/// set, a group of options with such a path, e.g. `-oFILE`, is kept, and followed by two more words: the option and the
/// path.
fn resolved(word: &Word, folder: &str, has_groups: bool) -> Vec<Word> {
    let text = word.text.as_str();
    let with_text = |text: String| Word { text, unset: None, ..word.clone() };
    let system = |path: &str| {
        // In a quoted word, a text such as `{"a": 1}` is data, and not a pattern for names in the root folder.
        let is_data = !word.expands && path.starts_with(['{', '[']) && !path.contains("..");
        if is_data && is_root(folder) { None } else { system_path_in(folder, path) }
    };
    if let Some((name, value)) = text.split_once('=')
        && let Some(path) = system(value)
    {
        return vec![with_text(format!("{name}={path}"))];
    }
    let Some(rest) = text.strip_prefix('-') else {
        return vec![system(text).map_or_else(|| word.clone(), with_text)];
    };
    let mut all = vec![word.clone()];
    if !has_groups || rest.starts_with('-') || rest.len() > MAX_VALUE {
        return all;
    }
    // In a group such as `-xvalue`, the value is all text after the first letter whose option has a value.
    for letter in VALUED.chars() {
        if let Some((_, value)) = rest.split_once(letter)
            && let Some(path) = system(value)
        {
            all.extend([with_text(format!("-{letter}")), with_text(path)]);
        }
    }
    all
}
