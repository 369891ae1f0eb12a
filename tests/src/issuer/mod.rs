//! An identity provider: an HTTP server with a discovery document and keys of its own, which
//! signs tokens, also such as must be refused.
//!
//! ```ignore
//! let key = SigningKey::rsa("k1");
//! let issuer = Issuer::start(&[&key]).await;
//! let token = key.sign(&issuer.claims("https://changes.example", now));
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair,
};
use ring::{digest, hmac};
use serde_json::{Value, json};

use crate::receivers::{Answer, Receiver};

/// The path of the discovery document.
pub const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";
const KEYS_PATH: &str = "/keys";

/// A key that signs tokens.
pub struct SigningKey {
    id: String,
    algorithm: &'static str,
    pair: Pair,
}

enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair, &'static str),
    Ed(Ed25519KeyPair),
}

/// Encodes bytes as tokens have them.
pub fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl SigningKey {
    /// Returns a key of RSA that signs with RS256: always the same one.
    pub fn rsa(id: &str) -> Self {
        Self::rsa_of(id, include_bytes!("first.p8"))
    }

    /// Returns another key of RSA.
    pub fn other_rsa(id: &str) -> Self {
        Self::rsa_of(id, include_bytes!("second.p8"))
    }

    /// Returns the same key of RSA, which signs with PS256.
    pub fn rsa_pss(id: &str) -> Self {
        let algorithm = "PS256";
        Self {
            algorithm,
            ..Self::rsa(id)
        }
    }

    fn rsa_of(id: &str, pkcs8: &[u8]) -> Self {
        Self {
            id: id.to_owned(),
            algorithm: "RS256",
            pair: Pair::Rsa(RsaKeyPair::from_pkcs8(pkcs8).expect("a key")),
        }
    }

    /// Returns a new key that signs with ES256.
    pub fn p256(id: &str) -> Self {
        Self::ec(id, "ES256", "P-256", &ECDSA_P256_SHA256_FIXED_SIGNING)
    }

    /// Returns a new key that signs with ES384.
    pub fn p384(id: &str) -> Self {
        Self::ec(id, "ES384", "P-384", &ECDSA_P384_SHA384_FIXED_SIGNING)
    }

    fn ec(
        id: &str,
        algorithm: &'static str,
        curve: &'static str,
        signing: &'static EcdsaSigningAlgorithm,
    ) -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(signing, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(signing, pkcs8.as_ref(), &random).expect("a key");
        Self {
            id: id.to_owned(),
            algorithm,
            pair: Pair::Ec(pair, curve),
        }
    }

    /// Returns a new key that signs with `EdDSA`.
    pub fn ed25519(id: &str) -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Self {
            id: id.to_owned(),
            algorithm: "EdDSA",
            pair: Pair::Ed(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("a key")),
        }
    }

    /// Returns the public key as a provider publishes it.
    pub fn published(&self) -> Value {
        let mut key = match &self.pair {
            Pair::Rsa(pair) => {
                let public = PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({ "kty": "RSA", "n": encoded(public.n), "e": encoded(public.e) })
            }
            Pair::Ec(pair, curve) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                json!({ "kty": "EC", "crv": curve, "x": encoded(x), "y": encoded(y) })
            }
            Pair::Ed(pair) => {
                let x = encoded(pair.public_key());
                json!({ "kty": "OKP", "crv": "Ed25519", "x": x })
            }
        };
        key["kid"] = json!(self.id);
        key["use"] = json!("sig");
        key["alg"] = json!(self.algorithm);
        key
    }

    /// Signs a token.
    pub fn sign(&self, claims: &Value) -> String {
        let header = json!({ "alg": self.algorithm, "kid": self.id, "typ": "JWT" });
        self.sign_with(&header, claims)
    }

    /// Signs a token with any header.
    pub fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let padding: &dyn ring::signature::RsaEncoding = if self.algorithm == "PS256" {
                    &RSA_PSS_SHA256
                } else {
                    &RSA_PKCS1_SHA256
                };
                let random = SystemRandom::new();
                let signed = pair.sign(padding, &random, message.as_bytes(), &mut signature);
                signed.expect("a signature");
                signature
            }
            Pair::Ec(pair, _) => {
                let signed = pair.sign(&SystemRandom::new(), message.as_bytes());
                signed.expect("a signature").as_ref().to_vec()
            }
            Pair::Ed(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", encoded(signature))
    }

    /// Makes a token that takes the published key for a shared secret, with HS256.
    pub fn forge_with_public_key(&self, claims: &Value) -> String {
        let header = json!({ "alg": "HS256", "kid": self.id, "typ": "JWT" });
        let message = message(&header, claims);
        let secret = self.published()["n"].to_string();
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let signature = hmac::sign(&key, message.as_bytes());
        format!("{message}.{}", encoded(signature))
    }
}

fn message(header: &Value, claims: &Value) -> String {
    let parts = [header, claims].map(|part| encoded(part.to_string()));
    parts.join(".")
}

/// Makes a token that is not signed.
pub fn unsigned(claims: &Value) -> String {
    let header = json!({ "alg": "none", "typ": "JWT" });
    format!("{}.", message(&header, claims))
}

/// An identity provider on 127.0.0.1. It is stopped when it is dropped.
pub struct Issuer {
    /// The server, which can be made to misbehave.
    pub server: Receiver,
}

impl Issuer {
    /// Starts a provider that publishes these keys.
    pub async fn start(keys: &[&SigningKey]) -> Self {
        let issuer = Self {
            server: Receiver::start().await,
        };
        issuer.publish(keys);
        issuer
    }

    /// Returns the issuer of its tokens.
    pub fn url(&self) -> String {
        self.server.base()
    }

    /// Publishes these keys from now on.
    pub fn publish(&self, keys: &[&SigningKey]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.published()).collect();
        let url = self.url();
        self.server.answer_by(move |request| match &*request.path {
            DISCOVERY_PATH => Answer::json(
                200,
                &json!({ "issuer": url, "jwks_uri": format!("{url}{KEYS_PATH}") }),
            ),
            KEYS_PATH => Answer::json(200, &json!({ "keys": keys })),
            _ => Answer::status(404),
        });
    }

    /// Returns the claims of a job of GitHub Actions in acme/shop, valid for five minutes.
    pub fn claims(&self, audience: &str, now: DateTime<Utc>) -> Value {
        let seconds = now.timestamp();
        json!({
            "iss": self.url(),
            "aud": audience,
            "sub": "repo:acme/shop:environment:production",
            "iat": seconds,
            "nbf": seconds - 60,
            "exp": seconds + 300,
            "jti": encoded(digest::digest(&digest::SHA256, &seconds.to_be_bytes())),
            "repository": "acme/shop",
            "repository_owner": "acme",
            "environment": "production",
            "ref": "refs/heads/main",
            "ref_protected": "true",
            "sha": "0123456789abcdef0123456789abcdef01234567",
            "actor": "ada",
            "run_id": "4711",
            "workflow": "deploy",
        })
    }
}
