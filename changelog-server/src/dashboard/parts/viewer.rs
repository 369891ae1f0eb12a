//! Who looks at a page, and what they may do there.

use std::net::IpAddr;

use changelog_core::{OrganizationId, ProblemCode, Role};

use crate::app::App;
use crate::store::{Actor, Session, Tenant};
use crate::web::{ApiError, Request, cross_site, session};

/// The parts of the dashboard, as the bar above each page shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Changes,
    Services,
    Hosts,
    Activity,
    Settings,
    Account,
}

const SECTIONS: [(Section, &str, &str); 6] = [
    (Section::Overview, "/", "Overview"),
    (Section::Changes, "/changes", "Changes"),
    (Section::Services, "/services", "Services"),
    (Section::Hosts, "/hosts", "Hosts"),
    (Section::Activity, "/activity", "Activity"),
    (Section::Settings, "/settings/api-keys", "Settings"),
];

/// A person who is signed in and looks at a page.
#[derive(Debug)]
pub(crate) struct Viewer {
    pub(crate) session: Session,
    /// From where they look.
    address: IpAddr,
    pub(crate) section: Section,
    /// The organizations that they belong to.
    memberships: Vec<(OrganizationId, String, Role)>,
}

impl Viewer {
    /// Finds out who asks for a page.
    pub(crate) async fn read(
        app: &App,
        request: &Request,
        section: Section,
    ) -> Result<Self, ApiError> {
        let session = session::require(app, request).await?;
        let memberships = app.store.memberships(session.person.id).await?;
        Ok(Self {
            session,
            address: request.context.address,
            section,
            memberships,
        })
    }

    /// Finds out who asks for something to be changed, in the organization's
    /// records; a browser that was sent by another site and who may only read
    /// are refused.
    pub(crate) async fn write(
        app: &App,
        request: &Request,
        section: Section,
    ) -> Result<Self, ApiError> {
        cross_site::refuse(app, request)?;
        let viewer = Self::read(app, request, section).await?;
        viewer.require(Role::may_write, "owners, admins and members")
    }

    /// The same for the organization itself: its keys and people.
    pub(crate) async fn manage(
        app: &App,
        request: &Request,
        section: Section,
    ) -> Result<Self, ApiError> {
        cross_site::refuse(app, request)?;
        let viewer = Self::read(app, request, section).await?;
        viewer.require(Role::may_manage, "owners and admins")
    }

    /// The same for what is their own: their account, their session.
    pub(crate) async fn own(
        app: &App,
        request: &Request,
        section: Section,
    ) -> Result<Self, ApiError> {
        cross_site::refuse(app, request)?;
        Self::read(app, request, section).await
    }

    fn require(self, may: fn(&Role) -> bool, who: &str) -> Result<Self, ApiError> {
        let role = &self.session.person.role;
        if may(role) {
            return Ok(self);
        }
        let detail = format!("your role is {role}; {who} may do this");
        Err(ApiError::new(ProblemCode::Forbidden, detail))
    }

    pub(crate) fn tenant(&self) -> Tenant {
        self.session.tenant
    }

    /// Returns who the activity log names.
    pub(crate) fn actor(&self) -> Actor {
        let person = &self.session.person;
        Actor::person(person.id, &person.name, self.address)
    }

    pub(crate) fn may_write(&self) -> bool {
        self.session.person.role.may_write()
    }

    pub(crate) fn may_manage(&self) -> bool {
        self.session.person.role.may_manage()
    }

    #[expect(clippy::unused_self, reason = "templates have the viewer only")]
    pub(crate) fn sections(&self) -> &'static [(Section, &'static str, &'static str)] {
        &SECTIONS
    }

    /// Returns the organizations that they could act in instead.
    pub(crate) fn others(&self) -> impl Iterator<Item = &(OrganizationId, String, Role)> {
        let here = self.session.tenant.id();
        self.memberships.iter().filter(move |(id, ..)| *id != here)
    }
}
