//! Who recorded or updated a change.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::wire_enum::wire_enum;
use crate::workload::VerifiedRun;

wire_enum! {
    /// What kind of caller an author is.
    AuthorType, "a type of author", example "api_key" {
        /// An API key.
        ApiKey = "api_key",
        /// A person, in the dashboard.
        Person = "person",
        /// A source, from what another system has sent.
        Source = "source",
        /// A pipeline, by a token that its own system has signed.
        Workload = "workload",
    }
}

/// Who recorded or updated a change, as the service authenticated them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Author {
    /// The kind of caller.
    #[serde(rename = "type")]
    pub kind: AuthorType,
    /// The name of the API key, which it keeps when it is revoked, the present name of the
    /// person, or the system and the repository of the pipeline, as in `github acme/shop`.
    #[cfg_attr(feature = "openapi", schema(example = "ci"))]
    pub name: String,
    /// The id of the API key, of the user, or of the workload identity.
    pub id: Uuid,
    /// What the token of a pipeline says of its run, signed by the pipeline's own system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Box<VerifiedRun>>,
}
