//! Resources: single ones with a fixed URI, templates of URIs, and sets that are queried at run time (MCP resources).

mod contents;
mod registry;
mod routes;
mod set;
mod template;

use std::collections::BTreeMap;
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::mcp::{self, Annotations, Completion, Icon, Meta};
use mgp_types::service::Extensions;

pub use contents::Contents;
pub use registry::Resources;
pub use set::{Page, ResourceSet};

use crate::completers::Completers;
use crate::error::{BuildError, BuildErrors};
use crate::request::{Function, RequestHandler};

/// A resource or a resource template: its definition and its contents or function.
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

/// The definition of a resource or template, in the form in which it is listed.
#[derive(Clone, Debug)]
pub(crate) enum Definition {
    Fixed(mcp::Resource),
    Template(mcp::ResourceTemplate),
}

/// The source of a resource's contents.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Ready(Contents),
    Read(Function<Contents>),
}

impl Source {
    /// Returns an error if the server lacks state that the resource's function needs.
    fn missing_state(&self, uri: &str, state: &Extensions) -> Option<BuildError> {
        match self {
            Self::Ready(_) => None,
            Self::Read(function) => function.missing_state(&format!("the resource `{uri}`"), state),
        }
    }
}

/// The default time for which a modern client may cache the contents of a resource with fixed text or bytes, which
/// change only if the author replaces the resource.
const FIXED_TTL: Duration = Duration::from_mins(1);

/// Sets a field of the definition, whether it is that of a resource or of a template.
macro_rules! both {
    ($self:ident, $field:ident = $value:expr) => {
        match &mut $self.definition {
            Definition::Fixed(definition) => definition.$field = $value,
            Definition::Template(definition) => definition.$field = $value,
        }
    };
}

impl Resource {
    /// Creates a resource with fixed text.
    pub fn text(uri: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::ready(uri.into(), name.into(), Contents::text(text)).mime("text/plain")
    }

    /// Creates a resource with fixed bytes.
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

    /// Creates a resource whose contents a function returns. The function fails with an [`RpcError`], not with a
    /// `ToolError`.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::Resource;
    ///
    /// let hosts = Resource::new("file:///etc/hosts", "hosts", || async {
    ///     let text = tokio::fs::read_to_string("/etc/hosts").await;
    ///     text.map_err(|error| RpcError::internal("cannot read the hosts").because(error))
    /// });
    /// # drop(hosts);
    /// ```
    pub fn new<H, M>(uri: impl Into<String>, name: impl Into<String>, handler: H) -> Self
    where
        H: RequestHandler<Contents, M>,
    {
        let definition = Definition::Fixed(mcp::Resource::new(uri, name));
        Self::read(definition, Function::new(handler))
    }

    /// Creates a template for resources whose contents a function returns; the variables in the URI are the function's
    /// arguments.
    ///
    /// A variable `{name}` matches one segment of the URI, `{+name}` matches any text. Percent-encoding is decoded, so
    /// a value may contain `/` or `..`: the function must check it before using it as a path.
    pub fn template<H, M>(template: impl Into<String>, name: impl Into<String>, handler: H) -> Self
    where
        H: RequestHandler<Contents, M>,
    {
        let definition = Definition::Template(mcp::ResourceTemplate::new(template, name));
        Self::read(definition, Function::new(handler))
    }

    /// Returns the URI of one resource of a template, with the values of its variables. Characters are escaped where
    /// necessary.
    ///
    /// ```
    /// use mgp_server_sdk::Resource;
    ///
    /// let uri = Resource::uri_of("note://{name}", [("name", "to do")]).unwrap();
    /// assert_eq!(uri, "note://to%20do");
    /// ```
    ///
    /// # Errors
    /// −32603 (internal error) if the template is invalid, or one of its variables has no value.
    pub fn uri_of<'a>(
        template: &str,
        values: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<String, RpcError> {
        let refused = |error| RpcError::from(BuildErrors(vec![error]));
        let parsed = template::Template::parse(template).map_err(refused)?;
        let values: BTreeMap<&str, &str> = values.into_iter().collect();
        parsed.expand(&values).ok_or_else(|| {
            let why = "needs a value for each of its variables";
            refused(BuildError::InvalidTemplate { template: template.to_owned(), why })
        })
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

    /// Sets the display name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        both!(self, title = Some(title.into()));
        self
    }

    /// Sets the description.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        both!(self, description = Some(text.into()));
        self
    }

    /// Sets hints for clients: audience, priority, time of the last change.
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        both!(self, annotations = Some(annotations));
        self
    }

    /// Adds an icon.
    pub fn icon(mut self, icon: Icon) -> Self {
        match &mut self.definition {
            Definition::Fixed(definition) => definition.icons.push(icon),
            Definition::Template(definition) => definition.icons.push(icon),
        }
        self
    }

    /// Sets the member `_meta` of the definition, which lists show; it replaces an earlier one.
    /// [`Contents::meta`] sets that of the contents.
    pub fn meta(mut self, meta: Meta) -> Self {
        both!(self, meta = Some(meta));
        self
    }

    /// Sets the size in bytes; ignored for templates.
    pub fn size(mut self, bytes: u64) -> Self {
        if let Definition::Fixed(definition) = &mut self.definition {
            definition.size = Some(bytes);
        }
        self
    }

    /// Sets the time for which a client of 2026-07-28 may cache the contents.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the function that proposes values for a template variable.
    pub fn complete<H, M>(mut self, variable: impl Into<String>, handler: H) -> Self
    where
        H: RequestHandler<Completion, M>,
    {
        self.completers.add(variable.into(), Function::new(handler));
        self
    }

    /// Returns the URI, or the template.
    #[must_use]
    pub fn uri(&self) -> &str {
        match &self.definition {
            Definition::Fixed(definition) => &definition.uri,
            Definition::Template(definition) => &definition.uri_template,
        }
    }
}
