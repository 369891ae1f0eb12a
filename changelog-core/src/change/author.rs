//! Who recorded or updated a change.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::wire_enum::wire_enum;

wire_enum! {
    /// What kind of caller an author is.
    AuthorType, "a type of author", example "api_key" {
        /// An API key.
        ApiKey = "api_key",
        /// A person, in the dashboard.
        Person = "person",
        /// A source, from what another system has sent.
        Source = "source",
    }
}

/// Who recorded or updated a change, as the service authenticated them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Author {
    /// The kind of caller.
    #[serde(rename = "type")]
    pub kind: AuthorType,
    /// The name of the API key, which it keeps when it is revoked, or the present
    /// name of the person.
    #[cfg_attr(feature = "openapi", schema(example = "ci"))]
    pub name: String,
    /// The id of the API key or of the user.
    pub id: Uuid,
}
