//! Skills: the list, single entries and directories (extension `io.modelcontextprotocol/skills`, SEP-2640).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{CacheScope, Meta, Resource, ResultType};
use crate::Payload;
use crate::record::{RawObject, decode, record};

record! {
    /// A file of a skill.
    pub struct SkillResource {
        /// The URI of the file.
        req uri: String,
        /// The hash of the file's bytes: `sha256:` and 64 hexadecimal digits.
        req digest: String,
        /// The size of the file, in bytes.
        req size read whole: u64,
    }

    /// A skill: instructions for a model, and the files that belong to them.
    pub struct Skill {
        /// The URI of the skill's file `SKILL.md`.
        req uri: String,
        /// The frontmatter of the file `SKILL.md`, unchanged.
        req frontmatter: RawObject,
        /// All files of the skill.
        req resources: SkillResources,
    }

    /// Result of `skills/list`.
    pub struct ListSkillsResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The skills.
        req skills read nullable: Vec<Skill>,
        /// The cursor with which to request the next page; absent on the last page.
        opt next_cursor as "nextCursor" read cursor: Option<String>,
        /// The time for which the list stays fresh, in milliseconds.
        opt ttl_ms as "ttlMs" read whole: Option<u64>,
        /// The caches that are allowed to store the result.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `skills/get`.
    pub struct GetSkillParams {
        /// The URI of the skill's file `SKILL.md`.
        req uri: String,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `skills/get`.
    pub struct GetSkillResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The skill.
        req skill: Skill,
        /// The time for which the entry stays fresh, in milliseconds.
        opt ttl_ms as "ttlMs" read whole: Option<u64>,
        /// The caches that are allowed to store the result.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `resources/directory/read`.
    pub struct ReadDirectoryParams {
        /// The URI of the directory, without a slash at its end.
        req uri: String,
        /// The `nextCursor` of the previous page; absent for the first page.
        opt cursor: Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `resources/directory/read`.
    pub struct ReadDirectoryResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The files and directories in the directory; directories have the media type `inode/directory`.
        req resources read nullable: Vec<Resource>,
        /// The cursor with which to request the next page; absent on the last page.
        opt next_cursor as "nextCursor" read cursor: Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// The settings of the skills extension that a server declares.
    pub struct SkillsCapability {
        /// `true` if the server answers `resources/directory/read`.
        opt directory_read as "directoryRead": Option<bool>,
    }
}

impl Skill {
    /// The name of the file that contains the instructions of a skill.
    pub const FILE: &'static str = "SKILL.md";

    /// Returns the URI of the skill's directory, with a slash at its end; `None` if the URI is not that of a
    /// `SKILL.md`.
    #[must_use]
    pub fn directory_of(uri: &str) -> Option<&str> {
        uri.strip_suffix(Self::FILE).filter(|directory| directory.ends_with('/'))
    }
}

/// The files of a skill.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SkillResources {
    /// The files of the skill, including `SKILL.md`, each with its hash.
    Files(Vec<SkillResource>),
    /// The files are generated on request, so their hashes are not known in advance.
    Dynamic,
}

const DYNAMIC: &str = "dynamic";

impl Serialize for SkillResources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Files(files) => files.serialize(serializer),
            Self::Dynamic => serializer.serialize_str(DYNAMIC),
        }
    }
}

impl<'de> Deserialize<'de> for SkillResources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Payload::deserialize(deserializer)?;
        if raw.as_str().trim_start().starts_with('[') {
            return decode(&raw).map(Self::Files);
        }
        match decode::<String, D::Error>(&raw)?.as_str() {
            DYNAMIC => Ok(Self::Dynamic),
            _ => Err(de::Error::custom("resources: expected a list or `dynamic`")),
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for SkillResources {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SkillResources".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [generator.subschema_for::<Vec<SkillResource>>(), { "const": DYNAMIC }],
        })
    }
}
