//! Layers on the page: what each adds, and the curves of all of them in one picture.

use maud::{Markup, html};

use super::chart::{self, Axis, Curve};
use super::parts::{Badge, cell, facts, figure, table};
use super::quantity::Quantity;
use super::sizes::axis_title;
use crate::layer_costs::{LayerFigure, LayeredSize};
use crate::layers::{LayerComparison, LayeredTransfer};
use facts::severity::Severity;

/// The verdict: a layer that got slower is bad. One set of runs has none.
pub fn status(compared: &LayerComparison) -> Badge {
    let mut changes = compared.transfers.iter().flat_map(|transfer| &transfer.changes);
    if changes.any(|change| change.is_worse) {
        (Severity::Bad, "a layer is slower")
    } else if compared.is_judged() {
        (Severity::Good, "no layer is slower")
    } else {
        (Severity::Shown, "layers")
    }
}

/// The section below its title.
pub fn section(compared: &LayerComparison) -> Markup {
    html! {
        p { (compared.summary) }
        @for transfer in &compared.transfers {
            @if let Some(picture) = picture(transfer) { (picture) }
            (costs(transfer))
        }
        @if !compared.remarks.is_empty() {
            ul { @for remark in &compared.remarks { li { (remark) } } }
        }
    }
}

/// Returns what was compared.
pub fn circumstances(file: &str, compared: &LayerComparison) -> Markup {
    let layers = compared.transfers.iter().flat_map(|transfer| &transfer.layers);
    let files = layers.map(|layer| format!("{}: {}", layer.layer.name(), layer.files.join(", ")));
    facts(&[
        ("Layers", Some(files.collect::<Vec<_>>().join("; "))),
        ("File", Some(file.to_owned()).filter(|file| !file.is_empty())),
        ("cxidiag", Some(compared.cxidiag_version.clone())),
    ])
}

/// The curves of all layers of both sets. `None` for one size.
fn picture(transfer: &LayeredTransfer) -> Option<Markup> {
    let quantity = Quantity::from_unit(&transfer.unit);
    let mut curves = Vec::new();
    for (is_new, set) in [(false, ""), (true, " new")] {
        for layer in &transfer.layers {
            let point = |size: &LayeredSize| {
                let figures = if is_new { &size.new } else { &size.base };
                let figure = figures.iter().find(|figure| figure.layer == layer.layer)?;
                Some((size.size_bytes as f64, figure.value))
            };
            let points: Vec<(f64, f64)> = transfer.sizes.iter().filter_map(point).collect();
            let name = format!("{}{set}", layer.layer.name());
            let color = curves.len();
            curves.push(Curve { name, color, is_main: !is_new, points, band: Vec::new() });
        }
    }
    curves.retain(|curve| curve.points.len() > 1);
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let x = Axis::log("Size", Quantity::Size, &mut points().map(|(size, _)| *size))?;
    let title = axis_title(quantity);
    let y = Axis::log(title, quantity, &mut points().map(|(_, value)| *value))?;
    let what = format!("{title} of each size and layer: {}", transfer.name);
    Some(figure(&what, &chart::curves(&what, &x, &y, &curves)))
}

/// The table of figures and costs of the layers at each size.
fn costs(transfer: &LayeredTransfer) -> Markup {
    let quantity = Quantity::from_unit(&transfer.unit);
    let has_two_sets = transfer.sizes.iter().any(|size| !size.new.is_empty());
    let mut columns = vec![">Size".to_owned()];
    columns.extend(has_two_sets.then(|| "Set".to_owned()));
    let adds = if quantity == Quantity::Bandwidth { ">takes" } else { ">adds" };
    for (place, layer) in transfer.layers.iter().enumerate() {
        columns.push(format!(">{}", layer.layer.name()));
        columns.extend((place > 0).then(|| adds.to_owned()));
    }
    let row = |size: &LayeredSize, set: &str, figures: &[LayerFigure]| {
        let mut row = vec![cell(Quantity::Size.text(size.size_bytes as f64))];
        row.extend(has_two_sets.then(|| cell(set)));
        for (place, layer) in transfer.layers.iter().enumerate() {
            let figure = figures.iter().find(|figure| figure.layer == layer.layer);
            let text = |value: Option<f64>| value.map_or("-".into(), |value| quantity.text(value));
            row.push(cell(text(figure.map(|figure| figure.value))));
            let own = match figure {
                Some(LayerFigure { own: None, .. }) => "measured otherwise".into(),
                figure => text(figure.and_then(|figure| figure.own)),
            };
            row.extend((place > 0).then(|| cell(own)));
        }
        row
    };
    let rows = transfer.sizes.iter().flat_map(|size| {
        let new = has_two_sets.then(|| row(size, "new", &size.new));
        [row(size, "base", &size.base)].into_iter().chain(new)
    });
    let rows: Vec<Vec<Markup>> = rows.collect();
    table(&transfer.name, &columns.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
}
