//! Skills: instructions for models, with the files that belong to them (`io.modelcontextprotocol/skills`, SEP-2640).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgp_types::mcp::{
    self, CacheScope, GetSkillResult, ListSkillsResult, ReadDirectoryResult, ResultType,
    SkillResource, SkillResources,
};
use mgp_types::method::{ResourcesDirectoryRead, SkillsGet, SkillsList};
use mgp_types::service::Router;
use mgp_types::{FrontmatterError, RawObject, RpcError, Sha256Hash, frontmatter};

use crate::catalog::bad_cursor;
use crate::resource::{Resource, Resources};
use crate::server::Server;

/// The maximum number of files in a skill; hosts need not accept more.
const MAX_FILES: usize = 512;
/// The maximum total size of a skill's files, in bytes; hosts need not accept more.
const MAX_BYTES: u64 = 16 << 20;

/// The maximum number of characters of a skill's name.
const MAX_NAME: usize = 64;

const PAGE_SKILLS: usize = 100;

/// The time for which a client may cache the entry of a skill, in milliseconds; skills do not change while the server
/// runs.
const TTL_MS: u64 = 60_000;

/// The media type of directories.
const DIRECTORY: &str = "inode/directory";

/// A skill and its files; [`Server::skill`] makes a server serve them.
///
/// ```no_run
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::Skill;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let refunds = Skill::folder("skills/refunds")?.prefix("billing");
/// let server = Server::new("shop", "1.0").skill(refunds);
/// # drop(server);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Skill {
    name: String,
    description: String,
    frontmatter: RawObject,
    prefix: String,
    /// The contents of the files, by path within the skill, with `/` between folders.
    files: BTreeMap<String, Vec<u8>>,
}

/// The reason why a folder is not a skill.
#[derive(Debug, thiserror::Error)]
#[error("the skill `{}` {why}", .folder.display())]
pub struct SkillError {
    folder: PathBuf,
    #[source]
    why: SkillFault,
}

#[derive(Debug, thiserror::Error)]
enum SkillFault {
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("has no text file `SKILL.md`")]
    NoFile,
    #[error("is not valid: {0}")]
    Frontmatter(#[from] FrontmatterError),
    #[error(
        "needs the texts `name` and `description` in its frontmatter; `name` is that of the folder: 1 to 64 of the characters a-z 0-9 -"
    )]
    Name,
    #[error("has more than 512 files, or more than 16 MiB, which hosts need not accept")]
    TooLarge,
}

impl Skill {
    /// Reads a skill from its folder, which must contain `SKILL.md`. Links are not followed, and files whose names
    /// begin with `.` are left out.
    ///
    /// # Errors
    /// Returns the reason why the folder is not a skill in the format of Agent Skills.
    pub fn folder(folder: impl AsRef<Path>) -> Result<Self, SkillError> {
        let folder = folder.as_ref();
        Self::read(folder).map_err(|why| SkillError { folder: folder.to_owned(), why })
    }

    fn read(folder: &Path) -> Result<Self, SkillFault> {
        let mut files = BTreeMap::new();
        collect(folder, "", &mut 0, &mut files)?;
        let text = files.get(mcp::Skill::FILE).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let frontmatter = frontmatter(text.ok_or(SkillFault::NoFile)?)?;
        let text = |member: &str| frontmatter.get(member)?.as_str().map(str::to_owned);
        let (name, description) = text("name").zip(text("description")).ok_or(SkillFault::Name)?;
        let own = fs::canonicalize(folder)?;
        let is_own = own.file_name().is_some_and(|folder| *folder == *name);
        if !is_own || !is_name(&name) || description.is_empty() {
            return Err(SkillFault::Name);
        }
        let frontmatter = RawObject::of(&frontmatter).map_err(|_| SkillFault::Name)?;
        Ok(Self { name, description, frontmatter, prefix: String::new(), files })
    }

    /// Sets the path that precedes the skill's name in its URIs, e.g. `acme/billing`.
    pub fn prefix(mut self, path: &str) -> Self {
        path.trim_matches('/').clone_into(&mut self.prefix);
        self
    }

    /// Returns the URI of the skill's directory.
    fn root(&self) -> String {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        format!("skill://{}{slash}{}", self.prefix, self.name)
    }

    fn entry(&self) -> mcp::Skill {
        let root = self.root();
        let file = |(path, bytes): (&String, &Vec<u8>)| {
            let digest = format!("sha256:{}", Sha256Hash::digest(bytes));
            SkillResource::new(format!("{root}/{path}"), digest, bytes.len() as u64)
        };
        let files = SkillResources::Files(self.files.iter().map(file).collect());
        mcp::Skill::new(format!("{root}/{}", mcp::Skill::FILE), self.frontmatter.clone(), files)
    }

    /// Converts the files of the skill to resources.
    fn into_resources(self) -> impl Iterator<Item = Resource> {
        let root = self.root();
        let Self { name, description, files, .. } = self;
        files.into_iter().map(move |(path, bytes)| {
            let uri = format!("{root}/{path}");
            let file = path.rsplit('/').next().unwrap_or_default();
            match String::from_utf8(bytes) {
                Ok(text) if path == mcp::Skill::FILE => {
                    let file = Resource::text(uri, name.clone(), text);
                    file.mime("text/markdown").description(description.clone())
                }
                Ok(text) => Resource::text(uri, file, text).mime(media_type(file)),
                Err(bytes) => Resource::bytes(uri, file, bytes.into_bytes()),
            }
        })
    }
}

/// Reads all files below a folder into `files`, and adds their sizes to `size`.
fn collect(
    folder: &Path,
    path: &str,
    size: &mut u64,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> Result<(), SkillFault> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, "the name of a file is not UTF-8")
        })?;
        let (kind, within) = (entry.file_type()?, format!("{path}{name}"));
        if name.starts_with('.') {
            continue;
        }
        if kind.is_dir() {
            collect(&entry.path(), &format!("{within}/"), size, files)?;
        } else if kind.is_file() {
            *size += entry.metadata()?.len();
            if files.len() >= MAX_FILES || *size > MAX_BYTES {
                return Err(SkillFault::TooLarge);
            }
            files.insert(within, fs::read(entry.path())?);
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(is_plain)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "md" => "text/markdown",
        "json" => "application/json",
        "html" => "text/html",
        "py" => "text/x-python",
        _ => "text/plain",
    }
}

impl Server {
    /// Serves a skill: its files as resources, and its entry to clients of the skills extension.
    ///
    /// A second skill with the same URI makes [`Server::into_stack`] fail.
    pub fn skill(mut self, skill: Skill) -> Self {
        self.features.skills.push(skill.entry());
        skill.into_resources().fold(self, Self::resource)
    }
}

/// Returns the endpoints of the skills extension; `resources` are those of the server, with the files of the skills.
pub(crate) fn routes(skills: Vec<mcp::Skill>, resources: Resources) -> Router {
    let list = Arc::new(skills);
    let (get, read) = (Arc::clone(&list), Arc::clone(&list));
    Router::new()
        .on::<SkillsList, _, _>(move |_, params| {
            std::future::ready(page(&list, params.cursor.as_deref()))
        })
        .on::<SkillsGet, _, _>(move |_, params| {
            let found = get.iter().find(|skill| skill.uri == params.uri).cloned();
            std::future::ready(found.ok_or_else(|| unknown("skill", &params.uri)).map(|skill| {
                let mut result = GetSkillResult::new(skill);
                result.result_type = Some(ResultType::Complete);
                (result.ttl_ms, result.cache_scope) = (Some(TTL_MS), Some(CacheScope::Private));
                result
            }))
        })
        .on::<ResourcesDirectoryRead, _, _>(move |_, params| {
            let found = match params.cursor {
                Some(_) => Err(bad_cursor()),
                None => directory(&read, &resources, &params.uri),
            };
            std::future::ready(found)
        })
}

/// Returns a page of the list of skills; the cursor is the number of skills before the page.
fn page(skills: &[mcp::Skill], cursor: Option<&str>) -> Result<ListSkillsResult, RpcError> {
    let start: usize = cursor.map_or(Ok(0), str::parse).map_err(|_| bad_cursor())?;
    let rest = skills.get(start..).filter(|rest| cursor.is_none() || !rest.is_empty());
    let rest = rest.ok_or_else(bad_cursor)?;
    let mut result =
        ListSkillsResult::new(rest.iter().take(PAGE_SKILLS).cloned().collect::<Vec<_>>());
    result.result_type = Some(ResultType::Complete);
    result.next_cursor = (rest.len() > PAGE_SKILLS).then(|| (start + PAGE_SKILLS).to_string());
    (result.ttl_ms, result.cache_scope) = (Some(TTL_MS), Some(CacheScope::Private));
    Ok(result)
}

/// Returns the entries of a directory of a skill: the files and folders directly in it.
fn directory(
    skills: &[mcp::Skill],
    resources: &Resources,
    uri: &str,
) -> Result<ReadDirectoryResult, RpcError> {
    let files = skills.iter().filter_map(|skill| match &skill.resources {
        SkillResources::Files(files) => Some(files),
        _ => None,
    });
    let mut found = BTreeMap::new();
    for file in files.flatten() {
        let Some(path) = file.uri.strip_prefix(uri).and_then(|path| path.strip_prefix('/')) else {
            continue;
        };
        let (name, mime) = match path.split_once('/') {
            Some((name, _)) => (name, Some(DIRECTORY.to_owned())),
            None => (path, resources.media_type(&file.uri)),
        };
        found.entry(name).or_insert(mime);
    }
    if found.is_empty() {
        return Err(unknown("directory", uri));
    }
    let resources = found.into_iter().map(|(name, mime)| {
        let mut resource = mcp::Resource::new(format!("{uri}/{name}"), name);
        resource.mime_type = mime;
        resource
    });
    let mut result = ReadDirectoryResult::new(resources.collect::<Vec<_>>());
    result.result_type = Some(ResultType::Complete);
    Ok(result)
}

fn unknown(what: &str, uri: &str) -> RpcError {
    RpcError::invalid_params(format!("unknown {what} `{}`", mgp_types::clip(uri, 200)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_shows_each_file_with_the_media_type_of_its_resource() {
        let folder = mgp_testkit::temp_dir();
        let root = folder.path().join("tea");
        fs::create_dir(&root).unwrap();
        let text = "---\nname: tea\ndescription: Makes tea.\n---\nBoil water.\n";
        fs::write(root.join(mcp::Skill::FILE), text).unwrap();
        fs::write(root.join("kinds.csv"), "green").unwrap();
        fs::write(root.join("leaf.png"), [0x89, b'P', 0xff]).unwrap();
        let server = Server::new("s", "1").skill(Skill::folder(&root).unwrap());
        let listed = directory(&server.features.skills, &server.resources(), "skill://tea");
        let files = listed.unwrap().resources;
        let types: Vec<_> = files.iter().filter_map(|file| file.mime_type.as_deref()).collect();
        assert_eq!(types, ["text/markdown", "text/plain", "application/octet-stream"]);
    }
}
