//! The table of layers: output shape, parameters, work and memory.

use super::{LayerKind, Network, Shape};

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryRow {
    /// Name of the layer.
    pub name: String,
    /// What it computes.
    pub kind: &'static str,
    /// Shape of its output, per image.
    pub shape: Shape,
    /// Number of its parameters.
    pub parameters: usize,
    /// Multiplications and additions of the forward pass, per image; convolutions and linear layers
    /// only.
    pub flops: u64,
    /// Bytes of its output in `f32`, per image.
    pub activation_bytes: usize,
}

/// The table of layers; prints itself.
///
/// ```
/// let table = engine::zoo::lenet(10)?.summary().to_string();
/// assert!(table.contains("44,426"));
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Name of the network.
    pub network: String,
    /// Shape of an input image.
    pub input: Shape,
    /// One line per layer.
    pub rows: Vec<SummaryRow>,
}

impl Summary {
    pub(super) fn of(network: &Network) -> Self {
        let count = |index: usize| network.parameters[index].len();
        let rows = network.layers.iter().enumerate().map(|(i, layer)| {
            let shape = network.shapes[i + 1];
            let plane = shape.plane() as u64;
            let parameters = layer.kind.parameters().into_iter().map(count).sum();
            let flops = match layer.kind {
                LayerKind::Conv2d { weight, .. } => 2 * plane * count(weight) as u64,
                LayerKind::Linear { weight, .. } => 2 * count(weight) as u64,
                _ => 0,
            };
            SummaryRow {
                name: layer.name.clone(),
                kind: layer.kind.label(),
                shape,
                parameters,
                flops,
                activation_bytes: 4 * shape.len(),
            }
        });
        Self {
            network: network.name.clone(),
            input: network.shapes[0],
            rows: rows.collect(),
        }
    }
}

/// Digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let head = ["layer", "kind", "output", "parameters", "FLOPs", "bytes"].map(String::from);
        let mut lines = vec![head];
        let (mut parameters, mut flops, mut bytes) = (0u64, 0u64, 0u64);
        for row in &self.rows {
            lines.push([
                row.name.clone(),
                row.kind.into(),
                row.shape.to_string(),
                grouped(row.parameters as u64),
                grouped(row.flops),
                grouped(row.activation_bytes as u64),
            ]);
            parameters += row.parameters as u64;
            flops += row.flops;
            bytes += row.activation_bytes as u64;
        }
        lines.push([
            "total".into(),
            String::new(),
            String::new(),
            grouped(parameters),
            grouped(flops),
            grouped(bytes),
        ]);
        let mut widths = [0; 6];
        for line in &lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        writeln!(f, "{}: input {}, per image", self.network, self.input)?;
        let total = lines.len() - 1;
        for (i, line) in lines.iter().enumerate() {
            if i == 1 || i == total {
                writeln!(f, "{}", "-".repeat(widths.iter().sum::<usize>() + 10))?;
            }
            let [a, b, c, d, e, g] = widths;
            writeln!(
                f,
                "{:<a$}  {:<b$}  {:<c$}  {:>d$}  {:>e$}  {:>g$}",
                line[0], line[1], line[2], line[3], line[4], line[5]
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        assert_eq!(
            [0, 12, 123, 1234, 1_234_567].map(grouped),
            ["0", "12", "123", "1,234", "1,234,567"]
        );
    }

    #[test]
    fn work_of_lenet_by_hand() {
        let net = crate::zoo::lenet(10).unwrap();
        // conv1 24² · 6 · 25, conv2 8² · 16 · 150, then 256 · 120, 120 · 84, 84 · 10 multiply-adds
        let want = 2 * (576 * 150 + 64 * 2400 + 30_720 + 10_080 + 840);
        assert_eq!(net.forward_flops(), want);
    }
}
