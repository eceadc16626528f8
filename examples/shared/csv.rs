//! CSV (RFC 4180).

/// The fields with commas between.
pub fn line<S: AsRef<str>>(fields: impl IntoIterator<Item = S>) -> String {
    fields.into_iter().map(|text| field(text.as_ref())).collect::<Vec<_>>().join(",")
}

/// A field, in quotes where it needs them.
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
