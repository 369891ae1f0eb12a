//! The form of a source.

use changelog_core::{
    Environment, Invalid, NewSource, RiskLevel, SourcePatch, Timestamp, ViolationCode, Violations,
};

use super::kinds::OfferedKind;
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::ingest::setup;
use crate::store::Source;

/// Whether a secret is made.
const GENERATE: &str = "generate";
const SECRET: &str = "secret";
/// Whether the secret is removed.
const REMOVE_SECRET: &str = "remove_secret";

const fn risk(name: &'static str, label: &'static str) -> Field {
    let kind = FieldKind::Choice {
        words: RiskLevel::WORDS,
        none: None,
    };
    Field::new(name, kind, label)
}

const fn template(name: &'static str, label: &'static str, hint: &'static str) -> Field {
    Field::new(name, FieldKind::LongText, label).hint(hint)
}

/// The fields; the kind is the first, because it cannot be changed.
const FIELDS: &[Field] = &[
    Field::required("kind"),
    Field::required("name"),
    Field::new(SECRET, FieldKind::Optional, "Secret"),
    Field::new("service", FieldKind::Optional, "Default service")
        .hint("Of what the sender names none for.")
        .completed_from("services"),
    Field::new(
        "environment",
        FieldKind::Choice {
            words: Environment::WORDS,
            none: Some("None"),
        },
        "Default environment",
    )
    .hint("Of what the sender names none for."),
    Field::new(
        "create_missing",
        FieldKind::Checkbox,
        "Create missing services",
    )
    .hint("Those that the sender names, and that do not exist; hosts as well, if a template names them."),
    Field::new("environments", FieldKind::Lines, "Environments by name").hint(
        "One NAME=ENVIRONMENT per line, such as payments-eu=prod: the environment of an account, \
         cluster, namespace or branch. Names such as production or staging-eu are known.",
    ),
    Field::new("workflows", FieldKind::Lines, "Workflows that deploy")
        .hint("One name per line. Their runs become changes."),
    risk("risk_deletes", "Risk of what deletes"),
    risk("risk_failures", "Risk of what failed"),
    risk("risk_production", "Risk in production"),
    template(
        "templates/title",
        "Title",
        "Such as: Deploy {{ service }} {{ version }}. It is looked for only if all templates are \
         empty.",
    ),
    template(
        "templates/key",
        "Key",
        "What tells one change from another, such as {{ run.id }}. Empty: each request is one.",
    ),
    template(
        "templates/status",
        "Status",
        "planned, in_progress, completed or failed, or the sender's word for it. Empty: completed.",
    ),
    template(
        "templates/at",
        "Time",
        "When the status was reached: RFC 3339, or seconds or milliseconds since 1970. Empty: when \
         the request arrived.",
    ),
    template("templates/service", "Service", "The name of a service."),
    template("templates/host", "Host", "The name of a host."),
    template(
        "templates/environment",
        "Environment",
        "The sender's word for it.",
    ),
    template("templates/person", "Person", "Who did it."),
    template("templates/description", "Description", "In Markdown."),
    template("templates/link", "Link", "A URL."),
    template("templates/commit", "Commit", ""),
    template(
        "templates/ignore",
        "Ignore",
        "What renders to true is no change, such as {{ type == \"ping\" }}.",
    ),
    template(
        "templates/each",
        "List",
        "A JSON pointer such as /events to a list of which every element is one change. The other \
         templates are then over the element.",
    ),
    template(
        "alert_templates/title",
        "Title",
        "Such as: {{ check.name }} is down. It is looked for only if all templates are empty.",
    ),
    template(
        "alert_templates/key",
        "Key",
        "What tells one alert from another, the same when it fires and when it is resolved, such \
         as {{ check.id }}. Empty: the title.",
    ),
    template(
        "alert_templates/status",
        "Status",
        "firing or resolved, or the sender's word for it. Empty: firing.",
    ),
    template(
        "alert_templates/severity",
        "Severity",
        "critical, warning or info, or the sender's word for it. Empty: warning.",
    ),
    template(
        "alert_templates/at",
        "Time",
        "When the status was reached: RFC 3339, or seconds or milliseconds since 1970. Empty: when \
         the request arrived.",
    ),
    template(
        "alert_templates/started_at",
        "Start",
        "When the alert began to fire, if each request says so.",
    ),
    template(
        "alert_templates/service",
        "Service",
        "The name of a service.",
    ),
    template(
        "alert_templates/environment",
        "Environment",
        "The sender's word for it.",
    ),
    template("alert_templates/link", "Link", "A URL."),
    template(
        "alert_templates/ignore",
        "Ignore",
        "What renders to true is no alert, such as {{ type == \"ping\" }}.",
    ),
    template(
        "alert_templates/each",
        "List",
        "A JSON pointer such as /alerts to a list of which every element is one alert. The other \
         templates are then over the element.",
    ),
    Field::new("service_labels", FieldKind::Lines, "Labels of the service").hint(
        "One name per line: the labels or tags of an alert that name its service, the most telling \
         first. Empty: service, service_name, app, application, app_kubernetes_io_name, component, \
         job.",
    ),
    Field::new(
        "environment_labels",
        FieldKind::Lines,
        "Labels of the environment",
    )
    .hint(
        "The same for the environment. Empty: environment, env, deployment_environment, stage, \
         namespace, cluster.",
    ),
];
const PATCH_FIELDS: &[Field] = FIELDS.split_at(1).1;

/// Fields that are shown together.
pub(super) struct Fields {
    /// When the sender names none.
    pub(super) defaults: &'static [Field],
    pub(super) environments: &'static Field,
    pub(super) workflows: &'static Field,
    pub(super) risks: &'static [Field],
    pub(super) templates: &'static [Field],
    pub(super) alert_templates: &'static [Field],
    pub(super) labels: &'static [Field],
}

impl Fields {
    /// Returns the templates of a kind.
    pub(super) fn templates_of(&self, kind: &OfferedKind) -> &'static [Field] {
        if kind.is_of_alerts() {
            self.alert_templates
        } else {
            self.templates
        }
    }
}

pub(super) static SHOWN: Fields = Fields {
    defaults: FIELDS.split_at(3).1.split_at(3).0,
    environments: &FIELDS[6],
    workflows: &FIELDS[7],
    risks: FIELDS.split_at(8).1.split_at(3).0,
    templates: FIELDS.split_at(11).1.split_at(13).0,
    alert_templates: FIELDS.split_at(24).1.split_at(11).0,
    labels: FIELDS.split_at(35).1,
};

/// Returns the form for a new source of a kind.
pub(super) fn empty(kind: &OfferedKind) -> Form {
    let mut form = Form::with_values([
        ("kind", kind.kind.to_string()),
        ("create_missing", "true".to_owned()),
    ]);
    // A program that posts JSON need not know how to send one.
    if kind.takes_secret() && !kind.has_templates() {
        form.set(GENERATE, "true".to_owned());
    }
    form.focused_on("name")
}

/// Returns the form for a source, without its secret.
pub(super) fn of(source: &Source) -> Form {
    let settings = &source.settings;
    let rules = settings.environments.iter();
    let rules: Vec<String> = rules.map(|(name, of)| format!("{name}={of}")).collect();
    let environment = settings.environment.as_ref().map(ToString::to_string);
    let mut form = Form::with_values([
        ("name", source.name.clone()),
        ("service", settings.service.clone().unwrap_or_default()),
        ("environment", environment.unwrap_or_default()),
        ("environments", rules.join("\n")),
        ("workflows", settings.workflows.join("\n")),
        ("risk_deletes", settings.risk.deletes.to_string()),
        ("risk_failures", settings.risk.failures.to_string()),
        ("risk_production", settings.risk.production.to_string()),
        ("service_labels", settings.service_labels.join("\n")),
        ("environment_labels", settings.environment_labels.join("\n")),
    ]);
    if settings.create_missing {
        form.set("create_missing", "true".to_owned());
    }
    for (name, template) in settings.generic.pairs() {
        form.set(&format!("templates/{name}"), template.to_owned());
    }
    for (name, template) in settings.alert.pairs() {
        form.set(&format!("alert_templates/{name}"), template.to_owned());
    }
    form.remembering(PATCH_FIELDS)
}

/// Returns the form over the present values; see [`Form::over`].
pub(super) fn over_present(form: &Form, source: &Source) -> Result<Form, Form> {
    form.over(&of(source), PATCH_FIELDS)
}

/// Returns whether the secret is to be removed. A sender that signs its requests needs one.
pub(super) fn removes_secret(kind: &OfferedKind, form: &Form) -> bool {
    form.has(REMOVE_SECRET) && form.value(SECRET).is_empty() && !kind.is_signed()
}

/// Reads the form for a new source. Returns the secret, too, if it was generated.
pub(super) async fn read_new(
    kind: &OfferedKind,
    form: &Form,
    now: Timestamp,
) -> Result<(NewSource, Option<String>), Invalid> {
    let mut new: NewSource = form.create(FIELDS, now).await?;
    let generated = complete_secret(kind, form, &mut new.secret, false)?;
    Ok((new, generated))
}

/// Reads the form for an existing source. Returns the secret, too, if it was generated.
pub(super) async fn read_patch(
    kind: &OfferedKind,
    source: &Source,
    form: &Form,
    now: Timestamp,
) -> Result<(SourcePatch, Option<String>), Invalid> {
    let mut patch: SourcePatch = form.patch(PATCH_FIELDS, now).await?;
    let has_secret = source.secret.is_some();
    let generated = complete_secret(kind, form, &mut patch.secret, has_secret)?;
    Ok((patch, generated))
}

/// Generates a secret if that is wanted and none was given, and returns it.
fn complete_secret(
    kind: &OfferedKind,
    form: &Form,
    secret: &mut Option<String>,
    has_secret: bool,
) -> Result<Option<String>, Invalid> {
    let mut problems = Violations::default();
    let mut generated = None;
    if !kind.takes_secret() {
        *secret = None;
    } else if secret.is_none() && form.has(GENERATE) && !form.has(REMOVE_SECRET) {
        generated = Some(setup::new_secret());
        secret.clone_from(&generated);
    } else if kind.lacks_secret(has_secret || secret.is_some()) {
        let message = "is required, because the sender signs its requests: enter one, or let one \
                       be generated";
        problems.add("/secret", ViolationCode::Required, message);
    }
    problems.into_result(generated)
}

/// Returns a form that is shown again without its secret, which must be entered again.
pub(super) fn without_secret(mut form: Form) -> Form {
    let was_given = !form.value(SECRET).is_empty();
    form.remove(SECRET);
    if was_given && !form.has_errors(SECRET) {
        form = form.refuse_field(SECRET, "Enter it again; it isn't shown");
    }
    form
}

#[cfg(test)]
mod tests {
    use changelog_core::source::{
        AlertTemplates, ENVIRONMENT_LABELS, GenericTemplates, SERVICE_LABELS,
    };

    use super::*;

    #[test]
    fn every_template_and_every_input_has_a_field() {
        let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
        for name in GenericTemplates::NAMES {
            assert!(names.contains(&&*format!("templates/{name}")), "{name}");
        }
        for name in AlertTemplates::NAMES {
            assert!(
                names.contains(&&*format!("alert_templates/{name}")),
                "{name}"
            );
        }
        for name in <NewSource as changelog_core::Input>::FIELDS {
            let known = names.iter().any(|known| {
                let (outer, _) = known.split_once('/').unwrap_or((known, ""));
                outer == *name
            });
            assert!(known, "{name}");
        }
        let shown = SHOWN.defaults.len()
            + SHOWN.risks.len()
            + SHOWN.templates.len()
            + SHOWN.alert_templates.len()
            + SHOWN.labels.len()
            + 2;
        assert_eq!(shown + 3, FIELDS.len());
        for (fields, prefix) in [
            (SHOWN.templates, "templates/"),
            (SHOWN.alert_templates, "alert_templates/"),
        ] {
            assert!(fields.iter().all(|field| field.name.starts_with(prefix)));
        }
        assert!(
            SHOWN
                .risks
                .iter()
                .all(|field| field.name.starts_with("risk_"))
        );
    }

    #[test]
    fn the_hints_name_the_default_labels() {
        for (field, defaults) in SHOWN
            .labels
            .iter()
            .zip([SERVICE_LABELS, ENVIRONMENT_LABELS])
        {
            let hint = field.hint;
            assert!(
                hint.ends_with(&format!("Empty: {}.", defaults.join(", "))),
                "{hint}"
            );
        }
    }

    #[test]
    fn a_secret_is_never_shown_again() {
        let form = Form::with_values([("name", "a".to_owned()), (SECRET, "b".to_owned())]);
        let form = without_secret(form);
        assert_eq!((form.value("name"), form.value(SECRET)), ("a", ""));
        assert!(form.has_errors(SECRET));
    }
}
