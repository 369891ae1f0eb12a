//! Members of an organization, their roles, and invitations.

use serde::{Deserialize, Serialize};

use crate::ids::InvitationId;
use crate::input::{Input, ObjectReader};
use crate::problem::Violations;
use crate::time::Timestamp;
use crate::user::{User, check_email};
use crate::wire_enum::wire_enum;

wire_enum! {
    /// The role of a user in an organization.
    Role, "a role", example "member" {
        /// May do everything.
        Owner = "owner",
        /// May do everything except remove or demote an owner.
        Admin = "admin",
        /// May log and edit changes, hosts and services.
        Member = "member",
        /// May only read.
        Viewer = "viewer",
    }
}

impl Role {
    /// Returns whether the role may log and edit changes, hosts and services.
    pub fn may_write(&self) -> bool {
        matches!(self, Self::Owner | Self::Admin | Self::Member)
    }

    /// Returns whether the role may manage the organization: its members, keys and
    /// name.
    pub fn may_manage(&self) -> bool {
        matches!(self, Self::Owner | Self::Admin)
    }

    /// Returns whether the role may give a role to a member or take it away. Only
    /// an owner may appoint, demote and remove owners.
    pub fn can_grant(&self, role: &Self) -> bool {
        match self {
            Self::Owner => true,
            Self::Admin => *role != Self::Owner,
            _ => false,
        }
    }

    /// Returns whether the role may change a member's role from one to another.
    pub fn can_change(&self, from: &Self, to: &Self) -> bool {
        self.can_grant(from) && self.can_grant(to)
    }
}

/// A user as a member of an organization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The user.
    pub user: User,
    /// The role.
    pub role: Role,
    /// The time at which the user joined.
    pub joined_at: Timestamp,
}

/// An invitation to an organization that has not been accepted yet. The token of
/// its link is shown once and not stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    /// The id.
    pub id: InvitationId,
    /// The email address of the invited person.
    pub email: String,
    /// The role of the future member.
    pub role: Role,
    /// The name of the user who sent the invitation.
    pub invited_by: String,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time from which it cannot be accepted.
    pub expires_at: Timestamp,
}

/// Input for creating an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInvitation {
    /// The email address of the invited person.
    pub email: String,
    /// The role of the future member; `member` by default.
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
                    role.can_grant(from),
                    manage && (role == Owner || *from != Owner),
                    "{role} gives {from}"
                );
                for to in Role::ALL {
                    let expected = match role {
                        Owner => true,
                        Admin => *from != Owner && *to != Owner,
                        _ => false,
                    };
                    assert_eq!(role.can_change(from, to), expected, "{role}: {from}, {to}");
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
