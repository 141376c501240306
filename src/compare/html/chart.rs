//! Pictures with two axes, as SVG: curves and bars. Their colours come from the style sheet.

use std::ops::RangeInclusive;

use maud::{Markup, html};

use super::quantity::{Quantity, linear_ticks, log_ticks};

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 46.0;

/// Width of a wide letter of a name, which is bold.
const LETTER: f64 = 8.0;

/// Height of a line of text.
const LINE: f64 = 15.0;

/// Number of colours of curves in the style sheet.
const COLORS: usize = 6;

/// Most points of a curve that are marked each.
const MOST_DOTS: usize = 40;

#[derive(Clone, Debug)]
pub struct Axis {
    title: String,
    quantity: Quantity,
    is_log: bool,
    low: f64,
    high: f64,
}

impl Axis {
    /// A logarithmic axis that contains all `values` above 0. `None` without any.
    pub fn log(
        title: &str,
        quantity: Quantity,
        values: &mut dyn Iterator<Item = f64>,
    ) -> Option<Self> {
        let (low, high) = range(&mut values.filter(|value| *value > 0.0))?;
        let margin =
            if quantity == Quantity::Size { 1.0 } else { (high / low).powf(0.04).max(1.02) };
        Some(Self {
            title: title.into(),
            quantity,
            is_log: true,
            low: low / margin,
            high: high * margin,
        })
    }

    /// A linear axis from 0 that contains all `values`. `None` without any.
    pub fn from_zero(
        title: &str,
        quantity: Quantity,
        values: &mut dyn Iterator<Item = f64>,
    ) -> Option<Self> {
        let (_, high) = range(values)?;
        Some(Self {
            title: title.into(),
            quantity,
            is_log: false,
            low: 0.0,
            high: if high > 0.0 { high * 1.05 } else { 1.0 },
        })
    }

    /// The place of a value: 0 at the low end, 1 at the high end.
    fn share(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.clamp(0.0, 1.0)
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.share(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.share(value) * (HEIGHT - TOP - BOTTOM)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        if self.is_log {
            log_ticks(self.low, self.high, self.quantity)
        } else {
            linear_ticks(self.low, self.high, self.quantity)
        }
    }
}

/// Absolute values that an axis can show, beside 0: what it leaves out is no figure of a NIC.
const SHOWN: RangeInclusive<f64> = 1e-9..=1e21;

/// The smallest and the largest value that an axis can show, which differ. `None` without values.
fn range(values: &mut dyn Iterator<Item = f64>) -> Option<(f64, f64)> {
    let is_shown = |value: &f64| *value == 0.0 || SHOWN.contains(&value.abs());
    let range = values.filter(is_shown).fold(None, |range: Option<(f64, f64)>, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })?;
    let (low, high) = range;
    Some(if low == high { (low * 0.9, high * 1.1) } else { range })
}

#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Its name, which stands at its end.
    pub name: String,
    /// Number of its colour.
    pub color: usize,
    /// Whether it is the one to look at first.
    pub is_main: bool,
    /// Its points, by ascending x.
    pub points: Vec<(f64, f64)>,
    /// The range around it: x, lower end, upper end.
    pub band: Vec<(f64, f64, f64)>,
}

/// A value on the x axis to compare with.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Its name, which stands above it.
    pub name: String,
    /// The value.
    pub at: f64,
    pub is_limit: bool,
}

/// A picture of curves. `what` describes it for readers who do not see it.
pub fn curves(what: &str, x: &Axis, y: &Axis, curves: &[Curve]) -> Markup {
    let content = html! {
        @for curve in curves.iter().filter(|curve| !curve.band.is_empty()) {
            path class={ "band " (color(curve)) } d=(band(curve, x, y)) {}
        }
        @for curve in curves {
            (line_of(curve, x, y))
            @if curve.points.len() <= MOST_DOTS {
                @for (at, value) in &curve.points {
                    circle class=(color(curve)) cx=(short(x.x(*at))) cy=(short(y.y(*value))) r="3" {
                        title { (curve.name) ", " (x.quantity.text(*at)) ": " (y.quantity.text(*value)) }
                    }
                }
            }
        }
    };
    picture(what, curves, x, y, &content)
}

/// A picture of bars: lower edge, upper edge and height of each. `what` describes it for readers
/// who do not see it.
pub fn bars(what: &str, x: &Axis, y: &Axis, bars: &[(f64, f64, u64)], marks: &[Mark]) -> Markup {
    let content = html! {
        @for &(from, to, count) in bars.iter().filter(|(_, _, count)| *count > 0) {
            @let top = y.y(count as f64);
            @let width = (x.x(to) - x.x(from) - 0.5).max(1.0);
            rect.bar x=(short(x.x(from))) y=(short(top)) width=(short(width))
                height=(short((HEIGHT - BOTTOM - top).max(1.0))) {
                title {
                    (x.quantity.text(from)) " to " (x.quantity.text(to)) ": "
                    (y.quantity.text(count as f64))
                }
            }
        }
        (marks_on(x, marks))
    };
    picture(what, &[], x, y, &content)
}

/// A picture of distributions: curves without dots, and values to compare with. `what` describes it
/// for readers who do not see it.
pub fn distributions(what: &str, x: &Axis, y: &Axis, curves: &[Curve], marks: &[Mark]) -> Markup {
    let content = html! {
        @for curve in curves { (line_of(curve, x, y)) }
        (marks_on(x, marks))
    };
    picture(what, curves, x, y, &content)
}

fn line_of(curve: &Curve, x: &Axis, y: &Axis) -> Markup {
    let class = if curve.is_main { " main" } else { "" };
    html! { path class={ "curve " (color(curve)) (class) } d=(path(&curve.points, x, y)) {} }
}

/// The lines of marks and their names.
fn marks_on(x: &Axis, marks: &[Mark]) -> Markup {
    html! {
        @for (mark, row) in marks.iter().zip(mark_rows(marks, x)) {
            @let place = x.x(mark.at);
            @let kind = if mark.is_limit { "limit" } else { "mark" };
            line class=(kind) x1=(short(place)) x2=(short(place)) y1=(short(row + 3.0))
                y2=(HEIGHT - BOTTOM) {}
        }
        // Lines do not cross names.
        @for (mark, row) in marks.iter().zip(mark_rows(marks, x)) {
            @let place = x.x(mark.at);
            @let kind = if mark.is_limit { "limit" } else { "mark" };
            text class={ "name " (kind) } x=(short(place)) y=(short(row)) text-anchor="middle" {
                (mark.name)
                title { (mark.name) ": " (x.quantity.text(mark.at)) }
            }
        }
    }
}

/// The width of a picture with these curves: the longest name has room at its end.
fn width(curves: &[Curve]) -> f64 {
    let letters = curves.iter().map(|curve| curve.name.chars().count());
    let name = 8.0 + LETTER * letters.max().unwrap_or_default() as f64;
    WIDTH + (name - RIGHT).max(0.0).ceil()
}

/// Returns axes with `content` between them, and the names of `curves` at their ends.
fn picture(what: &str, curves: &[Curve], x: &Axis, y: &Axis, content: &Markup) -> Markup {
    let floor = HEIGHT - BOTTOM;
    html! {
        svg role="img" aria-label=(what) viewBox={ "0 0 " (width(curves)) " " (HEIGHT) } {
            @for (value, text) in y.ticks() {
                @let place = short(y.y(value));
                line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(place) y2=(place) {}
                text.tick x=(LEFT - 6.0) y=(short(y.y(value) + 4.0)) text-anchor="end" { (text) }
            }
            @for (value, text) in x.ticks() {
                @let place = short(x.x(value));
                line.tick x1=(place) x2=(place) y1=(floor) y2=(floor + 4.0) {}
                text.tick x=(place) y=(floor + 17.0) text-anchor="middle" { (text) }
            }
            line.axis x1=(LEFT) x2=(WIDTH - RIGHT) y1=(floor) y2=(floor) {}
            text.title x=(LEFT - 62.0) y="12" { (y.title) }
            text.title x=(WIDTH - RIGHT) y=(HEIGHT - 8.0) text-anchor="end" { (x.title) }
            (content)
            @for (curve, place) in curves.iter().zip(name_places(curves, y)) {
                text class={ "name " (color(curve)) } x=(WIDTH - RIGHT + 8.0) y=(short(place + 4.0)) {
                    (curve.name)
                }
            }
        }
    }
}

/// The class of a curve's colour.
fn color(curve: &Curve) -> String {
    format!("c{}", curve.color % COLORS)
}

/// A coordinate with a tenth of a unit.
pub fn short(value: f64) -> String {
    format!("{value:.1}")
}

fn path(points: &[(f64, f64)], x: &Axis, y: &Axis) -> String {
    let point = |(at, value): &(f64, f64)| format!("{:.1} {:.1}", x.x(*at), y.y(*value));
    let points: Vec<String> = points.iter().map(point).collect();
    format!("M{}", points.join("L"))
}

fn band(curve: &Curve, x: &Axis, y: &Axis) -> String {
    let lower = curve.band.iter().map(|&(at, low, _)| (at, low));
    let upper = curve.band.iter().rev().map(|&(at, _, high)| (at, high));
    let points: Vec<(f64, f64)> = lower.chain(upper).collect();
    format!("{}Z", path(&points, x, y))
}

/// The heights of the names at the ends of the curves, which do not cover each other.
fn name_places(curves: &[Curve], y: &Axis) -> Vec<f64> {
    let end = |curve: &Curve| curve.points.last().map_or(TOP, |(_, value)| y.y(*value));
    let mut order: Vec<(usize, f64)> = curves.iter().map(end).enumerate().collect();
    order.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    for at in 1..order.len() {
        order[at].1 = order[at].1.max(order[at - 1].1 + LINE);
    }
    let mut floor = HEIGHT - BOTTOM + LINE;
    for (_, place) in order.iter_mut().rev() {
        *place = place.min(floor - LINE);
        floor = *place;
    }
    order.sort_by_key(|(at, _)| *at);
    order.into_iter().map(|(_, place)| place).collect()
}

/// The heights of the names above the marks: near ones stand in different rows, each above the one
/// before.
fn mark_rows(marks: &[Mark], x: &Axis) -> Vec<f64> {
    let mut ends: Vec<f64> = Vec::new();
    let mut rows = Vec::new();
    for mark in marks {
        let half = mark.name.len() as f64 * 3.5 + 3.0;
        let place = x.x(mark.at);
        let free = ends.iter().position(|end| *end <= place - half);
        let row = free.unwrap_or_else(|| {
            ends.push(f64::MIN);
            ends.len() - 1
        });
        ends[row] = place + half;
        rows.push(TOP - 4.0 - row as f64 * LINE);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> (Axis, Axis) {
        let x = Axis::log("Size", Quantity::Size, &mut [1.0, 1024.0].into_iter()).unwrap();
        let y = Axis::log("Latency", Quantity::Latency, &mut [1e3, 1e5].into_iter()).unwrap();
        (x, y)
    }

    /// 1e308 times a margin is infinite, and 1e-320 divided by it is 0.
    #[test]
    fn axes_have_few_decades() {
        for extreme in [1e308, f64::MAX, 1e-320, f64::INFINITY, f64::NAN, -1e308] {
            for values in [[5e3, extreme], [extreme, extreme]] {
                let log = Axis::log("", Quantity::Latency, &mut values.into_iter());
                let linear = Axis::from_zero("", Quantity::Percent, &mut values.into_iter());
                for axis in [log, linear].into_iter().flatten() {
                    assert!((0.0..=2e21).contains(&axis.low) && axis.high <= 2e21, "{axis:?}");
                    assert!(axis.ticks().len() < 40, "{axis:?}");
                }
            }
        }
    }

    #[test]
    fn draws_axes_and_curves_with_names() {
        let (x, y) = axes();
        let curve = Curve {
            name: "p50 <&>".into(),
            is_main: true,
            points: vec![(1.0, 1e3), (1024.0, 1e5)],
            ..Curve::default()
        };
        let svg = curves("Latency over size", &x, &y, &[curve]).into_string();
        assert!(svg.contains(r#"aria-label="Latency over size""#), "{svg}");
        assert!(svg.contains("p50 &lt;&amp;&gt;, 1 KiB: 100 us"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
        // Both ends of the x axis are at the ends of the picture.
        assert!(svg.contains("M70.0 ") && svg.contains("L510.0 "), "{svg}");
    }

    #[test]
    fn names_have_room_beside_curves() {
        let (x, y) = axes();
        let width = |name: &str| {
            let curve = Curve {
                name: name.into(),
                points: vec![(1.0, 1e3), (1024.0, 1e5)],
                ..Curve::default()
            };
            let svg = curves("Latency over size", &x, &y, &[curve]).into_string();
            let (_, rest) = svg.split_once("viewBox=\"0 0 ").expect("a box");
            rest.split(' ').next().expect("a width").to_owned()
        };
        assert_eq!(width("p50"), "600");
        assert_eq!(width("nid000417 cxi1 to nid000418 cxi1"), "774");
    }

    #[test]
    fn names_do_not_cover_each_other() {
        let (_, y) = axes();
        let curve = |value| Curve { points: vec![(1.0, value)], ..Curve::default() };
        let curves = [1e3, 1.01e3, 99e3, 1e3].map(curve);
        let mut places = name_places(&curves, &y);
        places.sort_by(f64::total_cmp);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= LINE - 0.001));
        assert!(places[0] >= 0.0 && places[3] <= HEIGHT);
    }

    #[test]
    fn one_value_makes_an_axis() {
        let axis = Axis::log("Latency", Quantity::Latency, &mut [2e3].into_iter()).unwrap();
        assert!(axis.low < 2e3 && axis.high > 2e3);
        assert!(Axis::log("Latency", Quantity::Latency, &mut [0.0].into_iter()).is_none());
        let zero =
            Axis::from_zero("Bandwidth", Quantity::Bandwidth, &mut [0.0].into_iter()).unwrap();
        assert_eq!(zero.share(0.0), 0.0);
    }
}
