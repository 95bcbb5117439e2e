//! Tests that each supported host, in the folder of a hostile repository, starts only the servers of its user.

use std::fs;

use crate::hostile::{HOOK, nothing_ran, plant};
use crate::world::Home;

/// Makes a file executable.
fn executable(file: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the names of all hosts that `mgp` lists as supported.
fn hosts(home: &Home) -> Vec<String> {
    let unknown = home.run(&["import", "no-such-host"]).err;
    let names = unknown.trim().rsplit_once("known: ").unwrap().1;
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn every_host_in_a_hostile_repository_starts_only_the_users_servers() {
    let home = Home::new();
    plant(&home);
    let desk = mgp_testkit::program("desk");
    let desk = desk.to_str().unwrap();
    // The user has two servers: the program of `greeter` is found on the search path, and `shell` loads a script from
    // its working folder.
    executable(&home.write("bin/greeter", &format!("#!/bin/sh\nexec {desk} data\n")));
    for name in ["greeter", "bin/greeter", "node_modules/.bin/greeter"] {
        executable(&home.write(&format!("work/{name}"), &format!("#!/bin/sh\n{HOOK}")));
    }
    let hook = format!("[ ! -e hook.sh ] || . ./hook.sh; exec {desk} terminal");
    let servers = format!(
        "[[servers]]\nid = 'greeter'\ncommand = 'greeter'\n\
         [[servers]]\nid = 'shell'\ncommand = 'sh'\nargs = ['-c', '{hook}']\n"
    );
    home.configure(&servers);
    let own = home.path("bin");
    let system = std::env::var("PATH").unwrap();
    let path = format!(".:node_modules/.bin:bin:{}:{system}", own.display());
    let env = [("PATH", &*path)];
    let hosts = hosts(&home);
    assert!(hosts.len() >= 16, "{hosts:?}");
    for host in hosts {
        // The following commands all run in the folder of the repository.
        let connected =
            home.run_with(&["connect", &host, "--interactive", "no", "--grant", "all"], &env);
        assert_eq!(connected.code, Some(0), "{host}: {connected:?}");
        nothing_ran(&home, &format!("mgp connect {host}"));
        let tried = home.run_with(&["__try-host", &host, "greeter", "shell"], &env);
        assert_eq!(tried.code, Some(0), "{host}: {tried:?}");
        let usable: serde_json::Value = serde_json::from_str(&tried.out).unwrap();
        assert_eq!((&usable["ready"], &usable["missing"]), (&2.into(), &serde_json::json!([])));
        // The kernel knows the tools from `mgp connect`, so let it start the servers.
        for server in ["greeter", "shell"] {
            let started = home.run_with(&["servers", "start", server], &env);
            assert_eq!(started.code, Some(0), "{host}: {started:?}");
        }
        nothing_ran(&home, &host);
        let listed = home.run_with(&["servers", "ls"], &env).out;
        assert!(listed.contains("greeter") && !listed.contains("evil"), "{host}: {listed}");
        home.run_with(&["stop"], &env);
    }
    home.run_with(&["doctor"], &env);
    nothing_ran(&home, "mgp doctor");
}
