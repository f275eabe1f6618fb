//! The images as a table, in the columns of `crictl images`.

use image::{Digest, Image};

/// As much of an id as people compare.
const ID_LETTERS: usize = 13;
const NONE: &str = "<none>";

/// A row for each name of each image.
pub fn table(images: &[Image], now_seconds: u64) -> String {
    let mut rows = Vec::new();
    for image in images {
        let mut add = |name: &str, tag: &str| {
            let added = now_seconds.saturating_sub(image.added_seconds);
            rows.push([
                name.to_owned(),
                tag.to_owned(),
                short(&image.id),
                size(image.disk_bytes),
                age(added),
            ]);
        };
        for name in &image.names {
            // A port of the registry has a colon as well, but a slash behind it.
            match name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) {
                Some((name, tag)) => add(name, tag),
                None => add(name, NONE),
            }
        }
        if image.names.is_empty() {
            let name = image.digests.first().and_then(|name| name.split('@').next()).unwrap_or(NONE);
            add(name, NONE);
        }
    }
    rows.sort();
    rows.insert(0, ["IMAGE", "TAG", "IMAGE ID", "SIZE", "ADDED"].map(str::to_owned));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("   ").trim_end());
        text.push('\n');
    }
    text
}

pub fn short(id: &Digest) -> String {
    id.hex().chars().take(ID_LETTERS).collect()
}

/// Three digits and a unit of thousands, as crictl has it.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "kB", "MB", "GB", "TB"] {
        if value < 1000.0 || unit == "TB" {
            let digits = if unit == "B" || value >= 100.0 {
                0
            } else if value >= 10.0 {
                1
            } else {
                2
            };
            return format!("{value:.digits$}{unit}");
        }
        value /= 1000.0;
    }
    format!("{bytes}B")
}

/// As kubectl shows ages, in one unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        for (bytes, expected) in [
            (0, "0B"),
            (999, "999B"),
            (1000, "1.00kB"),
            (2_340_000, "2.34MB"),
            (71_900_000, "71.9MB"),
            (4_000_000_000, "4.00GB"),
            (u64::MAX, "18446744TB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
        assert_eq!([5, 119, 120, 7200, 200_000].map(age), ["5s", "119s", "2m", "2h", "2d"]);
    }
}
