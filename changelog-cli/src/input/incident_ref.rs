//! Incidents as a user names them: by ID, by the beginning of one, or by the address of its
//! page.

use std::str::FromStr;

use changelog_client::Client;
use changelog_core::ids::IdPrefix;
use changelog_core::limits::{MAX_PER_PAGE, MIN_ID_PREFIX};
use changelog_core::{Incident, IncidentId};

use super::change_ref::without_address;
use crate::base::failure::{Exit, Failure, Outcome};
use crate::base::text::one_line;

/// How many incidents are listed if a prefix is ambiguous.
const LISTED_INCIDENTS: usize = 5;

/// An incident as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IncidentRef(IdPrefix);

impl FromStr for IncidentRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let prefix = without_address(text.trim()).parse();
        prefix.map(Self).map_err(|_| {
            format!("must be the ID of an incident, at least its first {MIN_ID_PREFIX} digits")
        })
    }
}

impl IncidentRef {
    /// Returns the ID of the incident that a user named.
    pub(crate) async fn find(&self, client: &Client) -> Outcome<IncidentId> {
        let Self(prefix) = self;
        if let Some(id) = prefix.whole() {
            return Ok(id.into());
        }
        let list = client.incidents().list();
        let found: Vec<Incident> = list.id_prefix(prefix.clone()).limit(MAX_PER_PAGE).await?;
        match found.as_slice() {
            [] => Err(Failure::new(
                Exit::NotFound,
                format!("there is no incident whose ID begins with {prefix}"),
            )
            .hint("`chlog incident list` shows the incidents with their IDs")),
            [only] => Ok(only.id),
            several => {
                let message = format!("several incidents have IDs that begin with {prefix}");
                let lines = several.iter().take(LISTED_INCIDENTS);
                let failure = lines.fold(Failure::usage(message), |failure, incident| {
                    failure.line(format!("{}  {}", incident.id, one_line(&incident.title)))
                });
                Err(failure.hint("give more digits"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incidents_are_named_by_ids_prefixes_and_addresses() {
        let id = "01a1fc2f-a733-7820-9a46-0802c0ffd162";
        let address = format!("https://example.com/log/incidents/{id}");
        let named: IncidentRef = id.parse().unwrap();
        assert_eq!(address.parse(), Ok(named.clone()));
        assert_eq!(
            named.0.whole().map(|id| id.to_string()),
            Some(id.to_owned())
        );
        assert!("01A1FC2F".parse::<IncidentRef>().is_ok());
        for text in ["", "@last", "01a1fc2", "01a1fc2g"] {
            assert!(text.parse::<IncidentRef>().is_err(), "{text}");
        }
    }
}
