//! Tests of the tools of this process.

use mgp_types::mcp;

use super::*;

#[tokio::test]
async fn own_tools_are_trusted_and_pinned_nowhere() {
    let mut world = world();
    let own: mcp::Tool = serde_json::from_str(TRAP).unwrap();
    world.definitions.learn(Some(&files()), &[own]);
    world.liar.lists(&[TRAP, READ]);
    world.call("trap").await.unwrap();
    assert_eq!(world.standing("trap"), DefinitionState::Pinned);
    assert!(world.told().is_empty());
    assert_eq!(world.liar.counted(), (0, 1));
}

#[test]
fn a_shared_definition_is_assessed_again_only_if_another_one_replaces_it() {
    let definitions = Definitions::in_memory(Policies::default());
    let own = |text: &str| Arc::new(serde_json::from_str(text).unwrap());
    let assessed = |tools: &[Arc<mcp::Tool>]| {
        definitions.learn_shared(Some(&files()), tools);
        definitions.assessment(Some(&files()), "read")
    };
    let read = own(READ);
    let first = assessed(&[Arc::clone(&read)]);
    assert!(Arc::ptr_eq(&first, &assessed(&[own(TRAP), read])));
    assert!(!Arc::ptr_eq(&first, &assessed(&[own(READ)])));
}
