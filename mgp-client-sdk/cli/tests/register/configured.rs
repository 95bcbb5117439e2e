//! Tests that the configuration takes precedence: an agent cannot register an id that is configured, and configured
//! entries replace registered servers.

use mgp_types::ErrorCode;
use mgp_types::mgp::{DeregisterParams, RegistrationStatus, ServerState};

use mgp_testkit::until;

use crate::world::{World, patient, register};

const FILE: &str = "[[servers]]\nid = 'files'\ncommand = 'no-such-program'\n\
    [[servers]]\nid = 'broken'\ncomand = 'x'\n\
    [[servers]]\nid = 'off'\ncommand = 'no-such-program'\nenabled = false\n";

#[tokio::test]
async fn configured_ids_can_be_neither_registered_nor_deregistered() {
    let world = World::new(FILE).await;
    let (ada, operator) = (world.registrar().await, world.operator().await);
    for id in ["files", "FILES", "broken", "off", "kernel", "mgp"] {
        for client in [&ada, &operator] {
            let taken = register(client, &world.asks(id)).await.unwrap_err();
            assert_eq!(taken.code(), ErrorCode::SERVER_ALREADY_REGISTERED, "{id}: {taken}");
        }
    }
    let params = DeregisterParams::new("files");
    let refused = operator.mgp().discovery_deregister(&params).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::CANNOT_DEREGISTER_CONFIG);
    let unknown = ada.mgp().discovery_deregister(&params).await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::RESOURCE_NOT_FOUND, "the server is hidden from her");
    assert_eq!(world.kernel.servers().len(), 1);
    world.end().await;
}

#[tokio::test]
async fn a_registered_server_is_inactive_while_the_configuration_has_its_id() {
    let mut world = World::with("", patient).await;
    let operator = world.operator().await;
    let reply = register(&operator, &world.asks("made")).await.unwrap();
    assert_eq!(reply.status, RegistrationStatus::Connected);
    world.knows("made").await;

    let file = format!(
        "[[servers]]\nid = 'made'\ncommand = '/bin/sh'\nargs = ['-c', '''{}''', 'own', '{}']\n",
        crate::world::SERVER,
        world.folder.display()
    );
    world.write(&file);
    world.kernel.reload().await.unwrap();
    until("the configured server runs", async || world.runs("own") == 1).await;
    let made = world.server("made").unwrap();
    assert_ne!(made.source, "registered");
    assert_eq!(world.runs("made"), 1);
    // The configured entry also replaces the registered server after a restart, and even if the entry is broken.
    drop(operator);
    world.restart().await;
    assert_ne!(world.server("made").unwrap().source, "registered");
    world.write("[[servers]]\nid = 'made'\ncomand = 'x'\n");
    world.kernel.reload().await.unwrap();
    assert_eq!(world.server("made").map(|made| made.source == "registered"), Some(false));

    world.write("");
    world.kernel.reload().await.unwrap();
    until("it runs again", async || {
        world.server("made").is_some_and(|made| {
            made.source == "registered" && made.status == ServerState::Connected
        })
    })
    .await;
    assert_eq!(world.runs("made"), 2);
    world.end().await;
}
