//! Protobuf's wire form, as far as documents need it: strings, booleans, numbers, messages.

pub(crate) struct Message {
    out: Vec<u8>,
}

impl Message {
    pub(crate) fn with_capacity(bytes: usize) -> Message {
        Message { out: Vec::with_capacity(bytes) }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.out
    }

    pub(crate) fn string(&mut self, number: u32, text: &str) {
        self.varint(u64::from(number) << 3 | 2);
        self.varint(text.len() as u64);
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Absent is false.
    pub(crate) fn bool(&mut self, number: u32, value: bool) {
        if value {
            self.varint(u64::from(number) << 3);
            self.out.push(1);
        }
    }

    /// Written also when false: for a member of a oneof.
    pub(crate) fn present_bool(&mut self, number: u32, value: bool) {
        self.varint(u64::from(number) << 3);
        self.out.push(u8::from(value));
    }

    pub(crate) fn double(&mut self, number: u32, value: f64) {
        self.varint(u64::from(number) << 3 | 1);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn int(&mut self, number: u32, value: i64) {
        self.varint(u64::from(number) << 3);
        self.varint(value as u64);
    }

    pub(crate) fn message(&mut self, number: u32, body: impl FnOnce(&mut Message)) {
        self.varint(u64::from(number) << 3 | 2);
        // The length is known only afterwards: most bodies take one or two bytes for it, so the body is
        // written in place and moved by what its length needs.
        let start = self.out.len();
        body(self);
        let length = self.out.len() - start;
        let mut prefix = Message { out: Vec::with_capacity(10) };
        prefix.varint(length as u64);
        self.out.splice(start..start, prefix.out);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}
