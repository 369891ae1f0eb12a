//! The body that Alertmanager sends, and Grafana in the same form: a group of alerts that
//! fire or are resolved, with what they have in common.

use changelog_core::{Severity, Timestamp};
use serde_json::Value;

use crate::alert::{Alert, Labels};
use crate::json::{first_line, list, parse, required, text, time};
use crate::observation::{Reading, Unreadable};
use crate::received::Received;
use crate::settings::Settings;

/// The longest title, in characters.
const MAX_TITLE_CHARS: usize = 300;

/// Reads a group: it is one alert, whose key is that of the group.
pub(super) fn read(received: &Received<'_>, settings: &Settings) -> Result<Reading, Unreadable> {
    let body = parse(received.body)?;
    let key = required(&body, "/groupKey", "the notification")?;
    let status = required(&body, "/status", "the notification")?;
    let is_firing = match status.as_str() {
        "firing" => true,
        "resolved" => false,
        other => {
            let reason = format!("the status {other} is neither firing nor resolved");
            return Ok(Reading::ignored(reason));
        }
    };
    let alerts = list(&body, "/alerts");
    let firing = || alerts.iter().filter(|alert| fires(alert));
    let mut labels = Labels::of_object(body.get("commonLabels"));
    labels.extend(Labels::of_object(body.get("groupLabels")));
    // What only some of the alerts have comes after what all have.
    if let Some(first) = firing().next().or_else(|| alerts.first()) {
        labels.extend(Labels::of_object(first.get("labels")));
    }
    let url = firing()
        .chain(alerts)
        .find_map(|alert| text(alert, "/generatorURL"));
    Ok(Alert {
        key,
        at: last_move(alerts).unwrap_or(received.at),
        // An alert that was silenced fires in it since before others were resolved.
        told_at: Some(received.at),
        is_firing,
        title: title(&body, alerts, &labels),
        severity: worst(alerts).or_else(|| labels.severity()),
        services: labels.services(settings),
        places: labels.places(settings),
        started_at: alerts
            .iter()
            .filter_map(|alert| moment(alert, "/startsAt"))
            .min(),
        url: url.or_else(|| text(&body, "/externalURL")),
    }
    .into())
}

fn fires(alert: &Value) -> bool {
    text(alert, "/status").as_deref() != Some("resolved")
}

/// Returns a time; `None` for the year 1, which stands for none.
fn moment(alert: &Value, pointer: &str) -> Option<Timestamp> {
    time(alert, pointer).filter(|at| *at > Timestamp::EPOCH)
}

/// Returns when the last of the alerts began to fire or was resolved: a repeated notification
/// has the same time, and one that was delayed has an earlier one.
fn last_move(alerts: &[Value]) -> Option<Timestamp> {
    let moves = alerts.iter().filter_map(|alert| {
        if fires(alert) {
            moment(alert, "/startsAt")
        } else {
            moment(alert, "/endsAt").or_else(|| moment(alert, "/startsAt"))
        }
    });
    moves.max()
}

fn worst(alerts: &[Value]) -> Option<Severity> {
    let firing = alerts.iter().filter(|alert| fires(alert));
    let severities = firing.filter_map(|alert| Labels::of_object(alert.get("labels")).severity());
    // The worst one is the first.
    severities.min()
}

/// Returns the summary that all alerts have, else the name of the alert, else the summary of
/// the first one.
fn title(body: &Value, alerts: &[Value], labels: &Labels) -> String {
    let members = ["/summary", "/title", "/message", "/description"];
    let of = |annotations: Option<&Value>| {
        let annotations = annotations?;
        members.iter().find_map(|member| text(annotations, member))
    };
    let title = of(body.get("commonAnnotations"))
        .or_else(|| labels.get("alertname"))
        .or_else(|| of(alerts.first()?.get("annotations")))
        .or_else(|| text(body, "/title"));
    first_line(&title.unwrap_or_default(), MAX_TITLE_CHARS)
}
