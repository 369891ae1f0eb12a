//! The form of a connection.

use changelog_core::limits::MAX_FILTER_VALUES;
use changelog_core::{
    ConnectionPatch, EventFilter, EventKind, Invalid, NewConnection, Receiver, ReceiverInput,
    ServiceId, ViolationCode, Violations, list,
};

use super::kinds::OfferedKind;
use crate::app::App;
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::named;
use crate::integrations::setup;
use crate::integrations::target::Target;
use crate::store::{Connection, StoreError, Tenant};

/// The fields; the kind is the first, because it cannot be changed.
const FIELDS: &[Field] = &[
    Field::required("kind"),
    Field::required("name"),
    Field::new("url", FieldKind::Optional, ""),
    Field::new("token", FieldKind::Optional, ""),
    Field::new("channel", FieldKind::Optional, ""),
    Field::new("dashboard_uid", FieldKind::Optional, ""),
    Field::new("panel_id", FieldKind::Optional, ""),
    Field::new("grafana_namespace", FieldKind::Optional, ""),
    Field::new("api_token", FieldKind::Optional, ""),
    Field::new("from", FieldKind::Optional, ""),
    Field::new(EVENTS, FieldKind::Boxes, ""),
    Field::new(SERVICES, FieldKind::List, ""),
    Field::new("environments", FieldKind::Boxes, ""),
    Field::new("tags", FieldKind::List, ""),
    Field::new("statuses", FieldKind::Boxes, ""),
    Field::new("min_risk", FieldKind::Optional, ""),
    Field::new("any_risk_in", FieldKind::Boxes, ""),
];
const PATCH_FIELDS: &[Field] = FIELDS.split_at(1).1;

const EVENTS: &str = "events";
const SERVICES: &str = "service_ids";

/// The kinds of events with their labels.
pub(super) fn events() -> [(&'static str, &'static str); 9] {
    let labels = [
        "Recorded",
        "Edited",
        "Status changed",
        "Deleted",
        "Source silent",
        "Source heard again",
        "Incident opened",
        "Suspects of an incident ranked",
        "Incident resolved",
    ];
    std::array::from_fn(|index| (EventKind::WORDS[index], labels[index]))
}

/// Returns the form for a new connection of a kind.
pub(super) fn empty(kind: &OfferedKind) -> Form {
    let mut form = Form::with_values([("kind", kind.kind.to_string())]);
    set_filter(&mut form, &EventFilter::default_of(&kind.kind), &[]);
    form.focused_on("name")
}

/// Returns the form for a connection, without its secrets.
pub(super) fn of(
    connection: &Connection,
    kind: &OfferedKind,
    target: &Target,
    services: &[(ServiceId, String)],
) -> Form {
    let mut form = Form::with_values([("name", connection.name.clone())]);
    for field in kind.fields.iter().filter(|field| !field.is_secret) {
        let value = match field.name {
            "url" => Some(target.url.clone()),
            "channel" => target.channel.clone(),
            "dashboard_uid" => target.dashboard_uid.clone(),
            "panel_id" => target.panel_id.map(|id| id.to_string()),
            "grafana_namespace" => target.grafana_namespace.clone(),
            "from" => target.from.clone(),
            _ => None,
        };
        form.set(field.name, value.unwrap_or_default());
    }
    set_filter(&mut form, &connection.filter, services);
    if kind.takes_events() {
        // Only those that have a box.
        let offered = kind.events().into_iter().map(|(word, _)| word);
        let chosen: Vec<&str> = offered
            .filter(|word| form.is_chosen(EVENTS, word))
            .collect();
        form.set(EVENTS, chosen.join(","));
    } else {
        form.remove(EVENTS);
    }
    let is_shown = |field: &&Field| form.has(field.name);
    let shown: Vec<Field> = PATCH_FIELDS.iter().filter(is_shown).copied().collect();
    form.remembering(&shown)
}

/// Returns the form over `present`, which has the present values; see [`Form::over`].
pub(super) fn over_present(mut form: Form, present: &Form) -> Result<Form, Form> {
    form.join(FIELDS);
    form.over(present, PATCH_FIELDS)
}

/// Sets the fields of a filter. Those that have no condition on events have all of them
/// checked.
fn set_filter(form: &mut Form, filter: &EventFilter, services: &[(ServiceId, String)]) {
    fn words<T: ToString>(values: &[T]) -> String {
        let words: Vec<String> = values.iter().map(ToString::to_string).collect();
        words.join(",")
    }
    let name_of = |id: &ServiceId| {
        let found = services.iter().find(|(known, _)| known == id);
        found.map_or_else(|| id.to_string(), |(_, name)| name.clone())
    };
    let names: Vec<String> = filter.service_ids.iter().map(name_of).collect();
    let events = words(&filter.kinds());
    let risk = filter.min_risk.as_ref().map(ToString::to_string);
    for (name, value) in [
        (EVENTS, events),
        (SERVICES, list::format(&names)),
        ("environments", words(&filter.environments)),
        ("tags", list::format(&filter.tags)),
        ("statuses", words(&filter.statuses)),
        ("min_risk", risk.unwrap_or_default()),
        ("any_risk_in", words(&filter.any_risk_in)),
    ] {
        form.set(name, value);
    }
}

/// Reads the form for a new connection.
pub(super) async fn read_new(
    app: &App,
    tenant: Tenant,
    kind: &OfferedKind,
    form: &Form,
) -> Result<NewConnection, StoreError> {
    let form = prepared(app, tenant, kind, form).await?;
    let mut new: NewConnection = form.create(FIELDS, app.now().into()).await?;
    new.filter.simplify();
    check_address(app, &new.receiver).await?;
    Ok(new)
}

/// Refuses an address that requests may not connect to. One that cannot be checked now is
/// accepted; the page of the connection shows what becomes of requests.
async fn check_address(app: &App, receiver: &ReceiverInput) -> Result<(), Invalid> {
    let mut problems = Violations::default();
    if setup::check_address(&app.integrations.http, receiver)
        .await
        .is_err()
    {
        // Users learn nothing of the networks around the server.
        let message = "must be an https URL of the internet: private and reserved networks are \
                       refused, unless the operator of the server allows them by \
                       --allow-receivers";
        problems.add("/url", ViolationCode::InvalidFormat, message);
    }
    problems.into_result(())
}

/// Reads the form for an existing connection: secrets that are empty keep their value,
/// other fields are cleared.
pub(super) async fn read_patch(
    app: &App,
    tenant: Tenant,
    kind: &OfferedKind,
    target: &Target,
    form: &Form,
) -> Result<ConnectionPatch, StoreError> {
    fn after<'t>(new: Option<&'t String>, present: &'t str) -> &'t str {
        new.map_or(present, String::as_str)
    }
    let form = prepared(app, tenant, kind, form).await?;
    let patch: ConnectionPatch = form.patch(PATCH_FIELDS, app.now().into()).await?;
    let mut problems = Violations::default();
    let (receiver, token) = (&patch.receiver, target.token.as_deref());
    let is_cleared = |name: &str| form.has(name) && form.value(name).trim().is_empty();
    // Without an author there are no notes in PagerDuty.
    let without_notes = is_cleared("from");
    let of_notes = |present: &Option<String>| match present {
        Some(present) if !without_notes => present.clone(),
        _ => String::new(),
    };
    let (api_token, from) = (of_notes(&target.api_token), of_notes(&target.from));
    Receiver {
        kind: &kind.kind,
        url: after(receiver.url.as_ref(), &target.url),
        token: after(receiver.token.as_ref(), token.unwrap_or_default()),
        channel: after(
            receiver.channel.as_ref(),
            target.channel.as_deref().unwrap_or_default(),
        ),
        api_token: after(receiver.api_token.as_ref(), &api_token),
        from: after(receiver.from.as_ref(), &from),
    }
    .check(&mut problems);
    // A token was given for its receiver, and is not sent to another one.
    let is_elsewhere = receiver.url.as_ref().is_some_and(|url| *url != target.url);
    for (pointer, is_kept) in [
        ("/token", token.is_some() && receiver.token.is_none()),
        (
            "/api_token",
            !api_token.is_empty() && receiver.api_token.is_none(),
        ),
    ] {
        if is_elsewhere && is_kept {
            let message = "give it again, because the address has changed";
            problems.add(pointer, ViolationCode::Required, message);
        }
    }
    let mut patch = problems.into_result(patch)?;
    if is_elsewhere {
        check_address(app, &patch.receiver).await?;
    }
    let receiver = &mut patch.receiver;
    if without_notes {
        receiver.api_token = Some(String::new());
        receiver.from = Some(String::new());
    }
    for (name, value) in [
        ("dashboard_uid", &mut receiver.dashboard_uid),
        ("panel_id", &mut receiver.panel_id),
        ("grafana_namespace", &mut receiver.grafana_namespace),
    ] {
        if is_cleared(name) {
            *value = Some(String::new());
        }
    }
    patch.filter.simplify();
    Ok(patch)
}

/// Joins boxes and replaces names of services by ids.
async fn prepared(
    app: &App,
    tenant: Tenant,
    kind: &OfferedKind,
    form: &Form,
) -> Result<Form, StoreError> {
    let mut form = form.clone();
    form.join(FIELDS);
    if kind.takes_events() && form.value(EVENTS).is_empty() {
        let mut problems = Violations::default();
        let message = "choose at least one";
        problems.add(format!("/{EVENTS}"), ViolationCode::Required, message);
        return Ok(problems.into_result(form)?);
    }
    named::resolve_services(&app.store, tenant, &mut form, SERVICES, MAX_FILTER_VALUES).await?;
    Ok(form)
}

/// Returns a form that is shown again, without its secrets.
pub(super) fn refused(form: Form, kind: &OfferedKind, invalid: &Invalid) -> Form {
    without_secrets(form.refuse(invalid), kind)
}

/// Removes the secrets, and says that they must be entered again.
pub(super) fn without_secrets(mut form: Form, kind: &OfferedKind) -> Form {
    for field in kind.fields.iter().filter(|field| field.is_secret) {
        let was_given = !form.value(field.name).is_empty();
        form.remove(field.name);
        if was_given && !form.has_errors(field.name) {
            form = form.refuse_field(field.name, "Enter it again; it isn't shown");
        }
    }
    form
}

#[cfg(test)]
mod tests {
    use changelog_core::{ConnectionKind, Environment, RiskLevel};

    use super::super::kinds::{KINDS, kind_of};
    use super::*;

    #[test]
    fn a_form_begins_with_the_default_of_its_kind() {
        for kind in &KINDS {
            let form = empty(kind);
            assert_eq!(form.value("kind"), kind.kind.as_str());
            assert!(form.is_chosen(EVENTS, "change.created"));
        }
        let slack = empty(kind_of(&ConnectionKind::Slack).expect("a kind"));
        assert!(!slack.is_chosen(EVENTS, "change.deleted"));
        let grafana = empty(kind_of(&ConnectionKind::Grafana).expect("a kind"));
        assert_eq!(grafana.value("min_risk"), RiskLevel::Medium.as_str());
        assert!(grafana.is_chosen("any_risk_in", Environment::Prod.as_str()));
    }

    #[test]
    fn secrets_are_never_shown_again() {
        let kind = kind_of(&ConnectionKind::Grafana).expect("a kind");
        let form = Form::with_values([
            ("url", "https://g.example".to_owned()),
            ("token", "glsa_secret".to_owned()),
        ]);
        let form = without_secrets(form, kind);
        assert_eq!(
            (form.value("url"), form.value("token")),
            ("https://g.example", "")
        );
        assert!(form.has_errors("token") && !form.has_errors("url"));
    }

    #[test]
    fn every_field_is_read() {
        for field in KINDS.iter().flat_map(|kind| kind.fields) {
            let known = FIELDS.iter().any(|known| known.name == field.name);
            assert!(known, "{}", field.name);
        }
        let mut filter = EventFilter {
            events: EventKind::ALL.to_vec(),
            ..EventFilter::default()
        };
        filter.simplify();
        assert_eq!(filter, EventFilter::default());
    }
}
