//! The syntax of a host's file, and edits that preserve every other byte of the file.

use std::path::Path;

pub(super) use mgp_discovery::line_end;

use super::{edit_json, edit_toml, edit_yaml};

/// The syntax of a host's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Json,
    Toml,
    Yaml,
}

impl Syntax {
    pub(crate) fn of(file: &Path) -> Self {
        match file.extension().and_then(|end| end.to_str()) {
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::Json,
        }
    }

    /// Returns the members of the table at a path, with their values as JSON; empty if the table is missing.
    pub(crate) fn members(
        self,
        text: &str,
        path: &[String],
    ) -> Result<Vec<(String, String)>, String> {
        match self {
            Self::Json => edit_json::members(text, path),
            Self::Toml => edit_toml::members(text, path),
            Self::Yaml => edit_yaml::members(text, path),
        }
    }

    /// Sets a member of a table to a JSON value; creates the table if it is missing.
    pub(super) fn put(
        self,
        text: &str,
        table: &[String],
        name: &str,
        value: &str,
    ) -> Result<String, String> {
        match self {
            Self::Json => edit_json::put(text, table, name, value),
            Self::Toml => edit_toml::put(text, table, name, value),
            Self::Yaml => edit_yaml::put(text, table, name, value),
        }
    }

    /// Puts a removed member back; returns `None` if its table is missing.
    pub(super) fn insert(
        self,
        text: &str,
        path: &[String],
        name: &str,
        removed: &str,
    ) -> Result<Option<String>, String> {
        match self {
            Self::Json => edit_json::insert(text, path, name, removed),
            Self::Toml => edit_toml::insert(text, path, name, removed),
            Self::Yaml => edit_yaml::insert(text, path, name, removed),
        }
    }

    /// Removes a member. Returns the new text and the removed text; `None` if the member is missing.
    pub(super) fn remove(
        self,
        text: &str,
        path: &[String],
        name: &str,
    ) -> Result<Option<(String, String)>, String> {
        match self {
            Self::Json => edit_json::remove(text, path, name),
            Self::Toml => edit_toml::remove(text, path, name),
            Self::Yaml => edit_yaml::remove(text, path, name),
        }
    }
}
