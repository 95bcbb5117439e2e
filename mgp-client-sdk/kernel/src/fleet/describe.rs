//! Describes servers for operators, with the reason why tools of a server are missing.

use std::collections::HashMap;

use mgp_discovery::{Origin, ServerConfig, TargetConfig, describe_target};
use mgp_security::NameFlaw;
use mgp_toolindex::IndexedTool;
use mgp_transport::Confinement;
use mgp_types::mgp::{KernelServer, ServerState};
use mgp_types::service::ServerId;

use super::managed_server::ManagedServer;
use super::refresh_queue::ListGroup;
use super::servers::Fleet;

/// The maximum length, in bytes, of a shown command line or URL.
const MAX_REACH_BYTES: usize = 400;

/// Describes all servers, ordered by id.
pub(crate) fn describe_all(fleet: &Fleet) -> Vec<KernelServer> {
    // Count the waiting definitions only once for all servers, because there may be hundreds of servers.
    let mut waiting = HashMap::new();
    for one in fleet.context().governance.definitions().waiting().unwrap_or_default() {
        *waiting.entry(one.server).or_insert(0) += 1;
    }
    let all = fleet.all();
    let described = all.values().map(|server| {
        let mut described = describe(fleet, server);
        let others = [ListGroup::Resources, ListGroup::Prompts];
        described.lacks = lack_of_tools(fleet, server, &described, &waiting)
            .or_else(|| list_error(server, &described, &others));
        described
    });
    described.collect()
}

fn describe(fleet: &Fleet, server: &ManagedServer) -> KernelServer {
    let (context, config) = (fleet.context(), server.config());
    let policy = context.governance.policies().get(Some(server.id()));
    let tools = context.index.tools_of(server.id().as_str());
    let mut described = KernelServer::new(
        server.id().as_str(),
        server.state(),
        reach(&config),
        policy.trust.clone(),
        server.restarts(),
        match config.origin {
            _ if server.approved().is_some() => "registered".to_owned(),
            _ if matches!(config.target, TargetConfig::InProcess) => {
                "within this process".to_owned()
            }
            Origin::Project | Origin::User | Origin::Named => config.file.display().to_string(),
            _ => "registered".to_owned(),
        },
    );
    // Where the system cannot confine it, a configured server does not start, but a registered one does.
    let is_confined = server.approved().is_none() || Confinement::is_available();
    let confine = config.confine.as_ref().filter(|_| is_confined);
    described.confinement = confine.map(ToString::to_string);
    let local: Vec<_> = policy.local_hosts.iter().map(ToString::to_string).collect();
    described.local_hosts = (!local.is_empty()).then(|| local.join(", "));
    described.instances = server.own_instances();
    described.tools = tools.len() as u64;
    described.tokens = tools.iter().map(IndexedTool::tokens).map(u64::from).sum::<u64>();
    (described.since, described.error) = server.log().state(server.latest_kind());
    if server.log().missing_login(None).is_some() {
        described.status = ServerState::Error;
    } else if let Some(doubt) = server.doubt() {
        described.error = Some(doubt);
    }
    if described.error.is_none() {
        described.last_failure = server.log().failure().map(|reason| reason.to_string());
    }
    if let Ok(client) = server.latest().client() {
        let facts = client.server();
        described.era = Some(server.eras().join("+"));
        described.protocol_version = Some(facts.revision.to_string());
        described.mgp_version.clone_from(&facts.mgp_version);
        described.pid = client.pid();
        if let Some(info) = client.server_info() {
            (described.name, described.version) = (Some(info.name), Some(info.version));
        }
    }
    described
}

/// Returns the configured command line or URL of a server, with variables unexpanded and secrets removed.
fn reach(server: &ServerConfig) -> String {
    let mut text = describe_target(server);
    if text.len() > MAX_REACH_BYTES {
        text.truncate(text.floor_char_boundary(MAX_REACH_BYTES));
        text.push('…');
    }
    text
}

/// Returns the reason why tools of a server are missing, or why its manifest is not used, in one short sentence.
fn lack_of_tools(
    fleet: &Fleet,
    server: &ManagedServer,
    described: &KernelServer,
    waiting: &HashMap<ServerId, usize>,
) -> Option<String> {
    // Check this first: while the list of tools cannot be read, the known definitions may be out of date.
    if let Some(error) = list_error(server, described, &[ListGroup::Tools]) {
        return Some(error);
    }
    if let Some(&waiting) = waiting.get(server.id()) {
        let id = server.id();
        let wait = if waiting == 1 { "definition waits" } else { "definitions wait" };
        return Some(format!(
            "{waiting} {wait} for an operator; see `mgp tools ls {id} --waiting`"
        ));
    }
    let definitions = fleet.context().governance.definitions();
    if definitions.is_full(server.id()) {
        let id = server.id();
        return Some(format!(
            "its new tools cannot be used, because it has listed more than 10,000 different ones in all, or 16 MiB at once; if those that it has now are fewer, run `mgp servers rm {id}`, and add it again"
        ));
    }
    let unlocked = definitions.unlocked_tools(server.id()).len();
    let unusable = definitions.refused(server.id()).saturating_sub(unlocked);
    if unusable > 0 {
        // If the id of the server is invalid, name it as the reason, because the kernel then refuses all its
        // definitions.
        return Some(flaw_of_id(fleet, server).unwrap_or_else(|| {
            let one = unusable == 1;
            let (definitions, them) = if one { ("definition", "it") } else { ("definitions", "them") };
            let id = server.id();
            format!(
                "{unusable} {definitions} cannot be used, as `mgp audit query --server {id} --type definition_flagged` explains; its author must fix {them}"
            )
        }));
    }
    if unlocked > 0 {
        let id = server.id();
        let differ = if unlocked == 1 { "definition differs" } else { "definitions differ" };
        return Some(format!(
            "{unlocked} {differ} from mgp.lock; check with `mgp tools ls {id}`, then run `mgp lock {id}`"
        ));
    }
    if described.tools == 0 {
        return Some(lack_of_all_tools(fleet, server, described));
    }
    let error = server.log().manifest_error()?;
    Some(format!(
        "its manifest is not used: {error}; correct `manifest`, or the file, which a kernel reads when it starts"
    ))
}

/// Returns the error of the first of these lists that could not be read from a connected server.
fn list_error(
    server: &ManagedServer,
    described: &KernelServer,
    groups: &[ListGroup],
) -> Option<String> {
    if described.status != ServerState::Connected {
        return None;
    }
    let error = groups.iter().find_map(|group| server.refresh_queue().error(*group))?;
    // `mgp doctor` shows the text after the last semicolon as the remedy. So the server's own text, which may contain
    // semicolons, must not be last.
    let id = server.id();
    Some(format!("{error}; see `mgp servers logs {id}`"))
}

/// Returns the reason why the id of a server cannot be used, or `None` if it can.
///
/// This check compares the id with the ids of all other servers. So it runs only for servers whose tools are missing.
fn flaw_of_id(fleet: &Fleet, server: &ManagedServer) -> Option<String> {
    let id = server.id();
    Some(match fleet.context().governance.definitions().flaw(id)? {
        NameFlaw::LooksLike { like, .. } if fleet.get(&like).is_none() => format!(
            "its id looks like `{like}`, which is not in use; give it another, or if `{like}` is no longer needed, run `mgp servers rm {like}`, then `mgp servers restart {id}`"
        ),
        NameFlaw::LooksLike { like, .. } => {
            format!("its id looks like `{like}`; give it another")
        }
        NameFlaw::Reserved(_) => "its id is reserved; give it another".to_owned(),
        flaw => format!("its id cannot be used: {flaw}"),
    })
}

fn lack_of_all_tools(fleet: &Fleet, server: &ManagedServer, described: &KernelServer) -> String {
    let is_known = fleet.is_known(server);
    match &described.status {
        ServerState::Error | ServerState::Restarting => match server.config().target {
            TargetConfig::Url { .. } => "it cannot be reached".to_owned(),
            _ => "it does not start".to_owned(),
        },
        ServerState::Connected | ServerState::Registered | ServerState::Disconnected
            if let Some(flaw) = flaw_of_id(fleet, server) =>
        {
            flaw
        }
        _ if is_known => "it lists no tools".to_owned(),
        _ if server.waits_for_first_start() => "its tools will be read soon".to_owned(),
        ServerState::Connected if server.has_unknown_lists() => {
            "its tools are being read".to_owned()
        }
        ServerState::Connected => {
            "its tools are not known yet; if that does not change, run `mgp doctor`".to_owned()
        }
        ServerState::Registered | ServerState::Disconnected => {
            let id = server.id();
            format!("it does not run, and its tools are not known; run `mgp servers start {id}`")
        }
        state => format!("it is {}", state.as_str()),
    }
}
