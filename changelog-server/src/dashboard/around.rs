//! `/around`: the changes before a moment at which something broke, most suspicious
//! first, with a timeline.

use std::collections::HashMap;

use askama::Template;
use changelog_core::change::around::Affected;
use changelog_core::limits::MAX_WINDOW_MINUTES;
use changelog_core::query::Pairs;
use changelog_core::written_time::parse_length;
use changelog_core::{
    Around, AroundFilter, Change, ChangeFilter, ChangeId, CoveredSource, Environment, Host, HostId,
    Service, ServiceId, ServiceRef, Timestamp,
};
use chrono::TimeDelta;

use crate::app::App;
use crate::around::{Investigation, investigate};
use crate::coverage::coverage;
use crate::dashboard::incidents;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::named;
use crate::dashboard::parts::query_string::{address, with, without};
use crate::dashboard::parts::suspects::SuspectRow;
use crate::dashboard::parts::timeline::{self, Event, Events, Range, Subject, Timeline};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::zone::{Zone, rfc3339};
use crate::dashboard::parts::{assets, format, page};
use crate::store::{HAPPENED, StoreError, Tenant};
use crate::web::{ApiError, ApiResult, Request};

/// The number of suspects that are shown.
const SUSPECTS_SHOWN: u64 = 10;
/// The number of services and environments of the window that are shown.
const FACETS_SHOWN: usize = 8;
/// The number of sources that are shown.
const HEARD_SHOWN: usize = 10;
/// The number of names that the field of the service suggests.
pub(super) const MAX_SUGGESTIONS: u64 = 200;
/// The longest time that is read; none that is valid is longer.
const MAX_TIME_CHARS: usize = 64;

/// How much time before and after the moment the timeline shows: the name in addresses,
/// the label, and the length in minutes.
const SPANS: [(&str, &str, i64); 4] = [
    ("15m", "± 15 min", 15),
    ("1h", "± 1 h", 60),
    ("4h", "± 4 h", 4 * 60),
    ("1d", "± 1 day", 24 * 60),
];
/// The index of the shortest span that is chosen for the reader.
const DEFAULT_SPAN: usize = 1;

/// A link with a label.
struct Choice {
    label: String,
    address: String,
    is_current: bool,
}

/// The changes before the moment.
struct Answer {
    around: Around,
    /// The moment in words.
    at: String,
    is_now: bool,
    /// The length of the window in words.
    window: String,
    suspects: Vec<SuspectRow>,
    /// What changes come from, if it was ever heard.
    heard: Vec<CoveredSource>,
    services: Vec<(String, u64, String)>,
    environments: Vec<(String, u64, String)>,
    spans: Vec<Choice>,
    timeline: Timeline,
    /// Whether the chosen range is longer than the timeline can show.
    is_shortened: bool,
    /// The list of all changes of the window.
    list: String,
}

#[derive(Template)]
#[template(path = "around.html")]
struct AroundPage<'a> {
    viewer: &'a Viewer,
    form: &'a Form,
    services: Vec<String>,
    environments: &'static [&'static str],
    answer: Option<Answer>,
}

/// The question as the page's parameters ask it.
struct Question {
    filter: AroundFilter,
    /// The index of the chosen span.
    span: Option<usize>,
    /// The chosen range, which may be longer or shorter than the timeline can show.
    range: Option<Range>,
    /// The canonical query string, without the range and the span.
    query: String,
}

/// `GET /around`
pub(super) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Around).await?;
    let tenant = viewer.tenant();
    let now = Timestamp::from(app.now());
    let form = request.query_form();
    let read = if form.is_refused() {
        Err(form)
    } else {
        read_question(&app, tenant, form, viewer.zone, now).await?
    };
    let services = app
        .store
        .item_names_from::<Service>(tenant, "", MAX_SUGGESTIONS);
    let services = services.await?;
    let page = |form, answer| AroundPage {
        viewer: &viewer,
        form,
        services,
        environments: Environment::WORDS,
        answer,
    };
    let (question, form) = match read {
        Ok(read) => read,
        Err(refused) => return page::render(400, &page(&refused, None)),
    };
    // A time such as "14:20" is another one tomorrow and elsewhere.
    let canonical = question.with_range(question.query.clone());
    if canonical != request.query {
        return Ok(page::see_other(&address("/around", &canonical)));
    }
    let answer = Box::pin(answer(&app, tenant, viewer.zone, &question, now)).await?;
    page::render_live(&request, &page(&form, Some(answer)))
}

impl Question {
    /// Returns the moment: the end of a chosen range if the reader has given no time.
    fn at(&self, now: Timestamp) -> Timestamp {
        let end = self.range.map(|range| range.to.min(now));
        self.filter.at.or(end).unwrap_or(now)
    }

    /// Adds the chosen range or span to a query string.
    fn with_range(&self, mut query: String) -> String {
        if let Some(span) = self.span {
            query = with(&query, "span", SPANS[span].0);
        }
        if let Some(range) = self.range {
            query = with(&query, "from", rfc3339(range.from));
            query = with(&query, "to", rfc3339(range.to));
        }
        query
    }
}

/// Returns the address of the page for what was typed into the search if that is a time,
/// or a time and the name of a service.
pub(super) async fn address_of_search(
    app: &App,
    viewer: &Viewer,
    text: &str,
) -> Result<Option<String>, StoreError> {
    let Some((at, rest)) = leading_time(text.trim(), viewer.zone, viewer.now) else {
        return Ok(None);
    };
    let service = named::find::<Service>(&app.store, viewer.tenant(), rest).await?;
    if service.is_none() && !rest.is_empty() {
        return Ok(None);
    }
    let mut query = Pairs::default();
    query.push("at", rfc3339(at));
    query.push_some("service", service.map(|service| service.name));
    Ok(Some(address("/around", &query.finish())))
}

/// Splits a string into a time at its start, such as `yesterday 14:20`, and the rest.
fn leading_time(text: &str, zone: Zone, now: Timestamp) -> Option<(Timestamp, &str)> {
    let spaces = text.match_indices(' ').map(|(index, _)| index);
    let ends = spaces.take_while(|end| *end <= MAX_TIME_CHARS);
    let mut ends: Vec<usize> = ends.collect();
    ends.push(text.len());
    // The longest first: "2:20 pm" is not "2:20".
    ends.into_iter().rev().find_map(|end| {
        let (start, rest) = text.split_at(end);
        let may_be_time = start.len() <= MAX_TIME_CHARS && start.contains(':');
        let at = may_be_time.then(|| zone.parse_past(start, now).ok()?);
        Some((at.flatten()?, rest.trim_start()))
    })
}

/// Reads the parameters. Returns the question with the form to show, or else the form
/// with the errors.
async fn read_question(
    app: &App,
    tenant: Tenant,
    form: Form,
    zone: Zone,
    now: Timestamp,
) -> Result<Result<(Question, Form), Form>, ApiError> {
    let value = |name| form.value(name).trim();
    let mut errors: Vec<(&str, String)> = Vec::new();
    let (at, range) = read_times(&form, zone, now, &mut errors);
    let window = match value("window") {
        "" => None,
        text => {
            let minutes = parse_length(text).map(|length| length.as_secs() / 60);
            let minutes = minutes.filter(|minutes| (1..=MAX_WINDOW_MINUTES).contains(minutes));
            if minutes.is_none() {
                let message = "must be a length of at most 7 days, such as 4h or 3d";
                errors.push(("window", message.to_owned()));
            }
            minutes.map(|minutes| (minutes, text.to_owned()))
        }
    };
    let mut known = |name: &'static str, is_found: bool| {
        let text = value(name);
        if !text.is_empty() && !is_found {
            let message = format!("No {name} is named \"{}\"", format::excerpt(text));
            errors.push((name, message));
        }
    };
    let service = named::find::<Service>(&app.store, tenant, value("service")).await?;
    known("service", service.is_some());
    let host = named::find::<Host>(&app.store, tenant, value("host")).await?;
    known("host", host.is_some());
    let span = value("span");
    let span = SPANS.iter().position(|(name, ..)| *name == span);
    let mut query = Pairs::default();
    query.push_some("at", at.map(rfc3339));
    // An id stays one: it remains valid when its service or host is renamed.
    query.push_some(
        "service",
        (service.as_ref()).map(|one| match value("service").parse::<ServiceId>() {
            Ok(id) => id.to_string(),
            Err(_) => one.name.clone(),
        }),
    );
    query.push_some(
        "host",
        (host.as_ref()).map(|one| match value("host").parse::<HostId>() {
            Ok(id) => id.to_string(),
            Err(_) => one.hostname.clone(),
        }),
    );
    for name in ["environment", "q"] {
        query.push_some(name, Some(value(name)).filter(|text| !text.is_empty()));
    }
    query.push_some("window", window.as_ref().map(|(_, text)| text));
    let query = query.finish();
    let filter = AroundFilter::from_query(&without(&query, &["service", "host", "window"]));
    let mut refused = form.clone();
    refused.remove("moment");
    for (name, message) in errors {
        refused = refused.refuse_field(name, message);
    }
    let filter = match filter {
        Ok(filter) => filter,
        Err(invalid) => return Ok(Err(refused.refuse(&invalid))),
    };
    if refused.is_refused() {
        return Ok(Err(refused));
    }
    let filter = AroundFilter {
        service_id: service.as_ref().map(|service| service.id),
        host_id: host.as_ref().map(|host| host.id),
        window_minutes: window.map(|(minutes, _)| minutes),
        limit: SUSPECTS_SHOWN,
        ..filter
    };
    let mut form = form;
    form.set("at", at.map(|at| zone.written(at)).unwrap_or_default());
    form.set("moment", at.map(rfc3339).unwrap_or_default());
    if let Some(service) = &service {
        form.set("service", service.name.clone());
    }
    if let Some(host) = &host {
        form.set("host", host.hostname.clone());
    }
    let question = Question {
        filter,
        span,
        range: range.filter(|_| span.is_none()),
        query,
    };
    Ok(Ok((question, form)))
}

/// Reads the moment and the range of the timeline. Adds an error for each that is not a time,
/// and for half a range.
fn read_times(
    form: &Form,
    zone: Zone,
    now: Timestamp,
    errors: &mut Vec<(&str, String)>,
) -> (Option<Timestamp>, Option<Range>) {
    let value = |name| form.value(name).trim();
    // The field has the moment in words, which may be less than the moment.
    let is_known = value("at").is_empty() || !value("moment").is_empty();
    let is_same = form.has("was") && value("was") == value("at") && is_known;
    let mut time = |field: &'static str, name: &'static str| {
        let text = match name {
            "at" if is_same => value("moment"),
            name => value(name),
        };
        let at = match zone.parse_past(text, now) {
            _ if text.is_empty() => return None,
            _ if text.eq_ignore_ascii_case("now") => return (name == "to").then_some(now),
            Ok(Some(at)) if text.len() <= MAX_TIME_CHARS => return Some(at),
            Ok(_) => "is not a time such as 14:20, yesterday 14:20 or 2026-11-21 14:20".to_owned(),
            Err(message) => message,
        };
        let excerpt = format::excerpt(text);
        // A message must not begin with what was typed: its first letter becomes a capital.
        errors.push((field, format!("{name}: \"{excerpt}\" {at}")));
        None
    };
    let at = time("at", "at");
    let range = time("", "from").zip(time("", "to"));
    for (given, missing) in [("from", "to"), ("to", "from")] {
        if !value(given).is_empty() && value(missing).is_empty() {
            let message = format!("{missing}: is missing, a range has both from and to");
            errors.push(("", message));
        }
    }
    // One that was chosen for another moment is dropped.
    let range = range.filter(|(from, to)| from != to && (is_same || !form.has("was")));
    let range = range.map(|(from, to)| Range {
        from: from.min(to),
        to: from.max(to),
    });
    (at, range)
}

/// Answers the question.
async fn answer(
    app: &App,
    tenant: Tenant,
    zone: Zone,
    question: &Question,
    now: Timestamp,
) -> Result<Answer, ApiError> {
    let at = question.at(now);
    let filter = AroundFilter {
        at: Some(at),
        ..question.filter.clone()
    };
    let Investigation {
        affected,
        answer: around,
        ranked,
        documents,
    } = investigate(app, tenant, &filter).await?;
    let mut changes: HashMap<ChangeId, Change> = HashMap::new();
    for (id, document) in documents {
        changes.insert(id, document.parse()?);
    }
    let suspects = ranked.into_iter().filter_map(|one| {
        let change = changes.remove(&one.id)?;
        Some(SuspectRow::new(change, one.reasons, one.score, at))
    });
    let suspects: Vec<SuspectRow> = suspects.collect();
    let first = suspects.first().map(|one| one.change.effective_at());
    let (range, span) = range(question, at, first, now);
    let gaps = if range.from < around.since {
        coverage(app, tenant, range.from).await?.gaps
    } else {
        around.coverage.gaps.clone()
    };
    let (events, incidents) = tokio::try_join!(
        events(app, tenant, range, &affected, suspects.iter()),
        incidents::within(app, tenant, range),
    )?;
    let subject = Subject {
        range,
        moment: Some(at),
        now,
        zone,
        affected: &affected,
        gaps: &gaps,
        bands: &incidents::bands(&incidents),
        query: match question.filter.at {
            Some(_) => question.query.clone(),
            // Another range must not become another moment.
            None => with(&question.query, "at", rfc3339(at)),
        },
    };
    let page = |name: &str, value: &str| {
        let query = question.with_range(with(&question.query, name, value));
        address("/around", &query)
    };
    let services = around.facets.services.iter().take(FACETS_SHOWN);
    let services = services.map(|one| {
        let name = &one.service.name;
        (name.clone(), one.count, page("service", name))
    });
    let environments = around.facets.environments.iter();
    let environments = environments.map(|one| {
        let name = one.environment.as_str();
        (name.to_owned(), one.count, page("environment", name))
    });
    let spans = SPANS
        .iter()
        .enumerate()
        .map(|(index, (name, label, _))| Choice {
            label: (*label).to_owned(),
            address: address("/around", &with(&question.query, "span", name)),
            is_current: span == Some(index),
        });
    let list = ChangeFilter {
        since: Some(around.since),
        until: Some(at.plus(TimeDelta::milliseconds(1))),
        statuses: HAPPENED.to_vec(),
        ..ChangeFilter::default()
    };
    Ok(Answer {
        at: zone.written(at),
        is_now: at == now,
        window: window_words(around.window_minutes),
        services: services.collect(),
        environments: environments.collect(),
        spans: spans.collect(),
        timeline: Timeline::new(&subject, events),
        is_shortened: (question.range).is_some_and(|chosen| chosen.length() > range.length()),
        list: format!(
            "/changes?{}",
            without(&list.to_query(), &["page", "per_page"])
        ),
        heard: (around.coverage.sources.iter())
            .filter(|one| one.last_seen_at.is_some())
            .take(HEARD_SHOWN)
            .cloned()
            .collect(),
        around,
        suspects,
    })
}

/// Reads what the timeline shows, with the suspects in their order.
pub(super) async fn events(
    app: &App,
    tenant: Tenant,
    range: Range,
    affected: &Affected,
    suspects: impl Iterator<Item = &SuspectRow> + Clone,
) -> Result<Events, StoreError> {
    let of_suspects = suspects
        .clone()
        .filter_map(|one| one.change.service.as_ref());
    let related = affected.dependencies.iter().chain(&affected.dependents);
    let first = affected.service.iter().chain(of_suspects).chain(related);
    let first: Vec<ServiceRef> = first.cloned().collect();
    let events = timeline::read(app, tenant, range, &first).await?;
    let ranked = suspects.enumerate();
    let ranked = ranked.map(|(index, one)| Event::of(&one.change).ranked(index + 1));
    Ok(events.with(range, ranked))
}

/// Returns the range of the timeline, with the index of its span. Unless the reader has
/// chosen, it is the shortest that shows the first suspect.
fn range(
    question: &Question,
    at: Timestamp,
    first: Option<Timestamp>,
    now: Timestamp,
) -> (Range, Option<usize>) {
    if let Some(range) = question.range {
        return (range.drawn_part(at), None);
    }
    let span = question.span.unwrap_or_else(|| shortest_span(at, first));
    (range_of_span(span, at, now), Some(span))
}

/// Returns the shortest range around a moment that shows the first suspect.
pub(super) fn range_showing(at: Timestamp, first: Option<Timestamp>, now: Timestamp) -> Range {
    range_of_span(shortest_span(at, first), at, now)
}

fn shortest_span(at: Timestamp, first: Option<Timestamp>) -> usize {
    let shows = |index: &usize| {
        let minutes = TimeDelta::minutes(SPANS[*index].2);
        first.is_none_or(|first| first >= at.plus(-minutes))
    };
    let mut spans = DEFAULT_SPAN..SPANS.len();
    spans.find(shows).unwrap_or(SPANS.len() - 1)
}

fn range_of_span(span: usize, at: Timestamp, now: Timestamp) -> Range {
    let length = TimeDelta::minutes(SPANS[span].2);
    // The future is short: nothing has happened there.
    let to = at.plus(length).min(at.max(now).plus(length / 4));
    Range::new(at.plus(-length), to)
}

/// Returns the length of the window in words.
fn window_words(minutes: u64) -> String {
    let minutes = i64::try_from(minutes).unwrap_or(i64::MAX);
    match (minutes % 1_440, minutes / 1_440) {
        (0, 1) => "24 hours".to_owned(),
        (0, days) => format!("{days} days"),
        _ => format::duration(&TimeDelta::minutes(minutes)),
    }
}
