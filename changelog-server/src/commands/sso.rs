//! `changelog-server sso`

use changelog_core::{Input, SsoInput, SsoRedirect, SsoRoles};
use serde_json::{Value, json};

use super::{Failure, key_file, now, open, organization, print, print_json, secret};
use crate::clock::Clock;
use crate::config::{Common, SetSso, SsoCommand};
use crate::identity::Identity;
use crate::integrations::http::ReceiverClient;
use crate::sso::setup;
use crate::store::{Actor, SsoProvider, Store, StoreError};

pub(super) async fn run(common: &Common, command: SsoCommand) -> Result<(), Failure> {
    let store = open(common).await?;
    match command {
        SsoCommand::Set(args) => set(common, &store, *args).await,
        SsoCommand::Show { org } => {
            let (tenant, _) = organization(common, &store, &org).await?;
            match store.sso_provider(tenant).await? {
                Some(provider) => show(common, &store, &provider).await,
                None if common.json => print_json(&Value::Null),
                None => print("no identity provider is connected"),
            }
        }
        SsoCommand::Remove { org } => {
            let (tenant, _) = organization(common, &store, &org).await?;
            let mut tx = store.begin().await?;
            let removed = tx
                .remove_sso_provider(tenant, &Actor::operator(), now())
                .await?;
            tx.commit().await?;
            if common.json {
                return print_json(&json!({ "removed": removed }));
            }
            print(if removed {
                "the identity provider is disconnected, and the sessions that it began have ended"
            } else {
                "no identity provider was connected"
            })
        }
    }
}

async fn set(common: &Common, store: &Store, args: SetSso) -> Result<(), Failure> {
    let (tenant, organization) = organization(common, store, &args.org).await?;
    let input = SsoInput {
        issuer: args.issuer,
        client_id: args.client_id,
        client_secret: Some(secret::read(&args.client_secret_file)?),
        roles: SsoRoles {
            default_role: args.default_role.0,
            groups_claim: args.groups_claim,
            groups: args.groups,
        },
        required: args.required,
        emergency_owner: args.emergency_owner,
        redirect: if args.own_redirect {
            SsoRedirect::Own
        } else {
            SsoRedirect::Shared
        },
    };
    let input = input.checked(now().into())?;
    let emergency = input.emergency_owner.clone();
    let secrets = key_file(common, store, tenant, &args.secrets).await?;
    let before = store.sso_provider(tenant).await?;
    let insecure = args.allow_insecure_issuer;
    let prepared = setup::prepare(
        &secrets,
        tenant,
        input,
        before.as_ref(),
        insecure,
        now().into(),
    )?;
    let mut provider = prepared?;
    let mut tx = store.begin().await?;
    let operator = Actor::operator();
    let set = tx.set_sso_provider(&operator, &mut provider, emergency.as_deref(), now());
    set.await.map_err(|error| match error {
        StoreError::Invalid(invalid) => Failure::Invalid(invalid),
        error => error.into(),
    })?;
    tx.commit().await?;
    if !organization.plan.includes_sso() {
        super::note(&format!(
            "the {} plan does not include sign-in by an identity provider; `changelog-server org \
             set-plan` changes it",
            organization.plan
        ));
    }
    // A failure is reported and not refused: the provider may only be reached by the server.
    let client = ReceiverClient::new(args.receivers.networks);
    let identity = Identity::new(client, Clock::system());
    match setup::test(&identity, &provider).await {
        Err(reason) => super::note(&format!("saved, but nobody can sign in yet: {reason}")),
        Ok(tested) if !tested.names_itself && provider.redirect == SsoRedirect::Shared => {
            super::note(
                "the provider does not name itself when it returns people (RFC 9207); if other \
                 organizations of this server connect providers of their own, use --own-redirect",
            );
        }
        Ok(_) => {}
    }
    show(common, store, &provider).await
}

async fn show(common: &Common, store: &Store, provider: &SsoProvider) -> Result<(), Failure> {
    let id = provider.tenant.id();
    let owners = store.owners_with_password(provider.tenant).await?;
    let owner = owners
        .into_iter()
        .find(|owner| Some(owner.id) == provider.emergency_owner)
        .map(|owner| owner.email);
    let sign_in = format!("/sso/{id}");
    let redirect = setup::callback_path(id, provider.redirect);
    let roles = &provider.roles;
    if common.json {
        let mut shown = provider.to_json();
        shown["organization_id"] = json!(id);
        shown["emergency_owner"] = json!(owner);
        shown["sign_in_path"] = json!(sign_in);
        shown["redirect_path"] = json!(redirect);
        shown["backchannel_logout_path"] = json!(format!("/sso/backchannel-logout/{id}"));
        return print_json(&shown);
    }
    let default_role = roles.default_role.as_ref();
    let default_role = default_role.map_or("none: they are refused", |role| role.as_str());
    print(&format!("issuer           {}", provider.issuer))?;
    print(&format!("client id        {}", provider.client_id))?;
    print(&format!("redirect path    {redirect}"))?;
    print(&format!("sign-in path     {sign_in}"))?;
    print(&format!("groups claim     {}", roles.groups_claim))?;
    for one in &roles.groups {
        print(&format!("group            {one}"))?;
    }
    print(&format!("other people     {default_role}"))?;
    let owner = owner.unwrap_or_else(|| "nobody".to_owned());
    print(&if provider.is_required {
        format!("passwords        only that of {owner}, in an emergency")
    } else {
        "passwords        work as well".to_owned()
    })
}
