//! SIGKILL of the kernel and of its child while several hosts call: what was acknowledged is there afterwards.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use mgp_client_sdk::security::Governance;
use mgp_types::mgp::AccessQueryParams;
use mgp_types::service::Principal;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::world::{Host, World, kill, lives, stat, within};

/// Hosts that call at once.
const HOSTS: usize = 4;

/// What a host had acknowledged: the grants, and how many calls.
#[derive(Default)]
struct Acknowledged {
    grants: Mutex<Vec<String>>,
    calls: AtomicU64,
}

fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4)
}

#[tokio::test]
async fn what_was_acknowledged_survives_and_nothing_is_left_behind() {
    let world = World::new("chaos", "");
    let acknowledged = Acknowledged::default();
    let mut slowest = Duration::ZERO;
    for round in 0..rounds() {
        let begun = Instant::now();
        let mut hosts: Vec<Host> =
            (0..HOSTS).map(|_| Host::start(&world, &["--linger", "30"])).collect();
        for host in &mut hosts {
            host.hello();
        }
        slowest = slowest.max(begun.elapsed());
        hosts[0].echoes("ready");
        let kernel = world.kernel().unwrap();
        let before = world.marked();
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            for (number, host) in hosts.iter_mut().enumerate() {
                let (acknowledged, ends) = (&acknowledged, &ends);
                scope.spawn(move || load(host, number, acknowledged, ends));
            }
            let (granting, world, ends) = (&acknowledged, &world, &ends);
            scope.spawn(move || grant(world, round, granting, ends));
            thread::sleep(Duration::from_millis(150));
            // The child first: those who call hear of it, and go on.
            if round % 2 == 0 {
                let server = before
                    .iter()
                    .find(|pid| stat(**pid).is_some_and(|(_, parent)| parent != kernel));
                kill("-KILL", *server.unwrap());
                thread::sleep(Duration::from_millis(100));
            }
            kill("-KILL", kernel);
            ends.store(true, Ordering::Release);
        });
        world.nothing_is_left();
        for host in &mut hosts {
            assert_eq!(host.ended().code(), Some(1), "its kernel has ended");
        }
        within(|| (!lives(kernel)).then_some(()));
        let grants = acknowledged.grants.lock().unwrap().clone();
        let lost = lost(&world, &grants).await;
        assert!(lost.is_empty(), "round {round}: {lost:?} of {} grants are lost", grants.len());
    }
    let (grants, calls) =
        (acknowledged.grants.lock().unwrap().len(), acknowledged.calls.load(Ordering::Relaxed));
    assert!(grants > 0 && calls > 0);
    let records = Governance::verify(world.state()).await.unwrap();
    println!(
        "{} rounds: {grants} grants and {calls} calls acknowledged, {records} records; ready again within {slowest:?}",
        rounds()
    );
    // A grant is on the record before it is answered; the end of a harmless call is written behind its answer.
    let on_the_way = (rounds() * HOSTS * 8) as u64;
    assert!(records + on_the_way >= grants as u64 + calls);
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
}

/// Calls until the kernel is gone.
fn load(host: &mut Host, number: usize, acknowledged: &Acknowledged, ends: &AtomicBool) {
    for call in 0_u64.. {
        let word = format!("{number}-{call}");
        match host.call("echo", &json!({"message": word})) {
            Ok(answer) => {
                assert_eq!(answer, word, "the answer of somebody else");
                acknowledged.calls.fetch_add(1, Ordering::Relaxed);
            }
            Err(Value::Null) => return,
            // The server is being started again.
            Err(_) if ends.load(Ordering::Acquire) => thread::sleep(Duration::from_millis(1)),
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Grants until the kernel is gone.
fn grant(world: &World, round: usize, acknowledged: &Acknowledged, ends: &AtomicBool) {
    let mut operator = world.operator();
    for number in 0.. {
        let agent = format!("agent-{round}-{number}");
        let params = json!({"entry_type": "server_grant", "agent_id": agent, "server_id": "echo", "permission": "allow"});
        match operator.ask("mgp/access/grant", &params) {
            Ok(_) => acknowledged.grants.lock().unwrap().push(agent),
            Err(Value::Null) => return,
            Err(error) => assert!(ends.load(Ordering::Acquire), "{error}"),
        }
    }
}

/// The agents among these that have no grant, as the state says once the kernel is gone.
async fn lost(world: &World, agents: &[String]) -> Vec<String> {
    let governance = Governance::in_folder(world.state()).await.unwrap();
    let operator = Principal::local().operator();
    let mut lost = Vec::new();
    for agent in agents {
        let params = AccessQueryParams::new(agent.as_str(), "echo");
        let found = governance.access().query(&operator, params).await.unwrap();
        if found.entries.is_empty() {
            lost.push(agent.clone());
        }
    }
    let log = governance.log().unwrap().clone();
    drop(governance);
    log.close().await.unwrap();
    lost
}
