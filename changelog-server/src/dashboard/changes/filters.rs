//! The query string of the list of changes: that of the API, and `range` for a span of
//! time that ends now. The filter form is converted to it.

use changelog_core::query::Pairs;
use changelog_core::{
    Change, ChangeFilter, Host, Invalid, Service, SourceId, Status, Timestamp, ViolationCode,
    Violations, list,
};

use crate::app::App;
use crate::dashboard::names;
use crate::dashboard::parts::filter_errors::refuse_filters;
use crate::dashboard::parts::form::{Form, MOMENT};
use crate::dashboard::parts::named;
use crate::dashboard::parts::time_ranges::{RANGE, TIME_RANGES, TimeRange};
use crate::dashboard::parts::viewer::Viewer;
use crate::dashboard::parts::zone;
use crate::store::{Store, StoreError, Tenant, existing};

/// The parameters that take several words: a form repeats the name, the API separates
/// the words by commas.
pub(super) const SEVERAL: [&str; 5] = ["environment", "risk_level", "status", "not_status", "by"];

/// The fields of the form, with their labels.
const LABELS: [(&str, &str); 15] = [
    ("text", "Search"),
    ("service", "Service"),
    ("host", "Host"),
    ("created_by", "Recorded by"),
    ("tags", "Tags"),
    ("since", "From"),
    ("until", "Until"),
    ("environment", "Environment"),
    ("risk_level", "Risk"),
    ("min_risk", "Risk at least"),
    ("status", "Status"),
    ("not_status", "Status"),
    ("by", "Made by"),
    ("source", "Source"),
    ("agent", "Agent"),
];

/// What the page and the downloads read from a query string.
pub(in crate::dashboard) struct Selection {
    pub(super) filter: ChangeFilter,
    /// The span of time that ends now, if the query string has one.
    pub(super) range: Option<&'static TimeRange>,
}

impl Selection {
    /// Reads a query string. A range is dropped if there are fixed times.
    pub(in crate::dashboard) fn read(query: &str, now: Timestamp) -> Result<Self, Invalid> {
        let mut others = Pairs::default();
        let mut range = None;
        let mut unknown = Violations::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if name == RANGE {
                range = TIME_RANGES.iter().find(|range| range.name == value);
                if range.is_none() {
                    let words = TIME_RANGES.map(|range| range.name).join(", ");
                    let message = format!("must be one of {words}");
                    unknown.add("?range", ViolationCode::InvalidFormat, message);
                }
            } else {
                others.push(&name, value);
            }
        }
        let mut filter = ChangeFilter::from_query(&others.finish())?;
        unknown.into_result(())?;
        if filter.since.is_some() || filter.until.is_some() {
            range = None;
        }
        if let Some(range) = range {
            filter.since = range.start(now).parse().ok();
        }
        Ok(Self { filter, range })
    }
}

/// Converts the filter form to the query string: without empty fields, with ids for
/// names and RFC 3339 for times. Values that cannot be converted become errors of the
/// form.
pub(super) async fn canonical_query(
    app: &App,
    viewer: &Viewer,
    form: Form,
) -> Result<(String, Form), StoreError> {
    let (store, tenant) = (&app.store, viewer.tenant());
    let mut pairs: Vec<(&str, String)> = Vec::new();
    let mut errors: Vec<(&str, String)> = Vec::new();
    let is_fixed = ["since", "until"].map(|name| !form.value(name).trim().is_empty());
    for (name, value) in form.pairs() {
        let value = value.trim();
        match name {
            _ if value.is_empty() || name == zone::FIELD || name.ends_with(MOMENT) => {}
            "page" if value == "1" => {}
            RANGE if is_fixed.contains(&true) => {}
            _ if SEVERAL.contains(&name) => {
                match pairs.iter_mut().find(|(found, _)| *found == name) {
                    Some((_, words)) => {
                        words.push(',');
                        words.push_str(value);
                    }
                    None => pairs.push((name, value.to_owned())),
                }
            }
            "since" | "until" => pairs.push((name, form.time(name, value))),
            // What happened on a day of the reader: links of charts are short.
            "day" => match viewer.zone.day(value) {
                Some(day) => {
                    pairs.push(("since", day.start.to_string()));
                    pairs.push(("until", day.end.to_string()));
                    if form.value("status").is_empty() {
                        pairs.push(("not_status", Status::Planned.to_string()));
                    }
                }
                None => errors.push((name, "Enter a day such as 2026-11-21".to_owned())),
            },
            "tags" => {
                let tags = list::parse(value).into_iter();
                pairs.extend(tags.map(|tag| ("tag", tag)));
            }
            // PostgreSQL does not accept it in a string.
            "service" | "host" if value.contains('\0') => {
                errors.push((name, "A name cannot contain NUL".to_owned()));
            }
            // This bounds the lookups of one request.
            "service" | "host" | "source" if is_repeated(&form, name) => {
                errors.push((name, "Enter one name".to_owned()));
            }
            "service" => match named::id_of::<Service>(store, tenant, value).await? {
                Ok(id) => pairs.push(("service_id", id)),
                Err(message) => errors.push((name, message)),
            },
            "host" => match named::id_of::<Host>(store, tenant, value).await? {
                Ok(id) => pairs.push(("host_id", id)),
                Err(message) => errors.push((name, message)),
            },
            // The name that a source has now finds what it sent under former names, too.
            "source" => {
                let known = source_named(store, tenant, value).await?;
                pairs.push((name, known.map_or(value.to_owned(), |id| id.to_string())));
            }
            // The form sends the name as well, which may have been edited.
            "service_id" | "host_id" if !form.value(&name[..name.len() - 3]).trim().is_empty() => {}
            _ => pairs.push((name, value.to_owned())),
        }
    }
    let mut query = Pairs::default();
    for (name, value) in pairs {
        query.push(name, value);
    }
    let mut refused = form.clone();
    for (name, message) in errors {
        refused = refused.refuse_field(name, message);
    }
    Ok((query.finish(), refused))
}

fn is_repeated(form: &Form, name: &str) -> bool {
    form.pairs().filter(|(found, _)| *found == name).count() > 1
}

/// Returns the errors for an author and a source without changes whose names nobody has.
pub(super) async fn unknown_names(
    store: &Store,
    tenant: Tenant,
    filter: &ChangeFilter,
) -> Result<Vec<(&'static str, String)>, StoreError> {
    let is_name = |given: &&String| uuid::Uuid::try_parse(given).is_err();
    let mut unknown = Vec::new();
    let mut check = |field, what, given: &str, all: Vec<String>| {
        if !all.iter().any(|name| name.eq_ignore_ascii_case(given)) {
            unknown.push((field, named::unknown_name(what, given, &all)));
        }
    };
    if let Some(author) = filter.created_by.as_ref().filter(is_name) {
        let all = names::people(store, tenant, "").await?;
        check("created_by", "person or API key", author, all);
    }
    if let Some(source) = filter.source.as_ref().filter(is_name) {
        let all = names::sources(store, tenant, "").await?;
        check("source", "source", source, all);
    }
    Ok(unknown)
}

/// Returns the id of the source with a name.
async fn source_named(
    store: &Store,
    tenant: Tenant,
    name: &str,
) -> Result<Option<SourceId>, StoreError> {
    let mut all = store.sources(tenant).await?.into_iter();
    let named = all.find(|source| source.name.eq_ignore_ascii_case(name));
    Ok(named.map(|source| source.id))
}

/// Returns the name of the source with an id, even of one that was deleted if it is that of
/// one of these changes.
pub(super) async fn source_name(
    store: &Store,
    tenant: Tenant,
    id: &str,
    changes: &[Change],
) -> Result<Option<String>, StoreError> {
    let Ok(id) = uuid::Uuid::try_parse(id).map(SourceId::from) else {
        return Ok(None);
    };
    if let Some(source) = existing(store.source_of(tenant, id).await)? {
        return Ok(Some(source.name));
    }
    let mut sources = changes.iter().filter_map(|change| change.source.as_ref());
    let of_id = sources.find(|source| source.id == id);
    Ok(of_id.map(|source| source.name.clone()))
}

/// Returns the name of the API key or person with an id.
pub(super) async fn author_name(
    store: &Store,
    tenant: Tenant,
    id: &str,
) -> Result<Option<String>, StoreError> {
    let Ok(id) = uuid::Uuid::try_parse(id) else {
        return Ok(None);
    };
    if let Some(key) = existing(store.api_key_of(tenant, id.into()).await)? {
        return Ok(Some(key.name));
    }
    let people = store.actors(tenant).await?.into_iter();
    let mut of_id = people.filter(|actor| actor.actor_id == Some(id.into()));
    Ok(of_id.next().map(|actor| actor.actor_name))
}

/// Adds the violations of a query string to the form, each at its field.
pub(super) fn refuse(form: Form, invalid: &Invalid) -> Form {
    refuse_filters(form, invalid, &LABELS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_now_and_yield_to_fixed_times() {
        let now: Timestamp = "2026-11-22T15:15:42Z".parse().expect("a time");
        let read = |query: &str| {
            let selection = Selection::read(query, now).map_err(|invalid| {
                let pointers = invalid.violations.into_iter().map(|one| one.pointer);
                pointers.collect::<Vec<_>>()
            })?;
            let since = selection.filter.since.map(|since| since.to_string());
            Ok::<_, Vec<String>>((since, selection.range.map(|range| range.name)))
        };
        let four_hours_ago = Some("2026-11-22T11:15:00.000Z".to_owned());
        assert_eq!(read("range=4h"), Ok((four_hours_ago, Some("4h"))));
        assert_eq!(read(""), Ok((None, None)));
        let fixed = Some("2026-11-01T00:00:00.000Z".to_owned());
        assert_eq!(
            read("since=2026-11-01T00:00:00Z&range=4h"),
            Ok((fixed, None))
        );
        assert_eq!(
            read("range=4h&until=2026-11-01T00:00:00Z"),
            Ok((None, None))
        );
        assert_eq!(read("range=2h"), Err(vec!["?range".to_owned()]));
        assert_eq!(read("range=2h&x=1"), Err(vec!["?x".to_owned()]));
    }
}
