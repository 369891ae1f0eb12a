//! The organization that a request acts in, and who acts.

use std::net::IpAddr;
use std::sync::Arc;

use changelog_core::activity::{API_KEY_PREFIX, OPERATOR, PIPELINE_PREFIX, SERVICE, SOURCE_PREFIX};
use changelog_core::{
    Agent, ApiKeyId, Author, AuthorType, OrganizationId, SourceRef, UserId, VerifiedRun, WorkloadId,
};
use sqlx::types::Uuid;

use crate::trace_parent::TraceParent;

/// The organization that a request acts in. Only the store makes one, when it
/// finds a key, a session or an organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(pub(super) OrganizationId);

impl Tenant {
    /// Returns the organization's id.
    pub fn id(self) -> OrganizationId {
        self.0
    }

    /// Returns an organization that exists in no database, for tests of the server.
    #[doc(hidden)]
    pub fn of_test() -> Self {
        Self(OrganizationId(Uuid::nil()))
    }

    /// Returns the id as the database takes it.
    pub(super) fn uuid(self) -> Uuid {
        self.0.0
    }
}

/// A pipeline that acts by a token of its own system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The workload identity that its token fits.
    pub workload: WorkloadId,
    /// Its system and repository, as in `github acme/shop`.
    pub name: String,
    /// What its token says of the run.
    pub run: Arc<VerifiedRun>,
}

/// Who acts, as the activity log names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The user; `None` for an API key and for the operator.
    pub person: Option<UserId>,
    /// The API key; `None` for a user and for the operator.
    pub key: Option<ApiKeyId>,
    /// The source; `None` for a user, an API key and the operator.
    pub source: Option<SourceRef>,
    /// The pipeline; `None` for all others.
    pub pipeline: Option<Pipeline>,
    /// The name of the user, `API key: ` and the key's name, `Source: ` and the source's name,
    /// or `Pipeline: ` and the pipeline's name.
    pub name: String,
    /// From where; `None` for the operator, who needs no network.
    pub address: Option<IpAddr>,
    /// Whether receivers get the events of changes that the actor makes: `false` if the
    /// organization had none when the actor was authenticated.
    pub has_receivers: bool,
    /// The automation that acts, as it claims.
    pub agent: Option<Agent>,
    /// The trace that the request of the actor belongs to, which receivers are sent.
    pub trace: Option<TraceParent>,
}

impl Actor {
    /// A user who is at an address.
    pub fn person(person: UserId, name: &str, address: IpAddr) -> Self {
        Self {
            person: Some(person),
            key: None,
            source: None,
            pipeline: None,
            name: name.to_owned(),
            address: Some(address),
            has_receivers: false,
            agent: None,
            trace: None,
        }
    }

    /// Returns the author of what the actor records; `None` for the operator.
    pub fn author(&self) -> Option<Author> {
        let author = |kind, id, name: &str| Author {
            kind,
            name: name.to_owned(),
            id,
            verified: None,
        };
        if let Some(pipeline) = &self.pipeline {
            let id = pipeline.workload.0;
            return Some(Author {
                verified: Some(Box::new((*pipeline.run).clone())),
                ..author(AuthorType::Workload, id, &pipeline.name)
            });
        }
        match (self.person, self.key) {
            (Some(person), _) => Some(author(AuthorType::Person, person.0, &self.name)),
            (None, Some(key)) => {
                let name = self.name.strip_prefix(API_KEY_PREFIX).unwrap_or(&self.name);
                Some(author(AuthorType::ApiKey, key.0, name))
            }
            (None, None) => {
                let source = self.source.as_ref()?;
                Some(author(AuthorType::Source, source.id.0, &source.name))
            }
        }
    }

    /// A source, for what its sender has told of.
    pub fn source(source: SourceRef, has_receivers: bool) -> Self {
        Self {
            name: format!("{SOURCE_PREFIX}{}", source.name),
            source: Some(source),
            has_receivers,
            ..Self::operator()
        }
    }

    /// A pipeline that is at an address; `has_receivers` as in [`Self::has_receivers`].
    pub fn pipeline(pipeline: Pipeline, address: IpAddr, has_receivers: bool) -> Self {
        Self {
            name: format!("{PIPELINE_PREFIX}{}", pipeline.name),
            pipeline: Some(pipeline),
            address: Some(address),
            has_receivers,
            ..Self::operator()
        }
    }

    /// The service itself, for what follows from the state of other systems.
    pub fn service() -> Self {
        Self {
            name: SERVICE.to_owned(),
            ..Self::operator()
        }
    }

    /// The operator at the server's own command line.
    pub fn operator() -> Self {
        Self {
            person: None,
            key: None,
            source: None,
            pipeline: None,
            name: OPERATOR.to_owned(),
            address: None,
            has_receivers: false,
            agent: None,
            trace: None,
        }
    }
}
