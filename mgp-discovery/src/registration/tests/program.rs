//! Tests of the files that determine what runs.

use mgp_types::service::Authority;

use super::super::params::RegisterRequest;
use super::super::program::{FileCheck, compare_files, find};
use super::super::record::Proposal;
use super::*;

/// Returns the proposal for a request; nothing is started.
fn proposed(world: &World, command: &str, args: &Value) -> Proposal {
    let params = json!({
        "id": "made", "command": command, "args": args, "mgp": { "trust_level": "standard" },
    });
    let params = serde_json::from_value(params).unwrap();
    let config = config(&world.folder);
    let request = RegisterRequest::read(
        params,
        Authority::Operator,
        &config,
        RegistrationAllowList::default(),
        None,
    )
    .unwrap();
    find(request, &config).unwrap()
}

fn bound(world: &World, command: &str, args: &Value) -> (Vec<String>, Vec<String>) {
    let found = proposed(world, command, args);
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    (found.files.iter().map(|file| name(&file.path)).collect(), found.notes)
}

#[test]
fn scripts_and_programs_are_bound_and_data_is_not() {
    let world = World::new();
    for name in ["sh", "npx", "node"] {
        program(&world.folder.join("bin").join(name), "\u{7f}ELF");
    }
    program(&world.folder.join("run.sh"), "#!/bin/sh\n");
    for name in ["data.db", "start.mjs", "conf.json"] {
        fs::write(world.folder.join(name), name).unwrap();
    }
    for (command, args, expected, is_noted) in [
        ("count", json!(["data.db", "made.py"]), &["count"][..], false),
        ("python3.11", json!(["made.py", "data.db"]), &["python3.11", "made.py"], false),
        ("python3.11", json!(["-u", "made.py", "data.db"]), &["python3.11", "made.py"], true),
        ("python3.11", json!(["-m", "module"]), &["python3.11"], true),
        (
            "node",
            json!(["--import", "start.mjs", "made.py"]),
            &["node", "start.mjs", "made.py"],
            true,
        ),
        ("sh", json!(["-c", "exec evil"]), &["sh"], true),
        ("npx", json!(["-y", "mcp-files"]), &["npx"], true),
        ("./run.sh", json!(["data.db"]), &["run.sh"], false),
    ] {
        let (files, notes) = bound(&world, command, &args);
        assert_eq!(files, expected, "{command} {args}");
        assert_eq!(!notes.is_empty(), is_noted, "{command} {args}: {notes:?}");
    }
}

#[test]
fn the_interpreter_behind_a_shim_is_bound() {
    let world = World::new();
    let root = world.folder.join(".pyenv");
    let (shim, interpreter) =
        (root.join("shims/python3"), root.join("versions/3.12.1/bin/python3"));
    program(&shim, "#!/bin/sh\n");
    program(&interpreter, "\u{7f}ELF");
    fs::write(root.join("version"), "3.12.1\n").unwrap();
    fs::write(world.folder.join(".python-version"), "system\n").unwrap();
    let found = proposed(&world, shim.to_str().unwrap(), &json!(["made.py"]));
    assert_eq!((Path::new(&found.command), &found.files[0].path), (&*interpreter, &interpreter));
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    // Without a default version, the proposal has the shim itself as its program, with a note for the operator.
    fs::remove_file(root.join("version")).unwrap();
    let found = proposed(&world, shim.to_str().unwrap(), &json!(["made.py"]));
    assert_eq!(Path::new(&found.command), shim);
    assert!(found.notes[0].contains("another program at each start"), "{:?}", found.notes);
}

/// Regression test for a bug: these programs run code that their arguments name, but were treated as programs whose
/// code does not depend on their arguments.
#[test]
fn a_program_that_runs_its_arguments_is_not_taken_for_a_plain_one() {
    let world = World::new();
    let names = "ld-linux-x86-64.so.2 perl5.36-x86_64-linux-gnu python3.11-intel64 php-cgi8.2 sed vim git \
         tar socat flock taskset setsid chroot";
    for name in names.split(' ') {
        program(&world.folder.join("bin").join(name), "\u{7f}ELF");
        let (_, notes) = bound(&world, name, &json!(["-c", "code"]));
        assert!(notes.iter().any(|note| note.contains("runs what its arguments name")), "{name}");
    }
    fs::write(world.folder.join("hook.js"), "x").unwrap();
    program(&world.folder.join("bin/node"), "\u{7f}ELF");
    let (files, _) = bound(&world, "node", &json!(["--require=./hook.js", "made.py"]));
    assert_eq!(files, ["node", "hook.js", "made.py"]);
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_link_that_leads_elsewhere_is_another_program() {
    use std::os::unix::fs::symlink;
    let world = World::new();
    let link = world.folder.join("bin/linked");
    symlink(world.folder.join("bin/count"), &link).unwrap();
    let params = json!({ "id": "made", "command": "linked" });
    world.register(operator(), params).await.unwrap();
    let server = world.fake.running().remove(0);
    fs::remove_file(&link).unwrap();
    // A link to a file with the same content at another path is refused, because that file could be changed later.
    program(
        &world.folder.join("bin/copy"),
        &fs::read_to_string(world.folder.join("bin/count")).unwrap(),
    );
    symlink(world.folder.join("bin/copy"), &link).unwrap();
    assert!(server.launch().await.is_err());
    assert!(world.waiting().await[0].changed);

    // An approval covers a program of the system only by its path. If a link then leads to another file, the new
    // approval covers the content of that file.
    let mut of_system = proposed(&world, "linked", &json!([]));
    of_system.files.clear();
    assert!(matches!(compare_files(&of_system), Ok(FileCheck::Same)));
    fs::remove_file(&link).unwrap();
    symlink(world.folder.join("bin/count"), &link).unwrap();
    let Ok(FileCheck::Changed(now)) = compare_files(&of_system) else {
        panic!("the link leads elsewhere")
    };
    assert_eq!(now.files.len(), 1);
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn only_an_executable_plain_file_is_a_program() {
    let world = World::new();
    fs::write(world.folder.join("bin/plain"), "text").unwrap();
    for command in ["plain", "bin", "./bin", "/"] {
        let params = json!({ "id": "made", "command": command });
        refused(world.register(operator(), params).await, -32602, "there is no program");
    }
}
