//! Commands that run another command, which is judged in their place.

use super::{
    argv::{Args, Refusal},
    environment,
    judge::{assignment, judge},
    lex::{Grammar, Word, read},
};

/// A command that runs the operands after its own options.
struct Runner {
    names: &'static [&'static str],
    /// Options that take the next argument.
    valued: &'static [&'static str],
    /// Operands before the command.
    operands: usize,
    /// Options that run a text or library.
    refused: &'static [&'static str],
}

const fn runner(
    names: &'static [&'static str],
    valued: &'static [&'static str],
    operands: usize,
    refused: &'static [&'static str],
) -> Runner {
    Runner { names, valued, operands, refused }
}

const RUNNERS: &[Runner] = &[
    runner(
        &[
            "nohup",
            "setsid",
            "builtin",
            "busybox",
            "toybox",
            "unbuffer",
            "fakeroot",
            "catchsegv",
            "xvfb-run",
            "caffeinate",
            "proxychains",
            "torsocks",
            "tsocks",
            "rlwrap",
            "ts",
            "systemd-inhibit",
            "dbus-launch",
            "ssh-agent",
            "setarch",
            "linux",
            "x86_",
        ],
        &["-s", "-n", "-w", "-t"],
        0,
        &[],
    ),
    runner(&["exec"], &["-a"], 0, &[]),
    runner(&["time", "gtime"], &["-f", "-o", "--format", "--output"], 0, &[]),
    runner(&["nice"], &["-n", "--adjustment"], 0, &[]),
    runner(&["ionice"], &["-c", "-n", "-p", "--class", "--classdata"], 0, &[]),
    runner(&["chrt"], &["-T", "-P", "-D"], 1, &[]),
    runner(&["taskset"], &[], 1, &[]),
    runner(&["numactl"], &["-N", "-m", "-C", "-i", "-p"], 0, &[]),
    runner(&["timeout", "gtimeout"], &["-s", "-k", "--signal", "--kill-after"], 1, &[]),
    runner(&["stdbuf", "gstdbuf"], &["-i", "-o", "-e"], 0, &[]),
    runner(&["prlimit"], &["-p"], 0, &[]),
    runner(
        &["softlimit", "chpst", "choom", "cgexec", "faketime"],
        &["-n", "-p", "-u", "-g", "-m"],
        1,
        &[],
    ),
    runner(&["flock"], &["-w", "-E"], 1, &["-c", "--command"]),
    runner(
        &["strace", "ltrace"],
        &["-e", "-o", "-p", "-s", "-u", "-E", "-P", "-S", "-a", "-b", "-I", "-O", "-X"],
        0,
        &[],
    ),
    runner(&["valgrind"], &[], 0, &[]),
    runner(
        &["xargs", "gxargs"],
        &[
            "-I",
            "-n",
            "-L",
            "-P",
            "-s",
            "-d",
            "-a",
            "-E",
            "-i",
            "--max-args",
            "--max-procs",
            "--delimiter",
            "--arg-file",
            "--replace",
            "--max-lines",
        ],
        0,
        &[],
    ),
    runner(
        &["parallel", "sem"],
        &["-j", "--jobs", "-a", "-S", "--colsep", "-I", "-N", "-n", "--timeout", "--delay"],
        0,
        &["-S", "--sshlogin", "--tmux", "--sql"],
    ),
    runner(&["entr"], &[], 0, &["-s"]),
    runner(&["firejail", "bwrap"], &[], 0, &[]),
    runner(&["doppler", "dotenv", "op", "direnv", "chamber"], &[], 1, &[]),
    runner(
        &[
            "poetry",
            "pipenv",
            "uv",
            "pdm",
            "hatch",
            "rye",
            "bundle",
            "rbenv",
            "pyenv",
            "nodenv",
            "mise",
            "asdf",
            "opam",
            "stack",
            "pixi",
            "conda",
            "mamba",
            "micromamba",
            "yarn",
            "pnpm",
        ],
        &["-n", "--name", "-p", "--prefix", "--directory", "--project", "-C"],
        0,
        &[],
    ),
];

/// Checks the command that a command runs.
pub(super) fn check(name: &str, args: Args<'_>, depth: usize) -> Result<(), Refusal> {
    match name {
        "env" | "genv" => return env(args, depth),
        "command" => {
            let rest = args.after_options(&[]);
            let looks_up = args.short("vV", "");
            return if looks_up { Ok(()) } else { inner(rest, depth) };
        }
        "watch" | "hyperfine" => {
            let rest = args.after_options(&[
                "-n",
                "--interval",
                "-w",
                "--warmup",
                "-r",
                "--runs",
                "-m",
                "-M",
            ]);
            let joined = rest.texts().collect::<Vec<_>>();
            return match name {
                "watch" => text(&joined.join(" "), depth),
                _ => joined.into_iter().try_for_each(|command| text(command, depth)),
            };
        }
        "perf" if matches!(args.first(), "stat" | "record" | "trace" | "mem" | "c2c") => {
            return inner(
                args.skip(1).after_options(&["-e", "-o", "-F", "-c", "-r", "-p", "-t", "-g"]),
                depth,
            );
        }
        _ => {}
    }
    let Some(runner) = RUNNERS.iter().find(|runner| runner.names.contains(&name)) else {
        return Ok(());
    };
    if args.any(runner.refused) {
        return Err(format!("an option of `{name}` runs a text"));
    }
    let rest = args.after_options(runner.valued);
    // Tools of projects have other subcommands beside the one that runs something.
    if runner.names.contains(&"poetry") {
        let rest = if rest.first() == "tool" { rest.skip(1) } else { rest };
        return match rest.first() {
            "run" | "exec" if !matches!(name, "yarn" | "pnpm") || rest.first() == "exec" => inner(
                rest.skip(1).after_options(&[
                    "-n", "-p", "--name", "--with", "--from", "--python", "-e", "--env",
                ]),
                depth,
            ),
            "dlx" => Err(format!("`{name} dlx` downloads and runs a package")),
            _ => Ok(()),
        };
    }
    let rest = rest.skip(runner.operands);
    let end = rest.texts().position(|arg| arg.starts_with(":::")).unwrap_or(rest.0.len());
    inner(Args(&rest.0[..end]), depth)
}

fn inner(rest: Args<'_>, depth: usize) -> Result<(), Refusal> {
    judge(rest.0, depth + 1)
}

fn env(args: Args<'_>, depth: usize) -> Result<(), Refusal> {
    if args.short("S", "uC") || args.long("split-string", 1) {
        return Err("an option of `env` runs a text".to_owned());
    }
    let mut rest = args.after_options(&["-u", "-C", "--unset", "--chdir"]);
    while let Some((name, value)) = rest.0.first().and_then(assignment) {
        environment::check(name, value)?;
        rest = rest.skip(1);
    }
    inner(rest, depth)
}

/// Checks a text that a shell is going to read.
pub(super) fn text(command: &str, depth: usize) -> Result<(), Refusal> {
    for simple in read(command, Grammar::Command)? {
        judge(&simple.words, depth + 1)?;
    }
    Ok(())
}

/// Checks operands that another machine or container runs.
pub(super) fn remote(operands: &[&str], depth: usize) -> Result<(), Refusal> {
    match operands {
        [] => Ok(()),
        [one] if one.contains(' ') => text(one, depth),
        several => {
            let words: Vec<Word> = several.iter().map(|part| Word::literal(part)).collect();
            judge(&words, depth + 1)
        }
    }
}
