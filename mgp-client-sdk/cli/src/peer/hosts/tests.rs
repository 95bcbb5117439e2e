//! Tests of the known hosts, with invented process tables.

use super::super::table::ancestry;
use super::super::table::fake::{FakeTable, process};
use super::*;

const KERNEL: i32 = 50;

/// Returns a process table. A login shell (10) runs an editor (20), whose extension process (21) runs a shim (22) and
/// whose terminal (23) runs a shell (24). A second terminal (30) is independent. The kernel (50) has a keeper (51) that
/// runs a server (52).
fn system() -> FakeTable {
    let terminal = |pid, parent, started| ProcessStat {
        terminal: pid,
        foreground: pid,
        ..process(pid, parent, started)
    };
    let keeper = ProcessStat { name: KEEPER_NAME.to_owned(), ..process(51, 50, 210) };
    FakeTable::default()
        .with(process(1, 0, 0), "/sbin/init")
        .with(terminal(10, 1, 100), "/bin/bash")
        .with(process(20, 10, 110), "/usr/bin/editor")
        .with(process(21, 20, 120), "/usr/bin/editor")
        .with(process(22, 21, 130), "/usr/bin/mgp")
        .with(process(23, 20, 140), "/usr/bin/editor")
        .with(terminal(24, 23, 150), "/bin/bash")
        .with(terminal(30, 1, 160), "/bin/bash")
        .with(process(50, 1, 200), "/usr/bin/mgp")
        .with(keeper, "/usr/bin/mgp")
        .with(process(52, 51, 220), "/usr/bin/server")
}

/// Admits an agent through a shim; returns the reason if it is refused.
fn admit(hosts: &mut HostTable, table: &FakeTable, pid: i32, agent: &str) -> Result<(), String> {
    hosts.admit_agent(table, &ancestry(table, pid).unwrap(), agent, true, KERNEL, |_| false)
}

fn inside(hosts: &HostTable, table: &FakeTable, pid: i32) -> Option<Inside> {
    hosts.inside(table, &ancestry(table, pid).unwrap(), KERNEL)
}

#[test]
fn servers_and_processes_of_a_host_are_inside_and_a_shell_beside_it_is_not() {
    let (table, mut hosts) = (system(), HostTable::default());
    assert_eq!(inside(&hosts, &table, 24), None, "the host is not known yet");
    admit(&mut hosts, &table, 22, "ada").unwrap();
    let host = |pid| Some(Inside::Host { name: String::new(), pid, is_shell: false });
    assert_eq!(inside(&hosts, &table, 21), host(20));
    // The editor's terminal (23) is not below the process that started the shim (21), but below its main process (20).
    assert_eq!(inside(&hosts, &table, 24), host(20));
    assert_eq!(inside(&hosts, &table, 10), None);
    assert_eq!(inside(&hosts, &table, 30), None);
    assert_eq!(inside(&hosts, &table, 52), Some(Inside::Server));
    assert_eq!(inside(&hosts, &table, 51), Some(Inside::Server));
}

#[test]
fn a_host_stays_known_after_its_shim_has_ended_until_it_ends_itself() {
    let (table, mut hosts) = (system(), HostTable::default());
    admit(&mut hosts, &table, 22, "ada").unwrap();
    table.stats.borrow_mut().remove(&22);
    assert!(inside(&hosts, &table, 24).is_some());
    // Now the system has reused the process ids of the editor and of its shell.
    let mut stats = table.stats.borrow_mut();
    stats.insert(20, process(20, 1, 900));
    stats.insert(24, process(24, 20, 910));
    drop(stats);
    assert_eq!(inside(&hosts, &table, 24), None);
}

#[test]
fn the_kernel_and_keepers_of_other_programs_admit_no_agent() {
    let (table, mut hosts) = (system(), HostTable::default());
    let refused = admit(&mut hosts, &table, 52, "ada").unwrap_err();
    assert!(refused.contains("a server cannot act as an agent"), "{refused}");
    let chain = ancestry(&table, 52).unwrap();
    // A server and its keeper (the process that watches it), which `mgp doctor` started: no kernel is above them.
    assert!(hosts.admit_agent(&table, &chain[..2], "ada", false, 4, |_| true).is_err());
}

#[test]
fn an_orphan_is_inside_if_the_first_process_of_a_container_has_started_the_kernel() {
    let hosts = HostTable::default();
    let first = ProcessStat { name: INIT_NAME.to_owned(), ..process(1, 0, 0) };
    let table = system().with(process(60, 1, 300), "/bin/sh").with(process(61, 0, 310), "/bin/sh");
    assert_eq!(inside(&hosts, &table, 60), None, "the first process has not started the kernel");
    let table = table.with(first, "/usr/bin/mgp");
    assert_eq!(inside(&hosts, &table, 60), Some(Inside::Server));
    assert_eq!(inside(&hosts, &table, 61), None, "it has entered the container from outside");
}

#[test]
fn a_host_has_one_name_and_another_window_may_have_its_own() {
    let mut hosts = HostTable::default();
    let table = system()
        .with(process(25, 24, 300), "/usr/bin/mgp")
        .with(process(26, 20, 310), "/usr/bin/editor")
        .with(process(27, 26, 320), "/usr/bin/mgp")
        .with(process(28, 21, 330), "/usr/bin/mgp")
        .with(ProcessStat { terminal: 29, ..process(29, 23, 340) }, "/usr/bin/mgp");
    admit(&mut hosts, &table, 22, "ada").unwrap();
    admit(&mut hosts, &table, 25, "ada").unwrap();
    let refused = admit(&mut hosts, &table, 25, "bob").unwrap_err();
    assert!(refused.contains("is the agent `ada`"), "{refused}");
    assert!(admit(&mut hosts, &table, 28, "bob").is_err(), "beside its own shim");
    assert!(admit(&mut hosts, &table, 29, "bob").is_err(), "in place of the shell of a terminal");
    admit(&mut hosts, &table, 27, "bob").unwrap();
    assert_eq!(admit(&mut hosts, &table, 30, "eve"), Ok(()), "of no host");
}

#[test]
fn connected_extensions_of_one_editor_process_have_their_own_names_and_what_they_start_has_not() {
    let mut hosts = HostTable::default();
    // Below the process of the extensions: a second shim (28), a shim in a session of its own (29), and a shell (31)
    // that passes its input on to a third shim (32).
    let table = system()
        .with(ProcessStat { session: 21, ..process(28, 21, 330) }, "/usr/bin/mgp")
        .with(process(29, 21, 335), "/usr/bin/mgp")
        .with(process(31, 21, 340), "/bin/sh")
        .with(process(32, 31, 350), "/usr/bin/mgp")
        .input(31, "pipe:[7]")
        .input(32, "pipe:[7]");
    let mut admit = |pid, agent, is_shim, connected: &[&str]| {
        let chain = ancestry(&table, pid).unwrap();
        let is_connected = |name: &str| connected.contains(&name);
        hosts.admit_agent(&table, &chain, agent, is_shim, KERNEL, is_connected)
    };
    let both = ["cline", "continue"];
    admit(22, "cline", true, &both).unwrap();
    admit(28, "continue", true, &both).unwrap();
    admit(28, "continue", true, &["continue"]).unwrap_err();
    admit(28, "continue", true, &["cline"]).unwrap_err();
    admit(28, "ada", true, &["cline", "ada"]).unwrap_err();
    admit(28, "continue", false, &both).unwrap_err();
    admit(29, "continue", true, &both).unwrap_err();
    admit(29, "cline", true, &both).unwrap();
    admit(32, "continue", true, &both).unwrap_err();
    admit(32, "cline", true, &both).unwrap();
}

#[test]
fn a_wrapper_of_the_shim_is_not_the_host() {
    let mut hosts = HostTable::default();
    let table = system()
        .with(process(40, 30, 300), "/usr/bin/agent")
        .with(process(41, 40, 310), "/bin/sh")
        .with(process(42, 41, 320), "/usr/bin/mgp")
        .with(process(43, 40, 330), "/bin/sh")
        .input(42, "pipe:[7]")
        .input(41, "pipe:[7]")
        .input(40, "pipe:[8]");
    admit(&mut hosts, &table, 42, "ada").unwrap();
    assert!(matches!(inside(&hosts, &table, 43), Some(Inside::Host { pid: 40, .. })));
    assert_eq!(inside(&hosts, &table, 30), None);
}

#[test]
fn a_shim_that_a_person_starts_in_a_terminal_makes_no_host_of_the_shell() {
    let mut hosts = HostTable::default();
    let table = system().with(process(31, 30, 300), "/usr/bin/mgp");
    admit(&mut hosts, &table, 31, "ada").unwrap();
    assert_eq!(inside(&hosts, &table, 30), None);
    // A process that adopts an orphaned shim does not become a host either.
    let orphan = system().with(process(31, 1, 300), "/usr/bin/mgp");
    admit(&mut hosts, &orphan, 31, "ada").unwrap();
    assert_eq!(inside(&hosts, &orphan, 30), None);
}

#[test]
fn the_refusal_below_a_shell_that_ran_a_shim_names_its_cause_and_its_end() {
    let mut hosts = HostTable::default();
    let table = system()
        .with(ProcessStat { name: "bash".to_owned(), ..process(40, 1, 300) }, "/bin/bash")
        .with(process(41, 40, 310), "/usr/bin/mgp")
        .with(process(42, 40, 320), "/usr/bin/mgp");
    assert_eq!(inside(&hosts, &table, 42), None, "the shell has not run a shim yet");
    admit(&mut hosts, &table, 41, "ada").unwrap();
    assert_eq!(
        inside(&hosts, &table, 42).unwrap().to_string(),
        "the host `bash` (process 40) started this process; this shell also started `mgp serve --stdio`, so it counts as a host until it or the kernel ends"
    );
}

#[test]
fn a_process_that_left_the_host_needs_a_terminal_of_its_own() {
    let mut hosts = HostTable::default();
    let table = system()
        .with(process(60, 1, 300), "/bin/sh")
        .with(process(61, 60, 310), "/usr/bin/mgp")
        .with(process(62, 30, 320), "/usr/bin/mgp")
        .with(process(63, 1, 330), "/usr/bin/mgp")
        .group(63, "another");
    admit(&mut hosts, &table, 22, "ada").unwrap();
    assert!(matches!(inside(&hosts, &table, 61), Some(Inside::Detached { pid: 20, .. })));
    // The process runs below a shell whose terminal was opened after the host started.
    let in_terminal =
        ProcessStat { session: 30, terminal: 30, foreground: 62, ..process(62, 30, 320) };
    table.stats.borrow_mut().insert(62, in_terminal.clone());
    assert_eq!(inside(&hosts, &table, 62), None);
    // In the background of that terminal, the process looks like one that a host has detached.
    let background = ProcessStat { foreground: 30, ..in_terminal };
    table.stats.borrow_mut().insert(62, background);
    assert!(matches!(inside(&hosts, &table, 62), Some(Inside::Detached { .. })));
    // Services of the system run in a control group of their own, so they do not count as detached.
    assert_eq!(inside(&hosts, &table, 63), None);
}
