//! Where the nodes of a network lie in a drawing.

use super::{Shape, Topology};
use std::f64::consts::TAU;

/// So far each plane of a grid of three dimensions is moved, in steps of the others together.
const OBLIQUE: f64 = 0.75;

impl Topology {
    /// Where each node lies, in steps between neighbours; `None` where no drawing on paper is readable: grids of more than
    /// three dimensions, large hypercubes, butterflies.
    pub fn layout(&self) -> Option<Vec<(f64, f64)>> {
        let ranks = self.ranks();
        let places = match &self.shape {
            Shape::Star(_) => circle(ranks).into_iter().chain([(0.0, 0.0)]).collect(),
            Shape::Grid(shape) => {
                let &[wide, high, deep] = &padded(&shape.dims)?;
                let place = |rank: u32| {
                    let (x, y, z) = (rank % wide, rank / wide % high, rank / wide / high);
                    oblique(f64::from(x), f64::from(y), f64::from(z) / f64::from(deep))
                };
                (0..ranks).map(place).collect()
            }
            Shape::Hypercube(shape) if shape.dims <= 5 => (0..ranks).map(corner).collect(),
            Shape::Hypercube(_) | Shape::Butterfly(_) => return None,
            Shape::FatTree(shape) => {
                let row = |level: u32, count: u32| {
                    let step = f64::from(ranks) / f64::from(count);
                    let y = f64::from(shape.levels - level) * 2.0;
                    (0..count).map(move |at| ((f64::from(at) + 0.5) * step, y))
                };
                let switches = ranks / shape.arity;
                let above = (1..=shape.levels).flat_map(|level| row(level, switches));
                row(0, ranks).chain(above).collect()
            }
            Shape::Dragonfly(shape) => {
                let (routers, groups) = (shape.routers, shape.groups);
                let around = (1.0 + 0.5 * f64::from(routers * shape.ranks_per_router) / TAU).max(1.5);
                let centres: Vec<_> = circle(groups).into_iter().map(|at| scaled(at, 2.6 * around)).collect();
                // A group's middle, and a place on the circle around it.
                let on = |group: u32, at: u32, of: u32, radius: f64| {
                    let (x, y) = scaled(circle_at(at, of), radius / circle_radius(of));
                    (centres[group as usize].0 + x, centres[group as usize].1 + y)
                };
                let of_group = routers * shape.ranks_per_router;
                let rank = |rank: u32| on(rank / of_group, rank % of_group, of_group, around);
                let router = |number: u32| {
                    // In the middle of its ranks.
                    let (first, per) = (number % routers * shape.ranks_per_router, shape.ranks_per_router);
                    on(number / routers, 2 * first + per - 1, 2 * of_group, around * 0.55)
                };
                (0..ranks).map(rank).chain((0..routers * groups).map(router)).collect()
            }
            Shape::Listed { .. } => {
                let links = (0..self.links() as u32).map(|link| self.ends(link));
                let nodes = links.map(|(from, to)| from.max(to) + 1).max().unwrap_or(0).max(ranks);
                circle(nodes)
            }
        };
        Some(places)
    }

    /// Whether a link leads around a torus: back to the other side.
    pub fn leads_around(&self, link: u32) -> bool {
        let Shape::Grid(shape) = &self.shape else { return false };
        let dimension = link as usize / 2 % shape.dims.len();
        let stride: u32 = shape.dims[..dimension].iter().product();
        let (from, to) = self.ends(link);
        from.abs_diff(to) > stride
    }
}

fn oblique(x: f64, y: f64, part: f64) -> (f64, f64) {
    (x + part * OBLIQUE, y - part * OBLIQUE)
}

/// Three sizes; `None` of more.
fn padded(dims: &[u32]) -> Option<[u32; 3]> {
    let mut sizes = [1; 3];
    sizes.get_mut(..dims.len())?.copy_from_slice(dims);
    Some(sizes)
}

/// A corner of a hypercube: three bits make a cube, the others place the cubes.
fn corner(number: u32) -> (f64, f64) {
    let bit = |at: u32| f64::from(number >> at & 1);
    // Aslant, so that no link runs over another node.
    let (x, y) = (bit(0) + 2.6 * bit(3) + 0.5 * bit(4), bit(1) + 0.5 * bit(3) + 2.6 * bit(4));
    oblique(x, y, 0.6 * bit(2))
}

fn circle_radius(count: u32) -> f64 {
    (f64::from(count) / TAU).max(1.0)
}

fn circle_at(at: u32, count: u32) -> (f64, f64) {
    let angle = TAU * (f64::from(at) / f64::from(count.max(1)) - 0.25);
    scaled((angle.cos(), angle.sin()), circle_radius(count))
}

/// So many places on a circle, a step apart.
fn circle(count: u32) -> Vec<(f64, f64)> {
    (0..count).map(|at| circle_at(at, count)).collect()
}

fn scaled((x, y): (f64, f64), by: f64) -> (f64, f64) {
    (x * by, y * by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_nodes_have_places_of_their_own() {
        let texts = [
            "star:ranks=5",
            "torus:dims=4x3",
            "mesh:dims=7",
            "torus:dims=4x3x2",
            "hypercube:dims=5",
            "fattree:arity=3,levels=2",
            "dragonfly:p=2,a=3,h=1,groups=4",
        ];
        for text in texts {
            let network = Topology::parse(text, &mut |_| unreachable!()).unwrap();
            let places = network.layout().unwrap_or_else(|| panic!("{text} has a layout"));
            for link in 0..network.links() as u32 {
                let (from, to) = network.ends(link);
                assert!(places.len() > from.max(to) as usize, "{text}");
            }
            for (at, one) in places.iter().enumerate() {
                let apart = |other: &(f64, f64)| (one.0 - other.0).hypot(one.1 - other.1);
                let nearest = places[at + 1..].iter().map(apart).fold(f64::INFINITY, f64::min);
                assert!(nearest > 0.2, "{text}: node {at} lies {nearest} from another");
            }
        }
        for text in ["torus:dims=2x2x2x2", "hypercube:dims=6", "butterfly:arity=2,stages=3"] {
            assert_eq!(Topology::parse(text, &mut |_| unreachable!()).unwrap().layout(), None, "{text}");
        }
    }

    fn places(text: &str) -> Vec<(f64, f64)> {
        Topology::parse(text, &mut |_| unreachable!()).unwrap().layout().unwrap()
    }

    fn assert_at(text: &str, found: (f64, f64), expected: (f64, f64)) {
        let off = (found.0 - expected.0).hypot(found.1 - expected.1);
        assert!(off < 1e-9, "{text}: {found:?}, not {expected:?}");
    }

    /// Steps to the right and down.
    #[test]
    fn nodes_lie_where_they_are_expected() {
        let r = 8.0 / TAU;
        for (text, expected) in [
            ("star:ranks=4", &[(0, (0.0, -1.0)), (1, (1.0, 0.0)), (2, (0.0, 1.0)), (4, (0.0, 0.0))][..]),
            ("star:ranks=8", &[(0, (0.0, -r)), (2, (r, 0.0)), (8, (0.0, 0.0))]),
            (
                "mesh:dims=3x2x2",
                &[
                    (0, (0.0, 0.0)),
                    (1, (1.0, 0.0)),
                    (5, (2.0, 1.0)),
                    (6, (0.375, -0.375)),
                    (11, (2.375, 0.625)),
                ],
            ),
            (
                "hypercube:dims=5",
                &[
                    (0, (0.0, 0.0)),
                    (1, (1.0, 0.0)),
                    (2, (0.0, 1.0)),
                    (4, (0.45, -0.45)),
                    (8, (2.6, 0.5)),
                    (16, (0.5, 2.6)),
                    (31, (4.55, 3.65)),
                ],
            ),
            (
                "fattree:arity=3,levels=2",
                &[(0, (0.5, 4.0)), (8, (8.5, 4.0)), (9, (1.5, 2.0)), (11, (7.5, 2.0)), (12, (1.5, 0.0))],
            ),
        ] {
            let found = places(text);
            for (node, place) in expected {
                assert_at(text, found[*node], *place);
            }
        }
    }

    /// Twelve ranks on a circle, three at each of four routers, which lie inwards of the middle one of them; the groups on a circle
    /// that leaves them room.
    #[test]
    fn groups_of_a_dragonfly_are_circles_on_a_circle() {
        let text = "dragonfly:p=3,a=4,h=1,groups=5";
        let found = places(text);
        let (ranks, routers) = found.split_at(60);
        assert_eq!(routers.len(), 20);
        let around = 1.0 + 6.0 / TAU;
        let on_circle = |middle: (f64, f64), radius: f64, turns: f64| {
            let angle = (turns - 0.25) * TAU;
            (middle.0 + radius * angle.cos(), middle.1 + radius * angle.sin())
        };
        for group in 0..5 {
            let middle = on_circle((0.0, 0.0), 2.6 * around, group as f64 / 5.0);
            for at in 0..12 {
                assert_at(text, ranks[12 * group + at], on_circle(middle, around, at as f64 / 12.0));
            }
            for router in 0..4 {
                let turns = (3 * router + 1) as f64 / 12.0;
                assert_at(text, routers[4 * group + router], on_circle(middle, 0.55 * around, turns));
            }
        }
    }

    #[test]
    fn links_around_are_known() {
        let torus = Topology::parse("torus:dims=4x3", &mut |_| unreachable!()).unwrap();
        let around: Vec<_> = (0..torus.links() as u32).filter(|&link| torus.leads_around(link)).collect();
        // At each of three rows two, at each of four columns two.
        assert_eq!(around.len(), 14);
        let ends: Vec<_> = around.iter().map(|&link| torus.ends(link)).collect();
        assert!(ends.contains(&(0, 3)) && ends.contains(&(3, 0)) && ends.contains(&(0, 8)), "{ends:?}");
    }
}
