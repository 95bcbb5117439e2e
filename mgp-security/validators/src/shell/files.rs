//! Commands that delete, change or write files.

use super::{
    argv::{Args, Refusal},
    git,
    interpreters::own_options,
    paths::{belongs_to_system, is_device, is_key, is_secret, is_system, is_system_target},
};
use crate::words::{Words, has};

/// Options whose value is the name of a file that a program writes.
const OUTPUTS: &[&str] = &[
    "-out",
    "-keyout",
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
    "--stderr",
    "--libcurl",
    "--etag-save",
    "--hsts",
    "--alt-svc",
    "--save-cookies",
    "--warc-file",
    "--append-output",
    "--target-directory",
    "--target-dir",
    "--one-top-level",
    "--directory-prefix",
    "--directory",
    "--prefix",
    "-P",
    "-c",
    "-d",
    "-C",
];

/// Commands for which no option in [`OUTPUTS`] names a file to write. `configure` only records the folder that its
/// options name.
static READERS: Words = Words::new(
    "ls grep ps df stat find cut tr git python diff tree cd wc head tail date pgrep lsof ss netstat \
    test [ base64 xargs awk file du uniq paste column rg fd cat tail nl od xxd hexdump strings cmp comm \
    configure jq md5sum sha256sum sha512sum cksum ping dig nslookup ip top free vmstat iostat",
);

/// Refuses a command that changes files of the system or devices, sends keys to another machine, or does similar harm,
/// e.g. ends all processes.
pub(super) fn check(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let refuse =
        |path: &str| Err(format!("`{name}` writes to `{path}`, which belongs to the system"));
    if let Some(path) = changed(name, args).or_else(|| output(name, args)) {
        return refuse(path);
    }
    if sends_key(name, args) {
        return Err(format!("`{name}` sends keys or passwords to another machine"));
    }
    match name {
        "tar" | "gtar" | "bsdtar" => {
            absolute_names(args)?;
            compressor(args)
        }
        "cat" | "tail" | "od" | "xxd" | "strings" | "wc" | "grep" | "sort" | "base64"
        | "md5sum" | "sha256sum" => endless(name, args),
        "chmod" => setuid(name, args.texts().find(|arg| !arg.starts_with("--"))),
        "install" => {
            let mut modes = args.grouped('m').chain(args.values(&["--mode"]));
            modes.try_for_each(|mode| setuid(name, Some(mode)))
        }
        "kill" => kill(args),
        "pkill" | "killall" if args.operands().any(|it| matches!(it, "." | ".*" | "*" | "^")) => {
            Err(format!("`{name}` ends all processes"))
        }
        "mknod" if args.operands().any(|kind| matches!(kind, "b" | "c" | "u")) => {
            Err("`mknod` makes a device".to_owned())
        }
        // Moved to a device, a file is lost, and the device may be replaced.
        "mv" if args.operands().any(|path| path.starts_with("/dev/")) => {
            Err("`mv` writes to a device".to_owned())
        }
        _ if args.operands().any(is_device)
            && matches!(name, "cp" | "tee" | "pv" | "wipefs" | "parted") =>
        {
            Err(format!("`{name}` writes to a device"))
        }
        _ => Ok(()),
    }
}

/// Returns a system file that a command would change, if any.
fn changed<'a>(name: &str, args: Args<'a>) -> Option<&'a str> {
    let mut all = args.operands();
    match name {
        "rm" | "unlink" | "rmdir" | "tee" | "truncate" | "fallocate" | "touch" | "mkdir"
        | "mknod" | "mkfifo" | "chmod" | "chown" | "chgrp" | "chattr" | "setfacl" | "patch"
        | "trash" | "gzip" | "bzip2" | "xz" | "zstd" | "dos2unix" | "sponge" | "shuf" | "vim"
        | "vi" | "nano" | "emacs" => all.find(|path| is_system(path)),
        "mv" => {
            let target = target_folder(args).or_else(|| args.operands().last());
            all.find(|path| is_system_target(path) || is_system(path) && target != Some(*path))
        }
        "cp" | "ln" | "install" if target_folder(args).is_some_and(is_system_target) => {
            target_folder(args)
        }
        "cp" | "ln" | "install" | "scp" | "rsync" => {
            all.last().filter(|path| is_system_target(path))
        }
        "ditto" | "link" | "cpio" | "pax" | "objcopy" | "convert" | "pdftotext" | "pdftoppm"
        | "wkhtmltopdf" | "wkhtmltoimage" => all.last().filter(|path| is_system(path)),
        "magick" if args.first() != "identify" => all.last().filter(|path| is_system(path)),
        "zip" | "logsave" => all.next().filter(|path| is_system(path)),
        "tar" | "gtar" | "bsdtar" => archive(args).filter(|path| is_system(path)),
        "docker" | "podman" | "nerdctl" | "kubectl" | "oc" | "aws" | "gsutil" | "gcloud"
        | "rclone" => {
            let copies = |word: &&str| matches!(*word, "cp" | "mv" | "copy" | "copyto" | "sync");
            all.skip_while(|word| !copies(word)).skip(2).find(|path| is_system(path))
        }
        "sed" | "gsed" if args.short("i", "efl") || args.long("in-place", 3) => {
            all.find(|path| is_system(path))
        }
        "perl" if own_options(name, args, "IMm").short("i", "IMmCxFD") => {
            all.find(|path| is_system(path))
        }
        "python" | "pypy" => unpacked(args),
        "dd" => {
            let output = args.texts().find_map(|arg| arg.strip_prefix("of="));
            output.filter(|path| is_system(path))
        }
        "yq" if args.short("i", "poIs") || args.long("inplace", 2) => {
            all.find(|path| is_system(path))
        }
        "uniq" => {
            second(args, &["-f", "-s", "-w", "--skip-fields", "--skip-chars", "--check-chars"])
        }
        "xxd" => second(
            args,
            &[
                "-c", "-cols", "-g", "-l", "-len", "-n", "-name", "-o", "-offset", "-s", "-seek",
                "-R",
            ],
        ),
        "split" => {
            second(args, &["-a", "-b", "-C", "-l", "-n", "-t", "--bytes", "--lines", "--number"])
        }
        "ffmpeg" => converted(args),
        "git" => git::written(args),
        _ => listed(name, args),
    }
}

/// Returns whether a command copies a file with keys or passwords to another machine.
fn sends_key(name: &str, args: Args<'_>) -> bool {
    const VALUED: &[&str] =
        &["-i", "-P", "-o", "-F", "-l", "-c", "-J", "--port", "--password-file"];
    let is_snippet = |word: &str| matches!(word, "gist" | "snippet");
    let own = match name {
        "scp" | "rsync" => args.after_options(VALUED),
        "aws" | "gsutil" | "gcloud" | "rclone" | "mc" | "s3cmd" => args,
        "gh" | "glab" => return args.texts().any(is_snippet) && args.operands().any(is_secret),
        // `az ssh` only uses the key.
        "az" => return args.first() != "ssh" && args.texts().any(is_key),
        // The name of a pod can have one letter.
        "kubectl" | "oc" if args.texts().any(|text| text == "cp") => {
            let mut after_key = args.operands().skip_while(|path| !is_key(path)).skip(1);
            return after_key.any(|path| path.contains(':'));
        }
        _ => return false,
    };
    // Do not count a name of one letter before the colon: it is a drive and not a remote machine.
    let is_remote = |path: &str| {
        path.split_once(':').is_some_and(|(host, _)| host.len() > 1 && !host.contains('/'))
    };
    own.operands().skip_while(|path| !is_key(path)).skip(1).any(is_remote)
}

/// Returns the folder that `-t` or `--target-directory` names.
fn target_folder(args: Args<'_>) -> Option<&str> {
    let is_long = |name: &str| name.len() > 3 && "--target-directory".starts_with(name);
    let next = args.texts().skip(1).map(Some).chain([None]);
    let mut long = args.texts().zip(next).filter_map(|(text, next)| match text.split_once('=') {
        Some((name, value)) => is_long(name).then_some(value),
        None => next.filter(|_| is_long(text)),
    });
    args.grouped('t').next().or_else(|| long.next())
}

/// Returns whether the options of `tar` contain a letter. These options can lack the dash.
fn has_letter(args: Args<'_>, letter: &str) -> bool {
    let first = args.first();
    !first.starts_with('-') && first.contains(letter) || args.short(letter, "fCbTXgKVHNI")
}

/// Returns whether `tar` unpacks an archive.
pub(super) fn extracts(args: Args<'_>) -> bool {
    has_letter(args, "x") || args.long("extract", 3) || args.long("get", 3)
}

/// Refuses an option with which `tar` unpacks the absolute paths in an archive.
fn absolute_names(args: Args<'_>) -> Result<(), Refusal> {
    if extracts(args) && (has_letter(args, "P") || args.long("absolute-names", 3)) {
        return Err("`tar` unpacks to the paths that the archive names".to_owned());
    }
    Ok(())
}

/// Programs that only compress or expand their standard input.
static COMPRESSORS: Words = Words::new(
    "\
    gzip pigz bzip2 pbzip2 lbzip2 xz pixz pxz lzma zstd zstdmt pzstd lz4 lzop lzip plzip brotli \
    compress",
);

/// Checks the program that `tar` runs to compress an archive. Refuses it unless it is in [`COMPRESSORS`] and has only
/// options for levels and similar settings.
fn compressor(args: Args<'_>) -> Result<(), Refusal> {
    let bundle = args.first();
    // If the group of options lacks its dash, the values of the options are the next arguments, in the order of the
    // options.
    let in_bundle = !bundle.starts_with('-') && bundle.contains(['I', 'F']);
    let short = args.short_values('I', "fCbTXgKVHNF");
    let mut programs = short.chain(args.long_values("use-compress-program", 2));
    let compresses = |program: &str| {
        // A shell executes the text, so a newline in it would begin another command.
        let mut words = program.split(' ').filter(|word| !word.is_empty());
        words.next().is_some_and(|name| COMPRESSORS.has(name)) && words.all(is_level)
    };
    if in_bundle || !programs.all(compresses) {
        return Err("`tar` runs a program that may do more than compress".to_owned());
    }
    Ok(())
}

/// Returns whether an argument of a program in [`COMPRESSORS`] is a level, a number of threads, or a plain switch.
fn is_level(word: &str) -> bool {
    const LONG: &str = "fast best ultra adaptive rsyncable long decompress threads processes";
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').unwrap_or((long, ""));
        return has(LONG, name) && is_number(value);
    }
    let letters = word.strip_prefix('-').unwrap_or(word);
    let switches = ['T', 'p', 'q', 'k', 'd', 'v'];
    is_number(word) || word.len() > letters.len() && is_number(letters.trim_start_matches(switches))
}

/// Returns the archive that `tar` creates or changes.
fn archive(args: Args<'_>) -> Option<&str> {
    let first = args.first();
    let bundle = if first.starts_with('-') { "" } else { first };
    let writes = ["create", "append", "update", "catenate", "concatenate"];
    let is_written = bundle.contains(['c', 'r', 'u', 'A'])
        || args.short("cruA", "fCbTXgKVHNI")
        || writes.iter().any(|name| args.long(name, 3));
    if !is_written {
        return None;
    }
    let after_bundle = bundle.contains('f').then(|| args.skip(1).first());
    after_bundle.or_else(|| args.grouped('f').next()).or_else(|| args.values(&["--file"]).next())
}

/// Returns a system file that a command would write because of an option whose meaning is specific to the command, if
/// any.
fn listed<'a>(name: &str, args: Args<'a>) -> Option<&'a str> {
    let grouped = |letters: &str| {
        letters.chars().find_map(|letter| args.grouped(letter).find(|path| is_system(path)))
    };
    match name {
        "tree" => grouped("o"),
        "ss" => grouped("D"),
        "tcpdump" | "tshark" | "dumpcap" => grouped("w"),
        "pg_dump" | "pg_dumpall" => {
            grouped("f").or_else(|| args.values(&["--file"]).find(|path| is_system(path)))
        }
        "mysqldump" | "mariadb-dump" => {
            args.values(&["-r", "--result-file"]).find(|path| is_system(path))
        }
        "nmap" => args.values(&["-oN", "-oX", "-oG", "-oA"]).find(|path| is_system(path)),
        "csplit" => grouped("f"),
        // With one of these options, `ssh-keygen` only reads the key in the file. Without them, it writes the key, so
        // check the file.
        "ssh-keygen" if !args.short("lyeBF", "fbtCNPIOnVzsmMaDLrRWY") => grouped("f"),
        "wget" => grouped("oOaP"),
        "curl" => grouped("oDc").or_else(|| {
            // Check these files too: `%output{FILE}` in the text of `--write-out` writes to the file, `%output{>>FILE}`
            // adds to it.
            let files = args.texts().flat_map(|text| text.split("%output{").skip(1));
            let paths = files.map(|rest| rest.split('}').next().unwrap_or(rest));
            paths.map(|path| path.trim_start_matches('>')).find(|path| is_system(path))
        }),
        "pip" | "pip3" | "uv" => {
            args.values(&["-t", "--target", "--root", "--src"]).find(|path| is_system(path))
        }
        "cargo" if args.first() == "install" => {
            args.values(&["--root"]).find(|path| is_system(path))
        }
        _ => None,
    }
}

/// Returns a folder of the system to which a module of Python would write, if any.
fn unpacked(args: Args<'_>) -> Option<&str> {
    let module = args.values(&["-m"]).next()?;
    let writes = match module {
        "venv" => true,
        "zipfile" | "tarfile" => args.any(&["-e", "--extract", "-c", "--create"]),
        _ => false,
    };
    args.operands().find(|path| writes && belongs_to_system(path))
}

/// Returns an operand that is a system file, except for the first operand, which is only read. An option in `valued`
/// takes the next argument as its value.
fn second<'a>(args: Args<'a>, valued: &[&str]) -> Option<&'a str> {
    args.after_options(valued).skip(1).operands().find(|path| is_system(path))
}

/// Returns a system file among the operands of `ffmpeg`, if any: its operands are the files that it writes.
fn converted(args: Args<'_>) -> Option<&str> {
    const FLAGS: &[&str] =
        &["-y", "-n", "-hide_banner", "-an", "-vn", "-sn", "-dn", "-nostdin", "-shortest"];
    let mut before = "";
    let mut last = None;
    for word in args.texts() {
        let is_value = before.starts_with('-') && !FLAGS.contains(&before);
        if !is_value && is_system(word) {
            return Some(word);
        }
        if before != "-i" && !word.starts_with('-') {
            last = Some(word);
        }
        before = word;
    }
    last.filter(|path| is_system(path))
}

/// Returns a system file that a command would write because of an option in [`OUTPUTS`], if any.
fn output<'a>(name: &str, args: Args<'a>) -> Option<&'a str> {
    let reads = READERS.has(name);
    args.values(OUTPUTS)
        .find(|path| !reads && path.contains(['/', '~', '$']) && is_system_target(path))
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

fn setuid(name: &str, mode: Option<&str>) -> Result<(), Refusal> {
    let mode = mode.unwrap_or_default();
    let octal = mode.trim_start_matches('0');
    let special =
        octal.len() == 4 && octal.bytes().all(|b| b.is_ascii_digit()) && !octal.starts_with('1');
    if special
        || mode.split(',').any(|part| {
            part.contains(['+', '='])
                && part.split(['+', '=']).skip(1).any(|flags| flags.contains('s'))
        })
    {
        return Err(format!("`{name}` sets the user or group of a program"));
    }
    Ok(())
}

fn kill(args: Args<'_>) -> Result<(), Refusal> {
    let texts: Vec<&str> = args.texts().collect();
    let signal = |index: usize| index == 0 || matches!(texts[index - 1], "-s" | "-n" | "--signal");
    let broad = texts.iter().enumerate().any(|(index, text)| {
        let number = text.strip_prefix('-').and_then(|rest| rest.parse::<u32>().ok());
        // Without a process, `kill -9` only fails.
        let is_signal = number.is_some_and(|number| (2..=64).contains(&number));
        let alone = texts.len() == 1 && !is_signal;
        matches!(*text, "0" | "1")
            && !matches!(texts.get(index.wrapping_sub(1)), Some(&"-s" | &"-n"))
            || number.is_some() && (!signal(index) || alone)
    });
    if broad { Err("`kill` reaches processes beyond one".to_owned()) } else { Ok(()) }
}
