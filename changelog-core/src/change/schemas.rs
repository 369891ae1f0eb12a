//! JSON schemas of what clients send of changes, for the OpenAPI document.

use serde_json::Value;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::{Agent, ChangePatch, Link, NewChange};
use crate::schema::{closed, schemas};

schemas! {
    /// An automation that a client sends.
    NewAgent = closed::<Agent>(&["name"]);
    /// A link that a client sends.
    NewLink = closed::<Link>(&["label", "url"]);
}

/// Returns the rules of a schema about several members, by the name of the schema.
pub fn conditions() -> [(&'static str, Vec<Value>); 2] {
    [
        ("NewChange", NewChange::conditions()),
        ("ChangePatch", ChangePatch::conditions()),
    ]
}
