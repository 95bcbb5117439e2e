//! Skills of a server (`io.modelcontextprotocol/skills`, SEP-2640).

use std::collections::HashSet;

use mgp_types::mcp::{GetSkillParams, ReadDirectoryParams, ReadDirectoryResult, Resource, Skill};
use mgp_types::method::{Request as _, ResourcesDirectoryRead, SkillsGet};
#[cfg(feature = "skills")]
use mgp_types::{RpcError, Sha256Hash, mcp::SkillResources};

use super::Client;
use super::lists::{endless, repeated_cursor};
use crate::error::Error;
use crate::wire::{MAX_LIST_BYTES, page_bytes};

impl Client {
    /// Requests one skill by the URI of its `SKILL.md`; the skill need not be in the server's list.
    ///
    /// # Errors
    /// See [`Client::request`]; also code −32602 (invalid params) if the server has no such skill.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request at the server.
    pub async fn get_skill(&self, uri: impl Into<String>) -> Result<Skill, Error> {
        Ok(self.request::<SkillsGet>(&GetSkillParams::new(uri)).await?.skill)
    }

    /// Requests the files and directories in a directory, page by page. The URI of the directory must not end with `/`.
    ///
    /// # Errors
    /// See [`Client::request`]; also code −32602 (invalid params) if the server has no such directory, and
    /// −32603 (internal error) if the pages do not end: a cursor is repeated, or they are too many or too long.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request at the server.
    pub async fn read_directory(&self, uri: impl Into<String>) -> Result<Vec<Resource>, Error> {
        let mut params = ReadDirectoryParams::new(uri);
        let (mut found, mut seen, mut bytes) = (Vec::new(), HashSet::new(), 0);
        for _ in 0..self.0.max_pages {
            let reply = self.request_reply::<ResourcesDirectoryRead>(&params).await?;
            bytes += page_bytes(&reply);
            let page = reply.get::<ReadDirectoryResult>()?;
            found.extend(page.resources);
            let Some(next) = page.next_cursor else { return Ok(found) };
            if !seen.insert(next.clone()) {
                return Err(repeated_cursor(ResourcesDirectoryRead::METHOD, &next));
            }
            if bytes > MAX_LIST_BYTES {
                break;
            }
            params.cursor = Some(next);
        }
        Err(endless(ResourcesDirectoryRead::METHOD, "the pages are too many or too long"))
    }

    /// Reads a file of a skill, and checks it against `skill`: the size and hash, if `skill` lists the files, and the
    /// frontmatter of `SKILL.md`.
    ///
    /// The hash shows that `skill` lists this file, not that either can be trusted: both are from the server.
    ///
    /// # Errors
    /// See [`Client::request`]; also code −32603 (internal error) if `skill` lists files but does not list this file,
    /// if the server does not return the file, or if the file differs from its entry. In the last case, request the
    /// skill again, because it may have changed.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the request at the server.
    #[cfg(feature = "skills")]
    pub async fn read_skill_file(&self, skill: &Skill, uri: &str) -> Result<Vec<u8>, Error> {
        let refuse = |why: &str| Error::from(RpcError::internal(format!("`{uri}` {why}")));
        let listed = match &skill.resources {
            SkillResources::Files(files) => {
                let file = files.iter().find(|file| file.uri == uri);
                Some(file.ok_or_else(|| refuse("is not a file of the skill"))?)
            }
            _ => None,
        };
        let read = self.read_resource(uri).await?;
        let contents = read.contents.into_iter().find(|contents| contents.uri == uri);
        let contents = contents.ok_or_else(|| refuse("was not returned"))?;
        let bytes = match (contents.text, contents.blob) {
            (Some(text), _) => text.into_bytes(),
            (None, Some(blob)) => decode(&blob).ok_or_else(|| refuse("is not Base64"))?,
            (None, None) => return Err(refuse("has no contents")),
        };
        if let Some(file) = listed {
            let digest = format!("sha256:{}", Sha256Hash::digest(&bytes));
            if file.size != bytes.len() as u64 || file.digest != digest {
                return Err(refuse("differs from the skill's entry; request the skill again"));
            }
        }
        if uri == skill.uri && !has_frontmatter(skill, &bytes) {
            return Err(refuse("has another frontmatter than the skill's entry"));
        }
        Ok(bytes)
    }
}

#[cfg(feature = "skills")]
fn decode(blob: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(blob).ok()
}

/// Returns whether a `SKILL.md` has the frontmatter that the server has listed for the skill.
#[cfg(feature = "skills")]
fn has_frontmatter(skill: &Skill, file: &[u8]) -> bool {
    let found = std::str::from_utf8(file).ok().and_then(|text| mgp_types::frontmatter(text).ok());
    found.is_some_and(|found| {
        skill.frontmatter.get::<serde_json::Map<_, _>>().is_ok_and(|entry| entry == found)
    })
}
