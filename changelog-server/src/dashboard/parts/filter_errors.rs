//! The words for filters that a list refuses.

use changelog_core::limits::MAX_QUERY_WORDS;
use changelog_core::{Invalid, Violation, ViolationCode};

use super::form::Form;
use super::format;

/// Adds the violations of a query string to the form, each at its field; those of parameters
/// without a field at the whole form. `labels` are the fields with their labels.
pub(crate) fn refuse_filters(
    mut form: Form,
    invalid: &Invalid,
    labels: &[(&'static str, &'static str)],
) -> Form {
    for violation in &invalid.violations {
        let parameter = violation.pointer.trim_start_matches('?');
        let name = match parameter {
            "service_id" => "service",
            "host_id" => "host",
            "tag" => "tags",
            name => name,
        };
        let label = labels.iter().find(|(field, _)| *field == name);
        let message = message(violation, parameter, label.map(|(_, label)| *label));
        let field = label.map_or("", |(field, _)| field);
        form = form.refuse_field(field, message);
    }
    if invalid.more > 0 {
        form = form.refuse_field("", format!("{} more errors", invalid.more));
    }
    form
}

fn message(violation: &Violation, parameter: &str, label: Option<&str>) -> String {
    let shown = format::visible(&format::excerpt(parameter));
    match (&violation.code, parameter, label) {
        (ViolationCode::UnknownField, ..) => format!("Unknown filter: {shown}"),
        (_, "since" | "until", Some(label)) => format!("\"{label}\" isn't a valid date and time"),
        (_, "service_id" | "host_id", Some(label)) => format!("{label}: not a valid id"),
        (ViolationCode::TooMany, "text" | "q", _) => {
            format!("Search for at most {MAX_QUERY_WORDS} different words")
        }
        (_, _, Some(label)) => format!("{label} {}", violation.message),
        (_, _, None) => format!("{shown} {}", violation.message),
    }
}
