//! Code in the standard input of a command.

use super::{
    argv::{Args, Refusal},
    frame::{Frame, Stdin},
    interpreters::{awk_program, is_interpreter, sed_script},
    judge::{judge, plain_name, script},
    lex::Word,
    programs::database_text,
};

/// The maximum number of words of input that become arguments.
const MAX_WORDS: usize = 1_000;
/// The maximum number of words that are judged for all of them.
const MAX_JUDGED: usize = 10_000;

/// Keys of arguments that are the standard input of the command beside them.
pub(super) const KEYS: &[&str] = &[
    "stdin",
    "input",
    "stdininput",
    "stdindata",
    "stdintext",
    "stdincontent",
    "standardinput",
    "inputdata",
    "inputtext",
    "inputstring",
    "inputcontent",
    "heredoc",
    "pipe",
    "pipein",
    "piped",
];

/// Programs that execute commands of their input, in languages that are not read.
const OTHERS: &[&str] = &[
    "m4",
    "gnuplot",
    "ftp",
    "lftp",
    "bpftrace",
    "gp",
    "maxima",
    "swipl",
    "gforth",
    "smbclient",
    "sqlplus",
    "isql",
    "sqlcmd",
    "vim",
    "vi",
    "nvim",
];
const SQL: &[&str] =
    &["sqlite3", "sqlite", "duckdb", "psql", "mysql", "mariadb", "redis-cli", "mongosh"];

/// The language in which a command reads its standard input.
enum Language {
    Sed,
    Awk,
    Sql,
    Shell,
    /// Words that become arguments of the command in these arguments.
    Arguments,
    Unknown,
}

/// Checks the standard input of a command that reads code there.
///
/// # Errors
/// The reason why the input is refused, or why it cannot be read.
pub(super) fn check(name: &str, args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    let Some(language) = language(name, args) else { return Ok(()) };
    let text = match frame.stdin {
        Stdin::Text(text) => text,
        // Without input, a client of a database ends, and `xargs` has no arguments to add.
        Stdin::Unnamed if !matches!(language, Language::Sed | Language::Awk) => return Ok(()),
        Stdin::Unnamed | Stdin::Unreadable => {
            return Err(format!("`{name}` reads its program from an input that cannot be judged"));
        }
    };
    let judged = match language {
        Language::Sed => sed_script(text),
        Language::Awk => awk_program(text),
        Language::Sql => text.lines().chain([text]).try_for_each(|line| database_text(name, line)),
        Language::Shell => script(text),
        Language::Arguments => appended(name, args, text, frame),
        Language::Unknown => Err("commands in a language that is not read".to_owned()),
    };
    judged.map_err(|why| format!("the standard input of `{name}`: {why}"))
}

fn language(name: &str, args: Args<'_>) -> Option<Language> {
    let file = |options| args.values(options).any(is_stdin);
    match name {
        "sed" | "gsed" | "ssed" => {
            let clustered = args
                .texts()
                .zip(args.texts().skip(1))
                .any(|(option, value)| is_cluster_of_f(option) && is_stdin(value));
            (clustered || file(&["-f", "--file"])).then_some(Language::Sed)
        }
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => {
            file(&["-f", "--file", "-E", "--exec", "-i", "--include"]).then_some(Language::Awk)
        }
        "xargs" | "gxargs" | "parallel" | "sem" => Some(Language::Arguments),
        _ if SQL.contains(&name) => {
            let given = args.any(&["-c", "--command", "-e", "--execute", "--eval"])
                || name.starts_with("sqlite") && args.operands().count() > 1
                || name == "redis-cli" && args.operands().any(|word| word.parse::<u32>().is_err());
            (!given || file(&["-f", "--file"])).then_some(Language::Sql)
        }
        // Without a command, another machine starts a shell.
        "ssh" => (args.operands().count() <= 1).then_some(Language::Shell),
        "docker" | "podman" | "nerdctl" | "kubectl" | "oc" | "crictl" => {
            let runs = args.operands().any(|word| matches!(word, "exec" | "run" | "attach"));
            let program = args.operands().last().map(plain_name).filter(|_| runs)?;
            match program.rsplit('/').next().unwrap_or_default() {
                "sh" | "bash" | "ash" | "dash" | "zsh" => Some(Language::Shell),
                other => is_interpreter(other).then_some(Language::Unknown),
            }
        }
        _ if OTHERS.contains(&name) => Some(Language::Unknown),
        _ if is_interpreter(name) && args.operands().next().is_none_or(is_stdin) => {
            Some(Language::Unknown)
        }
        _ => None,
    }
}

/// Judges the command of `xargs` with the words of the input behind its own.
fn appended(name: &str, args: Args<'_>, text: &str, frame: Frame<'_>) -> Result<(), Refusal> {
    let mut words = vec![Word::literal(name)];
    words.extend_from_slice(args.0);
    let input: Vec<&str> =
        text.split(['\n', '\0', ' ', '\t']).filter(|word| !word.is_empty()).collect();
    if input.len() > MAX_WORDS || input.len() * words.len() > MAX_JUDGED {
        return Err(format!("more than {MAX_WORDS} words become arguments"));
    }
    // One at a time represents every grouping and every place at which a word may be inserted.
    let inner = frame.inner()?.without_input();
    for word in &input {
        let word = word.trim_matches(['"', '\'']);
        let mut with = words.clone();
        let mark = args.values(&["-I", "-i", "--replace"]).next().unwrap_or("{}");
        let mut placed = false;
        for at in &mut with {
            if !mark.is_empty()
                && at.text.contains(mark)
                && !at.text.starts_with('-')
                && at.text != *name
            {
                at.text = at.text.replace(mark, word);
                placed = true;
            }
        }
        if !placed {
            with.push(Word::literal(word));
        }
        judge(&with, inner)?;
    }
    words.extend(input.iter().map(|word| Word::literal(word.trim_matches(['"', '\'']))));
    judge(&words, inner)
}

/// Returns whether an option is a cluster such as `-nf` that ends with the option for a file.
fn is_cluster_of_f(option: &str) -> bool {
    option.strip_prefix('-').is_some_and(|rest| !rest.starts_with('-') && rest.ends_with('f'))
}

fn is_stdin(path: &str) -> bool {
    matches!(path, "-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}
