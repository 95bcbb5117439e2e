//! The `record!` macro: a wire struct that preserves unknown members (MGP §1.1).

/// Defines structs for JSON objects in messages (wire structs).
///
/// ```text
/// record! {
///     /// A tool as a server lists it.
///     pub struct Tool tagged "type" = "tool" {      // `tagged` is optional: one constant member
///         /// Required: missing is an error.
///         req name: String,
///         /// Required list: absent and null read as empty; always written.
///         seq content: Vec<ContentBlock>,
///         /// Optional: absent and null read as `None`, `None` is not written.
///         opt title: Option<String>,
///         /// Optional list: absent and null read as empty; an empty one is written only if it was received.
///         list side_effects: List<SideEffect>,
///         /// Absent, null or a value: three things, all kept (`Nullable`).
///         tri granted_by: Nullable<String>,
///         /// Absent and null read as `None`; always written, `null` when `None`.
///         nul expires_at as "expiresAt": Option<Timestamp>,
///         /// Absent and null read as the default; always written.
///         def done: bool,
///         /// With `read whole` in any mode: a whole number, which may be written as `60000.0`.
///         opt ttl_ms as "ttlMs" read whole: Option<u64>,
///         /// With `read rounded`: the same, and a fraction is rounded up.
///         opt timeout_ms read rounded: Option<u64>,
///         /// With `read nullable`: null reads as the default, because Go writes an empty list as null.
///         req items read nullable: Vec<Item>,
///         /// With `read cursor`: a text, or a number that becomes a text.
///         opt next_cursor as "nextCursor" read cursor: Option<String>,
///         /// With `read text`: a text, or a number that becomes a text.
///         req version read text: String,
///         /// With `read object`: an object, or an empty list in its place, because PHP writes both alike.
///         opt annotations read object: Option<Annotations>,
///         /// With `read schema`: a JSON Schema, in which the same is permitted.
///         req input_schema as "inputSchema" read schema: RawObject,
///         /// With `read capability`: an object, an empty list or `true`; `false` reads as `None`.
///         opt logging read capability: Option<Object>,
///         /// With `read flag`: a boolean, or `0` or `1`.
///         opt is_error as "isError" read flag: Option<bool>,
///     }
/// }
/// ```
///
/// The struct has a public field for each declared member, and `extra: Extras` for all other members. The macro
/// implements `new` with an argument for each `req` and `seq` member; without such members, also `Default`. It also
/// implements `Serialize` (declared members first, then the other members in the order received), `Deserialize` (if a
/// member is repeated, its last value counts) and, with the feature `schema`, `JsonSchema`.
macro_rules! record {
    ($(
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident $(tagged $tag:literal = $tag_value:literal)? {
            $(
                $(#[doc = $field_doc:literal])*
                $mode:ident $field:ident $(as $wire:literal)? $(read $read:ident)?: $ty:ty
            ),* $(,)?
        }
    )+) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        $vis struct $name {
            $( $(#[doc = $field_doc])* pub $field: $ty, )*
            /// Unknown members, in the order received.
            pub extra: $crate::record::Extras,
        }

        $crate::record::record!(@new $name [] [] $($mode $field: $ty,)*);

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                use ::serde::ser::SerializeMap as _;

                let mut map = serializer.serialize_map(None)?;
                $( map.serialize_entry($tag, $tag_value)?; )?
                $( $crate::record::record!(
                    @write $mode, map, self.$field, $crate::record::record!(@wire $field $($wire)?)
                ); )*
                self.extra.write(&mut map)?;
                map.end()
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                struct Visitor;

                impl<'de> ::serde::de::Visitor<'de> for Visitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str(concat!("an object (", stringify!($name), ")"))
                    }

                    fn visit_map<A: ::serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> ::std::result::Result<$name, A::Error> {
                        $( let mut tag = $crate::record::Tag::new($tag_value); )?
                        $( let mut $field: Option<$ty> = None; )*
                        let mut extra = $crate::record::Extras::new();
                        while let Some(key) = map.next_key::<$crate::record::Key<'_>>()? {
                            match &*key.0 {
                                $( $tag => tag.read(&mut map)?, )?
                                $( $crate::record::record!(@wire $field $($wire)?) => {
                                    $field = $crate::record::record!(@read $mode, map, $ty $(, $read)?);
                                } )*
                                _ => extra.push_read(key.0.into_owned(), map.next_value()?),
                            }
                        }
                        $( tag.check($tag)?; )?
                        Ok($name {
                            $( $field: $crate::record::record!(
                                @take $mode, $field, $crate::record::record!(@wire $field $($wire)?)
                            ), )*
                            extra: extra.dedup(),
                        })
                    }
                }

                deserializer.deserialize_map(Visitor)
            }
        }

        #[cfg(feature = "schema")]
        impl ::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                $crate::record::ObjectSchema::new(generator, concat!($($doc, "\n"),*))
                    $( .constant($tag, $tag_value) )?
                    $( .member::<$ty>(
                        $crate::record::record!(@wire $field $($wire)?),
                        $crate::record::record!(@required $mode),
                        concat!($($field_doc, "\n"),*),
                    ) )*
                    .finish()
            }
        }
    )+};

    // Returns the name of a member in the JSON: the name given in the macro or, if there is
    // none, the name of the field.
    (@wire $field:ident) => { stringify!($field) };
    (@wire $field:ident $wire:literal) => { $wire };

    // Reads a member; the modes (`req`, `opt` and so on) differ in how they treat `null`. For a whole number, the type
    // of the field decides how `null` is treated.
    (@read $mode:ident, $map:ident, $ty:ty, whole) => {
        Some(<$ty as $crate::record::ReadWhole>::read::<_, false>(&mut $map)?)
    };
    (@read $mode:ident, $map:ident, $ty:ty, rounded) => {
        Some(<$ty as $crate::record::ReadWhole>::read::<_, true>(&mut $map)?)
    };
    (@read $mode:ident, $map:ident, $ty:ty, nullable) => {
        Some($map.next_value::<Option<$ty>>()?.unwrap_or_default())
    };
    (@read $mode:ident, $map:ident, $ty:ty, cursor) => {
        Some($map.next_value::<$crate::mcp::NextCursor>()?.0)
    };
    (@read $mode:ident, $map:ident, $ty:ty, text) => {
        $map.next_value::<$crate::mcp::NextCursor>()?.0
    };
    (@read $mode:ident, $map:ident, $ty:ty, object) => {
        $map.next_value::<Option<$crate::record::ObjectOrList<$ty>>>()?.map(|read| read.0)
    };
    (@read $mode:ident, $map:ident, $ty:ty, schema) => {
        $map.next_value::<Option<$crate::record::Schema<$ty>>>()?.map(|read| read.0)
    };
    (@read $mode:ident, $map:ident, $ty:ty, capability) => {
        $map.next_value::<$crate::record::Capability<$ty>>()?.0
    };
    (@read $mode:ident, $map:ident, $ty:ty, flag) => {
        Some($map.next_value::<$crate::record::Flag>()?.0)
    };
    (@read req, $map:ident, $ty:ty) => { Some($map.next_value()?) };
    (@read tri, $map:ident, $ty:ty) => { Some($map.next_value()?) };
    (@read $mode:ident, $map:ident, $ty:ty) => { $map.next_value::<Option<$ty>>()? };

    // Returns the value of a field after reading; the modes differ in how they treat an absent member.
    (@take req, $slot:ident, $wire:expr) => {
        $slot.ok_or_else(|| ::serde::de::Error::missing_field($wire))?
    };
    (@take $mode:ident, $slot:ident, $wire:expr) => { $slot.unwrap_or_default() };

    // Writes a member; the modes differ in when they omit it.
    (@write opt, $map:ident, $value:expr, $wire:expr) => {
        if let Some(value) = &$value { $map.serialize_entry($wire, value)?; }
    };
    (@write list, $map:ident, $value:expr, $wire:expr) => {
        if $crate::record::Presence::is_written(&$value) { $map.serialize_entry($wire, &$value)?; }
    };
    (@write tri, $map:ident, $value:expr, $wire:expr) => {
        $crate::record::record!(@write list, $map, $value, $wire);
    };
    (@write $mode:ident, $map:ident, $value:expr, $wire:expr) => {
        $map.serialize_entry($wire, &$value)?;
    };

    (@required req) => { true };
    (@required seq) => { true };
    (@required $mode:ident) => { false };

    // The constructor: collects an argument for each required member.
    (@new $name:ident [] [$($init:ident)*]) => {
        impl $name {
            /// Creates an empty record.
            #[must_use]
            pub fn new() -> Self {
                Self::default()
            }
        }

        impl ::std::default::Default for $name {
            fn default() -> Self {
                Self { $( $init: ::std::default::Default::default(), )* extra: Default::default() }
            }
        }
    };
    (@new $name:ident [$($arg:ident: $ty:ty,)+] [$($init:ident)*]) => {
        impl $name {
            /// Creates a record from its required members.
            #[must_use]
            pub fn new($($arg: impl Into<$ty>),+) -> Self {
                Self {
                    $( $arg: $arg.into(), )+
                    $( $init: ::std::default::Default::default(), )*
                    extra: Default::default(),
                }
            }
        }
    };
    (@new $name:ident [$($args:tt)*] [$($init:ident)*] req $field:ident: $ty:ty, $($rest:tt)*) => {
        $crate::record::record!(@new $name [$($args)* $field: $ty,] [$($init)*] $($rest)*);
    };
    (@new $name:ident [$($args:tt)*] [$($init:ident)*] seq $field:ident: $ty:ty, $($rest:tt)*) => {
        $crate::record::record!(@new $name [$($args)* $field: $ty,] [$($init)*] $($rest)*);
    };
    (@new $name:ident [$($args:tt)*] [$($init:ident)*] $mode:ident $field:ident: $ty:ty, $($rest:tt)*) => {
        $crate::record::record!(@new $name [$($args)*] [$($init)* $field] $($rest)*);
    };
}

pub(crate) use record;

/// Implements `JsonSchema` with a fixed schema (feature `schema`). An `inline` schema is repeated where it is used,
/// instead of being a shared definition.
macro_rules! schema_of {
    ($type:ty as inline $name:literal, $($schema:tt)+) => {
        $crate::record::schema_of!(@impl $type, $name, true, $($schema)+);
    };
    ($type:ty as $name:literal, $($schema:tt)+) => {
        $crate::record::schema_of!(@impl $type, $name, false, $($schema)+);
    };
    (@impl $type:ty, $name:literal, $inline:literal, $($schema:tt)+) => {
        #[cfg(feature = "schema")]
        impl ::schemars::JsonSchema for $type {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn inline_schema() -> bool {
                $inline
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                $crate::record::schema_of!(@value $($schema)+)
            }
        }
    };
    (@value true) => { true.into() };
    (@value $($schema:tt)+) => { ::schemars::json_schema!($($schema)+) };
}

pub(crate) use schema_of;
