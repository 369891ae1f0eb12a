//! Encryption of the secrets that are stored: the addresses and tokens of connections.
//!
//! The keys are in a file next to the database, so that a copy of the database alone
//! reveals no secret. Each line of the file is a key, base64 of 32 bytes; the first one
//! encrypts, all of them decrypt, so that keys can be rotated while servers run.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};

/// The first byte of an encrypted secret: the layout of what follows, which is the id of
/// the key, the nonce, and the XChaCha20-Poly1305 ciphertext with its tag.
const LAYOUT: u8 = 1;
const KEY_BYTES: usize = 32;
const KEY_ID_BYTES: usize = 4;
const NONCE_BYTES: usize = 24;
/// The limit on the key file, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;

const EXPLANATION: &str = "\
# The keys by which the change log encrypts the secrets of its connections. Keep a copy
# apart from the backups of the database: without this file, connections must be set up
# again. `changelog-server secrets rotate` replaces the key.
";

/// Why a secret cannot be encrypted or decrypted. The message names no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// The key file cannot be read or written.
    #[error("the key file {path} cannot be used: {error}")]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is no key file.
    #[error(
        "the key file {path} is missing, and stored secrets need it: restore it, or name it by \
         --secrets-key-file; to start again with a new key, delete all connections first"
    )]
    Missing {
        /// Its path.
        path: PathBuf,
    },
    /// The key file has something else in it.
    #[error("line {line} of the key file {path} is not a key")]
    NotAKey {
        /// Its path.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The key file has no key that decrypts it.
    #[error(
        "the key file {path} has no key for this secret: it was encrypted with another key file"
    )]
    UnknownKey {
        /// Its path.
        path: PathBuf,
    },
    /// The stored bytes were not written by the service.
    #[error("an encrypted secret is damaged")]
    Damaged,
}

/// The keys in a file; cheap to clone.
#[derive(Clone, Debug)]
pub struct Secrets {
    path: Arc<PathBuf>,
    keys: Arc<RwLock<Arc<[Key]>>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Key([u8; KEY_BYTES]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    fn random() -> Self {
        Self(rand::random())
    }

    /// Returns what encrypted secrets name the key by.
    fn id(&self) -> [u8; KEY_ID_BYTES] {
        let hash = Sha256::digest(self.0);
        [hash[0], hash[1], hash[2], hash[3]]
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.0.into())
    }
}

impl Secrets {
    /// Uses the key file at a path, and makes one with a new key, readable only by its
    /// owner, if there is none.
    pub fn open(path: &Path) -> Result<Self, SecretsError> {
        let secrets = Self::of_file(path);
        if !path.exists() {
            secrets.create()?;
        }
        secrets.read()?;
        Ok(secrets)
    }

    /// Uses the key file at a path, which may be missing until something is encrypted or
    /// decrypted.
    pub fn open_existing(path: &Path) -> Result<Self, SecretsError> {
        let secrets = Self::of_file(path);
        match secrets.read() {
            Ok(_) | Err(SecretsError::Missing { .. }) => Ok(secrets),
            Err(error) => Err(error),
        }
    }

    fn of_file(path: &Path) -> Self {
        Self {
            path: Arc::new(path.to_owned()),
            keys: Arc::default(),
        }
    }

    /// Returns the path of the key file of a database, unless another one is configured.
    pub fn default_path(database_url: &str) -> PathBuf {
        let file = database_url.strip_prefix("sqlite:").map(|rest| {
            let rest = rest.strip_prefix("//").unwrap_or(rest);
            rest.split('?').next().unwrap_or(rest)
        });
        match file {
            Some(file) if !file.is_empty() && !file.contains(":memory:") => {
                PathBuf::from(format!("{file}.key"))
            }
            _ => PathBuf::from("changelog-secrets.key"),
        }
    }

    fn failed(&self, error: io::Error) -> SecretsError {
        let path = self.path.to_path_buf();
        match error.kind() {
            io::ErrorKind::NotFound => SecretsError::Missing { path },
            _ => SecretsError::File { path, error },
        }
    }

    /// Returns whether others than the owner of the key file may read it.
    pub fn is_exposed(&self) -> bool {
        let mode = fs::metadata(self.path.as_path()).map(|file| file.permissions().mode());
        mode.is_ok_and(|mode| mode & 0o077 != 0)
    }

    /// Writes a file with a new key, unless another process has just done so.
    fn create(&self) -> Result<(), SecretsError> {
        let new = self
            .path
            .with_extension(format!("key.{}", std::process::id()));
        self.write(&new, &[Key::random()])?;
        // A link fails if the file exists, so that no process replaces another one's key.
        let linked = fs::hard_link(&new, self.path.as_path());
        let _ = fs::remove_file(&new);
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(self.failed(error)),
            _ => self.sync_folder(),
        }
    }

    /// Makes the name of the file survive a power cut, before anything is encrypted by what is
    /// in it.
    fn sync_folder(&self) -> Result<(), SecretsError> {
        let folder = self.path.parent();
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        let folder = fs::File::open(folder.unwrap_or(Path::new(".")));
        folder
            .and_then(|folder| folder.sync_all())
            .map_err(|error| self.failed(error))
    }

    fn write(&self, path: &Path, keys: &[Key]) -> Result<(), SecretsError> {
        let mut text = EXPLANATION.to_owned();
        for key in keys {
            text.push_str(&BASE64_STANDARD.encode(key.0));
            text.push('\n');
        }
        let _ = fs::remove_file(path);
        let write = || {
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error| self.failed(error))
    }

    /// Reads the keys from the file.
    fn read(&self) -> Result<Arc<[Key]>, SecretsError> {
        let read = || {
            if fs::metadata(self.path.as_path())?.len() > MAX_FILE_BYTES {
                return Err(io::Error::other("it is too large"));
            }
            fs::read_to_string(self.path.as_path())
        };
        let text = read().map_err(|error| self.failed(error))?;
        let lines = text.lines().enumerate();
        let keys = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let keys = keys.map(|(number, line)| {
            let bytes = BASE64_STANDARD.decode(line.trim()).ok();
            let key = bytes.and_then(|bytes| <[u8; KEY_BYTES]>::try_from(bytes).ok());
            key.map(Key).ok_or_else(|| SecretsError::NotAKey {
                path: self.path.to_path_buf(),
                line: number + 1,
            })
        });
        let keys: Arc<[Key]> = keys.collect::<Result<_, _>>()?;
        if keys.is_empty() {
            return Err(self.failed(io::Error::other("it has no key")));
        }
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&keys);
        Ok(keys)
    }

    fn keys(&self) -> Arc<[Key]> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Encrypts a secret. It can be decrypted only with the same context, so that it
    /// cannot be moved to another row.
    pub fn encrypt(&self, context: &str, secret: &[u8]) -> Result<Vec<u8>, SecretsError> {
        // A command may have replaced the keys.
        let keys = self.read()?;
        let key = keys.first().ok_or(SecretsError::Damaged)?;
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let payload = Payload {
            msg: secret,
            aad: context.as_bytes(),
        };
        let ciphertext = key.cipher().encrypt(&XNonce::from(nonce), payload);
        let ciphertext = ciphertext.map_err(|_| SecretsError::Damaged)?;
        Ok([&[LAYOUT][..], &key.id(), &nonce, &ciphertext].concat())
    }

    /// Decrypts a secret. The file is read again if its key is not known: the key may be
    /// new.
    pub fn decrypt(&self, context: &str, encrypted: &[u8]) -> Result<Vec<u8>, SecretsError> {
        let Some((&LAYOUT, rest)) = encrypted.split_first() else {
            return Err(SecretsError::Damaged);
        };
        let (id, rest) = rest
            .split_first_chunk::<KEY_ID_BYTES>()
            .ok_or(SecretsError::Damaged)?;
        let (nonce, ciphertext) = rest
            .split_first_chunk::<NONCE_BYTES>()
            .ok_or(SecretsError::Damaged)?;
        let find = |keys: &[Key]| keys.iter().find(|key| key.id() == *id).cloned();
        let key = match find(&self.keys()) {
            Some(key) => key,
            None => find(&self.read()?).ok_or_else(|| SecretsError::UnknownKey {
                path: self.path.to_path_buf(),
            })?,
        };
        let payload = Payload {
            msg: ciphertext,
            aad: context.as_bytes(),
        };
        let secret = key.cipher().decrypt(&XNonce::from(*nonce), payload);
        secret.map_err(|_| SecretsError::Damaged)
    }

    /// Adds a key, by which everything is encrypted from now on.
    pub fn add_key(&self) -> Result<(), SecretsError> {
        let mut keys = vec![Key::random()];
        keys.extend(self.read()?.iter().cloned());
        self.replace(&keys)
    }

    /// Removes all keys but the first, by which everything must be encrypted.
    pub fn remove_old_keys(&self) -> Result<(), SecretsError> {
        let keys = self.read()?;
        self.replace(&keys[..1])
    }

    fn replace(&self, keys: &[Key]) -> Result<(), SecretsError> {
        let new = self
            .path
            .with_extension(format!("key.{}", std::process::id()));
        self.write(&new, keys)?;
        fs::rename(&new, self.path.as_path()).map_err(|error| self.failed(error))?;
        self.sync_folder()?;
        self.read()?;
        Ok(())
    }

    /// Returns whether a secret is encrypted by the first key.
    pub fn is_current(&self, encrypted: &[u8]) -> bool {
        let keys = self.keys();
        let id = encrypted.get(1..=KEY_ID_BYTES);
        keys.first().is_some_and(|key| id == Some(&key.id()[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> (PathBuf, Secrets) {
        let name = format!("changelog-secrets-{:032x}", rand::random::<u128>());
        let path = std::env::temp_dir().join(name);
        let secrets = Secrets::open(&path).expect("a new file");
        (path, secrets)
    }

    #[test]
    fn a_secret_is_decrypted_only_unchanged_and_in_its_context() {
        let (path, secrets) = secrets();
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let encrypted = secrets.encrypt("a", b"hooks.example").expect("a key");
        assert!(!String::from_utf8_lossy(&encrypted).contains("hooks"));
        assert_ne!(
            encrypted,
            secrets.encrypt("a", b"hooks.example").expect("a key")
        );
        // Another process with the same file.
        let other = Secrets::open(&path).expect("the file");
        assert_eq!(
            other.decrypt("a", &encrypted).expect("it is"),
            b"hooks.example"
        );
        assert!(matches!(
            other.decrypt("b", &encrypted),
            Err(SecretsError::Damaged)
        ));
        for index in 0..encrypted.len() {
            let mut damaged = encrypted.clone();
            damaged[index] ^= 1;
            assert!(other.decrypt("a", &damaged).is_err(), "{index}");
            assert!(other.decrypt("a", &encrypted[..index]).is_err(), "{index}");
        }
        let _ = fs::remove_file(path);
    }

    #[test]
    fn keys_are_rotated_while_another_process_runs() {
        let (path, secrets) = secrets();
        let running = Secrets::open(&path).expect("the file");
        let old = secrets.encrypt("a", b"old").expect("a key");
        secrets.add_key().expect("a new key");
        let new = secrets.encrypt("a", b"new").expect("a key");
        assert!(secrets.is_current(&new) && !secrets.is_current(&old));
        assert_eq!(running.decrypt("a", &new).expect("it is"), b"new");
        assert_eq!(running.decrypt("a", &old).expect("it is"), b"old");
        secrets.remove_old_keys().expect("one key");
        let later = Secrets::open(&path).expect("the file");
        assert_eq!(later.decrypt("a", &new).expect("it is"), b"new");
        let lost = later.decrypt("a", &old).expect_err("its key is gone");
        assert!(lost.to_string().contains("another key file"), "{lost}");
        let _ = fs::remove_file(path);
    }

    #[test]
    fn the_file_is_next_to_the_database() {
        for (url, expected) in [
            ("sqlite://changelog.db", "changelog.db.key"),
            ("sqlite:///var/lib/c.db?mode=rwc", "/var/lib/c.db.key"),
            ("postgres://u:secret@h/c", "changelog-secrets.key"),
        ] {
            assert_eq!(Secrets::default_path(url), PathBuf::from(expected), "{url}");
        }
    }
}
