//! Characters that no plain text has.

/// Say whether a text has control characters, or others that some reader takes for a line's end or for a space.
pub fn are_odd(bytes: &[u8]) -> bool {
    // Without a branch, so that the compiler looks at many bytes at once.
    let mut control = false;
    let mut foreign = false;
    for &byte in bytes {
        control |= (byte < b' ') & (byte != b'\n') & (byte != b'\t') | (byte == 0x7f);
        foreign |= byte >= 0x80;
    }
    control || (foreign && has_odd_foreign(bytes))
}

/// So many bytes are looked at together: most have no character beyond ASCII.
const STEP: usize = 64;

/// Say whether one of the characters beyond ASCII is odd. The text ends with a line break, so that every window is full.
fn has_odd_foreign(bytes: &[u8]) -> bool {
    (0..bytes.len()).step_by(STEP).any(|start| {
        // A character at the end of a step has up to two bytes in the next one.
        let step = &bytes[start..bytes.len().min(start + STEP + 2)];
        !step.is_ascii() && step.windows(3).any(is_odd)
    })
}

/// Say whether an odd character begins these three bytes of UTF-8.
fn is_odd(bytes: &[u8]) -> bool {
    match bytes[0] {
        // Controls, the line end U+0085, and the space that does not break.
        0xc2 => bytes[1] <= 0xa0,
        // The space of Ogham.
        0xe1 => bytes[1] == 0x9a && bytes[2] == 0x80,
        // Spaces of all widths, U+2028 and U+2029, U+202F and U+205F.
        0xe2 => match bytes[1] {
            0x80 => bytes[2] <= 0x8a || matches!(bytes[2], 0xa8 | 0xa9 | 0xaf),
            0x81 => bytes[2] == 0x9f,
            _ => false,
        },
        // The wide space.
        0xe3 => bytes[1] == 0x80 && bytes[2] == 0x80,
        // The byte order mark, and what is no character.
        0xef => (bytes[1] == 0xbb && bytes[2] == 0xbf) || (bytes[1] == 0xbf && bytes[2] >= 0xbe),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::are_odd;

    #[test]
    fn odd_characters_are_found_wherever_they_stand() {
        let odd = "\0\x01\r\x1f\x7f\u{80}\u{85}\u{9f}\u{a0}\u{1680}\u{2000}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}\u{fffe}\u{ffff}";
        for sign in odd.chars() {
            for before in 0..140 {
                let text = format!("{}{sign}\n", "x".repeat(before));
                assert!(are_odd(text.as_bytes()), "{sign:?} behind {before}");
            }
        }
    }

    #[test]
    fn other_characters_are_not_odd() {
        let plain = "\n\t ~az\u{a1}\u{e9}\u{1681}\u{1fff}\u{200b}\u{2027}\u{202a}\u{2030}\u{205e}\u{2060}\u{3001}\u{feee}\u{fffd}\u{1f600}\u{10ffff}";
        for before in 0..140 {
            let text = format!("{}{plain}\n", "x".repeat(before));
            assert!(!are_odd(text.as_bytes()), "behind {before}");
        }
    }
}
