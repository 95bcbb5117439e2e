//! Tests of decisions of several operators about the same definition.

use mgp_types::Sha256Hash;

use super::*;

/// Returns a test setup in which a changed definition of the tool `read` waits, and the fingerprint of that definition.
async fn waiting() -> (World, Sha256Hash) {
    let mut world = world();
    for tool in [READ, READ_MORE] {
        world.liar.lists(&[tool]);
        world.list().await;
    }
    let hash = world.held("read").fingerprint;
    (world, hash)
}

#[tokio::test]
async fn an_approval_of_a_waiting_definition_does_not_overturn_a_rejection() {
    let (world, hash) = waiting().await;
    let (files, definitions) = (files(), &world.definitions);
    definitions.reject(&operator(), &files, "read", &hash, None).await.unwrap();
    let late = definitions.approve_waiting(&operator(), &files, "read", &hash, None).await;
    let late = RpcError::from(late.unwrap_err());
    assert_eq!(late.code(), ErrorCode::INVALID_PARAMS);
    let expected = format!("is rejected already, by {}", operator().name());
    assert!(late.message().contains(&expected), "{late}");
    assert_eq!(definitions.rejected().unwrap().len(), 1);
    world.approve("read").await;
}

#[tokio::test]
async fn of_an_approval_and_a_rejection_at_the_same_moment_one_counts() {
    for is_approval_first in [true, false] {
        let (world, hash) = waiting().await;
        let (by, files, definitions) = (operator(), files(), &world.definitions);
        let approval = definitions.approve_waiting(&by, &files, "read", &hash, None);
        let rejection = definitions.reject(&by, &files, "read", &hash, None);
        let (approved, rejected) = if is_approval_first {
            tokio::join!(approval, rejection)
        } else {
            let (rejected, approved) = tokio::join!(rejection, approval);
            (approved, rejected)
        };
        assert_ne!(approved.is_ok(), rejected.is_ok(), "{approved:?} {rejected:?}");
        assert_eq!(definitions.rejected().unwrap().is_empty(), approved.is_ok());
    }
}
