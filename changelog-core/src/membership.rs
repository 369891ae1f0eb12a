//! Members of an organization, their roles, and invitations.

use serde::{Deserialize, Serialize};

use crate::ids::InvitationId;
use crate::input::{Input, ObjectReader};
use crate::problem::Violations;
use crate::time::Timestamp;
use crate::user::{User, check_email};
use crate::wire_enum::wire_enum;

wire_enum! {
    /// What a person may do in an organization.
    Role, "a role", example "member" {
        /// Everything.
        Owner = "owner",
        /// All but removing or demoting an owner.
        Admin = "admin",
        /// Logs and edits changes, hosts and services.
        Member = "member",
        /// Reads.
        Viewer = "viewer",
    }
}

impl Role {
    /// Tells whether it may log and edit changes, hosts and services.
    pub fn may_write(&self) -> bool {
        matches!(self, Self::Owner | Self::Admin | Self::Member)
    }

    /// Tells whether it may manage the organization: its members, its keys, its
    /// name.
    pub fn may_manage(&self) -> bool {
        matches!(self, Self::Owner | Self::Admin)
    }

    /// Tells whether it may give somebody a role, or take it from them: only an
    /// owner makes owners, demotes and removes them.
    pub fn may_give(&self, role: &Self) -> bool {
        match self {
            Self::Owner => true,
            Self::Admin => *role != Self::Owner,
            _ => false,
        }
    }

    /// Tells whether it may change somebody's role from one to another.
    pub fn may_change(&self, from: &Self, to: &Self) -> bool {
        self.may_give(from) && self.may_give(to)
    }
}

/// A person, as a member of an organization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Who it is.
    pub user: User,
    /// What they may do.
    pub role: Role,
    /// Since when they belong to it.
    pub joined_at: Timestamp,
}

/// An invitation to an organization that nobody has accepted yet. The token of
/// its link is shown once and kept nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    /// Its id, for withdrawing it.
    pub id: InvitationId,
    /// The address that it is for.
    pub email: String,
    /// What whoever accepts it may do.
    pub role: Role,
    /// The name of who invited.
    pub invited_by: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it cannot be accepted any more.
    pub expires_at: Timestamp,
}

/// What makes an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInvitation {
    /// The address that it is for: at most 254 characters with an `@` inside.
    pub email: String,
    /// What whoever accepts it may do; a member where nothing is said.
    pub role: Role,
}

impl Input for NewInvitation {
    const FIELDS: &'static [&'static str] = &["email", "role"];

    fn read(object: &mut ObjectReader<'_>) -> Self {
        Self {
            email: object.required_string("email"),
            role: object.parsed("role").unwrap_or(Role::Member),
        }
    }

    fn check(&mut self, problems: &mut Violations, _now: Timestamp) {
        check_email(problems, &mut self.email);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_and_what_they_may() {
        use Role::{Admin, Member, Owner, Viewer};
        for (role, write, manage) in [
            (Owner, true, true),
            (Admin, true, true),
            (Member, true, false),
            (Viewer, false, false),
            // A role of the future is not guessed at.
            (Role::Unknown("king".into()), false, false),
        ] {
            assert_eq!(role.may_write(), write, "{role}");
            assert_eq!(role.may_manage(), manage, "{role}");
            for from in Role::ALL {
                assert_eq!(
                    role.may_give(from),
                    manage && (role == Owner || *from != Owner),
                    "{role} gives {from}"
                );
                for to in Role::ALL {
                    let expected = match role {
                        Owner => true,
                        Admin => *from != Owner && *to != Owner,
                        _ => false,
                    };
                    assert_eq!(role.may_change(from, to), expected, "{role}: {from}, {to}");
                }
            }
        }
    }

    #[test]
    fn invitations_have_an_address_and_a_role() {
        let read = |members: serde_json::Value| {
            let object = members.as_object().cloned().unwrap_or_default();
            crate::input::from_object::<NewInvitation>(object, Timestamp::EPOCH)
        };
        for (members, role) in [
            (serde_json::json!({ "email": " a@b " }), Role::Member),
            (
                serde_json::json!({ "email": "a@b", "role": "viewer" }),
                Role::Viewer,
            ),
            (
                serde_json::json!({ "email": "a@b", "role": "owner" }),
                Role::Owner,
            ),
        ] {
            let email = "a@b".to_owned();
            assert_eq!(read(members), Ok(NewInvitation { email, role }));
        }
        for (members, pointer) in [
            (serde_json::json!({ "email": "ab" }), "/email"),
            (
                serde_json::json!({ "email": "a@b", "role": "king" }),
                "/role",
            ),
            (serde_json::json!({ "email": "a@b", "name": "A" }), "/name"),
        ] {
            let invalid = read(members.clone()).unwrap_err();
            let found: Vec<&str> = invalid.violations.iter().map(|v| &*v.pointer).collect();
            assert!(found.contains(&pointer), "{members}: {found:?}");
        }
    }
}
