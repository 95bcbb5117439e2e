//! Functions behind prompts, resources and completions: what they may take, what they may return.
//!
//! Their arguments are text on the wire; [`Args`](crate::Args) reads them as a type.
//!
//! Applies to: inbound.

mod answer;
mod extract;
mod handler;
mod serving;
mod text;

pub use answer::IntoAnswer;
pub use extract::{FromRequest, TextRequest, Typed, Uri};
pub use handler::RequestHandler;

pub(crate) use handler::Function;
pub(crate) use serving::Serving;
pub(crate) use text::fields as declared_fields;
