//! Finds the configuration files, and merges them (MGP §15.2).

use std::path::{Path, PathBuf};

use mgp_types::mgp::TrustLevel;

use super::checked_file::exposed_folder;
use super::config_folders::{USER_FOLDER, UserFolders, real};
use super::review::ineffective_tables;
use super::{Origin, ProjectReview, Trust, TrustApproval, text_of};
use crate::change::stamp::{Stamp, stamp};
use crate::config::{Config, ConfigFinding, FindingSeverity, ParsedConfig};
use crate::error::DiscoveryError;

const PROJECT_FILE: &str = "mgp.toml";
const USER_FILE: &str = "servers.toml";
const VARIABLE: &str = "MGP_CONFIG_PATH";

/// The paths of the configuration files: `./mgp.toml` and `~/.config/mgp/servers.toml`, or a single file that replaces
/// both. The folder in `$XDG_CONFIG_HOME` replaces `~/.config`, unless `~/.config` has a folder `mgp`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sources {
    project: Option<PathBuf>,
    user: Option<PathBuf>,
    /// The single file that replaces the project's file and the user's own file.
    single: Option<PathBuf>,
}

/// The merged configuration of all files.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LoadedConfig {
    /// The merged configuration.
    pub config: Config,
    /// The findings of all files.
    pub findings: Vec<ConfigFinding>,
    /// The servers disabled by an error in their entry.
    pub broken: Vec<String>,
    /// The servers that are switched off by `enabled = false`.
    pub disabled: Vec<String>,
    /// The project's file, if it is ignored because it is not approved.
    pub unapproved: Option<UnapprovedProject>,
    /// The stamps of the files just before they were read.
    pub(crate) stamps: Vec<Stamp>,
}

/// A project's file whose current content is not approved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{file}` is not approved in its current form, and has no effect; read it, then run `mgp trust`"
)]
#[non_exhaustive]
pub struct UnapprovedProject {
    /// The real path of the file.
    pub file: PathBuf,
}

impl Sources {
    /// Creates sources with the files in a working directory and a home directory.
    pub fn new(folder: impl AsRef<Path>, home: impl AsRef<Path>) -> Self {
        let project = Some(folder.as_ref().join(PROJECT_FILE));
        let user = Some(home.as_ref().join(".config").join(USER_FOLDER).join(USER_FILE));
        Self { project, user, single: None }
    }

    /// Creates sources with a single file that the user named; a relative path is relative to the current directory.
    pub fn single(file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        let file = std::path::absolute(&file).unwrap_or(file);
        Self { project: None, user: None, single: Some(file) }
    }

    /// Creates sources with the files that another process uses, in the order of [`files`](Self::files): the project's
    /// file, then the user's own. If there is only one file, it is treated as a file that the user
    /// [named](Self::single).
    pub fn from_files(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut files = files.into_iter();
        match (files.next(), files.next()) {
            (Some(single), None) => Self::single(single),
            (project, user) => Self { project, user, single: None },
        }
    }

    /// Creates the sources of this process: the file in `$MGP_CONFIG_PATH`, else the files in the working directory and
    /// the home directory.
    #[must_use]
    pub fn from_env() -> Self {
        // An empty variable counts as unset, as in shells.
        if let Some(file) = std::env::var_os(VARIABLE).filter(|file| !file.is_empty()) {
            return Self::single(file);
        }
        let project = std::env::current_dir().ok().map(|folder| folder.join(PROJECT_FILE));
        let user =
            UserFolders::from_env().used().map(|folder| folder.join(USER_FOLDER).join(USER_FILE));
        Self { project, user, single: None }
    }

    /// Returns the folder in `$XDG_CONFIG_HOME`, if the user's own file belongs in it and not in `~/.config`.
    #[must_use]
    pub fn config_home() -> Option<PathBuf> {
        let folders = UserFolders::from_env();
        folders.moved.clone().filter(|moved| folders.used() == Some(moved))
    }

    /// Returns the folder `mgp` in `$XDG_CONFIG_HOME` if it exists, but the folder `mgp` in `~/.config` is used
    /// instead.
    #[must_use]
    pub fn unused_folder() -> Option<PathBuf> {
        UserFolders::from_env().unused()
    }

    /// Returns the path of the user's own file, whether or not it exists: the file that the user named, or else the file
    /// in the home directory.
    #[must_use]
    pub fn own_file(&self) -> Option<&Path> {
        self.single.as_ref().or(self.user.as_ref()).map(PathBuf::as_path)
    }

    /// Returns the paths of the files, whether or not they exist.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.single, &self.project, &self.user].into_iter().flatten().map(PathBuf::as_path)
    }

    /// Reads the files and merges them. Access to the files blocks the thread; only the store is awaited.
    ///
    /// A project's file that is not approved is not even parsed.
    ///
    /// # Errors
    /// [`DiscoveryError`] if a file of the user cannot be used, or the approvals cannot be read. An unusable file of a
    /// project is reported in the findings.
    pub async fn load(&self, trust: &Trust) -> Result<LoadedConfig, DiscoveryError> {
        let stamps = self.files().map(stamp).collect();
        let mut loaded = LoadedConfig { stamps, ..self.read(trust).await? };
        let off = loaded.config.servers.extract_if(.., |server| !server.enabled);
        loaded.disabled.extend(off.map(|server| server.id.to_string()));
        Ok(loaded)
    }

    async fn read(&self, trust: &Trust) -> Result<LoadedConfig, DiscoveryError> {
        if let Some(path) = &self.single {
            let text = text_of(path, Origin::Named)?;
            let text = text.ok_or_else(|| DiscoveryError::Missing { path: path.clone() })?;
            let parsed = parsed(path, &text, Origin::Named)?;
            return Ok(LoadedConfig::of(parsed));
        }
        let user = self.user()?;
        let mut loaded = LoadedConfig { unapproved: None, ..LoadedConfig::of(user.clone()) };
        loaded.findings.extend(self.misplaced());
        let Some((file, text)) = self.project(&mut loaded.findings) else { return Ok(loaded) };
        match trust.of(&file, &text).await? {
            None => loaded.unapproved = Some(UnapprovedProject { file }),
            Some(approval) => match parsed(&file, &text, Origin::Project) {
                Ok(project) => loaded.merge(project, &user, &approval),
                Err(DiscoveryError::InvalidConfig(faults)) => {
                    loaded.findings.extend_from_slice(faults.findings());
                }
                Err(error) => return Err(error),
            },
        }
        Ok(loaded)
    }

    /// Returns the project's file for review; `None` if there is no such file, or a single file replaces both.
    ///
    /// # Errors
    /// [`DiscoveryError`] if the project's file cannot be read, or the user's own file cannot be used.
    pub fn review(&self) -> Result<Option<ProjectReview>, DiscoveryError> {
        let Some(path) = &self.project else { return Ok(None) };
        let Some(text) = text_of(path, Origin::Project)? else { return Ok(None) };
        let user = self.user()?;
        Ok(Some(ProjectReview::of(&real(path), &text, |id| user.kept_ids.contains(id))))
    }

    fn user(&self) -> Result<ParsedConfig, DiscoveryError> {
        let Some(path) = &self.user else { return Ok(ParsedConfig::empty()) };
        match text_of(path, Origin::User)? {
            Some(text) => parsed(path, &text, Origin::User),
            None => Ok(ParsedConfig::empty()),
        }
    }

    /// Returns a warning if the user's configuration folder contains an `mgp.toml`, because only a project's file has
    /// this name.
    fn misplaced(&self) -> Option<ConfigFinding> {
        let user = self.user.as_ref()?;
        let file = user.with_file_name(PROJECT_FILE);
        if self.project.as_ref() == Some(&file) || !file.is_file() {
            return None;
        }
        let what = format!("this file is not read; your own configuration is `{}`", user.display());
        Some(ConfigFinding::of_file(&file, what))
    }

    /// Returns the path and the text of the project's file; a file that cannot be read only adds a finding.
    fn project(&self, findings: &mut Vec<ConfigFinding>) -> Option<(PathBuf, String)> {
        let path = self.project.as_ref()?;
        match text_of(path, Origin::Project) {
            Ok(text) => text.map(|text| (real(path), text)),
            Err(error) => {
                findings.push(ConfigFinding::of_file(path, error.to_string()));
                None
            }
        }
    }
}

fn parsed(path: &Path, text: &str, origin: Origin) -> Result<ParsedConfig, DiscoveryError> {
    let mut parsed = Config::parse(path, text)?;
    for server in &mut parsed.config.servers {
        server.origin = origin;
    }
    // Do not warn about the folder of a project's file, because the content of that file needs an approval anyway.
    if let Some(folder) = exposed_folder(path).filter(|_| origin != Origin::Project) {
        let what = "every user can replace this file, and start programs in your name".to_owned();
        let remedy = Some(format!("run `chmod o-w` on the folder `{}`", folder.display()));
        parsed.findings.push(ConfigFinding { remedy, ..ConfigFinding::of_file(path, what) });
    }
    Ok(parsed)
}

impl ParsedConfig {
    fn empty() -> Self {
        Self {
            config: Config::default(),
            findings: Vec::new(),
            broken: Vec::new(),
            switched_off: Vec::new(),
            kept_ids: std::collections::HashSet::new(),
        }
    }
}

impl LoadedConfig {
    fn of(parsed: ParsedConfig) -> Self {
        let ParsedConfig { config, findings, broken, switched_off, .. } = parsed;
        Self {
            config,
            findings,
            broken,
            disabled: switched_off,
            unapproved: None,
            stamps: Vec::new(),
        }
    }

    /// Adds an approved project's servers before the user's own servers.
    fn merge(&mut self, project: ParsedConfig, user: &ParsedConfig, approval: &TrustApproval) {
        let file = &approval.file;
        self.findings.extend(project.findings);
        self.broken.extend(project.broken);
        self.disabled.extend(project.switched_off);
        let ineffective = ineffective_tables(file, &project.config);
        let mut merged = Vec::new();
        for mut server in project.config.servers {
            let id = server.id.as_str();
            if user.kept_ids.contains(id) && !approval.overrides.contains(id) {
                let what = format!(
                    "server `{id}` is in your own file, and the project's was approved before you added it; run `mgp trust` again to let it replace yours"
                );
                self.findings.push(ConfigFinding::of_file(file, what));
                continue;
            }
            if user.kept_ids.contains(id) && user.config.server(id).is_none() {
                let what = format!(
                    "server `{id}` is in your own file, with an error; mend it first, because the project's server gets its `tenants`"
                );
                self.findings.push(ConfigFinding::of_file(file, what));
                continue;
            }
            if let Some(mgp) = &mut server.mgp
                && mgp.trust_level.rank() > TrustLevel::Standard.rank()
            {
                let what = format!(
                    "server `{id}` is trusted as `standard`; only your own file may grant more"
                );
                self.findings.push(ConfigFinding::of_file(file, what));
                mgp.trust_level = TrustLevel::Standard;
            }
            if let Some(own) = self.config.server(id).and_then(|own| own.tenants.clone()) {
                server.tenants = Some(own);
            }
            server.approved_files = Some(approval.files.clone());
            self.config.servers.retain(|own| own.id != server.id);
            merged.push(server);
        }
        merged.append(&mut self.config.servers);
        self.config.servers = merged;
        self.findings.extend(ineffective);
    }
}

impl ConfigFinding {
    pub(super) fn of_file(file: &Path, what: String) -> Self {
        let (severity, file) = (FindingSeverity::Warning, file.to_owned());
        Self { severity, file, line: 1, column: 1, server: None, what, remedy: None }
    }
}
