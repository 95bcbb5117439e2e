//! Commands that delete, change or write files.

use super::{
    argv::{Args, Refusal},
    paths::{is_device, is_system},
};
use crate::words::Words;

/// Options with which programs get the name of a file to write.
const OUTPUTS: &[&str] = &[
    "-o",
    "--output",
    "--out",
    "--outfile",
    "--output-file",
    "--output-document",
    "--output-dir",
    "--log-file",
    "--logfile",
    "-O",
    "-D",
    "--dump-header",
    "--cookie-jar",
    "--trace",
    "--trace-ascii",
    "--target-directory",
    "--directory-prefix",
    "--directory",
    "--prefix",
    "-P",
    "-c",
    "-d",
    "-C",
];

/// Commands for which the options in [`OUTPUTS`] do not name a file to write.
static READERS: Words = Words::new(
    "ls grep ps df stat find cut tr git python diff tree cd wc head tail date pgrep lsof ss netstat \
    test [ base64 xargs awk file du uniq paste column rg fd",
);

/// Checks the files that a command would change.
pub(super) fn check(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let refuse =
        |path: &str| Err(format!("`{name}` writes to `{path}`, which belongs to the system"));
    if let Some(path) = changed(name, args).or_else(|| output(name, args)) {
        return refuse(path);
    }
    match name {
        "cat" | "tail" | "od" | "xxd" | "strings" | "wc" | "grep" | "sort" | "base64"
        | "md5sum" | "sha256sum" => endless(name, args),
        "chmod" => setuid(args),
        "find" | "gfind" => find(args),
        "kill" => kill(args),
        _ if args.operands().any(is_device)
            && matches!(name, "cp" | "tee" | "mv" | "cat" | "pv" | "wipefs" | "parted")
            && name != "cat" =>
        {
            Err(format!("`{name}` writes to a device"))
        }
        _ => Ok(()),
    }
}

/// Returns a system file that a command would change, if there is one.
fn changed<'a>(name: &str, args: Args<'a>) -> Option<&'a str> {
    let mut all = args.operands();
    match name {
        "rm" | "unlink" | "rmdir" | "mv" | "tee" | "truncate" | "touch" | "mkdir" | "mknod"
        | "mkfifo" | "chmod" | "chown" | "chgrp" | "chattr" | "setfacl" | "patch" | "trash"
        | "gzip" | "bzip2" | "xz" | "zstd" | "dos2unix" | "sponge" | "shuf" | "vim" | "vi"
        | "nano" | "emacs" => all.find(|path| is_system(path)),
        "cp" | "ln" | "install" | "rsync" | "scp" | "ditto" | "link" | "cpio" | "pax" => {
            all.last().filter(|path| is_system(path))
        }
        "sed" | "gsed" if args.short("i", "efl") || args.long("in-place", 3) => {
            all.find(|path| is_system(path))
        }
        "dd" => {
            let output = args.texts().find_map(|arg| arg.strip_prefix("of="));
            output.filter(|path| is_system(path))
        }
        _ => None,
    }
}

/// Returns a system file that a command would write because of an option, if there is one.
fn output<'a>(name: &str, args: Args<'a>) -> Option<&'a str> {
    let reads = READERS.has(name);
    args.values(OUTPUTS).find(|path| !reads && path.contains(['/', '~', '$']) && is_system(path))
}

/// Refuses reading from devices that have no end.
fn endless(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let device =
        |path: &&str| matches!(*path, "/dev/zero" | "/dev/random" | "/dev/urandom" | "/dev/full");
    match args.operands().find(device) {
        Some(path) if !matches!(name, "od" | "xxd") => Err(format!("`{path}` never ends")),
        _ => Ok(()),
    }
}

fn setuid(args: Args<'_>) -> Result<(), Refusal> {
    let mode = args.texts().find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let octal = mode.trim_start_matches('0');
    let special =
        octal.len() == 4 && octal.bytes().all(|b| b.is_ascii_digit()) && !octal.starts_with('1');
    if special
        || mode.split(',').any(|part| {
            part.contains(['+', '='])
                && part.split(['+', '=']).skip(1).any(|flags| flags.contains('s'))
        })
    {
        return Err("`chmod` sets the user or group of a program".to_owned());
    }
    Ok(())
}

fn find(args: Args<'_>) -> Result<(), Refusal> {
    let acts = |arg: &&str| {
        let name = arg.strip_prefix('-').unwrap_or_default();
        name == "delete"
            || name == "fls"
            || ["exec", "ok", "fprint"].iter().any(|start| name.starts_with(start))
    };
    match args.texts().find(acts) {
        Some(action) => Err(format!("the action `{action}` of `find` executes, deletes or writes")),
        None => Ok(()),
    }
}

fn kill(args: Args<'_>) -> Result<(), Refusal> {
    let texts: Vec<&str> = args.texts().collect();
    let signal = |index: usize| index == 0 || matches!(texts[index - 1], "-s" | "-n" | "--signal");
    let broad = texts.iter().enumerate().any(|(index, text)| {
        let negative = text.strip_prefix('-').is_some_and(|rest| rest.parse::<u32>().is_ok());
        matches!(*text, "0" | "1")
            && !matches!(texts.get(index.wrapping_sub(1)), Some(&"-s" | &"-n"))
            || negative && (!signal(index) || texts.len() == 1)
    });
    if broad { Err("`kill` reaches processes beyond one".to_owned()) } else { Ok(()) }
}
