//! `changelog-server user`

use changelog_core::{Credentials, Input};

use super::{Failure, now, open, print, print_json, secret};
use crate::config::{Common, User};
use crate::passwords;

pub(super) async fn run(common: &Common, command: User) -> Result<(), Failure> {
    let User::SetPassword {
        email,
        password_file,
    } = command;
    let password = secret::read(&password_file)?;
    let credentials = Credentials { email, password }.checked(now().into())?;
    passwords::refuse_common(&credentials.password, &[&credentials.email])?;
    let store = open(common).await?;
    let Some((user, _)) = store.user_by_email(&credentials.email).await? else {
        return Err(Failure::Usage(format!(
            "there is no person with the address {}",
            credentials.email
        )));
    };
    let mut tx = store.begin().await?;
    tx.set_password(user.id, &passwords::hash_now(&credentials.password))
        .await?;
    tx.forget_failures(&user.email).await?;
    tx.commit().await?;
    if common.json {
        return print_json(&user);
    }
    print(&format!(
        "the password of {} is set; their sessions are ended",
        user.email
    ))
}
