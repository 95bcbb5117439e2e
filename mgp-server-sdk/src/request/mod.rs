//! Functions that implement prompts, resources and completions: their parameters and return types.
//!
//! The arguments are strings in messages; [`Args`](crate::Args) parses them into a type.

mod answer;
mod extract;
mod handler;
mod serving;
mod text;

pub use answer::IntoAnswer;
pub use extract::{FromRequest, PartialArgument, TextRequest, Uri};
pub use handler::RequestHandler;

pub(crate) use handler::Function;
pub(crate) use serving::HandlerConfig;
pub(crate) use text::fields as declared_fields;
