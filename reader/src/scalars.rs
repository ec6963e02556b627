//! The values of plain scalars, as YAML 1.1 and Go have them; `postrender/scalars.py` says the same in Python.

/// Every number is kept as a 64-bit float by Helm and Kubernetes: from here on an integer may lose digits.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// Words that are no text are not longer.
const LONGEST_WORD: usize = 5;

/// What a plain scalar is.
#[derive(Debug, PartialEq)]
pub enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text,
    /// Something that readers refuse, or read in different ways.
    Unsure,
}

/// Return what a plain scalar is.
pub fn resolve(text: &str) -> Scalar {
    match text.as_bytes().first() {
        Some(b'+' | b'-' | b'.' | b'0'..=b'9') => number(text),
        Some(b'~' | b'n' | b'N' | b'y' | b'Y' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'<') | None
            if text.len() <= LONGEST_WORD =>
        {
            word(text)
        }
        _ => Scalar::Text,
    }
}

fn word(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        // As a key it brings in another map.
        "<<" => Scalar::Unsure,
        _ => Scalar::Text,
    }
}

/// Return the number that a text is which begins like one.
fn number(text: &str) -> Scalar {
    if is_not_finite(text) {
        return Scalar::Unsure;
    }
    if !text.contains('_') {
        return number_without_underscores(text);
    }
    if text.starts_with('.') && has_loose_underscore(text.as_bytes()) {
        return Scalar::Text;
    }
    number_without_underscores(&text.replace('_', ""))
}

/// Say whether a text is an infinity or not a number, which Helm refuses as JSON has neither.
fn is_not_finite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

/// Say whether an underscore does not stand between two digits, as it has to behind a leading point.
fn has_loose_underscore(bytes: &[u8]) -> bool {
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    (0..bytes.len()).any(|at| bytes[at] == b'_' && !(is_digit(at.checked_sub(1)) && is_digit(Some(at + 1))))
}

fn number_without_underscores(text: &str) -> Scalar {
    let (is_negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if has_sign_behind_base(digits.as_bytes()) {
        return Scalar::Unsure;
    }
    match radix(digits) {
        Some((10, digits)) => decimal(text, is_negative, digits),
        Some((base, digits)) => integer(is_negative, digits, base),
        None => float(text),
    }
}

/// Say whether a text is like `0b+1`, which Go takes for a number.
fn has_sign_behind_base(bytes: &[u8]) -> bool {
    matches!(bytes, [b'0', b'b' | b'B' | b'o' | b'O' | b'x' | b'X', b'+' | b'-', ..])
}

/// Return the base of an integer and its digits, or None where the text is no integer.
fn radix(text: &str) -> Option<(u32, &str)> {
    let bytes = text.as_bytes();
    let (base, digits) = match bytes {
        [b'0', b'x' | b'X', ..] => (16, &text[2..]),
        [b'0', b'b' | b'B', ..] => (2, &text[2..]),
        [b'0', b'o' | b'O', ..] => (8, &text[2..]),
        [b'0', _, ..] => (8, &text[1..]),
        _ => (10, text),
    };
    let is_digit = |byte: &u8| char::from(*byte).is_digit(base);
    (!digits.is_empty() && digits.as_bytes().iter().all(is_digit)).then_some((base, digits))
}

/// Return a decimal integer; one of too many digits is a float to Go.
fn decimal(text: &str, is_negative: bool, digits: &str) -> Scalar {
    // So many digits are never too large, and most integers have less.
    if digits.len() <= 15 { integer(is_negative, digits, 10) } else { float(text) }
}

fn integer(is_negative: bool, digits: &str, base: u32) -> Scalar {
    match i64::from_str_radix(digits, base) {
        Ok(found) if found < EXACT as i64 => Scalar::Int(if is_negative { -found } else { found }),
        _ => Scalar::Unsure,
    }
}

/// Return a float as Helm keeps it: 1.0 is the integer 1.
fn float(text: &str) -> Scalar {
    if !looks_like_float(text.as_bytes()) {
        return Scalar::Text;
    }
    match text.parse::<f64>() {
        Ok(found) if found.abs() >= EXACT => Scalar::Unsure,
        Ok(found) if found.trunc() == found => Scalar::Int(found as i64),
        Ok(found) => Scalar::Float(found),
        Err(_) => Scalar::Unsure,
    }
}

/// Say whether a text is `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn looks_like_float(bytes: &[u8]) -> bool {
    let rest = bytes.strip_prefix(b"+").or(bytes.strip_prefix(b"-")).unwrap_or(bytes);
    let (whole, rest) = digits(rest);
    let (fraction, rest) = match rest.strip_prefix(b".") {
        Some(rest) => digits(rest),
        None => (0, rest),
    };
    if whole + fraction == 0 {
        return false;
    }
    match rest {
        [] => true,
        [b'e' | b'E', exponent @ ..] => {
            let unsigned = exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
            matches!(digits(unsigned), (1.., []))
        }
        _ => false,
    }
}

/// Count the digits at the beginning, and return what follows them.
fn digits(bytes: &[u8]) -> (usize, &[u8]) {
    let count = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count, &bytes[count..])
}

#[cfg(test)]
mod tests {
    use super::Scalar::{Bool, Float, Int, Null, Text, Unsure};
    use super::resolve;

    #[test]
    fn words_are_those_of_yaml_1_1() {
        for word in ["y", "Yes", "ON", "true", "TRUE"] {
            assert_eq!(resolve(word), Bool(true), "{word}");
        }
        for word in ["n", "No", "off", "False"] {
            assert_eq!(resolve(word), Bool(false), "{word}");
        }
        for word in ["", "~", "null", "Null", "NULL"] {
            assert_eq!(resolve(word), Null, "{word}");
        }
        for word in ["yES", "nULL", "oN", "tRue", "nope", "yes no", "~~", "<", "<<<", "é", "none"] {
            assert_eq!(resolve(word), Text, "{word}");
        }
    }

    #[test]
    fn integers_have_bases_signs_and_underscores() {
        let known = [
            ("0", 0),
            ("-0", 0),
            ("+12", 12),
            ("017", 15),
            ("-017", -15),
            ("0o17", 15),
            ("0x1F", 31),
            ("-0x1f", -31),
            ("0b101", 5),
            ("1_000", 1000),
            ("0_7", 7),
            ("08", 8),
            ("1.0", 1),
            ("-0.0", 0),
            ("1e3", 1000),
            ("1.", 1),
            ("9007199254740991", 9_007_199_254_740_991),
        ];
        for (text, number) in known {
            assert_eq!(resolve(text), Int(number), "{text}");
        }
    }

    #[test]
    fn floats_are_what_go_reads() {
        for (text, number) in [(".5", 0.5), ("-1.5e-3", -0.0015), ("+.5", 0.5), ("1_0.5", 10.5), (".1_5", 0.15)] {
            assert_eq!(resolve(text), Float(number), "{text}");
        }
        for text in
            [".", "-", "+", "...", "1.2.3", "1e", "e3", "0x", "0xg", "0b2", "-.", "._5", ".5_", "1h", "2026-01-01"]
        {
            assert_eq!(resolve(text), Text, "{text}");
        }
    }

    #[test]
    fn what_loses_digits_or_is_refused_is_not_certain() {
        for text in [
            "9007199254740992",
            "-9007199254740993",
            "1e300",
            "1e999",
            ".inf",
            "-.INF",
            ".nan",
            "<<",
            "0xffffffffffffffffff",
        ] {
            assert_eq!(resolve(text), Unsure, "{text}");
        }
    }
}
