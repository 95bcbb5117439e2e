//! Wire structs and enums that preserve unknown members and values (MGP §1.1, §10.2).
//!
//! Four macros define most wire types of this crate: [`record!`] defines a struct, `open_enum!` an extensible and
//! `string_enum!` a closed enum of strings, and `tagged!` an enum of records distinguished by one member. None of them
//! uses serde's `flatten`, `untagged` or internal tagging, because these buffer the whole value and cannot contain raw
//! JSON, while every wire type may contain a [`Payload`](crate::Payload).

mod choice;
mod define;
mod extras;
mod lenient;
mod loose;
mod number;
mod object;
mod presence;
#[cfg(feature = "schema")]
mod schema;
mod word;

#[cfg(test)]
mod tests;

pub use choice::OneOrMany;
pub(crate) use choice::tagged;
pub(crate) use choice::{Tag, decode, peek};
pub(crate) use define::{record, schema_of};
pub(crate) use extras::Key;
#[cfg(feature = "service")]
pub use extras::Members;
#[cfg(feature = "service")]
pub(crate) use extras::text_of;
pub use extras::{Extras, Object};
pub use lenient::Lenient;
#[cfg(feature = "service")]
pub(crate) use loose::is_empty_list;
pub(crate) use loose::{Capability, Flag, ObjectOrList, Schema};
pub use number::Number;
pub(crate) use number::{MAX_EXACT, ReadWhole};
pub use object::RawObject;
pub(crate) use presence::Presence;
pub use presence::{List, Nullable};
#[cfg(feature = "schema")]
pub(crate) use schema::ObjectSchema;
pub(crate) use word::{open_enum, string_enum};
