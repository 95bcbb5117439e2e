//! The rules for git: subcommands, options and settings that execute something, and files that git writes.

use super::{
    argv::{Args, Refusal, long_name},
    environment,
    paths::{belongs_to_system, is_root, is_system, system_path_in},
};
use crate::words::Words;

/// Settings that are allowed on the command line. Any other setting might name a program to run.
static SETTINGS: Words = Words::new(
    "\
    user.name user.email color. core.quotepath core.autocrlf core.filemode core.ignorecase \
    core.longpaths core.eol core.safecrlf core.abbrev advice. log. diff.algorithm diff.renames \
    diff.context diff.nopre diff.mnemonic diff.colormoved init.defaultbranch commit.gpgsign \
    tag.gpgsign i18n. gc.auto protocol.version pull.rebase pull.ff push.default \
    push.autosetupremote fetch.prune merge.ff merge.conflictstyle rebase.autosquash \
    rebase.autostash rerere. status. column. branch. http.postbuffer http.version http.timeout \
    blame. grep. submodule.recurse safe.directory feature. index. pack. stash. versionsort. \
    help.autocorrect apply.whitespace core.whitespace tag.sort checkout. format.pretty",
);
/// Options that execute something, with the subcommands to which this applies. An empty list means all subcommands.
const OPTIONS: &[(&[&str], &[&str])] = &[
    (
        &[
            "--upload-pack",
            "--receive-pack",
            "--exec-path",
            "--extcmd",
            "--open-files-in-pager",
            "--tree-filter",
            "--config-env",
            "--unsafe-paths",
            "--ext-diff",
        ],
        &[],
    ),
    (&["-u"], &["clone", "ls-remote", "fetch-pack"]),
    (
        &["-x", "--exec"],
        &[
            "rebase",
            "difftool",
            "push",
            "archive",
            "send-pack",
            "fetch-pack",
            "receive-pack",
            "ls-remote",
        ],
    ),
    (&["-O"], &["grep"]),
    (&["--template", "--config"], &["clone", "init"]),
    (&["--to-cmd", "--cc-cmd", "--smtp-server", "--sendmail-cmd", "--header-cmd"], &["send-email"]),
    (&["-f", "--force", "--mirror"], &["push"]),
    (&["-e", "--edit"], &["config"]),
];
static NEVER: Words = Words::new(
    "\
    filter-branch filter-repo daemon shell instaweb mergetool cvsserver http-backend credential \
    upload-pack receive-pack remote-ext remote-fd hook p4 svn fsmonitor--daemon web--browse",
);

/// Subcommands that write neither to the folder in which git runs nor to its work tree.
static READERS: Words = Words::new(
    "\
    status log diff show ls-files ls-tree ls-remote rev-parse rev-list blame annotate grep describe \
    shortlog cat-file check-ignore check-attr count-objects name-rev for-each-ref diff-tree \
    diff-index diff-files merge-base show-ref var whatchanged cherry range-diff fsck verify-commit \
    verify-tag version help",
);

/// Checks the arguments of `git`.
pub(super) fn check(args: Args<'_>) -> Result<(), Refusal> {
    let (global, sub, own) = parts(args);
    let refuse = |what: &str| Err(format!("`{what}` of git executes or destroys something"));
    let settings = global.values(&["-c", "--config-env"]).chain(if sub == "clone" {
        own.values(&["-c", "--config"])
    } else {
        Args(&[]).values(&[])
    });
    for setting in settings.into_iter().chain(configured(sub, own)) {
        let key = setting.split('=').next().unwrap_or(setting).to_ascii_lowercase();
        let value = setting.split_once('=').map_or("", |(_, value)| value);
        let is_set =
            |known: &str| if known.ends_with('.') { key.starts_with(known) } else { key == known };
        let known = SETTINGS.iter().any(is_set) || opens_plainly(sub, own, setting);
        if !known || value.starts_with('!') {
            return refuse(setting);
        }
    }
    if global.any(&["--exec-path"]) && global.texts().any(|arg| arg.starts_with("--exec-path=")) {
        return refuse("--exec-path");
    }
    let apply = |subs: &[&str]| subs.is_empty() || subs.contains(&sub);
    for option in OPTIONS.iter().filter(|(_, subs)| apply(subs)).flat_map(|(options, _)| *options) {
        let is_long = |arg: &str| {
            let name = arg.split('=').next().unwrap_or(arg);
            name.len() > 2
                && option.starts_with(name)
                && (name == *option
                    || !matches!(name, "--exec" | "--config" | "--force" | "--to" | "--cc"))
        };
        let long = option.starts_with("--") && own.texts().any(is_long);
        let short = option.len() == 2 && own.short(&option[1..], valued_letters(sub));
        if long || short {
            return refuse(option);
        }
    }
    let runs = |arg: &str| {
        let value = arg.split_once('=').map_or(arg, |(_, value)| value);
        [arg, value].iter().any(|text| text.starts_with("ext::") || text.starts_with("fd::"))
    };
    if own.texts().chain([sub]).any(runs) {
        return refuse("ext::");
    }
    let second = own.operands().next().unwrap_or_default();
    let acts = match sub {
        "clean" => !(own.short("n", "e") || own.long("dry-run", 3)),
        "bisect" => second == "run" || second == "visualize" || second == "view",
        "submodule" => second == "foreach",
        "rm" => {
            (own.short("r", "") || own.any(&["-r"])) && !own.any(&["--cached", "-n", "--dry-run"])
        }
        "config" => false,
        "difftool" => !own.any(&["--tool-help"]),
        "push" => deletes_main(own) || own.operands().any(|refspec| refspec.starts_with('+')),
        _ => NEVER.has(sub),
    };
    if acts { refuse(sub) } else { Ok(()) }
}

/// Returns whether a push deletes the main branch of the remote repository, or all branches there that the local
/// repository lacks.
fn deletes_main(own: Args<'_>) -> bool {
    const MAIN: [&str; 6] = ["main", "master", "trunk", "develop", "production", "release"];
    let deletes = own.short("d", "o") || own.long("delete", 3);
    let mut branches =
        own.operands().skip(1).filter_map(|refspec| match refspec.strip_prefix(':') {
            Some(branch) => Some(branch),
            None => deletes.then_some(refspec),
        });
    own.long("prune", 3)
        || branches
            .any(|branch| MAIN.contains(&branch.strip_prefix("refs/heads/").unwrap_or(branch)))
}

/// Returns the letters of a subcommand's options that have a value. In a group of options, the rest of the group after
/// such a letter is the value.
fn valued_letters(sub: &str) -> &'static str {
    match sub {
        "grep" => "efABCm",
        "clone" => "obcj",
        "rebase" => "sXCS",
        "push" | "archive" | "ls-remote" => "o",
        "config" => "f",
        _ => "",
    }
}

/// Splits the arguments into the options of git itself, the subcommand, and the arguments of the subcommand.
pub(super) fn parts(args: Args<'_>) -> (Args<'_>, &str, Args<'_>) {
    const VALUED: &[&str] =
        &["-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env"];
    let rest = args.after_options(VALUED);
    let global = Args(&args.0[..args.0.len() - rest.0.len()]);
    (global, rest.first(), rest.skip(1))
}

/// Returns the folder in which git runs because of its options `-C`. Each of them can be relative to the previous one.
fn base(global: Args<'_>) -> Option<String> {
    let mut base: Option<String> = None;
    for folder in global.values(&["-C"]) {
        match &mut base {
            Some(base) if !is_absolute(folder) => {
                base.push('/');
                base.push_str(folder);
            }
            other => *other = Some(folder.to_owned()),
        }
    }
    base
}

fn is_absolute(path: &str) -> bool {
    path.starts_with(['/', '~', '$']) || path.contains(':')
}

/// Returns a system file or folder that git would write, if any.
pub(super) fn written(args: Args<'_>) -> Option<&str> {
    const VALUED: &[&str] = &[
        "-b",
        "-o",
        "-j",
        "--branch",
        "--origin",
        "--depth",
        "--jobs",
        "--reference",
        "--filter",
        "--shallow-since",
        "--shallow-exclude",
        "--separate-git-dir",
    ];
    let (global, sub, own) = parts(args);
    let mut folders = global.values(&["-C", "--work-tree", "--git-dir"]);
    let reads = reads(args);
    // Examine a file `x` in the folder, because projects can be in a folder that itself belongs to the system: e.g.
    // `/srv`, or `/var/lib/shop`.
    let is_foreign = |folder: &str| match folder {
        path if is_absolute(path) => is_root(path) || belongs_to_system(&format!("{path}/x")),
        path => is_system(path),
    };
    let base = base(global);
    let is_below = base.as_deref().is_some_and(is_foreign);
    if let Some(folder) = folders.find(|folder| !reads && (is_below || is_foreign(folder))) {
        return Some(folder);
    }
    let is_system = |path: &str| {
        is_system(path) || base.as_deref().is_some_and(|base| system_path_in(base, path).is_some())
    };
    let second = own.skip(1);
    let target = match sub {
        "clone" => own.after_options(VALUED).skip(1).operands().find(|path| is_system(path)),
        "init" => own.operands().find(|path| is_system(path)),
        "worktree" if matches!(own.first(), "add" | "move") => {
            second.operands().find(|path| is_system(path))
        }
        "bundle" if own.first() == "create" => second.operands().find(|path| is_system(path)),
        "checkout-index" => own.values(&["--prefix"]).find(|path| is_system(path)),
        "config" if !lists(sub, own) => own.values(&["-f", "--file"]).find(|path| is_system(path)),
        "format-patch" | "archive" | "bugreport" | "diagnose" => {
            own.grouped('o').find(|path| is_system(path))
        }
        _ => None,
    };
    target.or_else(|| outputs(own).find(|path| is_system(path)))
}

/// Returns whether git writes neither to the folder in which it runs nor to its work tree.
pub(super) fn reads(args: Args<'_>) -> bool {
    let (_, sub, own) = parts(args);
    READERS.has(sub) && outputs(own).next().is_none()
        || matches!(sub, "branch" | "remote" | "tag" | "reflog" | "stash" | "worktree" | "config")
            && lists(sub, own)
}

/// Returns whether a subcommand that is not in [`READERS`] only prints something with these arguments.
fn lists(sub: &str, own: Args<'_>) -> bool {
    match sub {
        "config" => {
            matches!(own.first(), "get" | "list")
                || own.any(&[
                    "--get",
                    "--get-all",
                    "--get-regexp",
                    "--get-urlmatch",
                    "--list",
                    "-l",
                ])
        }
        "stash" | "worktree" => matches!(own.first(), "list" | "show"),
        "reflog" => matches!(own.first(), "" | "show" | "exists"),
        "remote" => {
            let mut words = own.texts().filter(|text| !matches!(*text, "-v" | "--verbose"));
            matches!(words.next(), None | Some("show" | "get-url"))
        }
        "branch" if own.any(&["--unset-upstream", "--edit-description"]) => false,
        _ => own.operands().next().is_none() || own.any(&["-l", "--list"]),
    }
}

/// Returns the files and folders that options name as outputs, for any subcommand. The options can be abbreviated.
fn outputs(own: Args<'_>) -> impl Iterator<Item = &str> {
    const OUTPUTS: &[&str] = &["output", "output-directory", "separate-git-dir", "index-output"];
    let next = own.texts().skip(1).map(Some).chain([None]);
    own.texts().zip(next).take_while(|(text, _)| *text != "--").filter_map(|(text, next)| {
        let name = long_name(text).filter(|name| name.len() >= 2)?;
        let writes = OUTPUTS.iter().any(|option| option.starts_with(name));
        text.split_once('=').map(|(_, value)| value).or(next).filter(|_| writes)
    })
}

/// Returns whether `git config` sets `setting` to one of the usual editors and pagers.
fn opens_plainly(sub: &str, own: Args<'_>, setting: &str) -> bool {
    matches!(setting, "core.editor" | "core.pager" | "sequence.editor")
        && configured(sub, own) == Some(setting)
        && config_words(own)
            .1
            .into_iter()
            .skip_while(|word| *word != setting)
            .nth(1)
            .is_some_and(environment::is_plain_program)
}

/// Returns two lists: the options of `git config`, and its other arguments except for the values of options.
fn config_words(own: Args<'_>) -> (Vec<&str>, Vec<&str>) {
    const VALUED: &[&str] = &["file", "blob", "type", "default", "comment", "value", "url"];
    let (mut options, mut operands) = (Vec::new(), Vec::new());
    let mut words = own.texts();
    while let Some(word) = words.next() {
        if word == "--" {
            operands.extend(words.by_ref());
        } else if !word.starts_with('-') || word == "-" {
            operands.push(word);
        } else {
            // Long options can be abbreviated, so compare only the beginning of their names.
            let takes_next = match long_name(word) {
                Some(name) => {
                    !word.contains('=') && VALUED.iter().any(|valued| valued.starts_with(name))
                }
                None => word.find('f') == Some(word.len() - 1),
            };
            options.push(word);
            if takes_next {
                words.next();
            }
        }
    }
    (options, operands)
}

/// Returns the name of the setting that `git config` would write; `None` if the command writes no setting.
fn configured<'a>(sub: &str, own: Args<'a>) -> Option<&'a str> {
    const READS: &[&str] = &[
        "--get",
        "--get-all",
        "--get-regexp",
        "--list",
        "-l",
        "--unset",
        "--get-urlmatch",
        "--show-origin",
    ];
    if sub != "config" {
        return None;
    }
    let (options, operands) = config_words(own);
    let (first, mut rest) = (*operands.first()?, operands.iter().copied().skip(1));
    let renames = |option: &&str| {
        let name = long_name(option).filter(|name| name.len() >= 3).unwrap_or("-");
        ["rename-section", "copy-section"].iter().any(|long| long.starts_with(name))
    };
    // Renaming a section gives its settings other names, and settings with these names may be programs to run. So the
    // new name counts as a setting that is written.
    if options.iter().any(renames) {
        return operands.last().copied();
    }
    let is_read = |option: &&str| READS.contains(&option.split('=').next().unwrap_or_default());
    let reads = options.iter().any(is_read) || matches!(first, "get" | "list" | "unset");
    let key = if first == "set" { rest.next()? } else { first };
    (!reads && rest.next().is_some()).then_some(key)
}
