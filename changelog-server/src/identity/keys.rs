//! The public keys of a provider, and the signatures made with them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::Value;

use super::error::{TokenError, shown};

/// The most keys of a provider that are looked at.
const MAX_KEYS: usize = 200;

/// An algorithm of signatures that is accepted. `none` and those with a shared secret are not:
/// what is published would be the secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct Algorithm {
    name: &'static str,
    scheme: Scheme,
}

#[derive(Clone, Copy, Debug)]
enum Scheme {
    Rsa(&'static RsaParameters),
    /// A curve by its name, and the length of its coordinates in bytes.
    Ec(&'static str, usize, &'static dyn VerificationAlgorithm),
    Ed25519,
}

/// All algorithms that are accepted. Keys of RSA have at least 2,048 bits.
static ALGORITHMS: [Algorithm; 9] = [
    rsa("RS256", &RSA_PKCS1_2048_8192_SHA256),
    rsa("RS384", &RSA_PKCS1_2048_8192_SHA384),
    rsa("RS512", &RSA_PKCS1_2048_8192_SHA512),
    rsa("PS256", &RSA_PSS_2048_8192_SHA256),
    rsa("PS384", &RSA_PSS_2048_8192_SHA384),
    rsa("PS512", &RSA_PSS_2048_8192_SHA512),
    ec("ES256", "P-256", 32, &ECDSA_P256_SHA256_FIXED),
    ec("ES384", "P-384", 48, &ECDSA_P384_SHA384_FIXED),
    Algorithm {
        name: "EdDSA",
        scheme: Scheme::Ed25519,
    },
];

const fn rsa(name: &'static str, parameters: &'static RsaParameters) -> Algorithm {
    let scheme = Scheme::Rsa(parameters);
    Algorithm { name, scheme }
}

const fn ec(
    name: &'static str,
    curve: &'static str,
    length: usize,
    algorithm: &'static dyn VerificationAlgorithm,
) -> Algorithm {
    let scheme = Scheme::Ec(curve, length, algorithm);
    Algorithm { name, scheme }
}

impl Algorithm {
    /// Finds an algorithm by the name in the header of a token.
    pub(super) fn named(name: &str) -> Result<Self, TokenError> {
        let found = ALGORITHMS.iter().find(|known| known.name == name);
        found
            .copied()
            .ok_or_else(|| TokenError::Algorithm(shown(name)))
    }
}

/// A key as a provider publishes it (RFC 7517).
#[derive(Deserialize)]
struct Published {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// A public key that may have signed a token.
#[derive(Clone, Debug)]
struct Key {
    id: Option<String>,
    /// The only algorithm that the key is for, if the provider says so.
    algorithm: Option<String>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A curve by its name, and the uncompressed point.
    Ec(String, Vec<u8>),
    Ed25519(Vec<u8>),
}

/// The keys of a provider.
#[derive(Clone, Debug, Default)]
pub(super) struct KeySet(Vec<Key>);

impl KeySet {
    /// Reads the keys that may sign tokens; other keys are left out.
    ///
    /// # Errors
    /// What is wrong with the document, as the rest of a sentence.
    pub(super) fn parse(document: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Document {
            keys: Vec<Value>,
        }
        let document: Document = serde_json::from_slice(document)
            .map_err(|_| "is not a JSON object with a list of keys".to_owned())?;
        let keys = document.keys.into_iter().take(MAX_KEYS);
        let keys: Vec<Key> = keys.filter_map(Key::read).collect();
        if keys.is_empty() {
            return Err("has no key with which tokens may be signed".to_owned());
        }
        Ok(Self(keys))
    }

    /// Returns whether a token that names this key may have been signed with one of them.
    pub(super) fn has(&self, id: Option<&str>) -> bool {
        match id {
            Some(_) => self.0.iter().any(|key| key.id.as_deref() == id),
            None => true,
        }
    }

    /// Checks a signature.
    ///
    /// # Errors
    /// [`TokenError::UnknownKey`], [`TokenError::Signature`].
    pub(super) fn check(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), TokenError> {
        let fits = |key: &&Key| (id.is_none() || key.id.as_deref() == id) && key.fits(algorithm);
        let mut candidates = self.0.iter().filter(fits);
        let unknown =
            || TokenError::UnknownKey(id.map_or_else(|| "without an id".to_owned(), shown));
        let key = candidates.next().ok_or_else(unknown)?;
        // Without an id the key must be clear.
        if id.is_none() && candidates.next().is_some() {
            return Err(unknown());
        }
        // Two keys of one id and one type: either may have signed it.
        let mut all = std::iter::once(key).chain(candidates);
        if all.any(|key| key.has_signed(algorithm, message, signature)) {
            return Ok(());
        }
        Err(TokenError::Signature)
    }
}

impl Key {
    fn read(value: Value) -> Option<Self> {
        let key: Published = serde_json::from_value(value).ok()?;
        let may_verify = key.purpose.as_deref().is_none_or(|word| word == "sig")
            && (key.key_ops.as_ref()).is_none_or(|all| all.iter().any(|one| one == "verify"));
        if !may_verify {
            return None;
        }
        let decoded = |text: Option<&String>| URL_SAFE_NO_PAD.decode(text?).ok();
        let material = match key.kty.as_str() {
            "RSA" => Material::Rsa {
                n: without_zeros(decoded(key.n.as_ref())?),
                e: without_zeros(decoded(key.e.as_ref())?),
            },
            "EC" => {
                let (x, y) = (decoded(key.x.as_ref())?, decoded(key.y.as_ref())?);
                // An uncompressed point.
                let point = [vec![4], x, y].concat();
                Material::Ec(key.crv?, point)
            }
            "OKP" if key.crv.as_deref() == Some("Ed25519") => {
                Material::Ed25519(decoded(key.x.as_ref())?)
            }
            _ => return None,
        };
        Some(Self {
            id: key.kid,
            algorithm: key.alg,
            material,
        })
    }

    /// Returns whether the key is one for an algorithm.
    fn fits(&self, algorithm: Algorithm) -> bool {
        let is_named = |name: &String| name == algorithm.name || is_eddsa(name, algorithm.name);
        self.algorithm.as_ref().is_none_or(is_named)
            && match (&self.material, algorithm.scheme) {
                (Material::Rsa { .. }, Scheme::Rsa(_))
                | (Material::Ed25519(_), Scheme::Ed25519) => true,
                (Material::Ec(curve, point), Scheme::Ec(wanted, length, _)) => {
                    curve == wanted && point.len() == 1 + 2 * length
                }
                _ => false,
            }
    }

    fn has_signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let result = match (&self.material, algorithm.scheme) {
            (Material::Rsa { n, e }, Scheme::Rsa(parameters)) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Material::Ec(_, point), Scheme::Ec(_, _, algorithm)) => {
                UnparsedPublicKey::new(algorithm, point).verify(message, signature)
            }
            (Material::Ed25519(key), Scheme::Ed25519) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
            }
            _ => return false,
        };
        result.is_ok()
    }
}

/// RFC 9864 has another name for `EdDSA` with this curve.
fn is_eddsa(of_key: &str, of_token: &str) -> bool {
    of_key == "Ed25519" && of_token == "EdDSA"
}

/// Removes the zeros before a number, which some providers write and ring refuses.
fn without_zeros(mut number: Vec<u8>) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.drain(..zeros);
    number
}
