//! Skills of the servers behind the kernel (`io.modelcontextprotocol/skills`, SEP-2640).
//!
//! A URI that several servers use gets the id of its server, in the skill and in all its files. So the relative
//! references in a skill lead to files of the same server.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use mgp_types::mcp::{
    GetSkillResult, ReadDirectoryResult, Resource, ResultType, Skill, SkillResources,
    SkillsCapability,
};
use mgp_types::method::{Request, ResourcesDirectoryRead, SkillsGet};
use mgp_types::service::{Call, Context, Reply, Router, ServerId, Stack, Target};
use mgp_types::{Payload, RpcError};

use super::dispatcher::Dispatcher;
use super::entry_lookup::{ambiguous, refreshed_servers};
use super::names::{Lookup, NameTable, qualify};
use super::resources::{self, with_cache_members};
use crate::fleet::{ListKind, ManagedServer, declared_skills};
use crate::server_answer::{expect_list, unreadable_result};

/// The media type that the kernel reports for directories of skills.
const DIRECTORY: &str = "inode/directory";

/// Returns the settings of the skills extension that the kernel declares to clients.
pub(crate) fn capability() -> Payload {
    Payload::from_trusted(r#"{"directoryRead":true}"#)
}

pub(super) fn router(dispatcher: &Dispatcher) -> Router {
    let (get, read) = (dispatcher.clone(), dispatcher.clone());
    Router::new()
        .route(SkillsGet::METHOD, Stack::from_fn(move |call| get_skill(get.clone(), call)))
        .route(
            ResourcesDirectoryRead::METHOD,
            Stack::from_fn(move |call| read_directory(read.clone(), call)),
        )
}

/// Puts the id of a server into the URIs of its skill.
pub(super) fn qualify_skill(skill: &mut Skill, server: &ServerId) {
    let name = |uri: &str| qualify(ListKind::Skills, server, uri);
    skill.uri = name(&skill.uri);
    if let SkillResources::Files(files) = &mut skill.resources {
        for file in files {
            file.uri = name(&file.uri);
        }
    }
}

/// Returns whether a URI is in the directory of a skill that a server lists.
pub(super) fn has_file(server: &ManagedServer, uri: &str) -> bool {
    let list = server.lists().list(ListKind::Skills);
    let mut directories = list.entries().iter().filter_map(|entry| Skill::directory_of(&entry.key));
    directories.any(|directory| uri.starts_with(directory))
}

fn settings(server: &ManagedServer) -> Option<SkillsCapability> {
    let capabilities = server.lists().capabilities()?;
    declared_skills(&capabilities)
}

fn requested_uri(call: &Call) -> Result<String, RpcError> {
    match call.params().target() {
        Some(Target::Resource(uri)) => Ok(uri.to_string()),
        _ => Err(RpcError::invalid_params("`uri` must be a string")),
    }
}

// === Single skills ===

async fn get_skill(dispatcher: Dispatcher, call: Call) -> Result<Reply, RpcError> {
    let uri = requested_uri(&call)?;
    let servers = refreshed_servers(&dispatcher, call.cx(), ListKind::Skills).await;
    match NameTable::new(ListKind::Skills, &servers).find(&uri) {
        Lookup::Unique(entry) => get_from(&entry.server, call, &uri, &entry.key).await,
        Lookup::Ambiguous(names) => Err(ambiguous(call.cx(), "skill", &uri, &names)),
        Lookup::Unknown => get_unlisted(&servers, call, &uri).await,
    }
}

/// Finds a skill that is in no list, by requesting it from every server that has skills.
async fn get_unlisted(
    servers: &[Arc<ManagedServer>],
    call: Call,
    uri: &str,
) -> Result<Reply, RpcError> {
    let skilled: Vec<_> = servers.iter().filter(|server| settings(server).is_some()).collect();
    let answers = skilled.iter().map(|server| get_from(server, call.clone(), uri, uri));
    let answers = join_all(answers).await;
    let mut found: Vec<_> = skilled
        .iter()
        .zip(answers)
        .filter_map(|(server, answer)| Some((server, answer.ok()?)))
        .collect();
    match found.len() {
        0 => Err(RpcError::invalid_params(format!(
            "unknown skill `{}`; use a URI from `skills/list`",
            mgp_types::clip(uri, 200)
        ))),
        1 => Ok(found.remove(0).1),
        _ => {
            let names = found.iter().map(|(server, _)| qualify(ListKind::Skills, server.id(), uri));
            Err(ambiguous(call.cx(), "skill", uri, &names.collect::<Vec<_>>()))
        }
    }
}

async fn get_from(
    server: &Arc<ManagedServer>,
    mut call: Call,
    uri: &str,
    key: &str,
) -> Result<Reply, RpcError> {
    let era = call.cx().caller.era;
    call.params_mut().set_target(Target::Resource(key.into()));
    let mut reply = server.send(call, true).await?;
    if matches!(reply, Reply::Complete(_)) {
        let result = reply.get::<GetSkillResult>();
        let mut result = result.map_err(|error| unreadable_result(SkillsGet::METHOD, &error))?;
        if key != uri {
            qualify_skill(&mut result.skill, server.id());
            reply = Reply::of(&result)?;
        }
    }
    Ok(with_cache_members(reply, era))
}

// === Directories ===

async fn read_directory(dispatcher: Dispatcher, mut call: Call) -> Result<Reply, RpcError> {
    let uri = requested_uri(&call)?;
    let servers = refreshed_servers(&dispatcher, call.cx(), ListKind::Skills).await;
    let mut holders = servers.iter().filter(|server| children(server, &uri).is_some());
    let (server, key, has_access) = match (holders.next(), holders.next()) {
        (Some(server), None) => (Arc::clone(server), uri.clone(), true),
        (Some(_), Some(_)) => {
            let holders = servers.iter().filter(|server| children(server, &uri).is_some());
            let names = holders.map(|server| qualify(ListKind::Skills, server.id(), &uri));
            return Err(ambiguous(call.cx(), "directory", &uri, &names.collect::<Vec<_>>()));
        }
        (None, _) => {
            let found = resources::find(&dispatcher, call.cx(), &uri).await?;
            (found.entry.server, found.entry.key, found.has_access)
        }
    };
    let reads = settings(&server).is_some_and(|settings| settings.directory_read == Some(true));
    let mut result = if reads || !has_access {
        call.params_mut().set_target(Target::Resource(key.as_str().into()));
        let reply = server.send(call, has_access).await?;
        let reply = expect_list(reply, ResourcesDirectoryRead::METHOD, &["resources"])?;
        if key == uri || !matches!(reply, Reply::Complete(_)) {
            return Ok(reply);
        }
        let result = reply.get::<ReadDirectoryResult>();
        result.map_err(|error| unreadable_result(ResourcesDirectoryRead::METHOD, &error))?
    } else {
        listed_directory(&server, call.cx(), &key, &uri)?
    };
    if key != uri {
        for resource in &mut result.resources {
            resource.uri = qualify(ListKind::Resources, server.id(), &resource.uri);
        }
    }
    Reply::of(&result)
}

/// Returns the contents of a directory, as far as the skills that the server lists reveal them. Used if a server cannot
/// read directories itself.
fn listed_directory(
    server: &ManagedServer,
    cx: &Context,
    key: &str,
    uri: &str,
) -> Result<ReadDirectoryResult, RpcError> {
    let children = children(server, key).ok_or_else(|| resources::unknown(cx, uri))?;
    let resources = children.into_iter().map(|(name, is_directory)| {
        let mut resource = Resource::new(format!("{key}/{name}"), name);
        resource.mime_type = is_directory.then(|| DIRECTORY.to_owned());
        resource
    });
    let mut result = ReadDirectoryResult::new(resources.collect::<Vec<_>>());
    result.result_type = Some(ResultType::Complete);
    Ok(result)
}

/// Returns the names of the files and folders in a directory, as far as the skills that a server lists reveal them. The
/// value of a name is `true` for a folder. Returns `None` if the directory contains no file.
fn children(server: &ManagedServer, directory: &str) -> Option<BTreeMap<String, bool>> {
    let list = server.lists().list(ListKind::Skills);
    let mut found = BTreeMap::new();
    for entry in list.entries() {
        // Skip a skill in another directory without parsing it.
        let root = Skill::directory_of(&entry.key).unwrap_or_default();
        let related =
            root.starts_with(directory) || directory.starts_with(root.trim_end_matches('/'));
        let Some(skill) = related.then(|| entry.text.get::<Skill>().ok()).flatten() else {
            continue;
        };
        let SkillResources::Files(files) = skill.resources else { continue };
        for file in files {
            let Some(rest) =
                file.uri.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'))
            else {
                continue;
            };
            let (name, is_directory) = match rest.split_once('/') {
                Some((name, _)) => (name, true),
                None => (rest, false),
            };
            found.insert(name.to_owned(), is_directory);
        }
    }
    (!found.is_empty()).then_some(found)
}
