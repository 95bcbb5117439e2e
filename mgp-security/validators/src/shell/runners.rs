//! The rules for commands that run another command. The other command is checked as well.

use super::{
    argv::{Args, Refusal},
    environment, find,
    frame::Frame,
    judge::judge,
    lex::{Grammar, Word, read},
};
use crate::words::has;
use std::collections::BTreeSet;

/// A command whose operands are another command to run.
struct Runner {
    /// The names of the command, separated by blanks.
    names: &'static str,
    /// The options of the command, in the format of [`Args::operand_starts`]. Options that execute a text or load a
    /// library are refused.
    options: &'static str,
    /// The number of operands before the inner command.
    operands: usize,
}

const fn runner(names: &'static str, options: &'static str, operands: usize) -> Runner {
    Runner { names, options, operands }
}

const RUNNERS: &[Runner] = &[
    runner(
        "\
        nohup setsid builtin busybox toybox unbuffer catchsegv tsocks torify chronic ifne ccache \
        sccache icecc distcc cross-env catatonit valgrind firejail linux x86_ setarch winpty wine \
        colour box fex",
        "*",
        0,
    ),
    runner(
        "proot",
        "\
        -r= --rootfs= -b= --bind= -m= --mount= -q! --qemu! -w= --pwd= --cwd= -R= -S= -k= \
        --kernel-release= -v= --verbose= -0 --root-id --kill-on-exit",
        0,
    ),
    runner(
        "\
        socksify unclutter numad rr chamber shx onchange eatmydata trickle retry with-contenv gpg-agent \
        noglob nocorrect - kitty",
        "",
        0,
    ),
    runner("gdbserver envdir", "", 1),
    runner(
        "xterm uxterm urxvt rxvt konsole alacritty gnome-terminal xfce4-terminal",
        "-e -x --command!",
        0,
    ),
    runner("xe", "-0 -a= -f= -j= -N= -I= -s! -A= -F -L -l -n -p -q -R -v -x", 0),
    // `programs.rs` refuses options that download a package.
    runner("npx bunx", "* -w= --workspace= --registry= --prefix= --cache= --loglevel=", 0),
    // `c` means the program `c8`: the digits at the end of a program's name are removed before the comparison.
    runner(
        "nyc c",
        "\
        -r= --reporter= -x= --exclude= -n= --include= --src= -e= --extension= -o= --report-dir= \
        --reports-dir= --temp-dir= --temp-directory= --cwd= --lines= --branches= --functions= \
        --statements= -i= --require= -a --all --check-coverage --per-file -s --silent --instrument \
        --source-map -c --cache --clean",
        0,
    ),
    runner(
        "env-cmd",
        "\
        -f= --file= -e= --environments= -r= --rc-file= --fallback --no-override --silent --use-shell \
        -x --expand-envs",
        0,
    ),
    runner("wsl", "-e --exec -d= --distribution= -u= --user= --cd= --system", 0),
    runner("dotenv", "-e= -f= -v= -o --override", 0),
    runner("fakeroot", "-l= --lib= --faked= -i= -s= -u --unknown-is-real -b= --fd-base=", 0),
    runner(
        "xvfb-run",
        "\
        -a --auto-servernum -d --auto-display -e= --error-file= -f= --auth-file= -l --listen-tcp \
        -n= --server-num= -p= --xauth-protocol= -s= --server-args= -w= --wait=",
        0,
    ),
    runner("caffeinate", "-d -i -m -s -u -t= -w=", 0),
    runner("proxychains", "-q -f=", 0),
    runner(
        "torsocks",
        "\
        -a= --address= -P= --port= -u= --user= -p= --pass= -i --isolate -d --debug -q --quiet",
        0,
    ),
    runner(
        "rlwrap",
        "\
        -a -A -b= -c -C= -D= -e= -f= --file= -g= -h -H= --history-filename= -i -I -l= -m -M= -n -N \
        -o -O= -p -P= -q= -r -R -s= -S= -t= -T -u -U -v -w= -W -x -z! --filter!",
        0,
    ),
    runner("ts", "-n -f -m -i -s -r -g -E -B -L= -N= -D= -W=", 0),
    runner(
        "systemd-inhibit",
        "--what= --who= --why= --mode= --list --no-pager --no-legend --no-ask-password",
        0,
    ),
    runner(
        "dbus-launch",
        "\
        --autolaunch= --config-file= --auto-syntax --binary-syntax --close-stderr \
        --exit-with-session --exit-with-x11 --sh-syntax --csh-syntax",
        0,
    ),
    runner("ssh-agent", "-a= -E= -O= -P= -t= -c -s -k -d -D", 0),
    runner(
        "systemd-cat",
        "-t= --identifier= -p= --priority= --stderr-priority= --level-prefix= --namespace=",
        0,
    ),
    runner(
        "bear scan-build intercept-build",
        "\
        -o= --output= --cdb= --append -a -v --verbose --force-wrapper --force-preload --use-cc= \
        --use-c++= --use-analyzer= -enable-checker= -disable-checker= -k -V --status-bugs",
        0,
    ),
    runner("dumb-init", "-c --single-child -r= --rewrite= -v --verbose", 0),
    runner("tini", "-s -v -w -g -l -p= -e=", 0),
    runner("grc", "-e -s -c= --config= --colour= --pty", 0),
    runner("multitime", "-n= -i! -o! -r! -b! -I= -q -s= -f= -l -v", 0),
    runner(
        "ld.so",
        "\
        --preload! --audit! --library-path! --inhibit-rpath= --argv0= --glibc-hwcaps-prepend= \
        --glibc-hwcaps-mask= --inhibit-cache --list --verify --list-tunables --list-diagnostics",
        0,
    ),
    runner("genie", "-c --command -s --shell -i -l -u", 0),
    runner(
        "qemu-x86_ qemu-aarch",
        "\
        -L= -E= -U= -0= -g= -s= -cpu= -B= -R= -d= -D= -p= -r= -seed= -plugin! -strace -singlestep",
        0,
    ),
    runner("exec", "-a= -c -l", 0),
    runner(
        "time gtime",
        "\
        -f= -o= --format= --output= -a --append -v --verbose -p --portability -q --quiet -l -h",
        0,
    ),
    runner("nice", "-n= --adjustment=", 0),
    runner(
        "ionice",
        "-c= -n= -p= -P= -u= --class= --classdata= --pid= --pgid= --uid= -t --ignore",
        0,
    ),
    runner(
        "chrt",
        "\
        -T= -P= -D= --sched-runtime= --sched-period= --sched-deadline= -b --batch -d --deadline -f \
        --fifo -i --idle -o --other -r --rr -R --reset-on-fork -a --all-tasks -m --max -p --pid -v \
        --verbose",
        1,
    ),
    runner("taskset", "-a --all-tasks -c --cpu-list -p --pid", 1),
    runner(
        "numactl",
        "\
        -N= --cpunodebind= -m= --membind= -C= --physcpubind= -i= --interleave= -p= --preferred= \
        --preferred-many= --localalloc -l --all -a --show -s --hardware -H",
        0,
    ),
    runner(
        "timeout gtimeout",
        "\
        -s= -k= --signal= --kill-after= -v --verbose -f --foreground -p --preserve-status",
        1,
    ),
    runner("stdbuf gstdbuf", "-i= -o= -e= --input= --output= --error=", 0),
    runner("prlimit", "-p= --pid= -o= --output= --noheadings --raw --verbose -v -n -c -t -u -s", 0),
    runner("softlimit", "-a= -c= -d= -f= -l= -m= -o= -p= -r= -s= -t=", 0),
    runner(
        "chpst",
        "\
        -u= -U= -b= -e= -/= -C= -n= -l= -L= -m= -d= -o= -p= -f= -c= -t= -r= -a= -v -V -P -0 -1 -2",
        0,
    ),
    runner("choom", "-n= --adjust= -p= --pid=", 0),
    runner("cgexec", "-g= --sticky", 0),
    runner("faketime", "-f -m -p= --pid= --exclude-monotonic", 1),
    runner(
        "flock",
        "\
        -w= --timeout= --wait= -E= --conflict-exit-code= -c! --command! -s --shared -x -e \
        --exclusive -u --unlock -n --nb --nonblock -o --close -F --no-fork --verbose",
        1,
    ),
    runner(
        "strace",
        "\
        -e= -o= -p= -s= -u= -E= -P= -S= -a= -b= -I= -O= -X= -U= --abbrev= --argv0= --attach= \
        --columns= --detach-on= --env= --fault= --inject= --interruptible= --output= --raw= --read= \
        --signal= --status= --string-limit= --summary-columns= --summary-sort-by= --trace= \
        --trace-fds= --trace-path= --user= --verbose= --write= -A -c -C -d -D -f -F -h -i -k -n -N \
        -q -r -t -T -v -V -w -x -y -Y -z -Z --decode-fds --decode-pids --follow-forks --quiet \
        --relative-timestamps --stack-traces --summary --summary-only --summary-wall-clock \
        --syscall-times --successful-only --failed-only",
        0,
    ),
    runner(
        "ltrace",
        "\
        -a= -A= -D= -e= -F= -l= -n= -o= -p= -s= -u= -w= -x= -X= -b -c -C -f -i -L -r -S -t -T -V",
        0,
    ),
    runner("sshpass", "-p= -f= -d= -P= -e -v -V -h", 0),
    runner("aa-exec", "-p= -n= --profile= --namespace= -i --immediate -v --verbose -d --debug", 0),
    runner(
        "openvt open",
        "\
        -c= --console= -e --exec -f --force -l --login -u --user -s --switch -v --verbose -w --wait",
        0,
    ),
    runner(
        "logsave setlock dtach abduco lockf firejoin",
        "-t= -e= -r= -a -s -v -n -N -x -X -k -c -A -E -z -f -q -l -w -p",
        1,
    ),
    runner(
        "mpirun mpiexec orterun prun",
        "\
        -n= -np= --np= -c= -N= -H= -host= --host= -hostfile= --hostfile= -machinefile= \
        --machinefile= -x= -ppn= -wdir= --wdir= -map-by= --map-by= -bind-to= --bind-to= -rank-by= \
        --rank-by= -mca== --mca== -gmca== --gmca== -genv== -env== --oversubscribe \
        --allow-run-as-root --report-bindings --tag-output -q -v",
        0,
    ),
    runner(
        "srun",
        "\
        -n= -N= -c= -p= -t= -w= -A= -J= -o= -e= -i= -x= -C= -G= -d= -D= --account= --chdir= \
        --constraint= --cpus-per-task= --error= --gpus= --gres= --job-name= --mem= --nodelist= \
        --nodes= --ntasks= --output= --partition= --time= -u -l -v -Q -k -K -E -O -s",
        0,
    ),
    runner(
        "xargs gxargs",
        "\
        -a= -d= -E= -I= -J= -L= -n= -P= -R= -s= -S= --arg-file= --delimiter= --max-args= \
        --max-chars= --max-procs= --process-slot-var= -0 -e -i -l -o -p -r -t -x --eof --exit \
        --interactive --max-lines --no-run-if-empty --null --open-tty --replace --show-limits \
        --verbose",
        0,
    ),
    runner(
        "parallel sem",
        "\
        -j= --jobs= -P= --max-procs= -a= --arg-file= -C= --colsep= -I= -n= --max-args= -N= -L= \
        --timeout= --delay= --joblog= --results= --retries= --tmpdir= --halt= --load= --memfree= \
        --nice= --id= -S! --sshlogin! --tmux! --sql! -0 --null -k --keep-order -q --quote -t -u -v \
        -X -m --bar --eta --progress --dry-run --fg --bg --wait --will-cite --line-buffer --lb \
        --tag --pipe --ungroup --verbose",
        0,
    ),
    runner("entr", "-a -c -d -n -p -r -x -z -s!", 0),
    runner(
        "bwrap",
        "\
        --bind== --bind-try== --dev-bind== --dev-bind-try== --ro-bind== --ro-bind-try== --bind-fd== \
        --ro-bind-fd== --bind-data== --ro-bind-data== --file== --setenv== --symlink== --chmod== \
        --overlay=== --args= --argv0= --userns= --userns2= --pidns= --uid= --gid= --hostname= \
        --chdir= --unsetenv= --lock-file= --sync-fd= --remount-ro= --overlay-src= --tmp-overlay= \
        --ro-overlay= --exec-label= --file-label= --proc= --dev= --tmpfs= --mqueue= --dir= \
        --seccomp= --add-seccomp-fd= --block-fd= --userns-block-fd= --info-fd= --json-status-fd= \
        --perms= --size= --cap-add= --cap-drop= --unshare-all --unshare-user --unshare-user-try \
        --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup \
        --unshare-cgroup-try --share-net --clearenv --new-session --die-with-parent --as-pid-1 \
        --disable-userns --assert-userns-disabled",
        0,
    ),
    runner("direnv", "", 2),
    runner("runcon", "-c --compute -t= --type= -u= --user= -r= --role= -l= --range=", 0),
    runner(
        "doppler op",
        "\
        --command! --env-file= --project= --config= --token= --account= --no-masking --preserve-env \
        --silent",
        1,
    ),
];
/// Commands that accept another operand before the inner command, e.g. `setarch x86_64 ls`.
const OPTIONAL: &str = "setarch rr dotenv runcon";
/// Commands that accept any number of operands and then `--` before the inner command.
const DASHED: &str = "chamber mise onchange";

/// Commands whose operands are texts, each of which is a command.
const TEXTS: &str = "hyperfine concurrently start-server-and-test pee mispipe apply rush";

/// Tools in which only subcommands such as `run` and `exec` run another command.
const PROJECTS: &str = "\
    poetry pipenv uv pdm hatch rye bundle bundler rbenv pyenv nodenv mise asdf opam stack pixi conda \
    mamba micromamba yarn pnpm rustup cabal dotenvx apptainer singularity lxc distrobox toolbox buildah \
    heroku fly flyctl guix devbox fnm volta infisical teller sops nvm aws-vault lerna nx zellij";
const PROJECT_OPTIONS: &str = "\
    --name= --with= --from= --python= --env= --env-file= --environment= --extra= --group= \
    --package= --prefix= --cwd= --pwd= --home= --directory= --project= --manifest-path= --using= \
    --with-requirements= --with-editable= --index-url= --default-index= --bind= --container= -C= \
    --command! --active --all-extras --all-groups --all-packages --dev --exact --frozen --install \
    --isolated --live-stream --locked --no-cache --no-capture-output --no-dev --no-project \
    --no-sync --offline --quiet -q --refresh --verbose -v";
/// Programs that expect a container, an image or a version before the inner command.
const PLACED: &str = "rustup apptainer singularity lxc distrobox buildah aws-vault";

const ENV_OPTIONS: &str = "\
    -u= --unset= -C= --chdir= -P= -a= --argv0= -S! --split-string! -i --ignore-environment -0 --null \
    -v --debug --block-signal --default-signal --ignore-signal --list-signal-handling";
const WATCH_OPTIONS: &str = "\
    -n= --interval= -q= --equexit= -b --beep -c --color -C --no-color -d --differences -e --errexit \
    -g --chgexit -p --precise -r --no-rerun -t --no-title -w --no-wrap -x --exec";
const WATCHEXEC_OPTIONS: &str = "\
    -e= --exts= -w= --watch= -W= -i= --ignore= -f= --filter= -d= --debounce= -s= --signal= --shell= \
    --workdir= --delay-run= --stop-signal= --stop-timeout= -r --restart -c --clear -p --postpone -n -q \
    --quiet -N --notify --no-vcs-ignore --no-meta --timings";
const HYPERFINE_OPTIONS: &str = "\
    -n= -w= --warmup= -r= --runs= -m= --min-runs= -M= --max-runs= -i --ignore-failure -N \
    --show-output --export-json= --export-csv= --export-markdown= --style=";
const PERF_OPTIONS: &str = "\
    -e= --event= -o= --output= -F= --freq= -p= --pid= -C= --cpu= -t= --call-graph= --count= \
    --repeat= --delay= --filter= -g -a --all-cpus -v --verbose";

/// Returns `npm exec` and `bun x` in the form of `npx` and `bunx`, which mean the same.
pub(super) fn as_npx(name: &str, args: Args<'_>) -> Option<(&'static str, Vec<Word>)> {
    let npx = match (name, args.first()) {
        ("npm", "exec" | "x") => "npx",
        ("bun", "x") => "bunx",
        _ => return None,
    };
    let own = args.skip(1);
    let dashes = own.texts().position(|text| text == "--").unwrap_or(own.0.len());
    let (before, after) = own.0.split_at(dashes);
    // Unlike `npx`, `npm` reads all options before `--` as its own.
    let is_option = |word: &&Word| word.text.starts_with('-');
    let is_mixed = before.iter().skip_while(is_option).any(|word| is_option(&word));
    (npx == "bunx" || !is_mixed)
        .then(|| (npx, [before, after.get(1..).unwrap_or_default()].concat()))
}

/// Returns whether a command runs another command, which the rules then judge.
pub(super) fn runs_commands(name: &str) -> bool {
    const OTHERS: &str = "\
        env genv find gfind command watch watchexec perf nodemon chokidar";
    RUNNERS.iter().any(|runner| has(runner.names, name))
        || [PROJECTS, OTHERS, TEXTS].iter().any(|names| has(names, name))
}

/// Checks the inner command that a command runs.
pub(super) fn check(name: &str, args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    match name {
        "env" | "genv" => return env(name, args, frame),
        "find" | "gfind" => return judge_each(find::commands(args)?, frame),
        "command" => {
            let rest = args.after_options(&[]);
            let own = Args(&args.0[..args.0.len() - rest.0.len()]);
            let looks_up = own.short("vV", "");
            return if looks_up { Ok(()) } else { inner(rest, frame.inner()?) };
        }
        "watch" | "watchexec" => {
            let options = if name == "watch" { WATCH_OPTIONS } else { WATCHEXEC_OPTIONS };
            let all = starts(name, args, options, 0)?;
            let outer = frame.inner_of(all.len().saturating_sub(1))?;
            let joined = |rest: Args<'_>| rest.texts().collect::<Vec<_>>().join(" ");
            return all.into_iter().try_for_each(|rest| text(&joined(rest), outer));
        }
        // This program joins its arguments to a text, which a shell executes.
        "cross-env-shell" => return text(&args.texts().collect::<Vec<_>>().join(" "), frame),
        // The text is written into a hook of git.
        "husky" if matches!(args.first(), "add" | "set") => {
            return args.operands().skip(2).try_for_each(|command| text(command, frame));
        }
        "tmux" => return session(args, frame),
        "sops" if args.texts().any(|arg| matches!(arg, "exec-env" | "exec-file")) => {
            let own = args.operands().skip_while(|arg| !arg.starts_with("exec-"));
            return own.skip(2).try_for_each(|command| text(command, frame));
        }
        _ if has(TEXTS, name) => {
            // Check all arguments after the first possible beginning of the operands. A value of an option among them
            // is checked as if it were a command.
            let first = starts(name, args, HYPERFINE_OPTIONS, 0)?.into_iter().next();
            let commands = first.unwrap_or(Args(&[]));
            return commands.texts().try_for_each(|command| text(command, frame));
        }
        "perf" => {
            let operands = match args.first() {
                "stat" | "record" | "trace" | "ftrace" => 0,
                "mem" | "c2c" | "lock" | "sched" | "kmem" | "timechart" => 1,
                _ => return Ok(()),
            };
            return judge_each(starts(name, args.skip(1), PERF_OPTIONS, operands)?, frame);
        }
        _ if has(PROJECTS, name) => return project(name, args, frame),
        _ => in_options(name, args, frame)?,
    }
    let Some(runner) = RUNNERS.iter().find(|runner| has(runner.names, name)) else {
        return Ok(());
    };
    let args = after_dashes(name, args);
    let mut all = starts(name, args, runner.options, runner.operands)?;
    if has(OPTIONAL, name) {
        all.extend(starts(name, args, runner.options, runner.operands + 1)?);
    }
    if has("parallel sem", name) {
        let outer = frame.inner_of(all.len().saturating_sub(1))?;
        return all.into_iter().try_for_each(|rest| parallel(rest, outer));
    }
    judge_each(all, frame)
}

/// Checks the command of `parallel`. The program joins the words before `:::` to a text, which a shell executes.
fn parallel(rest: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    let end = rest.texts().position(|arg| arg.starts_with(":::"));
    // If no command precedes `:::`, each argument after it is a command.
    if end == Some(0) {
        let mut commands = rest.texts().filter(|arg| !arg.starts_with(":::"));
        return commands.try_for_each(|command| text(command, frame));
    }
    let words = without_values(Args(&rest.0[..end.unwrap_or(rest.0.len())]))?;
    text(&words.texts().collect::<Vec<_>>().join(" "), frame)
}

/// Checks the command in an option, e.g. `nodemon --exec 'npm test'`, which a shell executes.
fn in_options(name: &str, args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    let options: &'static [&'static str] = match name {
        "nodemon" => &["-x", "--exec"],
        "chokidar" => &["-c", "--command"],
        "gcloud" => &["--command"],
        "watchman-make" => &["--run"],
        "cargo" if args.first() == "watch" => &["-s", "--shell"],
        "latexmk" => &["-latex", "-pdflatex", "-xelatex", "-lualatex"],
        _ => return Ok(()),
    };
    // Do not check a separate argument of latexmk: its options have their value after `=`. Without a value, such an
    // option only chooses the program.
    let is_value = |value: &&str| name != "latexmk" || !args.texts().any(|arg| arg == *value);
    args.values(options).filter(is_value).try_for_each(|command| text(command, frame))?;
    let dashes = args.texts().position(|arg| arg == "--");
    match dashes.filter(|_| name == "cargo" && args.first() == "watch") {
        Some(at) => inner(args.skip(at + 1), frame.inner()?),
        None => Ok(()),
    }
}

/// Checks the command of a new session or window of `tmux`, which a shell executes.
fn session(args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    if !matches!(args.first(), "new" | "new-session" | "neww" | "new-window") {
        return Ok(());
    }
    let own = args.skip(1).leading("ceFfnstxy", |_| false);
    if own.short("e", "cFfnstxy") {
        return Err("an option of `tmux` sets a variable".to_owned());
    }
    let command = args.skip(1 + own.0.len());
    let command = command.skip(usize::from(command.first() == "--"));
    text(&command.texts().collect::<Vec<_>>().join(" "), frame)
}

/// Checks a tool such as `poetry`, in which only subcommands such as `run` and `exec` run another command.
fn project(name: &str, args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    let mut all = Vec::new();
    for rest in starts(name, args, PROJECT_OPTIONS, 0)? {
        let rest = if rest.first() == "tool" { rest.skip(1) } else { rest };
        let runs = match rest.first() {
            // With these tools, `run` names a script, a task or a program of the project, and not any command.
            "run" if has("yarn pnpm mise stack cabal lerna nx", name) => false,
            "run" | "enter" | "exec" => true,
            "x" => name == "mise",
            "run-commands" if name == "nx" => {
                let mut texts = rest.values(&["--command", "--commands"]);
                texts.try_for_each(|command| text(command, frame))?;
                false
            }
            "node" if name == "yarn" => {
                all.push(rest);
                false
            }
            "dlx" => return Err(format!("`{name} dlx` downloads and runs a package")),
            _ => false,
        };
        if runs {
            let own = after_dashes(name, rest.skip(1));
            let operands = usize::from(has(PLACED, name));
            all.extend(starts(name, own, PROJECT_OPTIONS, operands)?);
        }
    }
    judge_each(all, frame)
}

/// Returns the arguments from the first `--` on for a command in [`DASHED`]. For other commands, returns all arguments,
/// except for an operand that is not the beginning of the inner command.
fn after_dashes<'a>(name: &str, args: Args<'a>) -> Args<'a> {
    // This operand of `wsl` means the home folder.
    let args = args.skip(usize::from(name == "wsl" && args.first() == "~"));
    let dashes = args.texts().position(|arg| arg == "--").filter(|_| has(DASHED, name));
    args.skip(dashes.unwrap_or_default())
}

/// Returns the candidates for the command that the program `name` runs. The command begins after the program's options
/// and after `operands` arguments. There are several candidates if it is unknown which options take a value.
fn starts<'a>(
    name: &str,
    args: Args<'a>,
    options: &str,
    operands: usize,
) -> Result<Vec<Args<'a>>, Refusal> {
    let first = args.operand_starts(BTreeSet::from([0]), options);
    let all = if operands == 0 {
        first
    } else {
        first.and_then(|first| {
            let after = first.into_iter().map(|at| at + operands).collect();
            args.operand_starts(after, options)
        })
    };
    let all = all.ok_or_else(|| format!("an option of `{name}` runs a text or loads a library"))?;
    Ok(all.into_iter().map(|at| args.skip(at)).filter(|rest| !rest.0.is_empty()).collect())
}

/// Checks each candidate for the command that another command runs.
fn judge_each(all: Vec<Args<'_>>, frame: Frame<'_>) -> Result<(), Refusal> {
    let frame = frame.inner_of(all.len())?;
    all.into_iter().try_for_each(|rest| inner(rest, frame))
}

/// Checks an inner command; `frame` is its context.
fn inner(rest: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    judge(without_values(rest)?.0, frame)
}

/// Returns a command without the numbers before it, which are values of options of the outer command.
fn without_values(rest: Args<'_>) -> Result<Args<'_>, Refusal> {
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let rest = rest.skip(rest.texts().take_while(is_number).count());
    if rest.first().starts_with('-') {
        return Err(format!("the option `{}` is in the place of a command", rest.first()));
    }
    Ok(rest)
}

fn env(name: &str, args: Args<'_>, frame: Frame<'_>) -> Result<(), Refusal> {
    let all = starts(name, args, ENV_OPTIONS, 0)?;
    let frame = frame.inner_of(all.len())?;
    for mut rest in all {
        // For `env`, a single dash has the meaning of the option `-i`, so skip it.
        while rest.first() == "-" {
            rest = rest.skip(1);
        }
        while let Some((variable, value)) = rest.first().split_once('=') {
            environment::check(variable, value)?;
            rest = rest.skip(1);
        }
        inner(rest, frame)?;
    }
    Ok(())
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
