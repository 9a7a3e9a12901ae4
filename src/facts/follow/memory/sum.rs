//! A count of entries that come and go.

/// A count of entries that come and go, and of their bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Sum {
    pub times: u64,
    pub now: u64,
    pub bytes: u64,
    pub most: u64,
}

impl Sum {
    pub fn add(&mut self, bytes: u64) {
        self.times += 1;
        self.now += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.most = self.most.max(self.bytes);
    }

    pub fn remove(&mut self, bytes: u64) {
        self.now = self.now.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
