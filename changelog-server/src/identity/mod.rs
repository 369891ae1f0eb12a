//! Tokens that identity providers sign: of pipelines, and of people who sign in.
//!
//! - `provider.rs` fetches what a provider publishes: its discovery document and its keys;
//! - `providers.rs` remembers it, and limits how often a provider is asked;
//! - `token.rs` reads tokens, and checks what they claim;
//! - `keys.rs` checks signatures.
//!
//! What is remembered belongs to an issuer and not to an organization: it is public, and the
//! same for all that name this issuer. Everything that an organization chooses (the audience,
//! the claims) is checked for each token again.

mod error;
mod keys;
mod provider;
mod providers;
mod token;

use std::sync::Arc;

use chrono::TimeDelta;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

pub use error::{IdentityError, ProviderError, TokenError};
pub use provider::{
    Discovery, Issuer, MAX_PROVIDER_BYTES, PROVIDER_TIMEOUT, Provider, ProviderClient,
};
pub use token::{Claims, Expected, MAX_TOKEN_BYTES, TokenKind, looks_like_token};

use providers::Providers;

use crate::clock::Clock;
use crate::integrations::http::ReceiverClient;

/// How much later or earlier than ours the clock of a provider may be.
pub const LEEWAY: TimeDelta = TimeDelta::minutes(1);
/// The most bytes of tokens whose claims are remembered.
const MAX_REMEMBERED_BYTES: u64 = 8 * 1024 * 1024;
/// About how many tokens that are.
const REMEMBERED_TOKENS: usize = 4 * 1024;

/// Checks tokens; cheap to clone.
#[derive(Clone, Debug)]
pub struct Identity(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    client: ProviderClient,
    providers: Providers,
    /// Tokens whose signature was found to be right.
    signed: Cache<TokenHash, Signed, TokenBytes>,
}

/// The SHA-256 of a token; tokens are not kept.
type TokenHash = [u8; 32];

/// A token whose signature is right.
#[derive(Clone, Debug)]
struct Signed {
    /// Whose key has signed it. When its keys have been fetched again, the signature is
    /// checked again.
    provider: Arc<Provider>,
    claims: Arc<Claims>,
    bytes: u64,
}

/// Weighs a token by its length.
#[derive(Clone, Debug)]
struct TokenBytes;

impl Weighter<TokenHash, Signed> for TokenBytes {
    fn weight(&self, _: &TokenHash, signed: &Signed) -> u64 {
        signed.bytes
    }
}

impl Identity {
    /// Makes what checks tokens. Providers are reached as receivers are.
    pub fn new(client: ReceiverClient, clock: Clock) -> Self {
        let client = ProviderClient::new(client);
        Self(Arc::new(Inner {
            providers: Providers::new(client.clone(), clock.clone()),
            client,
            clock,
            signed: Cache::with_weighter(REMEMBERED_TOKENS, MAX_REMEMBERED_BYTES, TokenBytes),
        }))
    }

    /// Returns what sends other requests to providers, such as that for a token.
    pub fn client(&self) -> &ProviderClient {
        &self.0.client
    }

    /// Returns what a provider publishes, at most an hour old; older if the provider does not
    /// answer.
    ///
    /// # Errors
    /// [`ProviderError`] if there is nothing that may be used, after
    /// [`PROVIDER_TIMEOUT`] at the latest.
    pub async fn provider(&self, issuer: &Issuer) -> Result<Arc<Provider>, ProviderError> {
        self.0.providers.get(issuer, |_| true).await
    }

    /// Fetches what a provider publishes now, for an admin who sets it up. Nothing is
    /// remembered.
    ///
    /// # Errors
    /// As [`Self::provider`].
    pub async fn fetch_provider(&self, issuer: &Issuer) -> Result<Provider, ProviderError> {
        let now = self.0.clock.for_expiry();
        self.0.client.fetch(issuer, now).await
    }

    /// Checks a token that an issuer is to have signed: its signature, and what it claims of
    /// the issuer, the audience and its times.
    ///
    /// # Errors
    /// [`IdentityError::Token`] if the token is not valid, [`IdentityError::Provider`] if that
    /// is not known because the provider's keys are not.
    pub async fn verify(
        &self,
        issuer: &Issuer,
        token: &str,
        expected: &Expected<'_>,
    ) -> Result<Arc<Claims>, IdentityError> {
        token::check_length(token)?;
        let hash: TokenHash = Sha256::digest(token).into();
        if let Some(signed) = self.0.signed.get(&hash) {
            self.check_claims(&signed.claims, issuer, expected)?;
            let id = signed.claims.key_id();
            let provider = self.provider_with(issuer, |now| now.has_key(id)).await?;
            if Arc::ptr_eq(&provider, &signed.provider) {
                return Ok(signed.claims);
            }
        }
        let parsed = token::parse(token)?;
        // First, because it is cheap: no keys are fetched for a token that is of no use.
        self.check_claims(&parsed.claims, issuer, expected)?;
        let id = parsed.claims.key_id();
        let provider = self.provider_with(issuer, |now| now.has_key(id)).await?;
        provider.check_signature(&parsed)?;
        let claims = Arc::new(parsed.claims);
        self.0.signed.insert(
            hash,
            Signed {
                provider,
                claims: Arc::clone(&claims),
                bytes: token.len() as u64,
            },
        );
        Ok(claims)
    }

    /// Returns what a token claims, before it is checked: this says only against what it is to
    /// be checked.
    ///
    /// # Errors
    /// [`TokenError`] if it cannot be read.
    pub fn read(&self, token: &str) -> Result<Arc<Claims>, TokenError> {
        token::check_length(token)?;
        let hash: TokenHash = Sha256::digest(token).into();
        match self.0.signed.get(&hash) {
            Some(signed) => Ok(signed.claims),
            None => Ok(Arc::new(token::parse(token)?.claims)),
        }
    }

    async fn provider_with(
        &self,
        issuer: &Issuer,
        has_key: impl Fn(&Provider) -> bool,
    ) -> Result<Arc<Provider>, ProviderError> {
        self.0.providers.get(issuer, has_key).await
    }

    fn check_claims(
        &self,
        claims: &Claims,
        issuer: &Issuer,
        expected: &Expected<'_>,
    ) -> Result<(), TokenError> {
        let now = self.0.clock.for_expiry();
        claims.check(issuer.url(), expected, now)
    }
}
