//! `/settings/sign-in`: the identity provider of the organization. Owners connect it; others see
//! whether there is one.

use askama::Template;
use changelog_core::{Plan, ProblemCode, SsoInput, SsoRedirect, User};

use crate::app::App;
use crate::dashboard::parts::form::{Field, FieldKind, Form};
use crate::dashboard::parts::viewer::{Section, Viewer};
use crate::dashboard::parts::{assets, format, page};
use crate::dashboard::settings::integrations::troubles;
use crate::sso::setup;
use crate::store::{SsoProvider, StoreError, TroubledConnection};
use crate::web::{ApiError, ApiResult, Request};

/// The path of the page.
const PATH: &str = "/settings/sign-in";
/// The roles that everyone at the provider may be given.
const DEFAULT_ROLES: &[&str] = &["viewer", "member", "admin"];

const FIELDS: &[Field] = &[
    Field::new("issuer", FieldKind::Required, "Issuer").hint(
        "The URL of the provider, exactly as it names itself, with or without a slash at its end.",
    ),
    Field::new("client_id", FieldKind::Required, "Client ID"),
    Field::new("client_secret", FieldKind::Optional, "Client secret"),
    Field::new(
        "redirect",
        FieldKind::Choice {
            words: SsoRedirect::WORDS,
            none: None,
        },
        "Redirect address",
    ),
    Field::new("groups_claim", FieldKind::Optional, "Claim with the groups")
        .hint("\"groups\" if empty. A claim within another one: realm_access.roles"),
    Field::new("groups", FieldKind::Lines, "Groups and their roles").hint(
        "One GROUP=ROLE a line, such as changelog-admins=admin. Roles follow the groups at each \
         sign-in: of several, the one that may most counts. Without any line, people keep the role \
         that they have here.",
    ),
    Field::new(
        "default_role",
        FieldKind::Choice {
            words: DEFAULT_ROLES,
            none: Some("Nobody: refuse them"),
        },
        "People without such a group",
    )
    .hint("The role of everyone else who can sign in at the provider."),
    Field::new("required", FieldKind::Checkbox, "Require it").hint(
        "Passwords no longer work in this organization, and sessions by password end. Sign in by \
         the provider once before you require it.",
    ),
    Field::new("emergency_owner", FieldKind::Optional, "Emergency access"),
];

#[derive(Template)]
#[template(path = "settings/sign_in.html")]
struct SignInPage<'a> {
    viewer: &'a Viewer,
    plan: Plan,
    provider: Option<SsoProvider>,
    form: Form,
    fields: &'static [Field],
    /// The owners who may be chosen for the emergency access.
    owners: Vec<User>,
    addresses: Addresses,
    message: &'static str,
    troubles: Vec<TroubledConnection>,
}

/// What is pasted at the provider, and handed to people.
struct Addresses {
    own_redirect: String,
    shared_redirect: String,
    sign_in: String,
    logout: String,
}

impl Addresses {
    fn new(app: &App, viewer: &Viewer) -> Self {
        let (id, url) = (viewer.tenant().id(), app.url());
        let callback = |redirect| format!("{url}{}", setup::callback_path(id, redirect));
        Self {
            own_redirect: callback(SsoRedirect::Own),
            shared_redirect: callback(SsoRedirect::Shared),
            sign_in: format!("{url}/sso/{id}"),
            logout: format!("{url}/sso/backchannel-logout/{id}"),
        }
    }
}

impl SignInPage<'_> {
    /// Returns the name of the owner whose password works in an emergency.
    fn emergency_owner(&self) -> &str {
        let chosen = self.provider.as_ref().and_then(|one| one.emergency_owner);
        let owner = self.owners.iter().find(|owner| Some(owner.id) == chosen);
        owner.map_or("nobody", |owner| &owner.name)
    }

    /// Returns a field by its name.
    fn field(&self, name: &str) -> &'static Field {
        let mut fields = self.fields.iter();
        fields
            .find(|field| field.name == name)
            .unwrap_or(&self.fields[0])
    }
}

/// Returns the form of a provider, or the empty one.
fn form_of(provider: Option<&SsoProvider>, owners: &[User], viewer: &Viewer) -> Form {
    let Some(provider) = provider else {
        return Form::with_values([
            ("redirect", SsoRedirect::Own.as_str().to_owned()),
            ("emergency_owner", viewer.session.person.email.clone()),
        ]);
    };
    let roles = &provider.roles;
    let groups: Vec<String> = roles.groups.iter().map(ToString::to_string).collect();
    let emergency = owners
        .iter()
        .find(|owner| Some(owner.id) == provider.emergency_owner);
    let mut form = Form::with_values([
        ("issuer", provider.issuer.clone()),
        ("client_id", provider.client_id.clone()),
        ("redirect", provider.redirect.as_str().to_owned()),
        ("groups_claim", roles.groups_claim.clone()),
        ("groups", groups.join("\n")),
        (
            "default_role",
            roles
                .default_role
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
        ),
        (
            "emergency_owner",
            emergency
                .map(|owner| owner.email.clone())
                .unwrap_or_default(),
        ),
    ]);
    if provider.is_required {
        form.set("required", "true".to_owned());
    }
    form
}

/// `GET /settings/sign-in`
pub(crate) async fn get(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::read(&app, &request, Section::Settings).await?;
    let message = match request.query_form().value("done") {
        "connected" => "The identity provider is connected. Open the sign-in address to try it.",
        "saved" => "The settings were saved.",
        "removed" => "The identity provider was disconnected. Its sessions have ended.",
        _ => "",
    };
    show(&app, &viewer, 200, None, message).await
}

async fn show(
    app: &App,
    viewer: &Viewer,
    status: u16,
    form: Option<Form>,
    message: &'static str,
) -> ApiResult {
    let tenant = viewer.tenant();
    let provider = app.store.sso_provider(tenant).await?;
    let owners = app.store.owners_with_password(tenant).await?;
    let mut form = form.unwrap_or_else(|| form_of(provider.as_ref(), &owners, viewer));
    // A secret is typed again rather than sent back.
    form.remove("client_secret");
    let page = SignInPage {
        viewer,
        plan: app.store.organization(tenant).await?.plan,
        provider,
        form,
        fields: FIELDS,
        owners,
        addresses: Addresses::new(app, viewer),
        message,
        troubles: troubles(app, viewer).await?,
    };
    page::render(status, &page)
}

/// `POST /settings/sign-in`: tests the connection, then saves it.
pub(crate) async fn save(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::own(&app, &request, Section::Settings).await?;
    app.rate_limits.connection_test(viewer.session.person.id)?;
    let plan = app.store.organization(viewer.tenant()).await?.plan;
    if !plan.includes_sso() {
        let detail = format!(
            "the {plan} plan does not include sign-in by an identity provider; ask the operator to \
             change the plan"
        );
        return Err(ApiError::new(ProblemCode::PlanRequired, detail));
    }
    let form = request.form().await?;
    let now = app.now();
    let input: SsoInput = match form.create(FIELDS, now.into()).await {
        Ok(input) => input,
        Err(invalid) => return show(&app, &viewer, 422, Some(form.refuse(&invalid)), "").await,
    };
    let emergency = input.emergency_owner.clone();
    let tenant = viewer.tenant();
    let before = app.store.sso_provider(tenant).await?;
    // Only the operator lets an issuer be insecure, and only this one.
    let allows_insecure = before
        .as_ref()
        .is_some_and(|before| before.allows_insecure && before.issuer == input.issuer);
    let secrets = app.integrations.secrets();
    let prepared = setup::prepare(
        secrets,
        tenant,
        input,
        before.as_ref(),
        allows_insecure,
        now.into(),
    );
    let mut provider = match prepared.map_err(|error| ApiError::internal(&error))? {
        Ok(provider) => provider,
        Err(invalid) => return show(&app, &viewer, 422, Some(form.refuse(&invalid)), "").await,
    };
    match setup::test(&app.identity, &provider).await {
        Err(reason) => {
            let form = form.refuse_field("issuer", format!("The test failed: {reason}"));
            return show(&app, &viewer, 422, Some(form), "").await;
        }
        Ok(tested) if !tested.names_itself && provider.redirect == SsoRedirect::Shared => {
            let message = "This provider does not name itself when it returns people (RFC 9207), so \
                           its answers cannot be told from those of another organization's provider. \
                           Choose your organization's own address, and enter it at the provider";
            let form = form.refuse_field("redirect", message);
            return show(&app, &viewer, 422, Some(form), "").await;
        }
        Ok(_) => {}
    }
    let mut tx = app.store.begin().await?;
    let saved = tx
        .set_sso_provider(&viewer.actor(), &mut provider, emergency.as_deref(), now)
        .await;
    match saved {
        Ok(()) => tx.commit().await?,
        Err(StoreError::Invalid(invalid)) => {
            drop(tx);
            return show(&app, &viewer, 422, Some(form.refuse(&invalid)), "").await;
        }
        Err(error) => return Err(error.into()),
    }
    let done = if before.is_some() {
        "saved"
    } else {
        "connected"
    };
    Ok(page::see_other(&format!("{PATH}?done={done}")))
}

/// `POST /settings/sign-in/remove`
pub(crate) async fn remove(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::own(&app, &request, Section::Settings).await?;
    let mut tx = app.store.begin().await?;
    tx.remove_sso_provider(viewer.tenant(), &viewer.actor(), app.now())
        .await?;
    tx.commit().await?;
    Ok(page::see_other(&format!("{PATH}?done=removed")))
}

/// `POST /settings/sign-in/seen`
pub(crate) async fn mark_seen(app: App, request: Request) -> ApiResult {
    let viewer = Viewer::own(&app, &request, Section::Settings).await?;
    let (tenant, person) = (viewer.tenant(), viewer.session.person.id);
    let mut tx = app.store.begin().await?;
    tx.see_emergency_uses(tenant, person, app.now().into())
        .await?;
    tx.commit().await?;
    Ok(page::see_other("/"))
}
