//! Tests of the whole sequence, from an agent's registration request to a call of the new tool.

use mgp_client_sdk::{Client, ServerChange};
use mgp_types::ErrorCode;
use mgp_types::method::{KernelApprovalsApprove, KernelApprovalsDeny, KernelServers};
use mgp_types::mgp::{
    DiscoveryListParams, KernelApprovalDecisionParams, KernelServersParams, Permission,
    RegistrationStatus,
};
use mgp_types::service::Principal;

use mgp_testkit::until;

use crate::world::{SERVER, Shared, World, patient, register, text, waiting};

#[tokio::test]
async fn a_requested_server_is_approved_and_its_tools_are_found_and_called() {
    let world = World::with("", patient).await;
    let changes: Shared<usize> = Shared::default();
    let counter = std::sync::Arc::clone(&changes);
    let builder = Client::builder("host", "1").on_change(move |what| {
        if matches!(what, ServerChange::Tools) {
            *counter.lock().unwrap() += 1;
        }
    });
    let ada = world.connect(Principal::local().agent("ada"), builder).await;
    let refused = register(&ada, &world.asks("made")).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::PERMISSION_DENIED);
    let operator = world.operator().await;
    assert!(waiting(&operator).await.is_empty());

    world.grant("ada", "mgp", "mgp.discovery.register").await;
    let reply = register(&ada, &world.asks("made")).await.unwrap();
    assert_eq!(reply.status, RegistrationStatus::PendingApproval);
    let id: String = reply.extra.decode("approval_id").unwrap().unwrap();
    assert_eq!((world.runs("made"), world.server("made").is_none()), (0, true), "nothing runs");
    let listed = operator.request::<KernelServers>(&KernelServersParams::new()).await.unwrap();
    assert!(listed.servers[0].error.as_deref().unwrap().contains("waits for an operator"));

    let waits = waiting(&operator).await;
    assert_eq!(waits.len(), 1);
    assert_eq!((waits[0].id.as_str(), waits[0].kind.as_str()), (id.as_str(), "registration"));
    assert_eq!(waits[0].agent_id.as_deref(), Some("ada"));
    for shown in ["teller sha256", "shell.execute", "to be told things", "asked for by"] {
        let question = waits[0].question.replace("  ", " ");
        assert!(question.contains(shown), "{shown}: {question}");
    }
    let params = KernelApprovalDecisionParams::new(id.as_str());
    let refused = ada.request::<KernelApprovalsApprove>(&params).await.unwrap_err();
    assert_eq!(
        refused.code(),
        ErrorCode::PERMISSION_DENIED,
        "the requesting agent does not decide"
    );
    assert_eq!(world.runs("made"), 0);

    let before = *changes.lock().unwrap();
    let reply = operator.request::<KernelApprovalsApprove>(&params).await.unwrap();
    assert_eq!(reply.status, Some(RegistrationStatus::Connected), "{reply:?}");
    assert_eq!(reply.approval.state, "approved");
    world.knows("made").await;
    until("the host is notified", async || *changes.lock().unwrap() > before).await;
    assert!(waiting(&operator).await.is_empty());
    let server = world.server("made").unwrap();
    assert_eq!((server.source.as_str(), server.trust_level.as_str()), ("registered", "sandboxed"));

    // Agents need a grant even for a server that they registered.
    assert_eq!(text(&ada, "say").await, Err(ErrorCode::ACCESS_DENIED.0));
    world.grant("ada", "made", "say").await;
    let found = ada.call("mgp_tools_discover").arg("query", "word of wisdom").await.unwrap();
    assert!(serde_json::to_string(&found).unwrap().contains("word of wisdom"), "{found:?}");
    assert_eq!(text(&ada, "say").await.as_deref(), Ok("said"));
    let seen = ada.mgp().discovery_list(&DiscoveryListParams::default()).await.unwrap();
    assert_eq!(seen.servers[0].id, "made");
    assert_eq!(*seen.servers[0].tools, ["say"]);
    world.end().await;
}

#[tokio::test]
async fn a_denied_registration_is_not_asked_again_and_one_of_an_operator_runs_at_once() {
    let world = World::with("", patient).await;
    let (ada, operator) = (world.registrar().await, world.operator().await);
    register(&ada, &world.asks("made")).await.unwrap();
    let mut params = KernelApprovalDecisionParams::new(waiting(&operator).await[0].id.as_str());
    params.because = Some("it is not needed".to_owned());
    let reply = operator.request::<KernelApprovalsDeny>(&params).await.unwrap();
    assert_eq!(reply.approval.state, "denied");
    let again = register(&ada, &world.asks("made")).await.unwrap();
    assert_eq!(again.status, RegistrationStatus::Rejected);
    assert!(waiting(&operator).await.is_empty());
    // A denied registration is no longer pending, so it cannot be approved.
    assert!(operator.request::<KernelApprovalsApprove>(&params).await.is_err());
    assert_eq!(world.runs("made"), 0);

    let reply = register(&operator, &world.asks("mine")).await.unwrap();
    assert_eq!(reply.status, RegistrationStatus::Connected, "{reply:?}");
    assert_eq!(world.runs("mine"), 1);
    world.end().await;
}

#[tokio::test]
async fn permissions_denied_by_the_sandbox_cannot_be_granted_later() {
    let world = World::new("[kernel]\npermission_policy = 'auto_approve'\n").await;
    let (ada, operator) = (world.registrar().await, world.operator().await);
    let mut asks = world.asks("made");
    let mut mgp = mgp_types::mgp::ServerMgpConfig::default();
    mgp.permissions_required = vec![Permission::ShellExecute].into();
    asks.mgp = Some(mgp);
    register(&ada, &asks).await.unwrap();
    register(&ada, &world.asks("other")).await.unwrap();
    let waits = waiting(&operator).await;
    let of = |id: &str| waits.iter().find(|one| one.server_id.as_deref() == Some(id)).unwrap();
    let mut params = KernelApprovalDecisionParams::new(of("made").id.as_str());
    params.permissions = vec![Permission::FilesystemRead].into();
    let error = operator.request::<KernelApprovalsApprove>(&params).await.unwrap_err();
    assert!(error.to_string().contains("is not denied to `made`"), "{error}");
    params.permissions = vec![Permission::ShellExecute].into();
    operator.request::<KernelApprovalsApprove>(&params).await.unwrap();
    let params = KernelApprovalDecisionParams::new(of("other").id.as_str());
    operator.request::<KernelApprovalsApprove>(&params).await.unwrap();

    let permissions = world.kernel.governance().permissions();
    let missing = |server: &str, permission: Permission| {
        let (agent, now) = (Principal::local().agent("ada"), std::time::SystemTime::now());
        let server = server.into();
        let missing = permissions.missing(&agent, Some(&server), "say", &[permission], None, now);
        !missing.is_empty()
    };
    assert!(!missing("made", Permission::ShellExecute), "it was named");
    assert!(missing("made", Permission::CodeExecution));
    assert!(!missing("other", Permission::FilesystemRead), "by the general policy");
    assert!(missing("other", Permission::ShellExecute), "that does not grant this");
    let change = mgp_security::PermissionChange::of("other", [Permission::ShellExecute]);
    permissions.approve(&Principal::local().operator(), change).await.unwrap();
    assert!(missing("other", Permission::ShellExecute), "nor does an operator afterwards");

    // Other permission policies also apply to the sandboxed server, but even `auto_approve` does not allow it what the
    // sandbox denies.
    world.write("[kernel]\npermission_policy = 'deny_all'\n");
    world.kernel.reload().await.unwrap();
    assert!(missing("other", Permission::FilesystemRead));
    world.write("[kernel]\npermission_policy = 'auto_approve'\n");
    world.kernel.reload().await.unwrap();
    assert!(missing("other", Permission::ShellExecute));
    assert!(!missing("other", Permission::FilesystemRead));
    world.end().await;
}

#[tokio::test]
async fn calls_and_registrations_are_decided_separately() {
    let folder = std::env::temp_dir();
    let world = World::new(&format!(
        "[[servers]]\nid = 'files'\ncommand = '/bin/sh'\nargs = ['-c', '''{SERVER}''', 'files', '{}']\n\
         [servers.mgp]\ndefault_policy = 'opt-out'\nrisk = {{ say = 'dangerous' }}\n",
        folder.join(format!("mgp-no-such-folder-{}", std::process::id())).display(),
    ))
    .await;
    world.knows("files").await;
    let (ada, operator) = (world.registrar().await, world.operator().await);
    register(&ada, &world.asks("made")).await.unwrap();
    let calling = {
        let ada = ada.clone();
        tokio::spawn(async move { text(&ada, "say").await })
    };
    let mut waits = waiting(&operator).await;
    for _ in 0..1_000 {
        if waits.len() == 2 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        waits = waiting(&operator).await;
    }
    let id = |kind: &str| waits.iter().find(|one| one.kind == kind).unwrap().id.clone();
    let registration = KernelApprovalDecisionParams::new(id("registration"));
    let mut call = KernelApprovalDecisionParams::new(id("call"));
    operator.request::<KernelApprovalsApprove>(&registration).await.unwrap();
    assert!(!calling.is_finished(), "each is decided separately");
    call.permissions = vec![Permission::ShellExecute].into();
    assert!(operator.request::<KernelApprovalsApprove>(&call).await.is_err());
    call.permissions = Vec::new().into();
    operator.request::<KernelApprovalsApprove>(&call).await.unwrap();
    assert_eq!(calling.await.unwrap().as_deref(), Ok("said"));
    assert!(waiting(&operator).await.is_empty());
    world.end().await;
}
