//! Closed sets of words on the wire that may grow in a later version.

/// Defines an enum whose values are words on the wire.
///
/// `FromStr` is strict: it is what the service reads input with. Decoding from
/// JSON is lenient: a word that this version does not know becomes
/// `Unknown`, so that an older client keeps working against a newer service.
macro_rules! wire_enum {
    (
        $(#[$doc:meta])*
        $name:ident, $what:literal, example $example:literal {
            $( $(#[$variant_doc:meta])* $variant:ident = $wire:literal, )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$variant_doc])* $variant, )+
            /// A word that this version does not know; only ever read from a
            /// newer service, never accepted as input.
            Unknown(Box<str>),
        }

        impl $name {
            /// Every value that this version knows, in the order of the specification.
            pub const ALL: &'static [Self] = &[$( Self::$variant ),+];
            /// The words of [`Self::ALL`].
            pub const WORDS: &'static [&'static str] = &[$( $wire ),+];

            /// Returns the word on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $wire, )+
                    Self::Unknown(word) => word,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::problem::BadValue;

            /// Reads one of [`Self::WORDS`]; the error names them all.
            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $( $wire => Ok(Self::$variant), )+
                    _ => Err($crate::rules::not_one_of($what, Self::WORDS, word)),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Ok(word.parse().unwrap_or_else(|_| Self::Unknown(word.into())))
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some(Self::WORDS.iter().copied()))
                    .examples([$example])
                    .build()
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {}
    };
}

pub(crate) use wire_enum;
