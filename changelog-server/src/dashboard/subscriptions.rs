//! Subscriptions of the viewer to services: started on the page of a service, listed on the
//! account page, and stopped there or by the link in each mail.

use askama::Template;
use changelog_core::{
    MailMode, ProblemCode, RiskLevel, Service, ServiceId, ServiceRef, SubscriptionOptions,
};

use crate::app::App;
use crate::dashboard::parts::form::Form;
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::zone::{self, Zone};
use crate::dashboard::parts::{assets, format, page};
use crate::store::{Actor, MAX_SUBSCRIPTIONS, StoreError, Unsubscription};
use crate::web::{ApiError, ApiResult, Request};

/// The hidden field that leads back to the account page.
const FROM: &str = "from";

/// The form for a subscription of the viewer.
pub(super) struct SubscriptionForm {
    /// What the viewer has chosen, if there is a subscription.
    current: Option<SubscriptionOptions>,
    /// Whether mails can be chosen.
    pub(super) offers_mail: bool,
    /// Whether the viewer may start or change it.
    pub(super) may_change: bool,
}

impl SubscriptionForm {
    fn new(app: &App, viewer: &Viewer, current: Option<SubscriptionOptions>) -> Self {
        Self {
            current,
            offers_mail: app.mailer.is_some(),
            may_change: viewer.may_write(),
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.current.is_some()
    }

    /// Returns the values and labels of the lowest risk, with whether each is chosen.
    pub(super) fn risks(&self) -> Vec<(&'static str, &'static str, bool)> {
        let chosen = self.current.as_ref().map(|options| &options.min_risk);
        let chosen = chosen.unwrap_or(&RiskLevel::Low);
        let labels = ["Any risk", "Medium and high risk", "High risk only"];
        let risks = RiskLevel::WORDS.iter().zip(labels);
        risks
            .map(|(word, label)| (*word, label, chosen.as_str() == *word))
            .collect()
    }

    /// Returns the values and labels of how to notify, with whether each is chosen.
    pub(super) fn mails(&self) -> Vec<(&'static str, &'static str, bool)> {
        let chosen = self.current.as_ref().map(|options| &options.mail);
        let chosen = chosen.unwrap_or(&MailMode::Off);
        let labels = [
            "Here only",
            "Here and by email",
            "Here and by daily email (08:00)",
        ];
        let mails = MailMode::WORDS.iter().zip(labels);
        mails
            .map(|(word, label)| (*word, label, chosen.as_str() == *word))
            .collect()
    }
}

/// Returns the form for the page of a service; `None` if the viewer may not subscribe.
pub(super) async fn form_of(
    app: &App,
    viewer: &Viewer,
    service: ServiceId,
) -> Result<Option<SubscriptionForm>, StoreError> {
    if !viewer.may_write() {
        return Ok(None);
    }
    let person = viewer.session.person.id;
    let found = app.store.subscription(viewer.tenant(), person, service);
    let current = found.await?.map(|subscription| subscription.options);
    Ok(Some(SubscriptionForm::new(app, viewer, current)))
}

/// Returns the forms for the account page, with their services.
pub(super) async fn forms_of(
    app: &App,
    viewer: &Viewer,
) -> Result<Vec<(ServiceRef, SubscriptionForm)>, StoreError> {
    let person = viewer.session.person.id;
    let list = app.store.subscriptions(viewer.tenant(), person).await?;
    let form = |(service, subscription): (ServiceRef, changelog_core::Subscription)| {
        let form = SubscriptionForm::new(app, viewer, Some(subscription.options));
        (service, form)
    };
    Ok(list.into_iter().map(form).collect())
}

/// `POST /services/ID/subscription`
pub(super) async fn set(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write(&app, &request, Section::Services).await?;
    let form = request.form().await?;
    let (tenant, person) = (viewer.tenant(), viewer.session.person.id);
    let service = service(&app, &viewer, &request).await?;
    let current = app.store.subscription(tenant, person, service.id).await?;
    let mail = if app.mailer.is_some() && form.has("mail") {
        word(&form, "mail")?
    } else {
        current.map_or(MailMode::Off, |subscription| subscription.options.mail)
    };
    let options = SubscriptionOptions {
        min_risk: word(&form, "min_risk")?,
        mail,
    };
    app.store.require_events(tenant).await?;
    let mut tx = app.store.begin().await?;
    let saved = tx
        .set_subscription(
            tenant,
            &viewer.actor(),
            person,
            &service,
            &options,
            app.now(),
        )
        .await?;
    if !saved {
        let detail = format!(
            "you have {MAX_SUBSCRIPTIONS} subscriptions already; stop one on your account page"
        );
        return Err(ApiError::new(ProblemCode::Forbidden, detail));
    }
    if options.mail != MailMode::Off && form.has(zone::FIELD) {
        let zone = Zone::named(form.value(zone::FIELD), viewer.now);
        tx.set_time_zone(person, zone.name()).await?;
    }
    tx.commit().await?;
    Ok(back(&form, &service))
}

/// `POST /services/ID/subscription/stop`
pub(super) async fn stop(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::write_own(&app, &request, Section::Services).await?;
    let form = request.form().await?;
    let (tenant, person) = (viewer.tenant(), viewer.session.person.id);
    let service = service(&app, &viewer, &request).await?;
    let mut tx = app.store.begin().await?;
    tx.stop_subscription(tenant, &viewer.actor(), person, &service, app.now())
        .await?;
    tx.commit().await?;
    Ok(back(&form, &service))
}

async fn service(app: &App, viewer: &Viewer, request: &Request) -> Result<ServiceRef, ApiError> {
    let found = app.store.item::<Service>(viewer.tenant(), request.id()?);
    Ok(ServiceRef::from(&found.await?))
}

/// Reads a field that has one of some words.
fn word<T>(form: &Form, field: &str) -> Result<T, ApiError>
where
    T: std::str::FromStr<Err = changelog_core::problem::BadValue>,
{
    let parsed = form.value(field).parse();
    parsed.map_err(|bad| ApiError::new(ProblemCode::ValidationFailed, format!("{field} {bad}")))
}

fn back(form: &Form, service: &ServiceRef) -> warp::reply::Response {
    match form.value(FROM) {
        "account" => page::see_other("/account?done=subscription"),
        _ => page::see_other(&format!("/services/{}", service.id)),
    }
}

#[derive(Template)]
#[template(path = "auth/unsubscribe.html")]
struct UnsubscribePage {
    organization: String,
    services: Vec<ServiceRef>,
    token: String,
    is_done: bool,
}

/// `GET /unsubscribe/TOKEN`
pub(super) async fn unsubscribe_form(app: App, request: Request) -> ApiResult {
    let (found, services) = unsubscription(&app, &request).await?;
    page::render(
        200,
        &UnsubscribePage {
            organization: found.organization_name,
            services,
            token: request.parameter,
            is_done: false,
        },
    )
}

/// `POST /unsubscribe/TOKEN`: the button of that page, and of mail programs (RFC 8058),
/// which have no session and are another site.
pub(super) async fn unsubscribe(app: App, request: Request) -> ApiResult {
    let (found, services) = unsubscription(&app, &request).await?;
    let (tenant, person) = (found.mailbox.tenant(), found.mailbox.user);
    let actor = Actor::person(person, &found.name, request.context.address);
    for service in &services {
        let mut tx = app.store.begin().await?;
        match tx
            .stop_subscription(tenant, &actor, person, service, app.now())
            .await
        {
            Ok(()) => tx.commit().await?,
            // Stopped meanwhile.
            Err(StoreError::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
    page::render(
        200,
        &UnsubscribePage {
            organization: found.organization_name,
            services: Vec::new(),
            token: request.parameter,
            is_done: true,
        },
    )
}

/// Finds the subscriptions that the mail with a link was about.
async fn unsubscription(
    app: &App,
    request: &Request,
) -> Result<(Unsubscription, Vec<ServiceRef>), ApiError> {
    let Some(found) = app.store.unsubscription(&request.parameter).await? else {
        let detail = "this link is no longer valid; you get no mails from this organization";
        return Err(ApiError::new(ProblemCode::NotFound, detail));
    };
    let mailbox = &found.mailbox;
    let services = app
        .store
        .services_mailed(mailbox.tenant(), mailbox.user, &mailbox.mail)
        .await?;
    Ok((found, services))
}
