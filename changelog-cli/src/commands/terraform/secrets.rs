//! The values that are hidden in errors.

use std::ffi::OsString;

/// Returns the values of Terraform's variables in the environment, and of the
/// variables whose names suggest a secret.
pub(super) fn of_environment(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<String> {
    let suspicious = [
        "SECRET",
        "TOKEN",
        "PASSWORD",
        "PASSPHRASE",
        "API_KEY",
        "PRIVATE_KEY",
    ];
    environment
        .filter(|(name, _)| {
            let name = name.to_string_lossy().to_ascii_uppercase();
            name.starts_with("TF_VAR_") || suspicious.iter().any(|word| name.contains(word))
        })
        .flat_map(|(_, value)| pieces(&value.to_string_lossy()))
        .collect()
}

/// Returns a value, and the strings in it if it is a list or an object.
pub(super) fn pieces(value: &str) -> Vec<String> {
    let mut pieces = vec![value.trim().to_owned()];
    if value.contains('"') {
        pieces.extend(value.split('"').skip(1).step_by(2).map(str::to_owned));
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_has_secrets() {
        let variables = [
            ("TF_VAR_list", "[\"first-one\", \"second-one\"]"),
            ("CLOUD_SECRET_ACCESS_KEY", "abcdef"),
            ("HOME", "/home/ada"),
        ];
        let found = of_environment(
            variables
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value))),
        );
        for secret in ["first-one", "second-one", "abcdef"] {
            assert!(found.iter().any(|value| value == secret), "{found:?}");
        }
        assert!(!found.iter().any(|value| value.contains("home")));
    }
}
