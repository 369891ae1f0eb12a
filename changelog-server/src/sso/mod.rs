//! Sign-in by the identity provider of an organization: `OpenID` Connect, the authorization code
//! flow with PKCE.
//!
//! - `setup.rs` makes and tests the connection to a provider, for the dashboard and for commands;
//! - `flow.rs` keeps what a browser has begun in an encrypted cookie, so that any server can
//!   go on with it;
//! - `exchange.rs` exchanges the code that a browser brings back, and checks what the provider
//!   says of the person;
//! - `person.rs` reads the person from that.
//!
//! The pages are `dashboard/sso.rs`; which account is a person's: `store/sso_sign_in.rs`.

pub(crate) mod exchange;
pub(crate) mod flow;
pub(crate) mod person;
pub(crate) mod setup;

/// The address to which providers return people, below the public URL.
pub(crate) const CALLBACK_PATH: &str = "/sso/callback";
