//! The providers of a Terraform project.

use std::fs;
use std::path::Path;

/// The largest lock file that is read, in bytes.
const MAX_LOCK_FILE: u64 = 1024 * 1024;
/// The largest number of providers.
const MAX_PROVIDERS: usize = 20;
/// The longest name and the longest version of a provider, in characters.
const MAX_NAME: usize = 60;

/// Returns the providers in the lock file of a directory, with their versions.
pub(super) fn of_directory(directory: &Path) -> Vec<String> {
    let path = directory.join(".terraform.lock.hcl");
    let is_small = fs::metadata(&path).is_ok_and(|file| file.len() <= MAX_LOCK_FILE);
    let text = if is_small {
        fs::read_to_string(&path)
    } else {
        return Vec::new();
    };
    parse(&text.unwrap_or_default())
}

fn parse(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut provider = None;
    for line in text.lines() {
        let quoted = line.split('"').nth(1).unwrap_or_default();
        if line.starts_with("provider ") {
            // Without the host of the registry.
            provider = quoted.split_once('/').map(|(_, name)| name);
        } else if line.trim_start().starts_with("version ")
            && let Some(name) = provider.take()
        {
            let clean = |text: &str| {
                text.chars()
                    .filter(|c| c.is_ascii_alphanumeric() || "/._-+".contains(*c))
                    .take(MAX_NAME)
                    .collect::<String>()
            };
            found.push(format!("{} {}", clean(name), clean(quoted)));
        }
    }
    found.truncate(MAX_PROVIDERS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_named_without_the_host() {
        let text = "# made\nprovider \"registry.example.com/acme/cloud\" {\n  version     = \"5.1.0\"\n  \
                    constraints = \"~> 5.0\"\n  hashes = [\n    \"h1:abc=\",\n  ]\n}\n";
        assert_eq!(parse(text), ["acme/cloud 5.1.0"]);
    }
}
