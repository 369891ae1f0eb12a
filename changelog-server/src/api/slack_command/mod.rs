//! Slash commands of Slack, sent to the address of a source: each is answered at once,
//! visible only to the user who entered it, with a button that shares it with the channel.

mod answer;

use bytes::Bytes;
use changelog_core::input::from_object;
use changelog_core::{
    ApiKeyId, AroundFilter, Change, ChangeId, NewChange, Service, ServiceId, Status,
};
use changelog_sources::{PressedButton, SlackRequest, SlashCommand, Wish};
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Value, json};

use crate::app::App;
use crate::around::investigate;
use crate::integrations::http::ReceiverRequest;
use crate::store::{Creation, Draft, KeyedRequest, Source, StoreError};
use crate::web::{ApiError, ApiResult, reply};
use answer::Shown;

/// The changes that an answer has.
const MAX_SUSPECTS: u64 = 5;
/// What idempotency keys of commands are kept for; those of the API have other paths.
const LOG_PATH: &str = "/slack-command/log";
/// The limit on the words of a title that may name its service.
const MAX_NAMING_WORDS: usize = 20;

/// Answers a verified request of Slack.
pub(super) async fn respond(app: &App, source: &Source, body: &[u8]) -> ApiResult {
    let answer = match SlackRequest::read(body) {
        SlackRequest::Command(command) => answer_command(app, source, &command).await?,
        SlackRequest::Button(button) => press(app, source, &button).await?,
        SlackRequest::Other => json!({}),
    };
    Ok(reply::json(200, &answer))
}

async fn answer_command(
    app: &App,
    source: &Source,
    command: &SlashCommand,
) -> Result<Value, ApiError> {
    let now = app.now().into();
    let wish = Wish::read(&command.text, now);
    let shown = match wish {
        Wish::Help(wrong) => return Ok(answer::help(&command.command, wrong.as_deref())),
        Wish::Changes { at, service } => {
            let service = match service {
                Some(name) => Some(service_id(app, source, &name).await?),
                None => None,
            };
            match service.transpose() {
                Ok(service) => Shown::Changes {
                    at: at.unwrap_or(now),
                    service,
                },
                Err(wrong) => return Ok(answer::help(&command.command, Some(&wrong))),
            }
        }
        Wish::Log(title) => match log(app, source, command, &title).await? {
            Ok(id) => Shown::Change(id),
            Err(wrong) => return Ok(answer::help(&command.command, Some(&wrong))),
        },
    };
    let mut blocks = show(app, source, &shown).await?;
    blocks.push(answer::button(&shown));
    Ok(answer::ephemeral(&blocks))
}

/// Answers a button: to all in the channel, in place of the answer to one.
async fn press(app: &App, source: &Source, button: &PressedButton) -> Result<Value, ApiError> {
    let Ok(shown) = button.value.parse::<Shown>() else {
        return Ok(json!({}));
    };
    let mut blocks = show(app, source, &shown).await?;
    blocks.push(answer::shown_by(&button.user));
    let answer = answer::in_channel(&blocks);
    // Buttons in blocks are answered at the address that the verified request has, as far as
    // receivers of connections may be there; other ones by the response.
    if let Some(url) = &button.response_url {
        tokio::spawn(post(app.clone(), url.clone(), answer.to_string()));
    }
    Ok(answer)
}

async fn post(app: App, url: String, body: String) {
    let json = HeaderValue::from_static("application/json");
    let request = ReceiverRequest {
        method: Method::POST,
        url: &url,
        headers: HeaderMap::from_iter([(header::CONTENT_TYPE, json)]),
        body: Bytes::from(body),
    };
    // The address is a secret, and is not logged.
    match app.integrations.http.send(request).await {
        Ok(response) if response.status.is_success() => {}
        Ok(response) => tracing::warn!(status = %response.status, "Slack refused an answer"),
        Err(error) => tracing::warn!(%error, "an answer could not be sent to Slack"),
    }
}

/// Returns the blocks that show something.
async fn show(app: &App, source: &Source, shown: &Shown) -> Result<Vec<Value>, ApiError> {
    match shown {
        Shown::Changes { at, service } => {
            let filter = AroundFilter {
                at: Some(*at),
                service_id: *service,
                limit: MAX_SUSPECTS,
                ..AroundFilter::default()
            };
            let found = investigate(app, source.tenant, &filter).await?;
            let mut suspects: Vec<(Change, Vec<String>)> = Vec::new();
            for ranked in &found.ranked {
                let document = found.documents.iter().find(|(id, _)| *id == ranked.id);
                // A change may have been deleted since it was ranked.
                if let Some((_, json)) = document {
                    let reasons = ranked.reasons.iter().map(|reason| reason.text.clone());
                    suspects.push((json.parse()?, reasons.collect()));
                }
            }
            let service = found.affected.service.as_ref();
            let service = service.map(|service| &*service.name);
            Ok(answer::changes(
                &app.url(),
                &found.answer,
                service,
                &suspects,
            ))
        }
        Shown::Change(id) => match app.store.change(source.tenant, *id).await {
            Ok(json) => Ok(answer::change(&app.url(), &json.parse()?)),
            Err(StoreError::NotFound) => Ok(answer::gone()),
            Err(error) => Err(error.into()),
        },
    }
}

/// Finds a service by its name; else says that there is none, and which one was meant.
async fn service_id(
    app: &App,
    source: &Source,
    name: &str,
) -> Result<Result<ServiceId, String>, ApiError> {
    let found = app
        .store
        .id_named::<Service>(source.tenant, name, "/service");
    refusal(found.await)
}

/// Separates what a person can correct from failures.
fn refusal<T>(result: Result<T, StoreError>) -> Result<Result<T, String>, ApiError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(StoreError::Invalid(invalid)) => Ok(Err(invalid.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Records a change that has been made, once for each command.
async fn log(
    app: &App,
    source: &Source,
    command: &SlashCommand,
    title: &str,
) -> Result<Result<ChangeId, String>, ApiError> {
    let now = app.now();
    let fields = json!({
        "title": title,
        "status": Status::Completed,
        "on_behalf_of": command.user,
        "environment": source.settings.environment,
    });
    let fields = fields.as_object().cloned().unwrap_or_default();
    let mut new: NewChange = match from_object(fields, now.into()) {
        Ok(new) => new,
        Err(invalid) => return Ok(Err(invalid.to_string())),
    };
    if let Some(service) = named_service(app, source, &new.title).await? {
        new.service_ids = vec![service];
    }
    let keyed = command.id.as_ref().map(|id| {
        let body = json!([title, command.user]).to_string();
        let key = ApiKeyId(source.id.0);
        KeyedRequest::new(source.tenant, key, "POST", LOG_PATH, id, body.as_bytes())
    });
    let actor = source.actor(app.store.has_receivers(source.tenant).await?);
    let draft = Draft::new(source.tenant, &actor, new, now)?;
    let created = app.store.create_changes(Creation::one(draft, keyed)).await;
    let created = match refusal(created)? {
        Ok(created) => created,
        Err(wrong) => return Ok(Err(wrong)),
    };
    let id = created.changes.first().map(|change| change.id);
    id.map(Ok)
        .ok_or_else(|| ApiError::internal(&"a created change has no id"))
}

/// Finds the service that a word of a title names; else that of the source.
async fn named_service(
    app: &App,
    source: &Source,
    title: &str,
) -> Result<Option<ServiceId>, StoreError> {
    let words = title.split_whitespace().take(MAX_NAMING_WORDS);
    for name in words.chain(source.settings.service.as_deref()) {
        if let Some(service) = app.store.item_named::<Service>(source.tenant, name).await? {
            return Ok(Some(service.id));
        }
    }
    Ok(None)
}
