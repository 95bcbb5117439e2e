//! Commands that run another command, which is then checked as well.

use super::{
    argv::{Args, Refusal},
    environment,
    frame::Frame,
    judge::{assignment, judge},
    lex::{Grammar, Word, read},
};

/// A command whose operands are another command to run.
struct Runner {
    names: &'static [&'static str],
    /// Options that take the next argument as their value.
    valued: &'static [&'static str],
    /// The number of operands before the inner command.
    operands: usize,
    /// Options that execute a text or load a library.
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
            "torify",
            "systemd-cat",
            "chronic",
            "ifne",
            "ccache",
            "sccache",
            "icecc",
            "distcc",
            "bear",
            "scan-build",
            "intercept-build",
            "dumb-init",
            "tini",
            "grc",
            "colour",
            "multitime",
            "cross-env",
            "catatonit",
            "ld.so",
            "unclutter",
            "socksify",
            "genie",
            "numad",
            "gtime",
            "winpty",
            "wine",
            "qemu-x86_",
            "qemu-aarch",
            "box",
            "fex",
        ],
        &["-s", "-n", "-w", "-t", "-c"],
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
    runner(&["sshpass"], &["-p", "-f", "-d", "-P"], 0, &[]),
    runner(&["aa-exec"], &["-p", "-n", "--profile", "--namespace"], 0, &[]),
    runner(&["openvt", "open"], &["-c"], 0, &[]),
    runner(&["logsave", "setlock", "dtach", "abduco", "lockf", "firejoin"], &["-t", "-e"], 1, &[]),
    runner(
        &["mpirun", "mpiexec", "orterun", "prun", "srun"],
        &["-n", "-np", "-c", "-N", "-H", "--host", "--hostfile", "-x", "-w", "-p", "-t"],
        0,
        &[],
    ),
    runner(&["rr"], &[], 1, &[]),
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
            "rustup",
            "cabal",
            "dotenvx",
            "apptainer",
            "singularity",
            "lxc",
            "distrobox",
            "toolbox",
            "buildah",
            "heroku",
            "fly",
            "flyctl",
            "guix",
            "devbox",
            "fnm",
            "volta",
            "infisical",
            "teller",
            "sops",
        ],
        &["-n", "--name", "-p", "--prefix", "--directory", "--project", "-C"],
        0,
        &[],
    ),
];

/// Programs that expect a container, an image or a version before the inner command.
const PLACED: &[&str] = &["rustup", "apptainer", "singularity", "lxc", "distrobox", "buildah"];

/// Checks the inner command that a command runs.
pub(super) fn check(name: &str, args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    match name {
        "env" | "genv" => return env(args, frame),
        "command" => {
            let rest = args.after_options(&[]);
            let looks_up = args.short("vV", "");
            return if looks_up { Ok(()) } else { inner(rest, frame) };
        }
        "watch" | "hyperfine" | "concurrently" => {
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
                "watch" => text(&joined.join(" "), frame),
                _ => joined.into_iter().try_for_each(|command| text(command, frame)),
            };
        }
        "perf" if matches!(args.first(), "stat" | "record" | "trace" | "mem" | "c2c") => {
            return inner(
                args.skip(1).after_options(&["-e", "-o", "-F", "-c", "-r", "-p", "-t", "-g"]),
                frame,
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
    if runner.names.contains(&"poetry") {
        return project(name, rest, frame);
    }
    let rest = rest.skip(runner.operands);
    let end = rest.texts().position(|arg| arg.starts_with(":::")).unwrap_or(rest.0.len());
    inner(Args(&rest.0[..end]), frame)
}

/// Checks a tool such as `poetry`, in which only subcommands such as `run` and `exec` run another command.
fn project(name: &str, rest: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    let rest = if rest.first() == "tool" { rest.skip(1) } else { rest };
    match rest.first() {
        "run" | "exec" | "enter" if !matches!(name, "yarn" | "pnpm") || rest.first() == "exec" => {
            let command = rest.skip(1).after_options(&[
                "-n", "-p", "--name", "--with", "--from", "--python", "-e", "--env",
            ]);
            let command = command.skip(usize::from(PLACED.contains(&name)));
            inner(command.after_options(&[]), frame)
        }
        "dlx" => Err(format!("`{name} dlx` downloads and runs a package")),
        _ => Ok(()),
    }
}

fn inner(rest: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    judge(rest.0, frame.inner()?)
}

fn env(args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    if args.short("S", "uC") || args.long("split-string", 1) {
        return Err("an option of `env` runs a text".to_owned());
    }
    let mut rest = args.after_options(&["-u", "-C", "--unset", "--chdir"]);
    while let Some((name, value)) = rest.0.first().and_then(assignment) {
        environment::check(name, value)?;
        rest = rest.skip(1);
    }
    inner(rest, frame)
}

/// Checks a text that a shell will execute.
pub(super) fn text(command: &str, frame: Frame<'_>) -> Result<(), Refusal> {
    for simple in read(command, Grammar::Command)? {
        judge(&simple.words, frame.inner()?)?;
    }
    Ok(())
}

/// Checks operands that form a command to run on another machine or in a container.
pub(super) fn remote(operands: &[&str], frame: Frame<'_>) -> Result<(), Refusal> {
    match operands {
        [] => Ok(()),
        [one] if one.contains(' ') => text(one, frame),
        several => {
            let words: Vec<Word> = several.iter().map(|part| Word::literal(part)).collect();
            judge(&words, frame.inner()?)
        }
    }
}
