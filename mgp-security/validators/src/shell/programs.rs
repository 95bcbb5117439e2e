//! Checks of programs that can execute, delete or write, depending on their operands, their subcommands, or scripts in
//! a language of their own (e.g. that of `sed`).

use super::{
    argv::{Args, Refusal, long_name},
    builds, devices,
    frame::Frame,
    git, interpreters,
    judge::judge,
    lex::{Grammar, Word, read},
    paths::{is_secret, is_system},
    runners::{remote, text},
    stores,
};
use crate::words::Words;

/// Checks a command by the rules for its program.
pub(super) fn check(name: &str, args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    interpreters::check(name, args)?;
    builds::check(name, args)?;
    match name {
        "git" => git::check(args),
        "ssh" | "sftp" | "scp" | "autossh" | "mosh" | "sshfs" => ssh(name, args, frame),
        "rsync" => remote_shell(args, frame),
        "curl" | "wget" | "aria2c" | "http" | "https" | "axel" => fetch(name, args),
        "sqlite3" | "sqlite" | "psql" | "mysql" | "mariadb" | "redis-cli" | "duckdb"
        | "mongosh" => database(name, args),
        "docker" | "podman" | "nerdctl" | "kubectl" | "oc" | "crictl" => {
            container(name, args, frame)
        }
        "adb" | "limactl" | "colima" | "fly" | "flyctl" => {
            devices::commands(name, args).iter().try_for_each(|command| text(command, frame))
        }
        "npm" | "npx" | "pnpx" | "bunx" | "uvx" | "pipx" | "yarn" | "pnpm" | "uv" | "bun"
        | "deno" | "nix" | "nix-shell" => packages(name, args),
        "aws" | "gsutil" | "gcloud" | "az" | "rclone" | "mc" | "hdfs" | "hadoop" | "s3cmd" => {
            cloud(name, args)
        }
        "apt" | "apt-get" | "apt-cache" if args.texts().any(configures) => {
            Err(format!("a setting of `{name}` can name a program to run"))
        }
        "socat" => {
            let acts = |arg: &str| {
                ["exec:", "system:", "shell:"]
                    .iter()
                    .any(|start| arg.to_ascii_lowercase().starts_with(start))
            };
            if args.texts().any(acts) {
                Err("an address of `socat` executes".to_owned())
            } else {
                Ok(())
            }
        }
        "ip" | "tc" | "bridge" | "ifconfig" | "route" | "nmcli" | "sysctl" | "service"
        | "dbus-send" | "busctl" | "gdbus" => network(name, args),
        "python" | "django-admin" | "manage.py" | "latexmk" | "gh" | "convert" | "magick"
        | "mogrify" | "composite" | "montage" | "identify" | "strace" => in_arguments(name, args),
        _ => Ok(()),
    }
}

/// Returns whether an option of apt changes its settings. Apt ignores the case of long options.
fn configures(arg: &str) -> bool {
    let lower = arg.to_ascii_lowercase();
    lower.starts_with("--option") || lower.starts_with("--config")
}

/// Refuses arguments that are code or a command, for programs that usually run neither code nor commands.
fn in_arguments(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let words: Vec<&str> = args.texts().collect();
    let executes = match name {
        "latexmk" => words.iter().any(|word| *word == "-e" || word.contains("shell-escape")),
        "gh" => {
            words.starts_with(&["alias", "set"])
                && (words.iter().any(|word| word.starts_with('!'))
                    || args.short("s", "")
                    || args.long("shell", 3))
        }
        "python" | "django-admin" | "manage.py" => {
            let script = words.iter().position(|word| word.ends_with("manage.py"));
            let own = if name == "python" { script.map(|at| at + 1) } else { Some(0) };
            let own = own.map(|at| args.skip(at));
            own.is_some_and(|own| {
                matches!(own.first(), "shell" | "shell_plus")
                    && (own.short("c", "") || own.long("command", 3))
            })
        }
        "strace" => args
            .grouped('o')
            .chain(args.values(&["--output"]))
            .any(|file| file.starts_with(['|', '!'])),
        // Refuse a file name that begins with a bar: it is a command, whose input or output is the image. Also refuse
        // `msl:`, which runs a script.
        _ => words.iter().any(|word| {
            word.rsplit(':').next().unwrap_or(word).starts_with('|')
                || word.to_ascii_lowercase().starts_with("msl:")
        }),
    };
    if executes { Err(format!("`{name}` executes text of its arguments")) } else { Ok(()) }
}

fn ssh(name: &str, args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    // Find `-o` at the end of a group, too, as in `-vo X`.
    let options = args.grouped('o').map(str::to_ascii_lowercase);
    if options.into_iter().any(|option| {
        ["command", "pkcs11", "include", "xauthlocation", "securitykeyprovider", "match"]
            .iter()
            .any(|key| option.contains(key))
    }) {
        return Err(format!("an option `-o` of `{name}` executes"));
    }
    if name == "ssh" && args.short("FRSEIw", "bceiJLlmopQWD") {
        return Err("an option of `ssh` opens a tunnel, or reads a configuration".to_owned());
    }
    if name != "ssh" {
        return Ok(());
    }
    let operands: Vec<&str> = ssh_command(args).texts().collect();
    // A shell on the remote machine runs the command, so it is checked as a shell command.
    text(&operands.join(" "), frame)
}

/// Checks the program with which `rsync` connects to the remote machine: it must be `ssh`, with options only.
fn remote_shell(args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    for shell in args.short_values('e', "fTBM@").chain(args.long_values("rsh", 3)) {
        let mut words = read(shell, Grammar::Command)?.pop().unwrap_or_default().words;
        // `rsync` treats a backslash and a tab as letters, so it would split a text with these at other positions than
        // the check does.
        let is_ssh =
            words.first().is_some_and(|word| word.text == "ssh") && !shell.contains(['\\', '\t']);
        let options = Args(words.get(1..).unwrap_or_default());
        if !is_ssh || !options.after_options(SSH_VALUED).0.is_empty() {
            return Err("`rsync` runs a program other than `ssh` with options".to_owned());
        }
        words.push(Word::literal("host"));
        judge(&words, frame.inner()?.without_input())?;
    }
    // `rsync` passes the name of the remote machine to `ssh`, which would read such a name as an option. So it is
    // refused.
    if args.operands().any(|operand| operand.starts_with('-') && operand.contains(':')) {
        return Err("`rsync` passes an option to `ssh`".to_owned());
    }
    Ok(())
}

/// Options of `ssh` that take the next argument as their value.
const SSH_VALUED: &[&str] =
    &["-b", "-c", "-e", "-i", "-J", "-L", "-l", "-m", "-o", "-p", "-Q", "-W", "-D", "-B", "-O"];

/// Returns the command that `ssh` runs on the remote machine. The result is empty if `ssh` starts a shell there.
pub(super) fn ssh_command(args: Args<'_>) -> Args<'_> {
    args.after_options(SSH_VALUED).skip(1).after_options(&["-p", "-i", "-l", "-o"])
}

fn fetch(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    for arg in args.texts() {
        let lower = arg.to_ascii_lowercase();
        let lower = lower.strip_prefix("--url=").unwrap_or(&lower);
        if let Some((scheme, _)) = lower.split_once(":/") {
            let known = [
                "http", "https", "ftp", "ftps", "sftp", "scp", "ws", "wss", "socks5", "socks5h",
                "socks4",
            ];
            let is_scheme = !scheme.is_empty()
                && scheme
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'-'));
            if is_scheme && !scheme.starts_with('-') && !known.contains(&scheme) {
                return Err(format!("`{name}` opens an address of the scheme `{scheme}`"));
            }
        }
        if lower.starts_with("gopher:") || lower.starts_with("dict:") || lower.starts_with("file:")
        {
            return Err(format!("`{name}` opens `{arg}`"));
        }
        let sent = [arg.rsplit_once('@'), arg.split_once("=<").filter(|_| name == "curl")];
        if sent.into_iter().flatten().any(|(before, path)| {
            let is_value = before.is_empty() || before.starts_with('-') || before.ends_with('=');
            is_value && is_secret(path)
                || is_system(path)
                    && ["/", "~", "$HOME/"].iter().any(|start| path.starts_with(start))
        }) {
            return Err(format!("`{name}` sends a file of the system, or one with secrets"));
        }
    }
    let mut files = args.values(&["-T", "--upload-file", "--post-file", "--body-file"]);
    if files.any(|path| is_system(path) || is_secret(path)) {
        return Err(format!("`{name}` sends a file of the system, or one with secrets"));
    }
    Ok(())
}

/// Commands of the SQLite shell that execute programs or write files.
static DOT: Words = Words::new(
    ".shell .system .sh .load .output .once .read .import .backup .save .restore .clone \
    .excel .log .archive .ar .edit .cd .trace .www .open",
);
/// SQL functions and clauses that execute programs or write files.
const FUNCTIONS: &[&str] = &[
    "load_extension(",
    "writefile(",
    "edit(",
    "sys_exec(",
    "sys_eval(",
    "lo_export(",
    "into outfile",
    "into dumpfile",
    "xp_cmdshell",
    "pg_read_file(",
    "copy_to_program",
];

fn database(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    // A client reads its own commands at the beginning of a line, so check each line separately.
    let mut lines = args.texts().flat_map(|arg| arg.lines().chain([arg, stores::glued_value(arg)]));
    lines.try_for_each(|line| database_text(name, line))?;
    if args.any(&["-cmd", "-init", "--init", "-f", "--file"]) && name.starts_with("sqlite")
        || name == "psql" && pipes_output(args)
    {
        return Err(format!("an option of `{name}` executes commands or writes files"));
    }
    Ok(())
}

/// Returns whether `psql` passes its output to a program, or writes it to a file of the system.
fn pipes_output(args: Args<'_>) -> bool {
    let short =
        args.short_values('o', "cdfhpUvPFRTL").chain(args.short_values('L', "cdfhpUvPFRTo"));
    let long = args.long_values("output", 1).chain(args.long_values("log-file", 2));
    short.chain(long).any(|file| file.trim_start().starts_with('|') || is_system(file))
}

/// Checks an argument that can contain statements or commands for a database client.
pub(super) fn database_text(name: &str, arg: &str) -> Result<(), Refusal> {
    if stores::drops(arg) {
        return Err(format!("`{name}` drops a whole database"));
    }
    let lower = arg.to_ascii_lowercase();
    let dot = lower.split(['\n', ';']).any(|line| {
        let first = line.split_whitespace().next().unwrap_or_default();
        first.len() > 2 && first.starts_with('.') && DOT.iter().any(|word| word.starts_with(first))
    });
    let program = lower.contains("program") && lower.contains("copy");
    let escapes = lower.contains("\\!")
        || lower.contains("\\o") && name == "psql"
        || lower.contains("\\copy")
        || lower.contains("\\i ")
        || lower.contains("\\g |");
    let client = lower.trim_start().starts_with("system ")
        || lower.trim_start().starts_with("source ")
        || lower.starts_with("\\. ");
    let opens = (name.starts_with("sqlite") || name == "duckdb") && attaches(&lower);
    let words: Vec<&str> = lower.split_whitespace().collect();
    let redis = name == "redis-cli"
        && ([
            "eval",
            "evalsha",
            "config",
            "module",
            "debug",
            "script",
            "slaveof",
            "replicaof",
            "shutdown",
            "flushall",
            "flushdb",
        ]
        .iter()
        .any(|word| words.contains(word)));
    if (name.starts_with("sqlite") || name == "duckdb") && dot
        || FUNCTIONS.iter().any(|call| lower.contains(call))
        || program
        || copies(&lower)
        || name == "psql" && stores::copies_to_file(&lower)
        || name == "duckdb" && stores::copies_to_system(&lower)
        || opens
        || escapes
        || client
        || redis
    {
        let arg = mgp_types::clip(arg, 200);
        return Err(format!("`{arg}` lets `{name}` execute, or write files"));
    }
    Ok(())
}

/// Returns whether a statement is `VACUUM INTO`, which writes a file.
fn copies(sql: &str) -> bool {
    sql.split(';').any(|statement| {
        let mut words = statement.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| word == "vacuum") && words.any(|word| word == "into")
    })
}

/// Returns whether a statement `ATTACH` opens a file of the system, or a file whose name the check cannot determine.
fn attaches(sql: &str) -> bool {
    let quotes = ['\'', '"'];
    sql.match_indices("attach").any(|(at, word)| {
        let (before, after) = (&sql[..at], &sql[at + word.len()..]);
        let line = before.trim_end_matches([' ', '\t']);
        let begins = line.is_empty() || line.ends_with([';', '/', '\n', '\r']);
        if !begins || after.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return false;
        }
        let after = after.trim_start();
        let after = after.strip_prefix("database").unwrap_or(after).trim_start();
        let is_own = |path: &str, rest: &str| {
            let rest = rest.trim_start();
            let ends = rest.is_empty() || rest.starts_with([';', '(']) || rest.starts_with("as");
            ends && !is_system(path.strip_prefix("file:").unwrap_or(path))
        };
        let quoted = after.strip_prefix(quotes).and_then(|rest| {
            let quote = after.chars().next()?;
            rest.split_once(quote)
        });
        quoted.is_none_or(|(path, rest)| !is_own(path, rest))
    })
}

/// Options of container programs whose value is the next argument.
static VALUED: Words = Words::new(
    "-n --namespace --context --kubeconfig -c --container -H --host --name -v --volume -e --env -w --workdir -p --publish -u --user --network --net --entrypoint \
    --mount -m --memory --cpus --env-file -l --label --platform --pull -f --file --image --restart --hostname -h --add-host --pid --ipc --userns --gpus",
);

fn container(name: &str, args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    shares(name, args)?;
    let valued: Vec<&str> = VALUED.iter().collect();
    let rest = args.after_options(&valued);
    let rest = match rest.first() {
        "container" | "compose" => rest.skip(1).after_options(&valued),
        _ => rest,
    };
    let after = rest.skip(1).after_options(&valued);
    match rest.first() {
        "exec" | "run" | "attach" | "debug" => {
            let entry: Vec<&str> = args.values(&["--entrypoint"]).collect();
            let command: Vec<&str> = after.skip(1).texts().skip_while(|arg| *arg == "--").collect();
            // The command begins after `--`. Without `--`, kubectl accepts options even after the name of the pod, so
            // all words are kept.
            let command = match command.iter().position(|arg| *arg == "--") {
                Some(at) => command[at + 1..].to_vec(),
                None => command,
            };
            remote(&entry, frame)?;
            let program = command.first().copied().unwrap_or_default();
            let program = program.rsplit('/').next().unwrap_or_default();
            if command.len() == 1
                && matches!(program, "sh" | "bash" | "ash" | "zsh" | "python" | "python3" | "node")
            {
                return Ok(());
            }
            remote(&command, frame)
        }
        "system" | "volume" | "image" | "builder" | "network" if after.first() == "prune" => {
            Err(format!("`{name} prune` deletes everything unused"))
        }
        "system" if after.first() == "reset" => {
            Err(format!("`{name} system reset` deletes everything"))
        }
        "delete"
            if args.any(&["--all", "-A", "--all-namespaces"])
                || matches!(after.first(), "ns" | "namespace" | "namespaces" | "node" | "pv") =>
        {
            Err(format!("`{name} delete` deletes more than one object"))
        }
        "drain" | "plugin" | "swarm" => {
            Err(format!("`{name} {}` changes the cluster or the daemon", rest.first()))
        }
        _ => Ok(()),
    }
}

/// Refuses options that give a container access to folders or namespaces of the host.
fn shares(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let mounts = args.values(&["-v", "--volume", "--mount"]);
    let host = |mount: &str| {
        let source = mount
            .split(',')
            .find_map(|part| part.strip_prefix("source=").or(part.strip_prefix("src=")));
        let source = source.unwrap_or_else(|| mount.split(':').next().unwrap_or(mount));
        is_system(source) || source.to_ascii_lowercase().rsplit('.').next() == Some("sock")
    };
    if mounts.into_iter().any(host) {
        return Err(format!("`{name}` mounts a folder of the system"));
    }
    let grants = |fields: &str| {
        // An escape such as `\u0068` could hide any of these names, so it is refused, too.
        ["hostPID", "hostIPC", "hostNetwork", "hostPath", "privileged", "\\u"]
            .iter()
            .any(|field| fields.contains(field))
    };
    let is_node = |word: &str| {
        let word = word.to_ascii_lowercase();
        ["node/", "nodes/", "no/", "node.", "nodes."].iter().any(|kind| word.starts_with(kind))
    };
    let debugs_host = args.operands().any(is_node)
        || args.values(&["--profile"]).any(|profile| profile == "sysadmin");
    if matches!(name, "kubectl" | "oc")
        && (args.values(&["--overrides"]).any(grants)
            || args.any(&["--privileged"])
            || args.any(&["debug"]) && debugs_host)
    {
        return Err(format!("`{name}` gives a container access to the host"));
    }
    if args
        .values(&["--pid", "--ipc", "--userns", "--uts", "--network", "--net"])
        .any(|value| value == "host")
    {
        return Err(format!("`{name}` shares a namespace of the host"));
    }
    Ok(())
}

fn packages(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let words: Vec<&str> = args.operands().collect();
    let runs = Err(format!("`{name}` downloads and runs a package, or runs a text"));
    match name {
        // `npx` and `bunx` run a program that the project has installed, as `npm test` does, unless an option or the
        // form of the name demands another program. A program that is not installed is downloaded, like a package of
        // `npm install`.
        "npx" | "bunx" if downloads(args) => runs,
        // `uvx` and `pnpx` never use a program that the project has installed.
        "uvx" | "pnpx"
            if !words.is_empty()
                || args.short("cp", "")
                || args.long("call", 3)
                || args.long("package", 3) =>
        {
            runs
        }
        "pipx" if words.first() == Some(&"run") => runs,
        "npm" | "yarn" | "pnpm" => {
            let command = words.first().copied().unwrap_or_default();
            let executes = matches!(command, "exec" | "x") && name == "npm"
                || matches!(command, "explore" | "dlx" | "set-script" | "edit");
            let shell = args.long("script-shell", 8)
                || args.long("node-options", 8)
                || args.long("call", 4)
                || matches!(command, "config" | "c" | "set")
                    && words.iter().any(|word| {
                        ["shell", "options", "yarnPath"].iter().any(|key| word.contains(key))
                    });
            if executes || shell { runs } else { Ok(()) }
        }
        "uv" if words.starts_with(&["tool", "run"]) || words.starts_with(&["x"]) => runs,
        _ => runtimes(name, args, &words),
    }
}

/// Returns whether `npx` runs another program than one that the project has installed. Options after the name of the
/// program belong to the program.
fn downloads(args: Args<'_>) -> bool {
    const VALUED: [&str; 5] = ["workspace", "registry", "prefix", "cache", "loglevel"];
    const RUNS: [&str; 5] = ["call", "package", "yes", "script-shell", "node-options"];
    let takes_next = |option: &str| long_name(option).is_some_and(|name| VALUED.contains(&name));
    let own = args.leading("w", takes_next);
    let program = args.skip(own.0.len()).operands().next().unwrap_or_default();
    let (scope, name) = match program.split_once('/') {
        Some((scope, name)) if scope.starts_with('@') => (scope, name),
        _ => ("", program),
    };
    // A path is that of a file of the project. Any other name with a slash or a colon is that of a repository.
    let is_path = scope.is_empty() && name.starts_with(['.', '/']);
    own.short("cpy", "w")
        || RUNS.iter().any(|option| own.long(option, 3))
        || name.contains(['@', ':'])
        || name.contains('/') && !is_path
}

fn runtimes(name: &str, args: Args<'_>, words: &[&str]) -> Result<(), Refusal> {
    let runs = Err(format!("`{name}` runs a text or a package"));
    match name {
        "bun"
            if words.first() == Some(&"x")
                || words.first() == Some(&"repl")
                || args.short("ep", "")
                || args.any(&["--eval", "--print", "--preload", "-r"]) =>
        {
            runs
        }
        "deno"
            if matches!(words.first(), Some(&"eval" | &"repl" | &"x"))
                || words.iter().any(|word| {
                    word.contains("://")
                        || word.starts_with("npm:")
                        || word.starts_with("jsr:")
                        || word.starts_with("data:")
                        || *word == "-"
                }) =>
        {
            runs
        }
        "nix" | "nix-shell"
            if args.any(&[
                "--run",
                "--command",
                "-c",
                "--expr",
                "-E",
                "run",
                "shell",
                "develop",
            ]) =>
        {
            runs
        }
        _ => Ok(()),
    }
}

fn cloud(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let words: Vec<&str> = args.texts().collect();
    let has = |word: &str| words.contains(&word);
    let removes = words.iter().any(|word| {
        matches!(
            *word,
            "rm" | "rb"
                | "-rm"
                | "-rmr"
                | "purge"
                | "delete"
                | "delete-batch"
                | "del"
                | "rmdir"
                | "deldir"
        )
    });
    let whole = [
        "--recursive",
        "-r",
        "-R",
        "-rf",
        "--force",
        "-rmr",
        "purge",
        "delete-batch",
        "-f",
        "--quiet",
        "-q",
        "--yes",
        "--delete",
    ]
    .iter()
    .any(|word| has(word));
    let rclone =
        name == "rclone" && (has("purge") || has("delete") || has("sync") || has("rmdirs"));
    let sync = has("sync") && has("--delete") || has("rsync") && has("-d");
    if (removes && whole) || rclone || sync {
        Err(format!("`{name}` deletes recursively"))
    } else {
        Ok(())
    }
}

fn network(name: &str, args: Args<'_>) -> Result<(), Refusal> {
    let words: Vec<&str> = args.operands().collect();
    let changes = match name {
        "ip" | "tc" | "bridge" => words.iter().any(|word| {
            matches!(
                *word,
                "add"
                    | "del"
                    | "delete"
                    | "set"
                    | "flush"
                    | "change"
                    | "replace"
                    | "append"
                    | "exec"
                    | "restore"
            )
        }),
        "ifconfig" => words.len() > 1,
        "route" => words.iter().any(|word| matches!(*word, "add" | "del" | "flush" | "change")),
        "nmcli" => words.iter().any(|word| {
            matches!(
                *word,
                "add"
                    | "delete"
                    | "modify"
                    | "up"
                    | "down"
                    | "off"
                    | "on"
                    | "connect"
                    | "disconnect"
                    | "set"
            )
        }),
        "sysctl" => words.iter().any(|word| word.contains('=')),
        "service" => !matches!(words.get(1), Some(&"status")) && !args.any(&["--status-all"]),
        _ => words.iter().any(|word| {
            ["PowerOff", "Reboot", "Suspend", "Hibernate", "Halt"]
                .iter()
                .any(|act| word.contains(act))
        }),
    };
    if changes { Err(format!("`{name}` changes the system")) } else { Ok(()) }
}
