//! What a browser has begun: kept in an encrypted cookie of the browser, so that nothing has to
//! be stored for people who do not come back, and any server of the database can go on.
//!
//! The cookie cannot be read, made or changed by others. What is in it expires, and the state
//! in it works once ([`use_once`](crate::store::Tx::use_once)).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use changelog_core::{OrganizationId, Role, Timestamp, UserId};
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::secrets::{Secrets, SecretsError};
use crate::store::{SsoPerson, SsoProvider};

/// How long people have to sign in at the provider, or to confirm with their password.
pub(crate) const FLOW_TTL: TimeDelta = TimeDelta::minutes(15);

/// The context of the encryption.
const CONTEXT: &str = "sso flow";

/// What a browser has begun.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Flow {
    pub(crate) organization: OrganizationId,
    /// The issuer and the client that the browser was sent to. The settings may have changed
    /// since.
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    /// The path to open after the sign-in; empty for the overview.
    pub(crate) next: String,
    /// When it was begun, in milliseconds since 1970.
    pub(crate) begun_at: i64,
    pub(crate) step: Step,
}

/// What the browser does next.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    /// The person signs in at the provider.
    SignIn(SignIn),
    /// The person, who has signed in at the provider, confirms with the password of a member.
    Confirm(Box<Confirmation>),
}

/// What ties the answer of the provider to the browser and to the request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SignIn {
    pub(crate) state: String,
    pub(crate) nonce: String,
    /// The secret of PKCE.
    pub(crate) verifier: String,
}

impl SignIn {
    pub(crate) fn begin() -> Self {
        Self {
            state: random(),
            nonce: random(),
            verifier: random(),
        }
    }
}

/// Who has signed in at the provider.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Confirmation {
    pub(crate) subject: String,
    pub(crate) email: String,
    pub(crate) name: String,
    pub(crate) role: Option<Role>,
    /// The id of the session at the provider.
    pub(crate) sid: Option<String>,
    /// The member whose password is needed.
    pub(crate) member: UserId,
}

impl Confirmation {
    /// Returns the person. Only people with a verified address get here.
    pub(crate) fn person(&self) -> SsoPerson {
        SsoPerson {
            subject: self.subject.clone(),
            email: Some(self.email.clone()),
            is_verified: true,
            name: self.name.clone(),
            role: self.role.clone(),
        }
    }
}

impl Flow {
    /// Begins a sign-in.
    pub(crate) fn begin(provider: &SsoProvider, next: &str, begun: SignIn, now: Timestamp) -> Self {
        Self {
            organization: provider.tenant.id(),
            issuer: provider.issuer.clone(),
            client_id: provider.client_id.clone(),
            next: next.to_owned(),
            begun_at: now.millis(),
            step: Step::SignIn(begun),
        }
    }

    /// Returns whether it was begun with a provider as it is set now.
    pub(crate) fn is_of(&self, provider: &SsoProvider) -> bool {
        self.issuer == provider.issuer && self.client_id == provider.client_id
    }

    /// Returns the value of the cookie.
    pub(crate) fn seal(&self, secrets: &Secrets) -> Result<String, SecretsError> {
        let json = serde_json::to_vec(self).map_err(|_| SecretsError::Damaged)?;
        Ok(URL_SAFE_NO_PAD.encode(secrets.encrypt(CONTEXT, &json)?))
    }

    /// Reads the value of a cookie; `None` if it is not one of ours, or has expired.
    pub(crate) fn open(secrets: &Secrets, cookie: &str, now: Timestamp) -> Option<Self> {
        let encrypted = URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let json = secrets.decrypt(CONTEXT, &encrypted).ok()?;
        let flow: Self = serde_json::from_slice(&json).ok()?;
        let begun = Timestamp::from_millis(flow.begun_at);
        (begun.plus(FLOW_TTL) > now && begun <= now.plus(crate::store::MAX_CLOCK_SKEW))
            .then_some(flow)
    }
}

/// Returns 256 random bits in base64url, 43 characters: as PKCE wants its secret.
fn random() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

/// Returns the PKCE challenge of a verifier (S256).
pub(crate) fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

#[cfg(test)]
mod tests {
    use changelog_core::{SsoRedirect, SsoRoles};

    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_standard() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let expected = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        assert_eq!(challenge(verifier), expected);
    }

    #[test]
    fn a_cookie_is_read_until_it_expires_and_only_unchanged() {
        let name = format!("changelog-sso-{:032x}", rand::random::<u128>());
        let path = std::env::temp_dir().join(name);
        let secrets = Secrets::open(&path).expect("a new file");
        let provider = SsoProvider {
            tenant: crate::store::Tenant::of_test(),
            issuer: "https://login.example.com".to_owned(),
            client_id: "log".to_owned(),
            client_secret: Vec::new(),
            roles: SsoRoles {
                default_role: None,
                groups_claim: "groups".to_owned(),
                groups: Vec::new(),
            },
            is_required: false,
            emergency_owner: None,
            redirect: SsoRedirect::Own,
            allows_insecure: false,
            created_at: Timestamp::EPOCH,
            updated_at: Timestamp::EPOCH,
        };
        let now = Timestamp::EPOCH.plus(TimeDelta::days(1));
        let flow = Flow::begin(&provider, "/changes", SignIn::begin(), now);
        assert!(flow.is_of(&provider));
        let cookie = flow.seal(&secrets).expect("a key");
        let open = |cookie: &str, at| Flow::open(&secrets, cookie, at);
        let read = open(&cookie, now).expect("it is ours");
        assert_eq!(
            (read.next.as_str(), read.begun_at),
            ("/changes", now.millis())
        );
        let minutes = |minutes| now.plus(TimeDelta::minutes(minutes));
        assert!(open(&cookie, minutes(14)).is_some());
        assert!(open(&cookie, minutes(15)).is_none());
        assert!(open(&cookie, minutes(-6)).is_none());
        let changed = format!("{}A", &cookie[..cookie.len() - 1]);
        assert!(changed == cookie || open(&changed, now).is_none());
        let other = secrets.encrypt("sso", b"{}").expect("a key");
        assert!(open(&URL_SAFE_NO_PAD.encode(other), now).is_none());
        assert!(open("", now).is_none());
        let _ = std::fs::remove_file(path);
    }
}
