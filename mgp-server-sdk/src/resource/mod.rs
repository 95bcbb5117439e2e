//! Resources: fixed ones, families by template, and sets looked up at run time (MCP resources).
//!
//! Applies to: inbound.

mod contents;
mod registry;
mod routes;
mod set;
mod template;

use std::time::Duration;

use mgp_types::mcp::{self, Annotations, Completion, Icon};

pub use contents::Contents;
pub use registry::Resources;
pub use set::{Page, ResourceSet};

use crate::complete::Completers;
use crate::request::{Function, RequestHandler};

/// A resource, or a family of them: its definition and what is behind it.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::{Resource, Uri};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct City {
///     zip: u32,
/// }
///
/// let fixed = Resource::text("about://server", "about", "A weather server.").mime("text/plain");
/// let read = Resource::new("weather://now", "now", || async { "Rain" }).title("The weather now");
/// let family = Resource::template("weather://{zip}/now", "city", |Args(city): Args<City>| async move {
///     format!("Rain in {}", city.zip)
/// });
/// # drop(Server::new("weather", "1").resource(fixed).resource(read).resource(family));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Resource {
    pub(crate) definition: Definition,
    pub(crate) source: Source,
    pub(crate) ttl: Duration,
    pub(crate) completers: Completers,
}

/// How a resource is listed.
#[derive(Clone, Debug)]
pub(crate) enum Definition {
    Fixed(mcp::Resource),
    Template(mcp::ResourceTemplate),
}

/// Where its contents come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Ready(Contents),
    Read(Function<Contents>),
}

/// How long a modern client may keep contents that do not change while the server runs.
const FIXED_TTL: Duration = Duration::from_mins(1);

/// Sets a member both kinds of definition have.
macro_rules! both {
    ($self:ident, $field:ident = $value:expr) => {
        match &mut $self.definition {
            Definition::Fixed(definition) => definition.$field = $value,
            Definition::Template(definition) => definition.$field = $value,
        }
    };
}

impl Resource {
    /// A resource that holds this text.
    pub fn text(uri: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::ready(uri.into(), name.into(), Contents::text(text)).mime("text/plain")
    }

    /// A resource that holds these bytes.
    pub fn bytes(
        uri: impl Into<String>,
        name: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        Self::ready(uri.into(), name.into(), Contents::bytes(bytes))
            .mime("application/octet-stream")
    }

    fn ready(uri: String, name: String, contents: Contents) -> Self {
        let mut definition = mcp::Resource::new(uri, name);
        definition.size = contents.size();
        Self {
            definition: Definition::Fixed(definition),
            source: Source::Ready(contents),
            ttl: FIXED_TTL,
            completers: Completers::default(),
        }
    }

    /// A resource that a function reads.
    pub fn new<H, M>(uri: impl Into<String>, name: impl Into<String>, handler: H) -> Self
    where
        H: RequestHandler<Contents, M>,
    {
        let definition = Definition::Fixed(mcp::Resource::new(uri, name));
        Self::read(definition, Function::new(handler))
    }

    /// A family of resources that a function reads; the variables of the URI are its arguments.
    ///
    /// A variable `{name}` holds one segment of the URI, `{+name}` anything; escapes are undone, so that a segment
    /// may still give text with `/` or `..` in it: check it before it becomes a path.
    pub fn template<H, M>(template: impl Into<String>, name: impl Into<String>, handler: H) -> Self
    where
        H: RequestHandler<Contents, M>,
    {
        let definition = Definition::Template(mcp::ResourceTemplate::new(template, name));
        Self::read(definition, Function::new(handler))
    }

    fn read(definition: Definition, function: Function<Contents>) -> Self {
        Self {
            definition,
            source: Source::Read(function),
            ttl: Duration::ZERO,
            completers: Completers::default(),
        }
    }

    /// Sets the media type.
    pub fn mime(mut self, mime: impl Into<String>) -> Self {
        both!(self, mime_type = Some(mime.into()));
        self
    }

    /// Sets the name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        both!(self, title = Some(title.into()));
        self
    }

    /// Says what it is.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        both!(self, description = Some(text.into()));
        self
    }

    /// Gives hints: for whom it is, how important, when it changed.
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        both!(self, annotations = Some(annotations));
        self
    }

    /// Adds a picture.
    pub fn icon(mut self, icon: Icon) -> Self {
        match &mut self.definition {
            Definition::Fixed(definition) => definition.icons.push(icon),
            Definition::Template(definition) => definition.icons.push(icon),
        }
        self
    }

    /// Says how many bytes it has; a family has no size.
    pub fn size(mut self, bytes: u64) -> Self {
        if let Definition::Fixed(definition) = &mut self.definition {
            definition.size = Some(bytes);
        }
        self
    }

    /// Says how long a modern client may keep what it read.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Proposes values of a variable while it is typed.
    pub fn complete<H, M>(mut self, variable: impl Into<String>, handler: H) -> Self
    where
        H: RequestHandler<Completion, M>,
    {
        self.completers.add(variable.into(), Function::new(handler));
        self
    }

    /// The URI, or the template.
    #[must_use]
    pub fn uri(&self) -> &str {
        match &self.definition {
            Definition::Fixed(definition) => &definition.uri,
            Definition::Template(definition) => &definition.uri_template,
        }
    }
}
