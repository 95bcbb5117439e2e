//! The sets of scenarios of the conformance suite, each for one side and one protocol revision.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Server,
    Client,
}

impl Side {
    /// Returns the name of the side, which is also the command of the suite.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// The selection of scenarios in a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenarios {
    /// The required scenarios of a revision, and the optional scenarios that the suite runs together with them.
    Required,
    /// A named part of the suite, of which no scenario is required.
    Suite(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) side: Side,
    /// The name of the set, without the side.
    pub(super) name: &'static str,
    pub(super) revision: &'static str,
    pub(super) scenarios: Scenarios,
    /// The number of required scenarios. The suite's own list must have the same length, so that we notice if it
    /// changes.
    pub(super) required: usize,
}

const fn required(side: Side, revision: &'static str, required: usize) -> Set {
    Set { side, name: revision, revision, scenarios: Scenarios::Required, required }
}

pub(super) const ALL: &[Set] = &[
    required(Side::Server, "2025-11-25", 30),
    required(Side::Server, "2026-07-28", 37),
    required(Side::Client, "2025-11-25", 18),
    required(Side::Client, "2026-07-28", 32),
    Set {
        side: Side::Client,
        name: "backcompat",
        revision: "2025-03-26",
        scenarios: Scenarios::Suite("backcompat"),
        required: 0,
    },
];

impl Set {
    /// Returns the name of the set in tables, e.g. `server 2026-07-28`.
    pub(super) fn shown(&self) -> String {
        format!("{} {}", self.side.word(), self.name)
    }

    /// Returns the arguments with which the suite runs this set.
    pub(super) fn arguments(&self) -> [&'static str; 2] {
        match self.scenarios {
            Scenarios::Required => ["--requirements", self.revision],
            Scenarios::Suite(name) => ["--suite", name],
        }
    }

    pub(super) fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|set| set.shown() == name)
    }
}

/// The scenarios that the acceptance check `mcp.tasks` runs, by set.
#[rustfmt::skip]
pub(super) const EXTENSIONS: &[(&str, &[&str])] = &[
    ("server 2026-07-28", &[
        "tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields",
        "tasks-request-state-removal", "tasks-mrtr-input", "tasks-request-headers",
        "tasks-dispatch-and-envelope", "tasks-required-task-error", "tasks-mrtr-composition",
        "http-header-validation", "http-custom-header-server-validation", "json-schema-2020-12",
        "sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory",
    ]),
    ("client 2026-07-28", &[
        "json-schema-2020-12-preservation", "sep-2640-client-no-prefetch",
        "sep-2640-client-verify-digest", "sep-2640-client-verify-size",
        "sep-2640-client-verify-frontmatter", "auth/client-credentials-jwt",
        "auth/client-credentials-basic",
    ]),
    ("client backcompat", &[
        "auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback",
    ]),
];

/// The suite's own list of the scenarios that a revision requires.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Requirements {
    pub(super) server: Vec<String>,
    pub(super) client: Vec<String>,
    /// Scenarios that the suite runs but does not require.
    pub(super) more: Vec<More>,
}

/// A scenario that the suite runs but does not require.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct More {
    pub(super) scenario: String,
    pub(super) leg: String,
}

impl Requirements {
    /// Parses the suite's YAML file, which has one key or scenario per line.
    pub(super) fn read(text: &str) -> Self {
        let mut all = Self::default();
        let mut section = "";
        for line in text.lines() {
            let plain = line.trim();
            if plain.starts_with('#') || plain.is_empty() {
                continue;
            }
            if !line.starts_with([' ', '-']) {
                section = plain.trim_end_matches(':');
                continue;
            }
            match (section, plain.strip_prefix("- ")) {
                ("server", Some(name)) => all.server.push(name.to_owned()),
                ("client", Some(name)) => all.client.push(name.to_owned()),
                ("not_scored", Some(entry)) => {
                    let scenario = entry.trim_start_matches("scenario:").trim().to_owned();
                    all.more.push(More { scenario, leg: String::new() });
                }
                ("not_scored", None) => {
                    if let (Some(leg), Some(last)) =
                        (plain.strip_prefix("leg:"), all.more.last_mut())
                    {
                        leg.trim().clone_into(&mut last.leg);
                    }
                }
                _ => {}
            }
        }
        all
    }

    pub(super) fn of(&self, side: Side) -> &[String] {
        match side {
            Side::Server => &self.server,
            Side::Client => &self.client,
        }
    }

    /// Returns all scenarios that the suite runs for a side, required or not.
    pub(super) fn run(&self, side: Side) -> impl Iterator<Item = &str> {
        let more = self.more.iter().filter(move |more| more.leg == side.word());
        self.of(side).iter().map(String::as_str).chain(more.map(|more| more.scenario.as_str()))
    }
}
