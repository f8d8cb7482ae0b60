//! Dragonflies.

use super::Routes;

/// Groups of routers that are all linked to each other; every two groups are linked once (Kim, Dally, Scott, Abts,
/// "Technology-driven, highly-scalable dragonfly topology", ISCA 2008). The other groups' links leave a group's routers in
/// the order of the groups, `global` from each.
///
/// Links: rank to router, router to rank, router to router of the group, group to group.
#[derive(Clone, Debug)]
pub(super) struct Dragonfly {
    /// p: ranks at a router.
    pub ranks_per_router: u32,
    /// a: routers of a group.
    pub routers: u32,
    /// h: links of a router to other groups.
    pub global: u32,
    /// At most a·h + 1.
    pub groups: u32,
}

impl Dragonfly {
    fn first_local(&self) -> u32 {
        2 * self.ranks()
    }

    /// The first link between groups.
    pub fn first_global(&self) -> u64 {
        let (groups, routers) = (u64::from(self.groups), u64::from(self.routers));
        2 * u64::from(self.ranks()) + groups * routers * (routers - 1)
    }

    /// Between two routers of a group, numbered in it.
    fn local(&self, group: u32, from: u32, to: u32) -> u32 {
        let others = self.routers - 1;
        self.first_local() + (group * self.routers + from) * others + skip(to, from)
    }

    fn between(&self, from: u32, to: u32) -> u32 {
        self.first_global() as u32 + from * (self.groups - 1) + skip(to, from)
    }

    /// The router of group `from` that has its link to group `to`.
    fn gateway(&self, from: u32, to: u32) -> u32 {
        skip(to, from) / self.global
    }

    fn router(&self, group: u32, number: u32) -> u32 {
        self.ranks() + group * self.routers + number
    }
}

/// The number of `other` among those that are not `this`.
fn skip(other: u32, this: u32) -> u32 {
    if other > this { other - 1 } else { other }
}

/// What `skip` made `number` from.
fn unskip(number: u32, this: u32) -> u32 {
    if number >= this { number + 1 } else { number }
}

impl Routes for Dragonfly {
    fn ranks(&self) -> u32 {
        self.ranks_per_router * self.routers * self.groups
    }

    fn links(&self) -> u64 {
        self.first_global() + u64::from(self.groups) * u64::from(self.groups - 1)
    }

    fn ends(&self, link: u32) -> (u32, u32) {
        let ranks = self.ranks();
        let router_of = |rank: u32| ranks + rank / self.ranks_per_router;
        if link < ranks {
            return (link, router_of(link));
        }
        if link < 2 * ranks {
            return (router_of(link - ranks), link - ranks);
        }
        if u64::from(link) < self.first_global() {
            let number = link - self.first_local();
            let (start, other) = (number / (self.routers - 1), number % (self.routers - 1));
            let (group, from) = (start / self.routers, start % self.routers);
            return (self.router(group, from), self.router(group, unskip(other, from)));
        }
        let number = link - self.first_global() as u32;
        let (from, other) = (number / (self.groups - 1), number % (self.groups - 1));
        let to = unskip(other, from);
        (self.router(from, self.gateway(from, to)), self.router(to, self.gateway(to, from)))
    }

    /// The shortest way: to the router that has the link to the other group, over it, and on to the rank's router.
    fn route(&self, from: u32, to: u32, links: &mut Vec<u32>) {
        let place = |rank: u32| {
            let router = rank / self.ranks_per_router;
            (router / self.routers, router % self.routers)
        };
        let ((mut group, mut router), (last_group, last_router)) = (place(from), place(to));
        links.push(from);
        if group != last_group {
            let gateway = self.gateway(group, last_group);
            if gateway != router {
                links.push(self.local(group, router, gateway));
            }
            links.push(self.between(group, last_group));
            router = self.gateway(last_group, group);
            group = last_group;
        }
        if router != last_router {
            links.push(self.local(group, router, last_router));
        }
        links.push(self.ranks() + to);
    }
}
