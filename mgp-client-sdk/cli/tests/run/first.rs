//! Tests of errors that a new user is likely to meet: for each of them, `mgp serve` must print one clear line with the
//! remedy.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use serde_json::Value;

use crate::wire::initialize_params;
use crate::world::{Host, World, exists, kill, lives, text, within};

/// Runs `mgp serve` until it exits; checks its exit code and that its only line of output contains the texts.
#[track_caller]
fn check(world: &World, args: &[&str], code: i32, expected: &[&str]) {
    reply(&world.output(args), code, expected);
}

#[track_caller]
fn reply(output: &Output, code: i32, expected: &[&str]) {
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{printed}");
    assert!(output.stdout.is_empty());
    assert_eq!(printed.lines().count(), 1, "{printed}");
    for words in expected {
        assert!(printed.contains(words), "`{words}` is not in: {printed}");
    }
}

/// Builds a command of `mgp` with the state of this world.
fn command(world: &World, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
    command.args(args).arg("--state").arg(world.state()).stdin(Stdio::null());
    command
}

/// The user and the group with which the program runs as an ordinary user if root runs the tests.
const UNPRIVILEGED: u32 = 65_534;

/// Runs `mgp serve` as an ordinary user, even if root runs the tests.
fn as_a_person(world: &World, way: &[&str]) -> Output {
    run_as_a_person(world, world.mgp(way))
}

fn run_as_a_person(world: &World, mut command: Command) -> Output {
    if rustix::process::geteuid().is_root() {
        // Copy the program, because other users may have no access to the build folder. Use `cp`: a child that another
        // test starts now would inherit a descriptor of this process, and a file that is open for writing does not run.
        let program = world.config_file().with_file_name("mgp");
        if !program.exists() {
            let mut copy = Command::new("cp");
            let copied = copy.arg(env!("CARGO_BIN_EXE_mgp")).arg(&program).status().unwrap();
            assert!(copied.success());
        }
        let mut person = Command::new(program);
        person.args(command.get_args()).uid(UNPRIVILEGED).gid(UNPRIVILEGED).current_dir("/");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => person.env(name, value),
                None => person.env_remove(name),
            };
        }
        command = person;
    }
    command.stdin(Stdio::null()).output().unwrap()
}

/// Makes a folder readable for all users, but writable for no user.
fn sealed(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
}

/// The three modes of `mgp serve`, which must report the same errors.
const WAYS: [&[&str]; 3] =
    [&["--stdio"], &["--stdio", "--standalone"], &["--http", "127.0.0.1:0", "--no-auth"]];

#[test]
fn a_configuration_that_is_missing() {
    let world = World::empty();
    for way in WAYS {
        check(&world, way, 1, &["there is no file", "mgp.toml", "create it"]);
    }
    assert!(!exists(&world.socket()));
}

#[test]
fn a_configuration_that_is_not_toml() {
    let world = World::empty();
    world.config("[[servers]]\nid = \"a\"\ncommand = oops\n");
    for way in WAYS {
        check(&world, way, 1, &["mgp.toml:3:"]);
    }
    // A host shows the user the answer to its first request, but often not the standard error of `mgp`, so the answer
    // must contain the error.
    for way in &WAYS[..2] {
        let mut command = world.mgp(way);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut started = command.spawn().unwrap();
        let mut input = started.stdin.take().unwrap();
        input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"initialize\"}\n").unwrap();
        let ended = started.wait_with_output().unwrap();
        drop(input);
        let answer: Value = serde_json::from_slice(&ended.stdout).unwrap();
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(answer["id"] == 7 && message.contains("mgp.toml:3:"), "{answer}");
        assert!(message.contains("`mgp doctor --state "), "{answer}");
        assert!(ended.status.code() == Some(1) && text(&ended.stderr).contains("mgp.toml:3:"));
    }
}

#[test]
fn a_port_that_is_taken() {
    let world = World::new("");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    check(&world, &["--http", &address, "--no-auth"], 1, &[&address, "in use", "port 0"]);
    world.nothing_is_left();
}

#[test]
fn an_invalid_address() {
    let world = World::new("");
    check(
        &world,
        &["--http", "here", "--no-auth"],
        2,
        &["`here` is not a valid address", "127.0.0.1:8900"],
    );
}

#[test]
fn an_address_that_others_reach_without_keys() {
    let world = World::new("");
    let words = ["--no-auth is refused", "mgp keys add", "127.0.0.1"];
    check(&world, &["--http", "0.0.0.0:0", "--no-auth"], 2, &words);
    world.nothing_is_left();
}

#[test]
fn a_socket_that_a_dead_kernel_left() {
    let world = World::new("");
    fs::create_dir(world.state()).unwrap();
    fs::set_permissions(world.state(), fs::Permissions::from_mode(0o700)).unwrap();
    // Dropping a listener does not remove its socket file, so the file looks as if a killed kernel had left it.
    drop(UnixListener::bind(world.socket()).unwrap());
    for way in [&["--standalone"][..], &["--linger", "0"]] {
        let mut host = world.host(way);
        host.echoes("works");
        assert_eq!(host.leave().code(), Some(0));
    }
}

#[test]
fn a_file_in_the_place_of_the_socket() {
    let world = World::new("");
    fs::create_dir(world.state()).unwrap();
    fs::set_permissions(world.state(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(world.socket(), "mine").unwrap();
    for way in WAYS {
        check(&world, way, 1, &["is not a socket", "move it away"]);
    }
    assert_eq!(fs::read_to_string(world.socket()).unwrap(), "mine");
}

#[test]
fn a_folder_that_others_may_use() {
    let world = World::new("");
    fs::create_dir(world.state()).unwrap();
    for mode in [0o755, 0o770, 0o701] {
        fs::set_permissions(world.state(), fs::Permissions::from_mode(mode)).unwrap();
        for way in WAYS {
            check(&world, way, 1, &["open to others", "chmod 700"]);
        }
    }
}

#[test]
fn a_host_gets_the_reason_why_the_set_up_fails_as_the_answer_to_its_first_request() {
    let world = World::new("");
    fs::create_dir(world.state()).unwrap();
    let refused = |args: &[&str], reason: &str| {
        let mut host = Host::start(&world, args);
        let error = host.ask("initialize", &initialize_params()).unwrap_err();
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("mgp does not start") && message.contains(reason), "{error}");
        assert_eq!(host.wait().code(), Some(1));
    };
    fs::set_permissions(world.state(), fs::Permissions::from_mode(0o755)).unwrap();
    let ways: [&[&str]; 2] = [&[], &["--standalone"]];
    for args in ways {
        refused(args, "open to others");
    }
    fs::set_permissions(world.state(), fs::Permissions::from_mode(0o700)).unwrap();
    refused(&["--standalone", "--locked"], "mgp.lock");
}

#[test]
fn a_folder_whose_path_is_too_long() {
    let world = World::new("");
    let long = world.folder.join("x".repeat(120));
    let output = Command::new(env!("CARGO_BIN_EXE_mgp"))
        .args(["serve", "--stdio", "--config"])
        .arg(world.config_file())
        .arg("--state")
        .arg(&long)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("too long for a socket") && printed.contains("--state DIR"),
        "{printed}"
    );
}

#[test]
fn two_kernels_on_one_folder() {
    let world = World::new("");
    let host = world.host(&["--standalone"]);
    let pid = format!("process {}", host.child.id());
    for way in &WAYS[1..] {
        check(&world, way, 1, &["uses", &pid, "mgp stop", "--state DIR"]);
    }
    // With plain `--stdio`, a second host shares the running kernel.
    let mut second = world.host(&[]);
    second.echoes("shared");
}

#[test]
fn no_terminal_and_no_input() {
    let world = World::new("");
    let output = world.output(&["--stdio", "--standalone"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let output = world.output(&["--stdio", "--linger", "0"]);
    assert_eq!(output.status.code(), Some(0));
    if let Some(kernel) = world.kernel() {
        within(|| (!lives(kernel)).then_some(()));
    }
}

#[test]
fn options_that_do_not_exist_or_do_not_go_together() {
    let world = World::new("");
    let check = |args: &[&str], expected: &str| {
        let output = world.output(args);
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(printed.contains(expected), "{printed}");
    };
    check(&["--stdio", "--standalnoe"], "--standalone");
    check(&[], "--stdio");
    check(&["--stdio", "--http", "127.0.0.1:0"], "cannot be used with");
    check(&["--stdio", "--no-auth"], "--no-auth requires --http");
    check(&["--stdio", "--agent", ""], "the name of an agent");
}

#[test]
fn a_detached_kernel_that_fails_reports_to_its_host_and_its_log() {
    let world = World::empty();
    world.config("[[servers]]\nid =\n");
    let output = world.output(&["--stdio"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("mgp.toml:2"), "{}", text(&output.stderr));
    let log = world.state().join("kernel.log");
    within(|| fs::read_to_string(&log).unwrap().contains("mgp.toml:2").then_some(()));
    let mode = fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Starts an edit of a file by a user whose own kernel has another state folder.
fn edit_of_another_kernel(world: &World, name: &str) -> Child {
    let mut edit = Command::new(env!("CARGO_BIN_EXE_mgp"));
    edit.args(["servers", "add", "new", "--no-grant", "--config"]).arg(world.folder.join(name));
    edit.args(["--", "/bin/false"]).env("MGP_STATE", world.folder.join("other"));
    edit.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_kernel_that_hangs() {
    let world = World::new("");
    let host = world.host(&[]);
    let kernel = world.kernel().unwrap();
    kill("-STOP", kernel);
    // A command with another state folder needs the consent of the kernel only for edits of the kernel's own
    // configuration.
    let edits = ["other.toml", "mgp.toml"].map(|name| edit_of_another_kernel(&world, name));
    check(&world, &["--stdio"], 1, &["does not answer"]);
    let [other, own] = edits.map(|edit| edit.wait_with_output().unwrap());
    kill("-CONT", kernel);
    assert_eq!(other.status.code(), Some(0), "{}", text(&other.stderr));
    assert_eq!(own.status.code(), Some(1), "{}", text(&own.stderr));
    assert!(text(&own.stderr).contains("a kernel that uses `"), "{}", text(&own.stderr));
    assert_eq!(host.leave().code(), Some(0));
}

#[test]
fn a_folder_for_the_state_that_cannot_be_written() {
    let world = World::new("");
    sealed(&world.folder);
    let state = world.state().display().to_string();
    for way in WAYS {
        let output = as_a_person(&world, way);
        reply(&output, 1, &[&state, "cannot be used", "ermission denied", "--state DIR"]);
    }
    fs::set_permissions(&world.folder, fs::Permissions::from_mode(0o700)).unwrap();
    let beneath = world.config_file().join("state");
    let output = Command::new(env!("CARGO_BIN_EXE_mgp"))
        .args(["status", "--state"])
        .arg(&beneath)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    reply(&output, 3, &["no kernel is running"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_mgp"));
    let serve = command.args(["serve", "--stdio", "--state"]).arg(&beneath).stdin(Stdio::null());
    reply(&serve.output().unwrap(), 1, &["cannot be used", "--state DIR"]);
}

#[test]
fn a_state_of_another_user() {
    let world = World::new("");
    fs::create_dir(world.state()).unwrap();
    fs::set_permissions(world.state(), fs::Permissions::from_mode(0o500)).unwrap();
    fs::set_permissions(&world.folder, fs::Permissions::from_mode(0o755)).unwrap();
    for way in WAYS {
        reply(&as_a_person(&world, way), 1, &["cannot be used", "--state DIR"]);
    }
    fs::set_permissions(world.state(), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn doctor_does_not_advise_to_move_away_a_file_that_only_another_user_may_read() {
    let world = World::new("");
    let secrets = world.state().join("secrets.json");
    fs::create_dir(world.state()).unwrap();
    fs::write(&secrets, "{}").unwrap();
    for (path, mode) in [(&secrets, 0o000), (&world.state(), 0o700), (&world.folder, 0o755)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    // Ignore an error: a user other than root runs the command as itself, and owns the folder.
    let _ = chown(world.state(), Some(UNPRIVILEGED), None);
    let mut doctor = command(&world, &["doctor"]);
    doctor.arg("--config").arg(world.config_file()).env("HOME", &world.folder);
    let output = run_as_a_person(&world, doctor);
    let found = text(&output.stdout);
    assert!(found.contains("secrets.json` cannot be opened"), "{found}");
    assert!(found.contains("sudo chown") && !found.contains("move it away"), "{found}");
}

#[test]
fn sudo_leaves_no_files_of_root_in_the_home_folder_of_its_user() {
    let world = World::empty();
    // Only root can act as if it had been called by `sudo`.
    if chown(&world.folder, Some(UNPRIVILEGED), None).is_err() {
        return;
    }
    let run = |user: Option<u32>| {
        let mut matrix = Command::new(env!("CARGO_BIN_EXE_mgp"));
        matrix.args(["access", "matrix"]).stdin(Stdio::null());
        matrix.env_clear().env("HOME", &world.folder);
        matrix.envs(user.map(|user| ("SUDO_UID", user.to_string()))).output().unwrap()
    };
    reply(&run(Some(UNPRIVILEGED)), 1, &["run mgp without `sudo`", "--state DIR"]);
    assert!(!world.folder.join(".local").exists());
    assert_eq!(run(None).status.code(), Some(0));
}

#[test]
fn sudo_changes_no_state_of_another_user() {
    let world = World::new("");
    fs::create_dir(world.state()).unwrap();
    // Only root can act as if it had been called by `sudo`.
    if chown(world.state(), Some(UNPRIVILEGED), None).is_err() {
        return;
    }
    for (path, mode) in [(&world.state(), 0o700), (&world.folder, 0o755)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let keys = |arguments: &[&str]| {
        let mut keys = command(&world, arguments);
        keys.env("HOME", &world.folder);
        keys
    };
    let first = run_as_a_person(&world, keys(&["keys", "add", "ann"]));
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let sudo = |mut keys: Command| keys.env("SUDO_UID", "0").output().unwrap();
    for change in [&["keys", "add", "bob"][..], &["operator", "passphrase", "set"]] {
        reply(&sudo(keys(change)), 1, &["another user", "`sudo -Hu '#65534'`"]);
    }
    let listed = sudo(keys(&["keys", "ls"]));
    assert!(text(&listed.stdout).contains("ann"), "{}", text(&listed.stderr));
    let new = world.state().join("new");
    for change in [["keys", "add", "bob"], ["secrets", "set", "TOKEN"]] {
        let mut first = Command::new(env!("CARGO_BIN_EXE_mgp"));
        first.args(change).arg("--state").arg(&new).stdin(Stdio::null());
        reply(&sudo(first), 1, &["another user"]);
        assert!(!new.exists());
    }
}

#[test]
fn a_kernel_of_another_user_does_not_prevent_edits() {
    let world = World::new("");
    let home = world.folder.join("home");
    fs::create_dir(&home).unwrap();
    // Only root can run the programs of two users.
    if chown(&home, Some(UNPRIVILEGED), None).is_err() {
        return;
    }
    fs::set_permissions(&world.folder, fs::Permissions::from_mode(0o755)).unwrap();
    let mut host = world.host(&[]);
    host.echoes("the kernel of root runs");
    let mut add = Command::new(env!("CARGO_BIN_EXE_mgp"));
    add.args(["servers", "add", "own", "--no-grant", "--state"]).arg(home.join("state"));
    add.arg("--config").arg(home.join("own.toml")).args(["--", "true"]).env("HOME", &home);
    let added = run_as_a_person(&world, add);
    assert_eq!(added.status.code(), Some(0), "{}", text(&added.stderr));
}

#[test]
fn a_configuration_that_may_not_be_read() {
    let world = World::new("");
    fs::set_permissions(world.config_file(), fs::Permissions::from_mode(0o000)).unwrap();
    // Every user can create the state in this folder, but no user can read the configuration.
    fs::set_permissions(&world.folder, fs::Permissions::from_mode(0o777)).unwrap();
    for way in WAYS {
        reply(&as_a_person(&world, way), 1, &["may not read", "mgp.toml", "chmod u+r"]);
    }
    fs::set_permissions(&world.folder, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_configuration_that_is_a_folder() {
    let world = World::empty();
    fs::create_dir(world.config_file()).unwrap();
    for way in WAYS {
        check(&world, way, 1, &["mgp.toml", "is not a plain file", "name one"]);
    }
}

#[test]
fn a_kernel_of_another_version_at_the_socket() {
    let world = World::new("");
    fs::create_dir(world.state()).unwrap();
    fs::set_permissions(world.state(), fs::Permissions::from_mode(0o700)).unwrap();
    let listener = UnixListener::bind(world.socket()).unwrap();
    let answers = ["{\"mgp\":2,\"ok\":true,\"version\":\"9.0.0\"}\n", "220 ready\n"];
    let commands = [vec!["serve", "--stdio"], vec!["status"], vec!["servers", "ls"]];
    thread::spawn(move || {
        for answer in answers.iter().cycle() {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = BufReader::new(stream.try_clone().unwrap()).read_line(&mut String::new());
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    for args in commands.iter().flat_map(|args| [args, args]) {
        let output = command(&world, args).output().unwrap();
        reply(&output, 1, &["not a kernel of this version", "--state DIR"]);
    }
    // The program at the socket holds no lock of a kernel, so edits that concern only other kernels do not need its
    // consent.
    let edit = edit_of_another_kernel(&world, "other.toml").wait_with_output().unwrap();
    assert_eq!(edit.status.code(), Some(0), "{}", text(&edit.stderr));
}
