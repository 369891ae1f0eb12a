//! What people have edited stays: a later event of the sender changes how far a change is, and
//! of everything else only what is still as the source has shown it.

use changelog_core::input::from_object;
use changelog_core::{Change, ChangeId, ChangePatch, NewChange, Timestamp};
use changelog_sources::ObservedChange;
use serde_json::{Map, Value, json};

use crate::store::StoreError;

/// The fields by which a sender says how far a change is.
const PROGRESS: [&str; 4] = ["status", "outcome", "started_at", "ended_at"];
/// What a change keeps from its creation.
const KEPT: &str = "occurred_at";

/// Returns the update of the fields of a change, which was shown otherwise before, to what is
/// shown now.
pub(super) fn patch_of(
    current: &Change,
    was: &ObservedChange,
    is: &ObservedChange,
    now: Timestamp,
) -> Result<ChangePatch, StoreError> {
    let before = as_change(current, was, now)?;
    let (fields, shown) = (fields_of(current)?, fields_of(&before)?);
    let is_as_shown = |name: &str| fields.get(name) == shown.get(name);
    let mut patch = Map::new();
    for (name, value) in differences(was, is) {
        let value = match name.as_str() {
            KEPT => None,
            "tags" => Some(json!(tags(&current.tags, &before.tags, &value))),
            "description" => {
                let (text, shown) = (&current.description, &before.description);
                described(text.as_deref(), shown.as_deref(), value)
            }
            name => (PROGRESS.contains(&name) || is_as_shown(name)).then_some(value),
        };
        patch.extend(value.map(|value| (name, value)));
    }
    let mut patch: ChangePatch = from_object(patch, now)?;
    let started = patch.started_at.unwrap_or(current.started_at);
    let ended = patch.ended_at.unwrap_or(current.ended_at);
    if started.is_some_and(|started| ended.is_some_and(|ended| ended < started)) {
        // A person has moved the one behind what the sender tells of the other.
        (patch.started_at, patch.ended_at) = (None, None);
    }
    Ok(patch)
}

/// Returns whether nobody has edited a change since it was shown.
pub(super) fn is_unedited(current: &Change, shown: &ObservedChange, now: Timestamp) -> bool {
    let mut names = current.all_services().iter().map(|service| &service.name);
    let fields = || {
        let before = as_change(current, shown, now)?;
        Ok::<_, StoreError>(fields_of(current)? == fields_of(&before)?)
    };
    names.all(|name| has_name(&shown.services, name)) && fields().unwrap_or(false)
}

/// Returns a change as it would be if its source had just recorded it. What does not follow
/// from what is shown is that of `current`, such as the services, which have ids there.
fn as_change(
    current: &Change,
    shown: &ObservedChange,
    now: Timestamp,
) -> Result<Change, StoreError> {
    let new: NewChange = from_object(shown.fields.clone(), now)?;
    let mut change = new.into_change(ChangeId(current.id.0), current.organization_id, None, now);
    change.set_services(current.all_services().to_vec());
    change.host_ref.clone_from(&current.host_ref);
    change.created_by.clone_from(&current.created_by);
    change.source.clone_from(&current.source);
    change.updated_by.clone_from(&current.updated_by);
    change.occurred_at = current.occurred_at;
    change.created_at = current.created_at;
    change.updated_at = current.updated_at;
    let host = current.host_ref.as_ref();
    if change.environment.is_none() {
        change.environment = host.and_then(|host| host.environment.clone());
    }
    Ok(change)
}

fn fields_of(change: &Change) -> Result<Map<String, Value>, StoreError> {
    match serde_json::to_value(change) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(StoreError::Unavailable("a change is no JSON object".into())),
    }
}

/// Returns whether a change has no other services than it was shown with.
pub(super) fn has_services_of(current: &Change, shown: &ObservedChange) -> bool {
    let mut services = current.all_services().iter();
    services.all(|service| has_name(&shown.services, &service.name))
}

fn has_name(names: &[String], name: &str) -> bool {
    names.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// Returns the fields that are shown differently, null for what is not shown any more.
fn differences(was: &ObservedChange, is: &ObservedChange) -> Map<String, Value> {
    let mut differences = Map::new();
    for (name, value) in &is.fields {
        if was.fields.get(name) != Some(value) {
            differences.insert(name.clone(), value.clone());
        }
    }
    for name in was.fields.keys() {
        if !is.fields.contains_key(name) {
            differences.insert(name.clone(), Value::Null);
        }
    }
    differences
}

/// Returns the tags with those that the source has added since, and without those that it has
/// removed.
fn tags<'t>(current: &'t [String], was: &[String], is: &'t Value) -> Vec<&'t str> {
    let is: Vec<&str> = is.as_array().map_or_else(Vec::new, |tags| {
        tags.iter().filter_map(Value::as_str).collect()
    });
    let was: Vec<&str> = was.iter().map(String::as_str).collect();
    let current: Vec<&str> = current.iter().map(String::as_str).collect();
    let kept = current
        .iter()
        .filter(|tag| is.contains(tag) || !was.contains(tag));
    let added = is
        .iter()
        .filter(|tag| !was.contains(tag) && !current.contains(tag));
    kept.chain(added).copied().collect()
}

/// Returns the description with what the source says now in place of what it has said, if that
/// is still there; what was added below it stays.
fn described(current: Option<&str>, was: Option<&str>, is: Value) -> Option<Value> {
    if current == was {
        return Some(is);
    }
    let added = current?.strip_prefix(was?)?;
    let is = is.as_str()?;
    added
        .starts_with('\n')
        .then(|| Value::from(format!("{is}{added}")))
}
