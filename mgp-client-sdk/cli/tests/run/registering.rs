//! The registrations of the chaos test: an agent registers servers and an operator approves them while kernels are
//! killed.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::wire::{Wire, agent};
use crate::world::World;

/// The number of approved servers that the agent does not deregister again.
const STAY: usize = 2;

/// An environment variable that marks the processes of registered servers.
pub(crate) const OTHER: &str = "MGP_TEST_OTHER=1";

/// The acknowledged registrations, approvals and deregistrations.
#[derive(Default)]
pub(crate) struct Registered(Mutex<Known>);

#[derive(Default)]
struct Known {
    waiting: BTreeSet<String>,
    approved: BTreeSet<String>,
    gone: BTreeSet<String>,
    registrations: usize,
    approvals: usize,
}

/// The connections of an operator and of the agent that registers servers.
pub(crate) struct Hands {
    operator: Wire,
    maker: Wire,
}

impl Hands {
    pub(crate) fn new(world: &World) -> Self {
        Self { operator: world.operator(), maker: world.wire(&agent("maker")) }
    }
}

impl Registered {
    /// Registers, approves and deregisters servers until the round ends or the kernel is gone.
    pub(crate) fn load(
        &self,
        world: &World,
        hands: Hands,
        round: usize,
        ends: &AtomicBool,
        acknowledged: impl Fn(String),
    ) -> Option<()> {
        let Hands { mut operator, mut maker } = hands;
        let there = |answer: Result<Value, Value>| match answer {
            Ok(answer) => Some(answer),
            Err(Value::Null) => None,
            Err(error) => panic!("{error}"),
        };
        let grant = json!({
            "entry_type": "tool_grant", "agent_id": "maker", "server_id": "mgp",
            "tool_name": "mgp.discovery.register", "permission": "allow",
        });
        there(operator.ask("mgp/access/grant", &grant))?;
        for number in 0..STAY {
            if ends.load(Ordering::Acquire) {
                return None;
            }
            let id = format!("w-registered-{round}-{number}");
            // `/bin/cat` never answers MCP messages, but it can be registered: it runs until the handshake times out.
            let mark = world.folder.to_str();
            let asked = json!({
                "id": id, "command": "/bin/cat", "justification": "chaos",
                "env": {"MGP_TEST_MARK": mark, "MGP_TEST_OTHER": "1"},
            });
            let answer = there(maker.ask("mgp/discovery/register", &asked))?;
            assert_eq!(answer["status"], "pending_approval", "{answer}");
            acknowledged(id.clone());
            self.change(|known| {
                known.registrations += 1;
                known.waiting.insert(id)
            });
            let waiting = there(operator.ask("mgp/kernel/approvals", &json!({})))?;
            let waiting = waiting["approvals"].as_array().unwrap().iter();
            for approval in waiting.filter(|one| one["kind"] == "registration") {
                let (fingerprint, server) = (&approval["id"], approval["server_id"].as_str());
                let because = format!("w-approves-{round}-{}", server.unwrap());
                let params = json!({"id": fingerprint, "because": because});
                there(operator.ask("mgp/kernel/approvals/approve", &params))?;
                acknowledged(because);
                self.change(|known| {
                    known.approvals += 1;
                    known.waiting.remove(server.unwrap());
                    known.approved.insert(server.unwrap().to_owned())
                });
            }
            // Deregister approved servers until only `STAY` of them are left. Some may have been approved only a moment
            // before.
            while let Some(id) = self.change(|known| {
                let more = known.approved.len() > STAY;
                if more { known.approved.pop_first() } else { None }
            }) {
                let answer = there(operator.ask("mgp/discovery/deregister", &json!({"id": id})))?;
                if answer["status"] == "deregistered" {
                    self.change(|known| known.gone.insert(id));
                }
            }
        }
        Some(())
    }

    /// Checks that the next kernel has every acknowledged change.
    pub(crate) fn check(&self, world: &World) {
        let mut operator = world.operator();
        let servers = operator.ask("mgp/kernel/servers", &json!({})).unwrap();
        let waiting = operator.ask("mgp/kernel/approvals", &json!({})).unwrap();
        let named = |list: &Value, name: &str| -> BTreeSet<String> {
            let ids = list.as_array().unwrap().iter().filter_map(|one| one[name].as_str());
            ids.map(str::to_owned).collect()
        };
        let runs = named(&servers["servers"], "id");
        let waits = named(&waiting["approvals"], "server_id");
        let known = self.0.lock().unwrap();
        for id in &known.approved {
            assert!(runs.contains(id), "the approval of {id} is lost: {servers}");
        }
        for id in &known.waiting {
            // The kernel may have carried out an approval without being able to answer it.
            assert!(waits.contains(id) || runs.contains(id), "{id} is lost: {waiting} {servers}");
        }
        for id in &known.gone {
            assert!(!waits.contains(id) && !runs.contains(id), "{id} is back");
        }
    }

    /// Returns the numbers of acknowledged registrations and approvals.
    pub(crate) fn count(&self) -> (usize, usize) {
        let known = self.0.lock().unwrap();
        (known.registrations, known.approvals)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }
}
