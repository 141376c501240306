//! Layers as text: what each adds, what changed, and what the figures cannot say.

use super::layer_costs::{Layer, LayerFigure, LayeredSize};
use super::layers::{LayerComparison, LayeredTransfer};
use facts::number::listed;
use page::page::{Page, Words};

/// Files of a layer that are named.
const NAMED_FILES: usize = 2;

/// Returns the page of a comparison of layers.
pub fn page(compared: &LayerComparison) -> Page {
    let mut page = Page::default();
    page.paragraph(compared.summary.clone(), "  ");
    if compared.is_software {
        page.line("software NICs: no Cassini hardware involved");
    }
    for transfer in &compared.transfers {
        page.empty_line();
        page.fact("Transfer", format!("{} ({})", transfer.name, transfer.metric));
        for layer in &transfer.layers {
            let (programs, files) = (layer.programs.join(", "), listed(&layer.files, NAMED_FILES));
            page.fact(layer.layer.name(), format!("{programs} ({files})"));
        }
        page.empty_line();
        table(&mut page, transfer, compared.has_two_sets);
    }
    if !compared.remarks.is_empty() {
        page.empty_line();
    }
    for remark in &compared.remarks {
        page.paragraph(remark.clone(), "  ");
    }
    page
}

/// Adds a table with a row for each size and set: the lowest layer, what each layer above it adds
/// or takes, and the figure of the highest one.
fn table(page: &mut Page, transfer: &LayeredTransfer, has_two_sets: bool) {
    let (unit, scale) = transfer.metric.unit().readable();
    let sign = if transfer.metric.is_of_bandwidth() { "-" } else { "+" };
    let mut columns = vec![">Size[B]".to_owned()];
    columns.extend(has_two_sets.then(|| "Set".to_owned()));
    let layers: Vec<Layer> = transfer.layers.iter().map(|layer| layer.layer).collect();
    columns.extend(layers.iter().enumerate().map(|(place, layer)| match place {
        0 => format!(">{}[{unit}]", layer.name()),
        _ => format!(">{sign} {}", layer.name()),
    }));
    columns.push(">= total".into());
    let row = |size: &LayeredSize, set: &str, figures: &[LayerFigure]| {
        let mut cells: Vec<Words> = vec![size.size_bytes.to_string().into()];
        cells.extend(has_two_sets.then(|| set.into()));
        for layer in &layers {
            let figure = figures.iter().find(|figure| figure.layer == *layer);
            cells.push(match figure {
                Some(LayerFigure { own: Some(own), .. }) => format!("{:.3}", own / scale).into(),
                Some(LayerFigure { value, .. }) => format!("({:.3})", value / scale).into(),
                None => "-".into(),
            });
        }
        let total = figures.iter().rfind(|figure| figure.own.is_some());
        cells.push(total.map_or("-".into(), |total| format!("{:.3}", total.value / scale).into()));
        cells
    };
    let rows = transfer.sizes.iter().flat_map(|size| {
        let new = has_two_sets.then(|| row(size, "new", &size.new));
        [row(size, "base", &size.base)].into_iter().chain(new)
    });
    let rows: Vec<Vec<Words>> = rows.collect();
    page.table(&columns.iter().map(String::as_str).collect::<Vec<_>>(), rows);
}
