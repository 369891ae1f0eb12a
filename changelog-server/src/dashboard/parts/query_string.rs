//! Editing the query string of a page's address.

use changelog_core::query::Pairs;

/// Returns a query string without some parameters.
pub(crate) fn without(query: &str, names: &[&str]) -> String {
    let mut kept = Pairs::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if !names.contains(&&*name) {
            kept.push(&name, value);
        }
    }
    kept.finish()
}

/// Returns a query string with a parameter set to one value.
pub(crate) fn with(query: &str, name: &str, value: impl std::fmt::Display) -> String {
    let mut query = without(query, &[name]);
    if !query.is_empty() {
        query.push('&');
    }
    query + &super::format::query(name, value)
}

/// Returns the address of a path with a query string, which may be empty.
pub(crate) fn address(path: &str, query: &str) -> String {
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_removed_and_replaced() {
        assert_eq!(without("a=1&b=x%20y&a=2", &["a"]), "b=x+y");
        assert_eq!(with("a=1&b=2", "a", 3), "b=2&a=3");
        assert_eq!(with("", "a", "x y"), "a=x+y");
        assert_eq!(address("/changes", ""), "/changes");
        assert_eq!(address("/changes", "a=1"), "/changes?a=1");
    }
}
