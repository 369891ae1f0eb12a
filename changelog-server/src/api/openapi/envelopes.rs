//! Names the envelopes after the records in them, and refers to the records.
//!
//! The generated schema of a generic type has a name such as `Data_Vec_Host` and contains
//! the whole schema of the record. Clients generated from it would have a class for each
//! envelope's record: a change of a page and a change by itself would be unrelated.

use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ArrayBuilder, Schema};
use utoipa::openapi::{Components, OpenApi, Ref, RefOr};

/// The kinds of envelopes: the prefix of the generated name, the suffix of the new one, and
/// whether the envelope has a list of records. A longer prefix comes first.
const KINDS: [(&str, &str, bool); 3] = [
    ("Data_Vec_", "List", true),
    ("Data_", "Response", false),
    ("Page_", "Page", true),
];

/// Renames the schemas of all envelopes, and everything that refers to them.
pub(super) fn rename(api: &mut OpenApi) {
    if let Some(components) = &mut api.components {
        rename_schemas(components);
    }
    for item in api.paths.paths.values_mut() {
        let operations = [
            &mut item.get,
            &mut item.post,
            &mut item.patch,
            &mut item.put,
        ];
        for operation in operations.into_iter().flatten() {
            rename_responses(operation);
        }
    }
}

fn rename_schemas(components: &mut Components) {
    let generated = std::mem::take(&mut components.schemas);
    for (name, mut schema) in generated {
        let Some((record, suffix, is_list)) = envelope(&name) else {
            components.schemas.insert(name, schema);
            continue;
        };
        if let RefOr::T(Schema::Object(object)) = &mut schema {
            let reference = Ref::from_schema_name(record);
            let data = if is_list {
                RefOr::T(ArrayBuilder::new().items(reference).build().into())
            } else {
                RefOr::Ref(reference)
            };
            object.properties.insert("data".to_owned(), data);
        }
        components
            .schemas
            .insert(format!("{record}{suffix}"), schema);
    }
}

fn rename_responses(operation: &mut Operation) {
    for response in operation.responses.responses.values_mut() {
        let RefOr::T(response) = response else {
            continue;
        };
        for content in response.content.values_mut() {
            let RefOr::T(content) = content else { continue };
            let Some(RefOr::Ref(reference)) = &mut content.schema else {
                continue;
            };
            let name = reference.ref_location.rsplit('/').next();
            if let Some((record, suffix, _)) = name.and_then(envelope) {
                *reference = Ref::from_schema_name(format!("{record}{suffix}"));
            }
        }
    }
}

/// Returns the name of the record of an envelope, the suffix of the new name, and whether
/// the envelope has a list.
fn envelope(name: &str) -> Option<(&str, &'static str, bool)> {
    KINDS.iter().find_map(|(prefix, suffix, is_list)| {
        let record = name.strip_prefix(prefix)?;
        Some((record, *suffix, *is_list))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::document;

    #[test]
    fn envelopes_refer_to_one_schema_of_each_record() {
        let document: Value = serde_json::from_str(document()).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let record = "#/components/schemas/Change";
        assert_eq!(
            schemas["ChangeResponse"]["properties"]["data"]["$ref"],
            record
        );
        for list in ["ChangePage", "ChangeList"] {
            let data = &schemas[list]["properties"]["data"];
            assert_eq!(data["items"]["$ref"], record, "{list}");
        }
        for name in schemas.keys() {
            assert!(!name.contains('_') && name != "BTreeMap", "{name}");
        }
        let inline = schemas.iter().filter(|(name, schema)| {
            let others = schemas.iter().filter(|(other, _)| other != name);
            let text = schema.to_string();
            let is_record = schema["properties"].is_object();
            is_record
                && others
                    .clone()
                    .any(|(_, other)| other.to_string().contains(&text))
        });
        assert_eq!(inline.map(|(name, _)| name).collect::<Vec<_>>(), [""; 0]);
    }
}
