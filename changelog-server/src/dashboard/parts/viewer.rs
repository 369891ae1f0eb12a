//! The signed-in user of a page and their permissions.

use std::net::IpAddr;

use changelog_core::{OrganizationId, ProblemCode, Role, Timestamp};

use super::zone::Zone;
use crate::app::App;
use crate::store::{Actor, Session, SignInMethod, Tenant};
use crate::web::{ApiError, Request, cross_site, session};

/// The sections of the dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Around,
    Incidents,
    Upcoming,
    Changes,
    Services,
    Hosts,
    Activity,
    Settings,
    Account,
}

/// The sections in the navigation bar: path and label.
pub(crate) const SECTIONS: [(Section, &str, &str); 9] = [
    (Section::Overview, "/", "Overview"),
    (Section::Around, "/around", "Around"),
    (Section::Incidents, "/incidents", "Incidents"),
    (Section::Changes, "/changes", "Changes"),
    (Section::Upcoming, "/upcoming", "Upcoming"),
    (Section::Services, "/services", "Services"),
    (Section::Hosts, "/hosts", "Hosts"),
    (Section::Activity, "/activity", "Activity"),
    (Section::Settings, "/settings/api-keys", "Settings"),
];

/// The cookie with the theme that the reader chose, which the script sets.
const THEME_COOKIE: &str = "changelog_theme";
pub(crate) const THEMES: [&str; 2] = ["light", "dark"];

/// Returns the theme that the reader chose; `None` for that of the system.
pub(crate) fn theme(request: &Request) -> Option<&'static str> {
    let chosen = request.cookie(THEME_COOKIE);
    THEMES.into_iter().find(|theme| chosen == Some(theme))
}

/// The signed-in user who requests a page.
#[derive(Debug)]
pub(crate) struct Viewer {
    pub(crate) session: Session,
    /// The client's address.
    address: IpAddr,
    pub(crate) section: Section,
    pub(crate) zone: Zone,
    /// `light` or `dark`; the system's without one.
    pub(crate) theme: Option<&'static str>,
    /// When the page was requested.
    pub(crate) now: Timestamp,
    /// The user's organizations.
    memberships: Vec<(OrganizationId, String, Role)>,
}

impl Viewer {
    /// Returns the user who reads a page.
    pub(crate) async fn read(
        app: &App,
        request: &Request,
        section: Section,
    ) -> Result<Self, ApiError> {
        let session = session::require(app, request).await?;
        // A session by the identity provider of an organization acts in this one only.
        let memberships = match session.method {
            SignInMethod::Sso => Vec::new(),
            _ => app.store.memberships(session.person.id).await?,
        };
        let now = app.now().into();
        Ok(Self {
            session,
            address: request.context.address,
            section,
            theme: theme(request),
            zone: Zone::of(request, now),
            now,
            memberships,
        })
    }

    /// Returns the user who changes the organization's records. Refuses users who
    /// may only read, and requests that another site caused.
    pub(crate) async fn write(
        app: &App,
        request: &Request,
        section: Section,
    ) -> Result<Self, ApiError> {
        let viewer = Self::write_own(app, request, section).await?;
        viewer.require(Role::may_write, "owners, admins and members")
    }

    /// Returns the user who changes the organization itself, its API keys or its
    /// members. Refuses users who may not, and requests that another site caused.
    pub(crate) async fn manage(
        app: &App,
        request: &Request,
        section: Section,
    ) -> Result<Self, ApiError> {
        let viewer = Self::write_own(app, request, section).await?;
        viewer.require(Role::may_manage, "owners and admins")
    }

    /// Returns the user who changes their own account or session. Refuses requests
    /// that another site caused, and forms of a page that was shown for another organization.
    pub(crate) async fn write_own(
        app: &App,
        request: &Request,
        section: Section,
    ) -> Result<Self, ApiError> {
        let viewer = Self::switch(app, request, section).await?;
        // The script names the organization of the page in the address.
        let query = request.query_form();
        let shown = query.value("organization");
        if shown.is_empty() || shown == viewer.tenant().id().to_string() {
            return Ok(viewer);
        }
        let detail = format!(
            "nothing was saved: the page was shown for another organization, and you have \
             switched to {} since; go back, and switch to the other one first",
            viewer.session.organization_name
        );
        Err(ApiError::new(ProblemCode::Conflict, detail))
    }

    /// Returns the user who switches to another organization. Refuses requests that another
    /// site caused.
    pub(crate) async fn switch(
        app: &App,
        request: &Request,
        section: Section,
    ) -> Result<Self, ApiError> {
        cross_site::refuse(app, request)?;
        session::require(app, request).await?;
        // It may take long: what the person may do is read when it is complete.
        request.receive_form().await?;
        Self::read(app, request, section).await
    }

    fn require(self, is_allowed: fn(&Role) -> bool, allowed: &str) -> Result<Self, ApiError> {
        let role = &self.session.person.role;
        if is_allowed(role) {
            return Ok(self);
        }
        let detail = match role {
            Role::Viewer => "viewers have read-only access".to_owned(),
            role => format!("your role is {role}; only {allowed} may do this"),
        };
        Err(ApiError::new(ProblemCode::Forbidden, detail))
    }

    pub(crate) fn tenant(&self) -> Tenant {
        self.session.tenant
    }

    /// Returns the actor for the activity log.
    pub(crate) fn actor(&self) -> Actor {
        let person = &self.session.person;
        Actor {
            has_receivers: self.session.has_receivers,
            ..Actor::person(person.id, &person.name, self.address)
        }
    }

    pub(crate) fn may_write(&self) -> bool {
        self.session.person.role.may_write()
    }

    /// Returns the user who changes how people sign in. Refuses all but owners, and requests
    /// that another site caused.
    pub(crate) async fn own(
        app: &App,
        request: &Request,
        section: Section,
    ) -> Result<Self, ApiError> {
        let viewer = Self::switch(app, request, section).await?;
        viewer.require(|role| *role == Role::Owner, "owners")
    }

    pub(crate) fn is_owner(&self) -> bool {
        self.session.person.role == Role::Owner
    }

    /// Whether the user has signed in by the identity provider of the organization.
    pub(crate) fn is_by_provider(&self) -> bool {
        self.session.method == SignInMethod::Sso
    }

    pub(crate) fn may_manage(&self) -> bool {
        self.session.person.role.may_manage()
    }

    #[expect(clippy::unused_self, reason = "templates have the viewer only")]
    pub(crate) fn sections(&self) -> &'static [(Section, &'static str, &'static str)] {
        &SECTIONS
    }

    /// Returns the number of unread notifications for the bar: up to 99, or `99+`; empty if
    /// there is none.
    pub(crate) fn unread(&self) -> String {
        match self.session.unread {
            0 => String::new(),
            unread @ 1..100 => unread.to_string(),
            _ => "99+".to_owned(),
        }
    }

    /// Returns the label of the current section.
    pub(crate) fn section_name(&self) -> &'static str {
        let mut sections = SECTIONS.iter();
        let current = sections.find(|(section, ..)| *section == self.section);
        current.map_or("Account", |(_, _, name)| name)
    }

    /// Returns the first letters of the first two words of the user's name.
    pub(crate) fn initials(&self) -> String {
        let words = self.session.person.name.split_whitespace().take(2);
        words.filter_map(|word| word.chars().next()).collect()
    }

    /// Returns the user's organizations except the current one.
    pub(crate) fn other_organizations(
        &self,
    ) -> impl Iterator<Item = &(OrganizationId, String, Role)> {
        let current = self.session.tenant.id();
        self.memberships
            .iter()
            .filter(move |(id, ..)| *id != current)
    }
}
