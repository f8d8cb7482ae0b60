//! Users by name, and whom somebody serves.

use crate::descriptor::own_user;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::ptr::null_mut;

/// Room for what the system says of a user.
const ROOM_BYTES: usize = 16 << 10;

/// Whom a socket serves beside the user that opened it, who alone looks after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Others {
    /// Nobody.
    #[default]
    Nobody,
    /// Everybody on this node.
    Everybody,
    /// These.
    These(BTreeSet<u32>),
}

impl Others {
    /// Whether this user is served.
    pub fn admit(&self, user: u32) -> bool {
        user == own_user()
            || match self {
                Others::Nobody => false,
                Others::Everybody => true,
                Others::These(users) => users.contains(&user),
            }
    }
}

/// The number of a user who is given by name or number; none if there is no such user.
pub fn user_named(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let name = CString::new(name).ok()?;
    // SAFETY: the arguments are live and as long as said, as `look_up` has them.
    look_up(|entry, room, found| unsafe {
        libc::getpwnam_r(name.as_ptr(), entry, room.as_mut_ptr().cast(), room.len(), found)
    })
    .map(|(number, _)| number)
}

/// A user's name, or the number where it has none.
pub fn name_of(user: u32) -> String {
    // SAFETY: as above.
    let found = look_up(|entry, room, found| unsafe {
        libc::getpwuid_r(user, entry, room.as_mut_ptr().cast(), room.len(), found)
    });
    found.map_or_else(|| user.to_string(), |(_, name)| name)
}

fn look_up(
    ask: impl Fn(*mut libc::passwd, &mut [u8], *mut *mut libc::passwd) -> i32,
) -> Option<(u32, String)> {
    let mut room = vec![0; ROOM_BYTES];
    // SAFETY: numbers and pointers, for which zeros are values.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = null_mut();
    let code = ask(&mut entry, &mut room, &mut found);
    if code != 0 || found.is_null() {
        return None;
    }
    // SAFETY: the system has filled `entry`, whose strings are in `room` and end there.
    let name = unsafe { CStr::from_ptr(entry.pw_name) };
    Some((entry.pw_uid, name.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_and_numbers() {
        assert_eq!((user_named("root"), name_of(0)), (Some(0), "root".to_owned()));
        assert_eq!((user_named("1234567"), name_of(1_234_567)), (Some(1_234_567), "1234567".to_owned()));
        assert_eq!((user_named("no such user"), user_named("a\0b")), (None, None));
    }

    #[test]
    fn who_is_served() {
        let (own, other) = (own_user(), own_user() + 1);
        let these = Others::These(BTreeSet::from([other]));
        for (others, admitted) in
            [(Others::Nobody, [true, false]), (Others::Everybody, [true, true]), (these, [true, true])]
        {
            assert_eq!([others.admit(own), others.admit(other)], admitted);
        }
        assert!(!Others::These(BTreeSet::new()).admit(other));
    }
}
